use bytes::Bytes;
use domain::{Content, PushDevice};
use ports::Notification;
use protocol::NotificationBody;

/// Encodes a notification for a device. `token` identifies the device to receivers that need it.
pub(crate) fn encode(device: &PushDevice, token: Option<&str>, notification: &Notification) -> Bytes {
    let body = NotificationBody {
        body_type: NotificationBody::TYPE,
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
