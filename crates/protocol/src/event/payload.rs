//! The fields of each event, described once.

use std::borrow::Cow;

use domain::{
    Body, ChatId, ChatName, ChatType, ClientMessageId, ConnectionId, Content, ContentType, EventBody, MembershipChange,
    Message, MessageId, MessageUpdate, Metadata, Reaction, Role, Sequence, Timestamp, Ttl, UpdateKind, UserId,
};
use serde::ser::SerializeStruct;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value, json};
use utoipa::ToSchema;

use super::EventError;
use crate::frame::{StateBody, UpdateName};
use crate::schema;

/// The content of an event: a message or an update of one, which every store keeps as a row of its own, or a change,
/// which only the event has.
pub enum EventContent<'a> {
    /// A message was persisted.
    Message {
        /// The message.
        message: &'a Message,
        /// The connection that the send came from.
        origin_connection_id: Option<ConnectionId>,
    },
    /// A message was updated.
    Update {
        /// The update.
        update: &'a MessageUpdate,
        /// The message after it.
        message: Option<&'a Message>,
    },
    /// Any other event.
    Change(ChangePayload),
}

impl<'a> From<&'a EventBody> for EventContent<'a> {
    fn from(body: &'a EventBody) -> Self {
        Self::Change(match body {
            EventBody::MessagePersisted { message, origin_connection_id } => {
                return Self::Message { message, origin_connection_id: *origin_connection_id };
            }
            EventBody::MessageUpdated { update, message } => {
                return Self::Update { update, message: message.as_ref() };
            }
            EventBody::MembershipChanged { chat_id, user_id, change, role, changed_by } => {
                ChangePayload::MembershipChanged(MembershipChanged {
                    chat_id: *chat_id,
                    user_id: *user_id,
                    change_type: (*change).into(),
                    role: *role,
                    changed_by: *changed_by,
                })
            }
            EventBody::ChatCreated { chat_id, chat_type, name, created_by, initial_members } => {
                ChangePayload::ChatCreated(ChatCreated {
                    chat_id: *chat_id,
                    chat_type: *chat_type,
                    name: name.as_ref().map(|name| name.as_str().to_owned()),
                    created_by: *created_by,
                    initial_members: initial_members.clone(),
                })
            }
            EventBody::ChatRenamed { chat_id, name, changed_by } => ChangePayload::ChatRenamed(ChatRenamed {
                chat_id: *chat_id,
                name: name.as_str().to_owned(),
                changed_by: *changed_by,
            }),
            EventBody::MessageTtlChanged { chat_id, message_ttl, changed_by } => {
                ChangePayload::MessageTtlChanged(MessageTtlChanged {
                    chat_id: *chat_id,
                    message_ttl_seconds: message_ttl.map(|ttl| ttl.as_duration().as_secs()),
                    changed_by: *changed_by,
                })
            }
            EventBody::MessagesExpired { chat_id, sequences } => {
                ChangePayload::MessagesExpired(MessagesExpired { chat_id: *chat_id, sequences: sequences.clone() })
            }
        })
    }
}

impl TryFrom<ChangePayload> for EventBody {
    type Error = EventError;

    fn try_from(change: ChangePayload) -> Result<Self, EventError> {
        Ok(match change {
            ChangePayload::MembershipChanged(MembershipChanged { chat_id, user_id, change_type, role, changed_by }) => {
                Self::MembershipChanged { chat_id, user_id, change: change_type.into(), role, changed_by }
            }
            ChangePayload::ChatCreated(ChatCreated { chat_id, chat_type, name, created_by, initial_members }) => {
                let name = name.map(ChatName::from_stored).transpose()?;
                Self::ChatCreated { chat_id, chat_type, name, created_by, initial_members }
            }
            ChangePayload::ChatRenamed(ChatRenamed { chat_id, name, changed_by }) => {
                Self::ChatRenamed { chat_id, name: ChatName::from_stored(name)?, changed_by }
            }
            ChangePayload::MessageTtlChanged(MessageTtlChanged { chat_id, message_ttl_seconds, changed_by }) => {
                let ttl = |seconds| Ttl::from_secs(seconds).ok_or(EventError::Ttl(seconds));
                let message_ttl = message_ttl_seconds.map(ttl).transpose()?;
                Self::MessageTtlChanged { chat_id, message_ttl, changed_by }
            }
            ChangePayload::MessagesExpired(MessagesExpired { chat_id, sequences }) => {
                Self::MessagesExpired { chat_id, sequences }
            }
        })
    }
}

