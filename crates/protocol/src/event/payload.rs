//! The fields of each event, described once.

use std::borrow::Cow;

use domain::{
    Body, ChatId, ChatName, ChatType, ClientMessageId, ConnectionId, Content, ContentType, EventBody, MembershipChange,
    Message, MessageId, Metadata, Role, Sequence, Timestamp, Ttl, UserId,
};
use serde::ser::SerializeStruct;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::EventError;

/// The content of an event: a message, which every store keeps as a row of its own, or a change, which only the event
/// has.
pub enum EventContent<'a> {
    /// A message was persisted.
    Message {
        /// The message.
        message: &'a Message,
        /// The connection that the send came from.
        origin_connection_id: Option<ConnectionId>,
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

/// Whether JSON leaves a field out.
trait Absent {
    fn is_absent(&self) -> bool {
        false
    }
}

impl<T> Absent for Option<T> {
    fn is_absent(&self) -> bool {
        self.is_none()
    }
}

impl<T> Absent for Vec<T> {}
impl Absent for ChangeType {}
impl Absent for ChatId {}
impl Absent for ChatType {}
impl Absent for Role {}
impl Absent for String {}
impl Absent for UserId {}

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
#[derive(Serialize, Deserialize)]
pub(super) struct MessagePersisted<'a> {
    message_id: MessageId,
    chat_id: ChatId,
    sequence: Sequence,
    sender_id: UserId,
    #[serde(borrow)]
    content: Cow<'a, str>,
    content_type: ContentType,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    metadata: Option<Cow<'a, Metadata>>,
    created_at: Timestamp,
    client_message_id: ClientMessageId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    expires_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    origin_connection_id: Option<ConnectionId>,
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
        }
    }
}

impl TryFrom<MessagePersisted<'_>> for EventBody {
    type Error = EventError;

    fn try_from(persisted: MessagePersisted<'_>) -> Result<Self, EventError> {
        let message = Message {
            message_id: persisted.message_id,
            chat_id: persisted.chat_id,
            sequence: persisted.sequence,
            sender_id: persisted.sender_id,
            client_message_id: persisted.client_message_id,
            body: Body::new(Content::try_from(persisted.content.into_owned())?, persisted.content_type)
                .with_metadata(persisted.metadata.map(Cow::into_owned)),
            created_at: persisted.created_at,
            expires_at: persisted.expires_at,
        };
        Ok(Self::MessagePersisted { message, origin_connection_id: persisted.origin_connection_id })
    }
}
