use std::cmp::Ordering;
use std::fmt::{self, Write};
use std::hash::{Hash, Hasher};
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use ulid::{ULID_LEN, Ulid};
use uuid::Uuid;
use uuid::fmt::{Hyphenated, Simple};

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
id_serde!(ClientMessageId);

/// The client's id of a send, created before the first attempt. Together with chat and sender it is the idempotency key.
///
/// It is a uuid, and two ids are equal if their uuids are. The text stays as the client wrote it, because clients
/// compare texts: many write uuids in upper case.
#[derive(Clone, Copy)]
pub struct ClientMessageId {
    uuid: Uuid,
    spelling: UuidSpelling,
}

/// How a client wrote a uuid: its form, and which of its digits are upper-case letters. The default is the usual one, in
/// lower case with hyphens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UuidSpelling {
    form: UuidForm,
    /// Bit n is for the n-th digit.
    upper_case: u32,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum UuidForm {
    #[default]
    Hyphenated,
    Simple,
    Braced,
    Urn,
}

impl ClientMessageId {
    /// The 16 bytes of the uuid. Equal ids have equal bytes, whatever their spelling is.
    pub fn to_bytes(self) -> [u8; 16] {
        self.uuid.into_bytes()
    }

    /// The inverse of [`to_bytes`](Self::to_bytes), in the usual spelling.
    pub fn from_bytes(bytes: [u8; 16]) -> Self {
        Uuid::from_bytes(bytes).into()
    }

    /// The same id in the usual spelling, for keys made of its text.
    pub fn canonical(self) -> Self {
        self.uuid.into()
    }

    /// How the client wrote the id.
    pub fn spelling(self) -> UuidSpelling {
        self.spelling
    }

    /// The same id in another spelling.
    pub fn spelled(self, spelling: UuidSpelling) -> Self {
        Self { spelling, ..self }
    }
}

impl UuidSpelling {
    /// The spelling as a number; 0 is the usual one.
    pub fn to_bits(self) -> u64 {
        let form = match self.form {
            UuidForm::Hyphenated => 0,
            UuidForm::Simple => 1,
            UuidForm::Braced => 2,
            UuidForm::Urn => 3,
        };
        (form << 32) | u64::from(self.upper_case)
    }

    /// The inverse of [`to_bits`](Self::to_bits); `None` for a number of no spelling.
    pub fn from_bits(bits: u64) -> Option<Self> {
        let form = match bits >> 32 {
            0 => UuidForm::Hyphenated,
            1 => UuidForm::Simple,
            2 => UuidForm::Braced,
            3 => UuidForm::Urn,
            _ => return None,
        };
        Some(Self { form, upper_case: bits as u32 })
    }

    /// The spelling of a text that is a uuid.
    fn of(text: &str) -> Self {
        let (form, digits) = match text.as_bytes() {
            [b'{', digits @ .., b'}'] => (UuidForm::Braced, digits),
            [b'u', b'r', b'n', b':', b'u', b'u', b'i', b'd', b':', digits @ ..] => (UuidForm::Urn, digits),
            digits if digits.contains(&b'-') => (UuidForm::Hyphenated, digits),
            digits => (UuidForm::Simple, digits),
        };
        let digits = digits.iter().filter(|byte| **byte != b'-').zip(0..u32::BITS);
        let upper_case = digits.filter(|(digit, _)| digit.is_ascii_uppercase()).map(|(_, n)| 1u32 << n).sum();
        Self { form, upper_case }
    }
}

impl From<Uuid> for ClientMessageId {
    fn from(uuid: Uuid) -> Self {
        Self { uuid, spelling: UuidSpelling::default() }
    }
}

impl FromStr for ClientMessageId {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        let uuid = Uuid::try_parse(text).map_err(|_| IdError::new(text, "a uuid"))?;
        Ok(Self { uuid, spelling: UuidSpelling::of(text) })
    }
}