/// Defines the payload of each change, under the name of its event, and [`ChangePayload`] over all of them.
macro_rules! changes {
    ($($name:ident { $($field:ident: $type:ty,)+ })+) => {
        $(
            #[doc = concat!("The payload of `", stringify!($name), "`.")]
            #[derive(Deserialize)]
            pub struct $name {
                $($field: $type,)+
            }

            impl Serialize for $name {
                fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                    let has_names = serializer.is_human_readable();
                    let mut fields = serializer.serialize_struct(stringify!($name), [$(stringify!($field)),+].len())?;
                    $(
                        if has_names && self.$field.is_absent() {
                            fields.skip_field(stringify!($field))?;
                        } else {
                            fields.serialize_field(stringify!($field), &self.$field)?;
                        }
                    )+
                    fields.end()
                }
            }
        )+

        /// The payload of an event that is not about one message.
        ///
        /// In JSON ([`fields`](Self::fields)), fields have names and absent ones are left out. A binary format of serde
        /// identifies events and fields by their order here and ids by their bytes, and always writes an optional field.
        /// The embedded store keeps such bytes. So a new event goes to the end, and a changed or new field of an event
        /// needs a new format of that store.
        #[derive(Serialize, Deserialize)]
        pub enum ChangePayload {
            $(#[doc = concat!("`", stringify!($name), "`.")] $name($name),)+
        }

        impl ChangePayload {
            /// The schema of the payload of each event, in JSON.
            pub(super) fn schemas() -> Vec<(&'static str, Value)> {
                vec![$((stringify!($name), {
                    let (mut properties, mut required) = (Map::new(), Vec::<&str>::new());
                    $(
                        properties.insert(stringify!($field).to_owned(), <$type as PayloadField>::schema());
                        if !<$type as PayloadField>::IS_OPTIONAL {
                            required.push(stringify!($field));
                        }
                    )+
                    json!({ "type": "object", "properties": properties, "required": required })
                })),+]
            }

            /// Parses the fields of an event of the given type.
            pub fn parse<'de, D>(event_type: &str, fields: D) -> Result<Self, EventError>
            where
                D: Deserializer<'de, Error = serde_json::Error>,
            {
                match event_type {
                    $(stringify!($name) => Ok(Self::$name(Deserialize::deserialize(fields)?)),)+
                    unknown => Err(EventError::Type(unknown.chars().take(64).collect())),
                }
            }
        }

        impl Serialize for ChangeFields<'_> {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                match self.0 {
                    $(ChangePayload::$name(fields) => fields.serialize(serializer),)+
                }
            }
        }

        /// The type of an event, as envelopes and headers name it.
        pub fn event_type(body: &EventBody) -> &'static str {
            match body {
                EventBody::MessagePersisted { .. } => MessagePersisted::TYPE,
                EventBody::MessageUpdated { .. } => MessageUpdated::TYPE,
                $(EventBody::$name { .. } => stringify!($name),)+
            }
        }
    };
}

changes! {
    MembershipChanged {
        chat_id: ChatId,
        user_id: UserId,
        change_type: ChangeType,
        role: Role,
        changed_by: UserId,
    }
    ChatCreated {
        chat_id: ChatId,
        chat_type: ChatType,
        name: Option<String>,
        created_by: UserId,
        initial_members: Vec<UserId>,
    }
    ChatRenamed {
        chat_id: ChatId,
        name: String,
        changed_by: UserId,
    }
    MessageTtlChanged {
        chat_id: ChatId,
        message_ttl_seconds: Option<u64>,
        changed_by: UserId,
    }
    MessagesExpired {
        chat_id: ChatId,
        sequences: Vec<Sequence>,
    }
}

impl ChangePayload {
    /// The fields alone: the payload in JSON.
    pub fn fields(&self) -> impl Serialize {
        ChangeFields(self)
    }
}

