//! Schemas for types of `domain`: ids, and closed sets of words.
//!
//! The crate `domain` does not depend on utoipa. These types stand for its types in `value_type`.

use domain::PresenceVisibility as Visibility;
use serde::Serialize;
use serde_json::{Value, json};
use utoipa::openapi::schema::SchemaType;
use utoipa::openapi::{Object, ObjectBuilder, RefOr, Schema, Type};
use utoipa::{PartialSchema, ToSchema};

use crate::frame::{ChatChangeKind, UpdateName};

const VISIBILITIES: [Visibility; 3] = [Visibility::Everyone, Visibility::ContactsOnly, Visibility::Nobody];

macro_rules! prefixed_ids {
    ($($(#[doc = $doc:literal])* $name:ident = $prefix:literal,)*) => {$(
        $(#[doc = $doc])*
        pub struct $name;

        impl PartialSchema for $name {
            fn schema() -> RefOr<Schema> {
                ObjectBuilder::new()
                    .schema_type(Type::String)
                    .description(Some(concat!($($doc),*).trim()))
                    .pattern(Some(concat!("^", $prefix, "[0-7][0-9A-HJKMNP-TV-Z]{25}$")))
                    .into()
            }
        }

        impl ToSchema for $name {}
    )*};
}

prefixed_ids! {
    /// The id of a user.
    UserId = "user_",
    /// The id of a chat.
    ChatId = "chat_",
    /// The id of a message.
    MessageId = "msg_",
    /// The id of a session.
    SessionId = "sess_",
    /// The id of a connection.
    ConnectionId = "conn_",
    /// The id of a passkey.
    PasskeyId = "pk_",
    /// The id of a report.
    ReportId = "rep_",
}

macro_rules! closed_sets {
    ($($(#[doc = $doc:literal])* $name:ident = $words:expr,)*) => {$(
        $(#[doc = $doc])*
        pub struct $name;

        impl PartialSchema for $name {
            fn schema() -> RefOr<Schema> {
                let description = concat!($($doc),*).trim();
                words($words).description(Some(description)).into()
            }
        }

        impl ToSchema for $name {}
    )*};
}

closed_sets! {
    /// The format of the content of a message.
    ContentType = {
        use domain::ContentType::{Encrypted, Json, Markdown, Text};
        [Text, Markdown, Json, Encrypted]
    },
    /// The role of a member, which determines their permissions.
    Role = [domain::Role::Owner, domain::Role::Admin, domain::Role::Member],
    /// Whether a chat is between two users or a group.
    ChatType = [domain::ChatType::Direct, domain::ChatType::Group],
    /// The reason of a report.
    ReportReason = domain::ReportReason::ALL,
    /// The audience of a user's presence.
    PresenceVisibility = VISIBILITIES,
    /// The users who may add a user to a group at once. All others can only invite the user.
    GroupInvites = domain::GroupInvites::ALL,
    /// The kind of change to a chat. Later versions may add kinds, which clients ignore.
    ChatChange = ChatChangeKind::ANNOUNCED,
    /// What an update did to its message. Later versions may add kinds, which clients ignore.
    UpdateKind = UpdateName::ANNOUNCED,
    /// Why the server ends a connection.
    CloseReason = crate::CloseReason::ALL.map(crate::CloseReason::as_str),
}

/// The audience of a user's presence; `null` leaves it unchanged.
pub(crate) fn maybe_presence_visibility() -> Object {
    maybe(VISIBILITIES)
}

/// The users who may add a user to a group at once; `null` leaves it unchanged.
pub(crate) fn maybe_group_invites() -> Object {
    maybe(domain::GroupInvites::ALL)
}

/// An enum of strings, or `null`.
fn maybe<T: Serialize, const N: usize>(values: [T; N]) -> Object {
    let text_or_null = SchemaType::from_iter([Type::String, Type::Null]);
    let values = values.map(|value| json!(value)).into_iter().chain([Value::Null]);
    ObjectBuilder::new().schema_type(text_or_null).enum_values(Some(values)).build()
}

/// An enum of strings, spelled as the values serialize.
fn words<T: Serialize, const N: usize>(values: [T; N]) -> ObjectBuilder {
    ObjectBuilder::new().schema_type(Type::String).enum_values(Some(values.map(|value| json!(value))))
}