impl fmt::Display for ClientMessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.spelling == UuidSpelling::default() {
            return fmt::Display::fmt(self.uuid.as_hyphenated(), f);
        }
        let UuidSpelling { form, upper_case } = self.spelling;
        let (before, after) = match form {
            UuidForm::Hyphenated | UuidForm::Simple => ("", ""),
            UuidForm::Braced => ("{", "}"),
            UuidForm::Urn => ("urn:uuid:", ""),
        };
        f.write_str(before)?;
        let (mut simple, mut hyphenated) = ([0; Simple::LENGTH], [0; Hyphenated::LENGTH]);
        let text: &str = match form {
            UuidForm::Simple => self.uuid.as_simple().encode_lower(&mut simple),
            UuidForm::Hyphenated | UuidForm::Braced | UuidForm::Urn => {
                self.uuid.as_hyphenated().encode_lower(&mut hyphenated)
            }
        };
        let mut digits = 0;
        for character in text.chars() {
            let is_upper_case = character != '-' && (upper_case >> digits) & 1 == 1;
            digits += u32::from(character != '-');
            f.write_char(if is_upper_case { character.to_ascii_uppercase() } else { character })?;
        }
        f.write_str(after)
    }
}

impl fmt::Debug for ClientMessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl PartialEq for ClientMessageId {
    fn eq(&self, other: &Self) -> bool {
        self.uuid == other.uuid
    }
}

impl Eq for ClientMessageId {}

impl PartialOrd for ClientMessageId {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for ClientMessageId {
    fn cmp(&self, other: &Self) -> Ordering {
        self.uuid.cmp(&other.uuid)
    }
}

impl Hash for ClientMessageId {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.uuid.hash(state);
    }
}

#[cfg(test)]
mod tests {
    use std::hash::{BuildHasher, RandomState};

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

    #[test]
    fn the_id_of_a_send_is_shown_as_it_was_written_and_equals_its_other_spellings() {
        let usual: ClientMessageId = "0d9f4c52-7b1e-4a63-8f25-6c3e9a7b1d04".parse().unwrap();
        assert_eq!(usual.spelling().to_bits(), 0);
        for text in [
            "0D9F4C52-7B1E-4A63-8F25-6C3E9A7B1D04",
            "0d9f4C52-7b1E-4a63-8F25-6c3e9a7b1d04",
            "0D9F4C527B1E4A638F256C3E9A7B1d04",
            "{0d9f4c52-7b1e-4a63-8f25-6c3e9a7b1d04}",
            "urn:uuid:0d9f4c52-7b1e-4a63-8f25-6c3e9a7B1D04",
        ] {
            let id: ClientMessageId = text.parse().unwrap();
            assert_eq!(id.to_string(), text);
            assert_eq!(serde_json::to_string(&id).unwrap(), format!("\"{text}\""));
            assert_eq!(id.canonical().to_string(), usual.to_string());
            let stored = UuidSpelling::from_bits(id.spelling().to_bits()).unwrap();
            assert_eq!(ClientMessageId::from_bytes(id.to_bytes()).spelled(stored).to_string(), text);
            assert_eq!((id, id.cmp(&usual)), (usual, Ordering::Equal));
            let hashes = RandomState::new();
            assert_eq!(hashes.hash_one(id), hashes.hash_one(usual));
        }
        assert_eq!(UuidSpelling::from_bits(4 << 32), None);
    }

    proptest! {
        #[test]
        fn any_text_parses_or_is_refused_without_a_panic(text in ".*") {
            let _: Result<ChatId, IdError> = text.parse();
            let _: Result<DeviceId, IdError> = text.parse();
            let _: Result<ClientMessageId, IdError> = text.parse();
        }

        #[test]
        fn any_spelling_of_a_send_is_shown(bytes in any::<[u8; 16]>(), form in 0..4u64, upper_case in any::<u32>()) {
            let spelling = UuidSpelling::from_bits((form << 32) | u64::from(upper_case)).unwrap();
            let id = ClientMessageId::from_bytes(bytes).spelled(spelling);
            let text = id.to_string();
            let read: ClientMessageId = text.parse().unwrap();
            prop_assert_eq!(read, id);
            prop_assert_eq!(read.to_string(), text);
        }
    }
}
