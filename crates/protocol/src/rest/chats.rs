use domain::{ChatId, ChatType, MessageId, Role, Sequence, Timestamp, UserId};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::User;
use crate::integer::{optional_integer, present_integer};
use crate::schema;

/// Body of POST `/chats`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[expect(missing_docs, reason = "the names are the contract's and say it")]
pub struct CreateChat {
    #[serde(rename = "type")]
    #[schema(value_type = schema::ChatType)]
    pub chat_type: ChatType,
    /// Required for a group; a direct chat has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 128)]
    pub name: Option<String>,
    /// The other members; the caller's own id is ignored.
    #[schema(value_type = Vec<schema::UserId>)]
    pub member_ids: Vec<UserId>,
}

/// Body of PATCH `/chats/{chat_id}`; absent fields stay unchanged.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[expect(missing_docs, reason = "the names are the contract's and say it")]
pub struct UpdateChat {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 128)]
    pub name: Option<String>,
    /// Lifetime of messages that set none themselves; `null` means they never expire.
    #[serde(default, deserialize_with = "present_integer", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<u64>, minimum = 1, maximum = 31_536_000)]
    pub message_ttl_seconds: Option<Option<u64>>,
}

/// A chat as the inbox of one of its members shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[expect(missing_docs, reason = "the names are the contract's and say it")]
pub struct ChatSummary {
    #[schema(value_type = schema::ChatId)]
    pub chat_id: ChatId,
    #[serde(rename = "type")]
    #[schema(value_type = schema::ChatType)]
    pub chat_type: ChatType,
    /// `null` for direct chats.
    #[schema(required = true)]
    pub name: Option<String>,
    pub member_count: u32,
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
    /// Up to five of the other members.
    #[schema(max_items = 5)]
    pub other_participants: Vec<User>,
    /// `null` in an empty chat, and when all messages have expired.
    #[schema(required = true)]
    pub last_message: Option<LastMessage>,
    #[schema(value_type = Option<String>, format = DateTime, required = true)]
    pub last_message_at: Option<Timestamp>,
    /// Messages above the caller's read watermark that the caller did not send; a lower bound if `unread_count_exact`
    /// is `false`.
    pub unread_count: u64,
    /// `false` if there are at least `unread_count` such messages and the server stopped counting. Absent if the count
    /// is exact.
    #[serde(default = "exactly", skip_serializing_if = "is_exact")]
    #[schema(required = false)]
    pub unread_count_exact: bool,
    pub my_membership: MyMembership,
    /// Lifetime of messages that set none themselves; `null` means they never expire.
    #[schema(minimum = 1, maximum = 31_536_000, required = true)]
    pub message_ttl_seconds: Option<u64>,
    // Part of the inbox, so that a client learns its position in every chat from one list.
    #[schema(value_type = u64)]
    pub head_sequence: Sequence,
    #[schema(value_type = u64)]
    pub my_read_sequence: Sequence,
    #[schema(value_type = u64)]
    pub my_delivered_sequence: Sequence,
}

fn exactly() -> bool {
    true
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_exact(exact: &bool) -> bool {
    *exact
}

/// The start of a chat's last message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[expect(missing_docs, reason = "the names are the contract's and say it")]
pub struct LastMessage {
    #[schema(value_type = schema::MessageId)]
    pub message_id: MessageId,
    #[schema(value_type = u64)]
    pub sequence: Sequence,
    #[schema(value_type = schema::UserId)]
    pub sender_id: UserId,
    /// `null` if the content is encrypted.
    #[schema(max_length = 100, required = true)]
    pub preview: Option<String>,
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
}

/// The caller's own membership in a chat.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[expect(missing_docs, reason = "the names are the contract's and say it")]
pub struct MyMembership {
    #[schema(value_type = schema::Role)]
    pub role: Role,
    /// `null` if the chat is not muted; the end of the year 9999 if it is muted permanently.
    #[schema(value_type = Option<String>, format = DateTime, required = true)]
    pub muted_until: Option<Timestamp>,
}

/// A page of the inbox, newest activity first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[expect(missing_docs, reason = "the names are the contract's and say it")]
pub struct Inbox {
    pub chats: Vec<ChatSummary>,
}

/// A chat with its members, as one of them sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[expect(missing_docs, reason = "the names are the contract's and say it")]
pub struct ChatDetails {
    #[serde(flatten)]
    pub summary: ChatSummary,
    pub members: Vec<Member>,
    /// Only in the response to the creation of a group: the users of `member_ids` who were invited instead of added.
    /// Absent if there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<schema::UserId>, required = false)]
    pub invited_user_ids: Vec<UserId>,
}

/// A member of a chat.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[expect(missing_docs, reason = "the names are the contract's and say it")]
pub struct Member {
    #[schema(value_type = schema::UserId)]
    pub user_id: UserId,
    pub display_name: String,
    #[schema(value_type = schema::Role)]
    pub role: Role,
    #[schema(value_type = String, format = DateTime)]
    pub joined_at: Timestamp,
    /// `true` only in the response to an addition, if the user was invited instead and is not a member. The role is then
    /// `member`, and `joined_at` the time of the invitation. Absent for members.
    #[serde(default, skip_serializing_if = "is_member")]
    #[schema(required = false)]
    pub invited: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_member(invited: &bool) -> bool {
    !*invited
}

/// Body of POST `/chats/{chat_id}/members`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[expect(missing_docs, reason = "the names are the contract's and say it")]
pub struct AddMember {
    #[schema(value_type = schema::UserId)]
    pub user_id: UserId,
    /// Defaults to `member`.
    #[serde(default)]
    #[schema(value_type = schema::Role, required = false)]
    pub role: Role,
}

/// Body of PATCH `/chats/{chat_id}/members/{user_id}`; `owner` transfers the ownership of the group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[expect(missing_docs, reason = "the names are the contract's and say it")]
pub struct ChangeRole {
    #[schema(value_type = schema::Role)]
    pub role: Role,
}

/// Body of POST `/chats/{chat_id}/mute`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Mute {
    /// Permanent if absent.
    #[serde(default, deserialize_with = "optional_integer", skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, format = "uint64")]
    pub duration_seconds: Option<u64>,
}

/// Whether a chat is muted for the caller.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[expect(missing_docs, reason = "the names are the contract's and say it")]
pub struct Muted {
    #[schema(value_type = schema::ChatId)]
    pub chat_id: ChatId,
    pub muted: bool,
    /// Absent if the chat is not muted, or muted permanently.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, format = DateTime, required = false)]
    pub muted_until: Option<Timestamp>,
}
