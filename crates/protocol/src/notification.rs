//! The body of a notification, for the notification webhook and for Web Push.

use domain::{ChatId, ChatType, DeviceId, MessageId, Sequence, Timestamp, UserId};
use serde::Serialize;
use utoipa::ToSchema;

use crate::schema;

/// A notification of a device: the newest message of a chat that its user has not received.
#[derive(Serialize, ToSchema)]
#[schema(as = Notification, description = "A notification of a device: the newest message of a chat that its user has not received.")]
#[expect(missing_docs, reason = "the names are the contract's and say it")]
pub struct NotificationBody<'a> {
    /// Always `notification`.
    #[serde(rename = "type")]
    pub body_type: &'static str,
    #[schema(value_type = schema::UserId)]
    pub user_id: UserId,
    #[schema(value_type = String, format = "uuid")]
    pub device_id: DeviceId,
    /// The token from the registration of the device; absent in a browser.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false)]
    pub token: Option<&'a str>,
    #[schema(value_type = schema::ChatId)]
    pub chat_id: ChatId,
    #[schema(value_type = schema::ChatType)]
    pub chat_type: ChatType,
    /// Only on groups.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false)]
    pub chat_name: Option<&'a str>,
    #[schema(value_type = schema::MessageId)]
    pub message_id: MessageId,
    #[schema(value_type = u64)]
    pub sequence: Sequence,
    #[schema(value_type = schema::UserId)]
    pub sender_id: UserId,
    pub sender_name: &'a str,
    /// The first 100 characters; absent if previews are off or the content is encrypted.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false)]
    pub preview: Option<&'a str>,
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
    pub unread_count: u64,
    /// `false` if `unread_count` is a lower bound; absent if it is exact.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = bool, required = false)]
    pub unread_count_exact: Option<bool>,
}

impl NotificationBody<'_> {
    /// The value of `type`.
    pub const TYPE: &'static str = "notification";
}
