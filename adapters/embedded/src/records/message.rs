use std::borrow::Cow;

use domain::{ChatId, ClientMessageId, Content, ContentType, Message, MessageId, Sequence, Timestamp, Ttl, UserId};
use ports::{BoxError, Head, LastMessage, Receipt};
use serde::{Deserialize, Serialize};

use super::{IdBytes, Millis, Seconds, Stored, from_bytes, row_enum, to_bytes, ttl_from_row, ttl_to_row};

/// The start of a send's SHA-256, by which a retry is told from another send under the same key.
pub(crate) type Fingerprint = [u8; 16];

/// What is remembered of a committed send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SendKey {
    pub(crate) receipt: Receipt,
    pub(crate) fingerprint: Fingerprint,
}

/// Where a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Place {
    pub(crate) chat_id: ChatId,
    pub(crate) sequence: Sequence,
}

/// What a send needs of the head row of its chat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Counter {
    /// The last sequence.
    pub(crate) sequence: Sequence,
    /// How long messages live that do not say it themselves.
    pub(crate) message_ttl: Option<Ttl>,
}

/// What an unread count needs of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Glance {
    pub(crate) sender_id: UserId,
    pub(crate) expires_at: Option<Timestamp>,
}

row_enum!(ContentTypeRow for ContentType { Text, Markdown, Json, Encrypted });

#[derive(Serialize, Deserialize)]
struct MessageRow<'a> {
    message_id: IdBytes,
    sender_id: IdBytes,
    client_message_id: IdBytes,
    content: Cow<'a, str>,
    content_type: ContentTypeRow,
    created_at: Millis,
    expires_at: Option<Millis>,
}

/// The row of a message. Its chat and sequence are its key, and not repeated.
pub(crate) fn encode_message(message: &Message) -> Vec<u8> {
    to_bytes(&MessageRow {
        message_id: message.message_id.to_bytes(),
        sender_id: message.sender_id.to_bytes(),
        client_message_id: message.client_message_id.to_bytes(),
        content: Cow::Borrowed(message.content.as_str()),
        content_type: message.content_type.into(),
        created_at: message.created_at.as_millis(),
        expires_at: message.expires_at.map(Timestamp::as_millis),
    })
}

/// The message of a row found at a place.
pub(crate) fn decode_message(place: Place, bytes: &[u8]) -> Result<Message, BoxError> {
    let row: MessageRow<'static> = from_bytes(bytes)?;
    Ok(Message {
        message_id: MessageId::from_bytes(row.message_id),
        chat_id: place.chat_id,
        sequence: place.sequence,
        sender_id: UserId::from_bytes(row.sender_id),
        client_message_id: ClientMessageId::from_bytes(row.client_message_id),
        content: Content::try_from(row.content.into_owned())?,
        content_type: row.content_type.into(),
        created_at: Timestamp::from_millis(row.created_at),
        expires_at: row.expires_at.map(Timestamp::from_millis),
    })
}

impl Glance {
    /// Passes over the content instead of copying it: an inbox looks at many messages and shows none of them.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, BoxError> {
        /// A [`MessageRow`] whose content stays where it is.
        #[derive(Deserialize)]
        struct Row<'a> {
            _message_id: IdBytes,
            sender_id: IdBytes,
            _client_message_id: IdBytes,
            #[serde(borrow)]
            _content: &'a [u8],
            _content_type: ContentTypeRow,
            _created_at: Millis,
            expires_at: Option<Millis>,
        }
        let row: Row<'_> = from_bytes(bytes)?;
        let expires_at = row.expires_at.map(Timestamp::from_millis);
        Ok(Self { sender_id: UserId::from_bytes(row.sender_id), expires_at })
    }
}

/// Begins with what a [`Counter`] is.
#[derive(Serialize, Deserialize)]
struct HeadRow<'a> {
    sequence: u64,
    message_ttl: Option<Seconds>,
    last_message: Option<LastMessageRow<'a>>,
}

#[derive(Serialize, Deserialize)]
struct LastMessageRow<'a> {
    message_id: IdBytes,
    sender_id: IdBytes,
    preview: Option<Cow<'a, str>>,
    created_at: Millis,
    expires_at: Option<Millis>,
}

impl Stored for Head {
    fn encode(&self) -> Vec<u8> {
        to_bytes(&HeadRow {
            sequence: self.sequence.0,
            message_ttl: ttl_to_row(self.message_ttl),
            last_message: self.last_message.as_ref().map(|last| LastMessageRow {
                message_id: last.message_id.to_bytes(),
                sender_id: last.sender_id.to_bytes(),
                preview: last.preview.as_ref().map(|preview| Cow::Borrowed(preview.as_str())),
                created_at: last.created_at.as_millis(),
                expires_at: last.expires_at.map(Timestamp::as_millis),
            }),
        })
    }

    fn decode(bytes: &[u8]) -> Result<Self, BoxError> {
        let row: HeadRow<'static> = from_bytes(bytes)?;
        let last_message = |last: LastMessageRow<'static>| -> Result<_, BoxError> {
            Ok(LastMessage {
                message_id: MessageId::from_bytes(last.message_id),
                sender_id: UserId::from_bytes(last.sender_id),
                preview: last.preview.map(|preview| Content::try_from(preview.into_owned())).transpose()?,
                created_at: Timestamp::from_millis(last.created_at),
                expires_at: last.expires_at.map(Timestamp::from_millis),
            })
        };
        Ok(Self {
            sequence: followed(row.sequence)?,
            message_ttl: ttl_from_row(row.message_ttl)?,
            last_message: row.last_message.map(last_message).transpose()?,
        })
    }
}

impl Counter {
    /// Reads the start of a head row and leaves the rest of it alone.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, BoxError> {
        let ((sequence, message_ttl), _) = postcard::take_from_bytes(bytes)?;
        Ok(Self { sequence: followed(sequence)?, message_ttl: ttl_from_row(message_ttl)? })
    }
}

/// The last sequence of a chat, which another one can follow: nobody has come so far that none can.
fn followed(sequence: u64) -> Result<Sequence, BoxError> {
    match sequence {
        u64::MAX => Err(format!("a chat cannot hold {sequence} messages").into()),
        _ => Ok(Sequence(sequence)),
    }
}

#[derive(Serialize, Deserialize)]
struct SendKeyRow {
    message_id: IdBytes,
    sequence: u64,
    created_at: Millis,
    fingerprint: Fingerprint,
}

impl Stored for SendKey {
    fn encode(&self) -> Vec<u8> {
        to_bytes(&SendKeyRow {
            message_id: self.receipt.message_id.to_bytes(),
            sequence: self.receipt.sequence.0,
            created_at: self.receipt.created_at.as_millis(),
            fingerprint: self.fingerprint,
        })
    }

    fn decode(bytes: &[u8]) -> Result<Self, BoxError> {
        let row: SendKeyRow = from_bytes(bytes)?;
        let receipt = Receipt {
            message_id: MessageId::from_bytes(row.message_id),
            sequence: Sequence(row.sequence),
            created_at: Timestamp::from_millis(row.created_at),
        };
        Ok(Self { receipt, fingerprint: row.fingerprint })
    }
}

impl Stored for Place {
    fn encode(&self) -> Vec<u8> {
        to_bytes(&(self.chat_id.to_bytes(), self.sequence.0))
    }

    fn decode(bytes: &[u8]) -> Result<Self, BoxError> {
        let (chat_id, sequence) = from_bytes(bytes)?;
        Ok(Self { chat_id: ChatId::from_bytes(chat_id), sequence: Sequence(sequence) })
    }
}
