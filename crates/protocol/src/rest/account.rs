use domain::{ChatId, ChatType, DeviceId, Invitation, PushDevice, PushTarget, Role, Sequence, Timestamp, UserId};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{Me, PasskeySummary, PushProvider, Session};
use crate::frame::{MessageBody, UpdateBody};
use crate::schema;

/// Body of DELETE `/users/me`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DeleteMe {
    /// The caller's own `user_id`, as a guard against accidental deletion.
    #[schema(value_type = schema::UserId)]
    pub confirm: UserId,
    /// Whether the caller's messages are erased too. Otherwise they stay, under a name that marks the account as
    /// deleted.
    #[serde(default)]
    #[schema(required = false)]
    pub erase_messages: bool,
}

/// An account that is being deleted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[expect(missing_docs, reason = "the names are the contract's and say it")]
pub struct AccountDeletion {
    #[schema(value_type = schema::UserId)]
    pub user_id: UserId,
    #[schema(value_type = String, format = DateTime)]
    pub begun_at: Timestamp,
    pub erase_messages: bool,
}

/// All data of a user.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[expect(missing_docs, reason = "the names are the contract's and say it")]
pub struct Export<'a> {
    #[schema(value_type = String, format = DateTime)]
    pub exported_at: Timestamp,
    pub user: Me,
    pub sessions: Vec<Session>,
    pub passkeys: Vec<PasskeySummary>,
    pub push_devices: Vec<ExportedDevice>,
    /// The pending invitations of the user to groups.
    // A server of an earlier version does not send them.
    #[serde(default)]
    pub invitations: Vec<ExportedInvitation>,
    /// The contacts that the user has added.
    #[schema(value_type = Vec<schema::UserId>)]
    pub contacts: Vec<UserId>,
    pub chats: Vec<ExportedChat<'a>>,
    /// Always `true`: a document without this field is truncated.
    pub is_complete: bool,
}

/// A device with push notifications, without its push credentials.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[expect(missing_docs, reason = "the names are the contract's and say it")]
pub struct ExportedDevice {
    #[schema(value_type = String, format = "uuid")]
    pub device_id: DeviceId,
    pub provider: PushProvider,
    #[schema(value_type = String, format = DateTime)]
    pub registered_at: Timestamp,
}

impl From<&PushDevice> for ExportedDevice {
    fn from(device: &PushDevice) -> Self {
        let provider = match device.target {
            PushTarget::Webhook(_) => PushProvider::Webhook,
            PushTarget::WebPush(_) => PushProvider::Webpush,
        };
        Self { device_id: device.device_id, provider, registered_at: device.registered_at }
    }
}

/// A pending invitation of a user to a group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[expect(missing_docs, reason = "the names are the contract's and say it")]
pub struct ExportedInvitation {
    #[schema(value_type = schema::ChatId)]
    pub chat_id: ChatId,
    #[schema(value_type = schema::UserId)]
    pub invited_by: UserId,
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
}

impl From<&Invitation> for ExportedInvitation {
    fn from(invitation: &Invitation) -> Self {
        let Invitation { chat_id, invited_by, created_at, .. } = *invitation;
        Self { chat_id, invited_by, created_at }
    }
}

/// A user's membership in a chat, their messages, and their updates of messages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[expect(missing_docs, reason = "the names are the contract's and say it")]
pub struct ExportedChat<'a> {
    #[schema(value_type = schema::ChatId)]
    pub chat_id: ChatId,
    #[serde(rename = "type")]
    #[schema(value_type = schema::ChatType)]
    pub chat_type: ChatType,
    /// `null` for direct chats.
    #[schema(required = true)]
    pub name: Option<String>,
    #[schema(value_type = schema::Role)]
    pub role: Role,
    #[schema(value_type = String, format = DateTime)]
    pub joined_at: Timestamp,
    /// `null` unless the user has muted the chat.
    #[schema(value_type = Option<String>, format = DateTime, required = true)]
    pub muted_until: Option<Timestamp>,
    #[schema(value_type = u64)]
    pub delivered_sequence: Sequence,
    /// When `delivered_sequence` was reached, if it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, format = DateTime, required = false)]
    pub delivered_at: Option<Timestamp>,
    #[schema(value_type = u64)]
    pub read_sequence: Sequence,
    /// When `read_sequence` was reached, if it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, format = DateTime, required = false)]
    pub read_at: Option<Timestamp>,
    /// The user's own messages, oldest first.
    // The last two fields, so that their elements can be streamed one by one.
    #[schema(value_type = Vec<MessageBody<'static>>)]
    pub messages: Vec<MessageBody<'a>>,
    /// The user's edits, deletions and reactions, oldest first, on messages of others too.
    // A server of an earlier version does not send them.
    #[serde(default)]
    pub updates: Vec<UpdateBody>,
}
