use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use ulid::{ULID_LEN, Ulid};
use uuid::Uuid;

/// Why a text is not the id it was taken for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not {expected}")]
pub struct IdError {
    text: String,
    expected: &'static str,
}

impl IdError {
    /// Keeps the start of the text only: it comes from a peer and ends up in answers and logs.
    fn new(text: &str, expected: &'static str) -> Self {
        Self { text: text.chars().take(64).collect(), expected }
    }
}

macro_rules! prefixed_id {
    ($(#[$doc:meta])* $name:ident, $prefix:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Ulid);

        impl $name {
            /// What the text of every such id begins with.
            pub const PREFIX: &'static str = $prefix;

            /// The 16 bytes of the id; their order is the order of creation.
            pub fn to_bytes(self) -> [u8; 16] {
                self.0.to_bytes()
            }

            /// The id that [`to_bytes`](Self::to_bytes) came from.
            pub fn from_bytes(bytes: [u8; 16]) -> Self {
                Self(Ulid::from_bytes(bytes))
            }
        }

        impl From<Ulid> for $name {
            fn from(ulid: Ulid) -> Self {
                Self(ulid)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str($prefix)?;
                f.write_str(self.0.array_to_str(&mut [0; ULID_LEN]))
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }

        impl FromStr for $name {
            type Err = IdError;

            fn from_str(text: &str) -> Result<Self, IdError> {
                text.strip_prefix($prefix)
                    .and_then(|ulid| Ulid::from_string(ulid).ok())
                    .map(Self)
                    .ok_or_else(|| IdError::new(text, concat!("an id of the form ", $prefix, "<ulid>")))
            }
        }

        text_serde!($name);
    };
}

macro_rules! uuid_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Uuid);

        impl $name {
            /// The 16 bytes of the uuid.
            pub fn to_bytes(self) -> [u8; 16] {
                self.0.into_bytes()
            }

            /// The id that [`to_bytes`](Self::to_bytes) came from.
            pub fn from_bytes(bytes: [u8; 16]) -> Self {
                Self(Uuid::from_bytes(bytes))
            }
        }

        impl From<Uuid> for $name {
            fn from(uuid: Uuid) -> Self {
                Self(uuid)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self.0.as_hyphenated(), f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }

        impl FromStr for $name {
            type Err = IdError;

            fn from_str(text: &str) -> Result<Self, IdError> {
                Uuid::try_parse(text).map(Self).map_err(|_| IdError::new(text, "a uuid"))
            }
        }

        text_serde!($name);
    };
}

/// Serializes a type as its `Display` and parses it with its `FromStr`, without an allocation on the way in.
macro_rules! text_serde {
    ($name:ident) => {
        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct Text;
                impl serde::de::Visitor<'_> for Text {
                    type Value = $name;

                    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                        f.write_str("a string")
                    }

                    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<$name, E> {
                        text.parse().map_err(E::custom)
                    }
                }
                deserializer.deserialize_str(Text)
            }
        }
    };
}

prefixed_id!(
    /// A person, or a program that acts like one.
    UserId,
    "user_"
);
prefixed_id!(
    /// A direct chat of two or a group.
    ChatId,
    "chat_"
);
prefixed_id!(
    /// One message, for ever, across all chats.
    MessageId,
    "msg_"
);
prefixed_id!(
    /// One login of one device.
    SessionId,
    "sess_"
);
prefixed_id!(
    /// One WebSocket, from its handshake to its close.
    ConnectionId,
    "conn_"
);
prefixed_id!(
    /// One record of the event log.
    EventId,
    "evt_"
);
prefixed_id!(
    /// One report of a user to the operators.
    ReportId,
    "rep_"
);
uuid_id!(
    /// A device, named by itself; it outlives its sessions.
    DeviceId
);
uuid_id!(
    /// The sender's own name for a send, made before the first try; with chat and sender it identifies the send.
    ClientMessageId
);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_id_round_trips_through_text_bytes_and_json() {
        let id: ChatId = "chat_01ARZ3NDEKTSV4RRFFQ69G5FAV".parse().unwrap();
        assert_eq!(id.to_string(), "chat_01ARZ3NDEKTSV4RRFFQ69G5FAV");
        assert_eq!(ChatId::from_bytes(id.to_bytes()), id);
        let json = serde_json::to_string(&id).unwrap();
        assert_eq!(json, "\"chat_01ARZ3NDEKTSV4RRFFQ69G5FAV\"");
        assert_eq!(serde_json::from_str::<ChatId>(&json).unwrap(), id);
    }

    #[test]
    fn an_id_of_another_kind_is_refused_and_named() {
        let error = "user_01ARZ3NDEKTSV4RRFFQ69G5FAV".parse::<ChatId>().unwrap_err();
        assert_eq!(error.to_string(), "`user_01ARZ3NDEKTSV4RRFFQ69G5FAV` is not an id of the form chat_<ulid>");
        assert_eq!("42".parse::<DeviceId>().unwrap_err().to_string(), "`42` is not a uuid");
    }

    proptest! {
        #[test]
        fn any_text_parses_or_is_refused_without_a_panic(text in ".*") {
            let _: Result<ChatId, IdError> = text.parse();
            let _: Result<DeviceId, IdError> = text.parse();
        }
    }
}