struct ChangeFields<'a>(&'a ChangePayload);

/// A field of a payload in JSON.
trait PayloadField {
    /// Whether JSON may leave the field out.
    const IS_OPTIONAL: bool = false;

    /// Whether JSON leaves this value out.
    fn is_absent(&self) -> bool {
        false
    }

    fn schema() -> Value;
}

impl<T: PayloadField> PayloadField for Option<T> {
    const IS_OPTIONAL: bool = true;

    fn is_absent(&self) -> bool {
        self.is_none()
    }

    fn schema() -> Value {
        T::schema()
    }
}

impl<T: PayloadField> PayloadField for Vec<T> {
    fn schema() -> Value {
        json!({ "type": "array", "items": T::schema() })
    }
}

macro_rules! payload_fields {
    ($($field:ty: $schema:tt,)+) => {$(
        impl PayloadField for $field {
            fn schema() -> Value {
                json!($schema)
            }
        }
    )+};
}

payload_fields! {
    ChangeType: { "type": "string", "enum": [ChangeType::Added, ChangeType::Removed, ChangeType::RoleChanged] },
    ChatId: { "$ref": "#/components/schemas/ChatId" },
    ChatType: { "$ref": "#/components/schemas/ChatType" },
    Role: { "$ref": "#/components/schemas/Role" },
    Sequence: { "type": "integer", "minimum": 1 },
    String: { "type": "string" },
    UserId: { "$ref": "#/components/schemas/UserId" },
    u64: { "type": "integer", "minimum": 1 },
}

#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum ChangeType {
    Added,
    Removed,
    RoleChanged,
}

impl From<MembershipChange> for ChangeType {
    fn from(change: MembershipChange) -> Self {
        match change {
            MembershipChange::Added => Self::Added,
            MembershipChange::Removed => Self::Removed,
            MembershipChange::RoleChanged => Self::RoleChanged,
        }
    }
}

impl From<ChangeType> for MembershipChange {
    fn from(change_type: ChangeType) -> Self {
        match change_type {
            ChangeType::Added => Self::Added,
            ChangeType::Removed => Self::Removed,
            ChangeType::RoleChanged => Self::RoleChanged,
        }
    }
}

/// The payload of `MessagePersisted`, in JSON alone.
#[derive(Serialize, Deserialize, ToSchema)]
#[schema(description = "A message that was sent.")]
pub(super) struct MessagePersisted<'a> {
    #[schema(value_type = schema::MessageId)]
    message_id: MessageId,
    #[schema(value_type = schema::ChatId)]
    chat_id: ChatId,
    #[schema(value_type = u64)]
    sequence: Sequence,
    #[schema(value_type = schema::UserId)]
    sender_id: UserId,
    #[serde(borrow)]
    #[schema(value_type = String, min_length = 1)]
    content: Cow<'a, str>,
    #[schema(value_type = schema::ContentType)]
    content_type: ContentType,
    /// The JSON object that the sender attached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Map<String, Value>, required = false)]
    metadata: Option<Cow<'a, Metadata>>,
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    #[schema(value_type = String, format = "uuid")]
    client_message_id: ClientMessageId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, format = DateTime, required = false)]
    expires_at: Option<Timestamp>,
    /// The connection that the send came from. The message is not pushed to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = schema::ConnectionId, required = false)]
    origin_connection_id: Option<ConnectionId>,
    /// Present if the message was updated before this was read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(required = false)]
    state: Option<StateBody>,
}

impl<'a> MessagePersisted<'a> {
    /// The type of the event.
    pub(super) const TYPE: &'static str = "MessagePersisted";

    pub(super) fn new(message: &'a Message, origin_connection_id: Option<ConnectionId>) -> Self {
        Self {
            message_id: message.message_id,
            chat_id: message.chat_id,
            sequence: message.sequence,
            sender_id: message.sender_id,
            content: Cow::Borrowed(message.body.content.as_str()),
            content_type: message.body.content_type,
            metadata: message.body.metadata.as_ref().map(Cow::Borrowed),
            created_at: message.created_at,
            client_message_id: message.client_message_id,
            expires_at: message.expires_at,
            origin_connection_id,
            state: StateBody::of(&message.state),
        }
    }
}

