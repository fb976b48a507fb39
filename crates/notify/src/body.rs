use bytes::Bytes;
use domain::{ChatId, ChatType, Content, DeviceId, MessageId, PushDevice, Sequence, Timestamp, UserId};
use ports::Notification;
use serde::Serialize;

/// A notification as its receiver reads it.
#[derive(Serialize)]
struct Body<'a> {
    #[serde(rename = "type")]
    body_type: &'static str,
    user_id: UserId,
    device_id: DeviceId,
    #[serde(skip_serializing_if = "Option::is_none")]
    token: Option<&'a str>,
    chat_id: ChatId,
    chat_type: ChatType,
    #[serde(skip_serializing_if = "Option::is_none")]
    chat_name: Option<&'a str>,
    message_id: MessageId,
    sequence: Sequence,
    sender_id: UserId,
    sender_name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    preview: Option<&'a str>,
    created_at: Timestamp,
    unread_count: u64,
}

/// The JSON of a notification for a device, with the token that the receiver knows the device by, if it needs one.
pub(crate) fn encode(device: &PushDevice, token: Option<&str>, notification: &Notification) -> Bytes {
    let body = Body {
        body_type: "notification",
        user_id: device.user_id,
        device_id: device.device_id,
        token,
        chat_id: notification.chat_id,
        chat_type: notification.chat_type,
        chat_name: notification.chat_name.as_ref().map(|name| name.as_str()),
        message_id: notification.message_id,
        sequence: notification.sequence,
        sender_id: notification.sender_id,
        sender_name: &notification.sender_name,
        preview: notification.preview.as_ref().map(Content::as_str),
        created_at: notification.created_at,
        unread_count: notification.unread_count,
    };
    serde_json::to_vec(&body).expect("strings and numbers always serialize").into()
}
