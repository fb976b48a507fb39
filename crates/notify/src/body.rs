use bytes::Bytes;
use domain::{ChatId, ChatType, Content, DeviceId, MessageId, PushDevice, Sequence, Timestamp, UserId};
use ports::Notification;
use serde::Serialize;

/// JSON body of a notification.
#[derive(Serialize)]
struct NotificationBody<'a> {
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
    /// `false` if `unread_count` is a lower bound; absent if it is exact.
    #[serde(skip_serializing_if = "Option::is_none")]
    unread_count_exact: Option<bool>,
}

/// Encodes a notification for a device. `token` identifies the device to receivers that need it.
pub(crate) fn encode(device: &PushDevice, token: Option<&str>, notification: &Notification) -> Bytes {
    let body = NotificationBody {
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
        unread_count: notification.unread.count,
        unread_count_exact: (!notification.unread.is_exact).then_some(false),
    };
    serde_json::to_vec(&body).expect("strings and numbers always serialize").into()
}