impl TryFrom<MessagePersisted<'_>> for EventBody {
    type Error = EventError;

    fn try_from(persisted: MessagePersisted<'_>) -> Result<Self, EventError> {
        let origin_connection_id = persisted.origin_connection_id;
        Ok(Self::MessagePersisted { message: persisted.try_into()?, origin_connection_id })
    }
}

impl TryFrom<MessagePersisted<'_>> for Message {
    type Error = EventError;

    fn try_from(persisted: MessagePersisted<'_>) -> Result<Self, EventError> {
        Ok(Self {
            message_id: persisted.message_id,
            chat_id: persisted.chat_id,
            sequence: persisted.sequence,
            sender_id: persisted.sender_id,
            client_message_id: persisted.client_message_id,
            body: Body::new(Content::try_from(persisted.content.into_owned())?, persisted.content_type)
                .with_metadata(persisted.metadata.map(Cow::into_owned)),
            created_at: persisted.created_at,
            expires_at: persisted.expires_at,
            state: persisted.state.map(Into::into).unwrap_or_default(),
        })
    }
}

/// The payload of `MessageUpdated`, in JSON alone.
#[derive(Serialize, Deserialize, ToSchema)]
#[schema(description = "A message that was edited or deleted, or that a member reacted to.")]
pub(super) struct MessageUpdated<'a> {
    #[schema(value_type = schema::MessageId)]
    update_id: MessageId,
    #[schema(value_type = schema::ChatId)]
    chat_id: ChatId,
    #[schema(value_type = u64)]
    sequence: Sequence,
    /// The sequence of the message.
    #[schema(value_type = u64)]
    target_sequence: Sequence,
    #[schema(value_type = schema::UserId)]
    user_id: UserId,
    #[schema(value_type = schema::UpdateKind)]
    kind: UpdateName,
    /// The reaction that was added or removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false)]
    reaction: Option<Reaction>,
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    #[schema(value_type = String, format = "uuid")]
    client_message_id: ClientMessageId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, format = DateTime, required = false)]
    expires_at: Option<Timestamp>,
    /// The message after the update, or in a later state; absent if it was deleted or has expired.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<MessagePersisted<'static>>, required = false)]
    message: Option<MessagePersisted<'a>>,
}

impl<'a> MessageUpdated<'a> {
    /// The type of the event.
    pub(super) const TYPE: &'static str = "MessageUpdated";

    pub(super) fn new(update: &MessageUpdate, message: Option<&'a Message>) -> Self {
        Self {
            update_id: update.update_id,
            chat_id: update.chat_id,
            sequence: update.sequence,
            target_sequence: update.target,
            user_id: update.user_id,
            kind: (&update.kind).into(),
            reaction: update.kind.reaction().cloned(),
            created_at: update.created_at,
            client_message_id: update.client_message_id,
            expires_at: update.expires_at,
            message: message.map(|message| MessagePersisted::new(message, None)),
        }
    }
}

impl TryFrom<MessageUpdated<'_>> for EventBody {
    type Error = EventError;

    fn try_from(updated: MessageUpdated<'_>) -> Result<Self, EventError> {
        let kind = match (updated.kind, updated.reaction) {
            (UpdateName::Edited, _) => UpdateKind::Edited,
            (UpdateName::Deleted, _) => UpdateKind::Deleted,
            (UpdateName::Reacted, Some(reaction)) => UpdateKind::Reacted(reaction),
            (UpdateName::Unreacted, Some(reaction)) => UpdateKind::Unreacted(reaction),
            (UpdateName::Reacted | UpdateName::Unreacted | UpdateName::Unknown, _) => return Err(EventError::Update),
        };
        let update = MessageUpdate {
            update_id: updated.update_id,
            chat_id: updated.chat_id,
            sequence: updated.sequence,
            user_id: updated.user_id,
            client_message_id: updated.client_message_id,
            target: updated.target_sequence,
            kind,
            created_at: updated.created_at,
            expires_at: updated.expires_at,
        };
        Ok(Self::MessageUpdated { update, message: updated.message.map(Message::try_from).transpose()? })
    }
}
