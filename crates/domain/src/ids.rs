use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use ulid::{ULID_LEN, Ulid};
use uuid::Uuid;

/// Why a text is not a valid id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not {expected}")]
pub struct IdError {
    text: String,
    expected: &'static str,
}

impl IdError {
    /// Keeps only a prefix of the text, because it comes from a client and is repeated in responses and logs.
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
            /// The prefix of the text form of the id.
            pub const PREFIX: &'static str = $prefix;

            /// The 16 bytes of the id; they sort in order of creation.
            pub fn to_bytes(self) -> [u8; 16] {
                self.0.to_bytes()
            }

            /// The inverse of [`to_bytes`](Self::to_bytes).
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

        id_serde!($name);
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

            /// The inverse of [`to_bytes`](Self::to_bytes).
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

        id_serde!($name);
    };
}

/// Serializes an id as its text, or as its 16 bytes in binary formats. Parsing does not allocate.
macro_rules! id_serde {
    ($name:ident) => {
        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                if serializer.is_human_readable() {
                    serializer.collect_str(self)
                } else {
                    self.to_bytes().serialize(serializer)
                }
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct TextVisitor;
                impl serde::de::Visitor<'_> for TextVisitor {
                    type Value = $name;

                    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                        f.write_str("a string")
                    }

                    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<$name, E> {
                        text.parse().map_err(E::custom)
                    }
                }
                if deserializer.is_human_readable() {
                    deserializer.deserialize_str(TextVisitor)
                } else {
                    Deserialize::deserialize(deserializer).map(Self::from_bytes)
                }
            }
        }
    };
}

prefixed_id!(
    /// A person, or a bot that acts like one.
    UserId,
    "user_"
);
prefixed_id!(
    /// A direct chat of two users, or a group.
    ChatId,
    "chat_"
);
prefixed_id!(
    /// One message, unique across all chats.
    MessageId,
    "msg_"
);
prefixed_id!(
    /// One login of one device.
    SessionId,
    "sess_"
);
prefixed_id!(
    /// One WebSocket connection, from its handshake to its close.
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
prefixed_id!(
    /// One passkey of a user.
    PasskeyId,
    "pk_"
);
uuid_id!(
    /// A device. The client chooses the id, and it outlives the device's sessions.
    DeviceId
);
uuid_id!(
    /// The client's id of a send, created before the first attempt. Together with chat and sender it is the idempotency
    /// key.
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
