use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::limits::{CONTENT_BYTES_MAX, MESSAGE_FIELDS_BYTES, PREVIEW_CHARS_MAX, TTL_MAX};
use crate::{ChatId, ClientMessageId, MessageId, MessageState, Metadata, Sequence, Timestamp, UserId};

/// A committed message. It may expire, and [updates](crate::MessageUpdate) change its body and its state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    pub message_id: MessageId,
    pub chat_id: ChatId,
    pub sequence: Sequence,
    pub sender_id: UserId,
    pub client_message_id: ClientMessageId,
    pub body: Body,
    pub created_at: Timestamp,
    pub expires_at: Option<Timestamp>,
    pub state: MessageState,
}

impl Message {
    /// Whether the message has expired at `now` (G11). Every read checks this itself.
    pub fn is_expired(&self, now: Timestamp) -> bool {
        self.expires_at.is_some_and(|at| at <= now)
    }

    /// The number of bytes that the message has as JSON at most, in a frame or an answer.
    pub fn json_size(&self) -> usize {
        self.body.json_size() + self.state.json_size()
    }
}

/// The part of a message that its sender chose and every member reads. New parts of a message belong here: sends, the
/// log, stores and frames pass a body on as one value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Body {
    pub content: Content,
    pub content_type: ContentType,
    pub metadata: Option<Metadata>,
}

impl Body {
    /// A body without metadata.
    pub fn new(content: Content, content_type: ContentType) -> Self {
        Self { content, content_type, metadata: None }
    }

    pub fn with_metadata(self, metadata: Option<Metadata>) -> Self {
        Self { metadata, ..self }
    }

    /// The number of bytes that a message with this body has as JSON at most, without its state.
    pub fn json_size(&self) -> usize {
        let content = escaped_size(self.content.as_str());
        let metadata = self.metadata.as_ref().map_or(0, |metadata| metadata.as_str().len());
        MESSAGE_FIELDS_BYTES + content + metadata
    }

    /// The number of bytes that a queue counts for the body.
    pub fn size(&self) -> usize {
        self.content.as_str().len() + self.metadata.as_ref().map_or(0, |metadata| metadata.as_str().len())
    }

    /// The kibibytes that a message with this body counts as: the body, and half a KiB for its other fields and its
    /// entries in the log and in indexes, rounded up.
    pub fn stored_kib(&self) -> u32 {
        (self.size() + 512).div_ceil(1024) as u32
    }

    /// A prefix of the content for the inbox; `None` for opaque content.
    pub fn preview(&self) -> Option<Content> {
        match self.content_type {
            ContentType::Encrypted => None,
            ContentType::Text | ContentType::Markdown | ContentType::Json => {
                let text = self.content.as_str();
                let end = text.char_indices().nth(PREVIEW_CHARS_MAX).map_or(text.len(), |(at, _)| at);
                Some(Content(text[..end].into()))
            }
        }
    }
}

/// The bytes of a text in a JSON string.
pub(crate) fn escaped_size(text: &str) -> usize {
    let escaped = |byte: u8| match byte {
        b'"' | b'\\' | 0x08 | b'\t' | b'\n' | 0x0c | b'\r' => 2,
        ..0x20 => 6,
        _ => 1,
    };
    text.bytes().map(escaped).sum()
}

/// The content of a message: 1 to 4096 bytes of UTF-8 without NUL. `Debug` hides it, so that it never reaches a log.
#[derive(Clone, PartialEq, Eq)]
pub struct Content(Box<str>);

/// Why a text is not valid content.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ContentError {
    #[error("content is empty")]
    Empty,
    #[error("content has {0} bytes, limit is {CONTENT_BYTES_MAX}")]
    TooLong(usize),
    #[error("content has a NUL character")]
    Nul,
}

impl Content {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for Content {
    type Error = ContentError;

