//! What schemas say of the types that are not ours to describe: ids, and closed sets of words.
//!
//! The types themselves are `domain`'s, which knows nothing of documents. These stand for them in `value_type`.

use domain::PresenceVisibility as Visibility;
use serde::Serialize;
use serde_json::{Value, json};
use utoipa::openapi::schema::SchemaType;
use utoipa::openapi::{Object, ObjectBuilder, RefOr, Schema, Type};
use utoipa::{PartialSchema, ToSchema};

use crate::frame::ChatChangeKind;

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
    /// How the content of a message is to be read.
    ContentType = {
        use domain::ContentType::{Encrypted, Json, Markdown, Text};
        [Text, Markdown, Json, Encrypted]
    },
    /// What a member may do.
    Role = [domain::Role::Owner, domain::Role::Admin, domain::Role::Member],
    /// How many a chat is for.
    ChatType = [domain::ChatType::Direct, domain::ChatType::Group],
    /// Why somebody or something is reported.
    ReportReason = domain::ReportReason::ALL,
    /// Who sees when a user is online.
    PresenceVisibility = VISIBILITIES,
    /// What has changed about a chat. Later versions may know more of them, which clients ignore.
    ChatChange = ChatChangeKind::TOLD,
    /// Why the server ends a connection.
    CloseReason = crate::CloseReason::ALL.map(crate::CloseReason::as_str),
}

/// Who sees when a user is online, where `null` leaves it as it is.
pub(crate) fn maybe_presence_visibility() -> Object {
    let text_or_null = SchemaType::from_iter([Type::String, Type::Null]);
    let values = VISIBILITIES.map(|visibility| json!(visibility)).into_iter().chain([Value::Null]);
    ObjectBuilder::new().schema_type(text_or_null).enum_values(Some(values)).build()
}

/// The words are those that the values themselves are written as.
fn words<T: Serialize, const N: usize>(values: [T; N]) -> ObjectBuilder {
    ObjectBuilder::new().schema_type(Type::String).enum_values(Some(values.map(|value| json!(value))))
}