    fn try_from(text: String) -> Result<Self, ContentError> {
        if text.is_empty() {
            Err(ContentError::Empty)
        } else if text.len() > CONTENT_BYTES_MAX {
            Err(ContentError::TooLong(text.len()))
        } else if text.contains('\0') {
            Err(ContentError::Nul)
        } else {
            Ok(Self(text.into_boxed_str()))
        }
    }
}

impl From<Content> for String {
    fn from(content: Content) -> Self {
        content.0.into_string()
    }
}

impl fmt::Debug for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "<{} bytes>", self.0.len())
    }
}

/// The type of a message's content.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ContentType {
    #[default]
    Text,
    Markdown,
    Json,
    /// End-to-end encrypted: opaque to the server, never previewed, logged or indexed.
    Encrypted,
}

/// An unsupported content type.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "content type `{0}` is not one of text/plain, text/markdown, application/json, application/vnd.tidings.encrypted"
)]
pub struct UnknownContentType(String);

impl ContentType {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Text => "text/plain",
            Self::Markdown => "text/markdown",
            Self::Json => "application/json",
            Self::Encrypted => "application/vnd.tidings.encrypted",
        }
    }
}

impl Serialize for ContentType {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for ContentType {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

impl FromStr for ContentType {
    type Err = UnknownContentType;

    fn from_str(text: &str) -> Result<Self, UnknownContentType> {
        [Self::Text, Self::Markdown, Self::Json, Self::Encrypted]
            .into_iter()
            .find(|content_type| content_type.as_str() == text)
            .ok_or_else(|| UnknownContentType(text.chars().take(64).collect()))
    }
}

/// The lifetime of a message: 1 second to one year, in whole seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ttl(Duration);

impl Ttl {
    /// A lifetime of `seconds`; `None` if it is out of range.
    pub fn from_secs(seconds: u64) -> Option<Self> {
        (1..=TTL_MAX.as_secs()).contains(&seconds).then(|| Self(Duration::from_secs(seconds)))
    }

    pub fn as_duration(self) -> Duration {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_is_bounded_in_bytes_not_characters() {
        assert_eq!(Content::try_from(String::new()), Err(ContentError::Empty));
        assert!(Content::try_from("x".repeat(4096)).is_ok());
        assert_eq!(Content::try_from("é".repeat(2049)), Err(ContentError::TooLong(4098)));
        assert_eq!(Content::try_from("a\0b".to_owned()), Err(ContentError::Nul));
    }

    #[test]
    fn a_short_message_counts_as_one_kib() {
        let kib = |len| Body::new(Content::try_from("x".repeat(len)).unwrap(), ContentType::Text).stored_kib();
        assert_eq!([1, 512, 513, 1536, 4096].map(kib), [1, 1, 2, 2, 5]);
    }

    #[test]
    fn the_size_as_json_is_that_of_the_escaped_text() {
        let every_byte: String = (1..=127_u8).map(char::from).chain("éあ🦀".chars()).collect();
        let body = Body::new(Content::try_from(every_byte.clone()).unwrap(), ContentType::Text);
        let quotes = 2;
        let escaped = serde_json::to_string(&every_byte).unwrap().len() - quotes;
        assert_eq!(body.json_size(), MESSAGE_FIELDS_BYTES + escaped);
        let metadata = Metadata::try_from(r#"{"k":"\n"}"#.to_owned()).unwrap();
        assert_eq!(body.with_metadata(Some(metadata)).json_size(), MESSAGE_FIELDS_BYTES + escaped + 10);
    }

    #[test]
    fn debug_hides_the_words() {
        assert_eq!(format!("{:?}", Content::try_from("secret".to_owned()).unwrap()), "<6 bytes>");
    }

    #[test]
    fn content_types_parse_from_their_own_text() {
        for content_type in [ContentType::Text, ContentType::Markdown, ContentType::Json, ContentType::Encrypted] {
            assert_eq!(content_type.as_str().parse(), Ok(content_type));
        }
        assert!("image/png".parse::<ContentType>().is_err());
    }

    #[test]
    fn ttl_is_one_second_to_one_year() {
        assert_eq!(Ttl::from_secs(0), None);
        assert!(Ttl::from_secs(1).is_some());
        assert!(Ttl::from_secs(31_536_000).is_some());
        assert_eq!(Ttl::from_secs(31_536_001), None);
    }
}
