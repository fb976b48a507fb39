use domain::{
    Body, ChatId, ClientMessageId, Content, ContentType, Message, MessageId, MessageState, Metadata, Sequence,
    Timestamp, Ttl, UserId, UuidSpelling,
};
use ports::{BoxError, Head, LastMessage, Receipt};
use serde::{Deserialize, Serialize};

use super::update::MessageStateRecord;
use super::{
    Millis, Seconds, Stored, from_bytes, number_at_end, read_number_at_end, row_enum, to_bytes, ttl_from_row,
    ttl_to_row,
};

/// Prefix of the SHA-256 of a send. It distinguishes a retry from another send under the same key.
pub(crate) type Fingerprint = [u8; 16];

/// The row of a committed send, for deduplication.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SendKey {
    pub(crate) receipt: Receipt,
    pub(crate) fingerprint: Fingerprint,
}

/// Location of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct MessageLocation {
    pub(crate) chat_id: ChatId,
    pub(crate) sequence: Sequence,
}

/// The part of the head row that a send needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HeadSummary {
    /// The head sequence.
    pub(crate) sequence: Sequence,
    /// Lifetime of messages that have none of their own.
    pub(crate) message_ttl: Option<Ttl>,
    /// Number of changes of the chat.
    pub(crate) changes: u64,
}

/// The part of a message that an unread count needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Glance {
    pub(crate) sender_id: UserId,
    pub(crate) expires_at: Option<Timestamp>,
}

row_enum!(ContentTypeRow for ContentType { Text, Markdown, Json, Encrypted });

/// The byte before the state of an updated message. No JSON text begins with it.
const STATE: u8 = 1;
/// The byte before the spelling of the sender's id.
const SPELLING: u8 = 9;

/// The record of a message. The spelling of the sender's id follows it, if it is not the usual one, then the state of the
/// message, if it was updated, then its metadata as JSON text up to the end of the row. So a message without these has
/// the row of a version that knew none. `C` is the content: a text, or bytes that a reader skips.
#[derive(Serialize, Deserialize)]
struct MessageRecord<C> {
    message_id: MessageId,
    sender_id: UserId,
    client_message_id: ClientMessageId,
    content: C,
    content_type: ContentTypeRow,
    created_at: Millis,
    expires_at: Option<Millis>,
}

/// Encodes a message without its chat and sequence, which are in its key.
pub(crate) fn encode_message(message: &Message) -> Vec<u8> {
    let mut bytes = to_bytes(&MessageRecord {
        message_id: message.message_id,
        sender_id: message.sender_id,
        client_message_id: message.client_message_id,
        content: message.body.content.as_str(),
        content_type: message.body.content_type.into(),
        created_at: message.created_at.as_millis(),
        expires_at: message.expires_at.map(Timestamp::as_millis),
    });
    let spelling = message.client_message_id.spelling();
    if spelling != UuidSpelling::default() {
        bytes.push(SPELLING);
        bytes.extend(to_bytes(&spelling.to_bits()));
    }
    if message.state != MessageState::default() {
        bytes.push(STATE);
        bytes.extend(to_bytes(&MessageStateRecord::from(&message.state)));
    }
    bytes.extend(message.body.metadata.iter().flat_map(|metadata| metadata.as_str().bytes()));
    bytes
}

/// Decodes the message at a location.
pub(crate) fn decode_message(location: MessageLocation, bytes: &[u8]) -> Result<Message, BoxError> {
    let (row, rest) = postcard::take_from_bytes::<MessageRecord<String>>(bytes)?;
    let (spelling, rest) = match rest {
        [SPELLING, rest @ ..] => {
            let (bits, rest) = postcard::take_from_bytes::<u64>(rest)?;
            (read_spelling(bits)?, rest)
        }
        rest => (UuidSpelling::default(), rest),
    };
    let (state, rest) = match rest {
        [STATE, rest @ ..] => {
            let (state, rest) = postcard::take_from_bytes::<MessageStateRecord>(rest)?;
            (state.into(), rest)
        }
        rest => (MessageState::default(), rest),
    };
    let metadata = match rest {
        [] => None,
        text => Some(Metadata::try_from(String::from_utf8(text.to_owned())?)?),
    };
    Ok(Message {
        message_id: row.message_id,
        chat_id: location.chat_id,
        sequence: location.sequence,
        sender_id: row.sender_id,
        client_message_id: row.client_message_id.spelled(spelling),
        body: Body::new(row.content.try_into()?, row.content_type.into()).with_metadata(metadata),
        created_at: Timestamp::from_millis(row.created_at),
        expires_at: row.expires_at.map(Timestamp::from_millis),
        state,
    })
}

/// The spelling of an id that is not in the usual one.
pub(super) fn read_spelling(bits: u64) -> Result<UuidSpelling, BoxError> {
    match UuidSpelling::from_bits(bits) {
        Some(spelling) if spelling != UuidSpelling::default() => Ok(spelling),
        _ => Err(format!("{bits} is no spelling of an id").into()),
    }
}

impl Glance {
    /// Skips the content instead of copying it: an inbox examines many messages and shows none of them.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, BoxError> {
        let (row, _metadata) = postcard::take_from_bytes::<MessageRecord<&[u8]>>(bytes)?;
        Ok(Self { sender_id: row.sender_id, expires_at: row.expires_at.map(Timestamp::from_millis) })
    }
}

/// The record of a head. The number of changes follows it, unless it is 0, so a chat without counted changes has the
/// row of a version that counted none. If the last message is not the head, the number is always there, and the sequence
/// of the message follows it. `P` is the preview: a text, or bytes that a reader skips.
#[derive(Serialize, Deserialize)]
struct HeadRow<P> {
    sequence: u64,
    message_ttl: Option<Seconds>,
    last_message: Option<LastMessageRecord<P>>,
}

#[derive(Serialize, Deserialize)]
struct LastMessageRecord<P> {
    message_id: MessageId,
    sender_id: UserId,
    preview: Option<P>,
    created_at: Millis,
    expires_at: Option<Millis>,
}

impl Stored for Head {
    fn encode(&self) -> Vec<u8> {
        let mut bytes = to_bytes(&HeadRow {
            sequence: self.sequence.0,
            message_ttl: ttl_to_row(self.message_ttl),
            last_message: self.last_message.as_ref().map(|last| LastMessageRecord {
                message_id: last.message_id,
                sender_id: last.sender_id,
                preview: last.preview.as_ref().map(Content::as_str),
                created_at: last.created_at.as_millis(),
                expires_at: last.expires_at.map(Timestamp::as_millis),
            }),
        });
        let last = self.last_message.as_ref().map(|last| last.sequence).filter(|last| *last != self.sequence);
        match last {
            Some(last) => bytes.extend(to_bytes(&(self.changes, last))),
            None => bytes.extend(number_at_end((self.changes > 0).then_some(self.changes))),
        }
        bytes
    }

    fn decode(bytes: &[u8]) -> Result<Self, BoxError> {
        let (row, rest) = postcard::take_from_bytes::<HeadRow<String>>(bytes)?;
        let sequence = followed(row.sequence)?;
        let (changes, last_sequence) = read_head_end(sequence, rest)?;
        let last_message = |last: LastMessageRecord<String>| -> Result<_, BoxError> {
            Ok(LastMessage {
                message_id: last.message_id,
                sequence: last_sequence.unwrap_or(sequence),
                sender_id: last.sender_id,
                preview: last.preview.map(Content::try_from).transpose()?,
                created_at: Timestamp::from_millis(last.created_at),
                expires_at: last.expires_at.map(Timestamp::from_millis),
            })
        };
        Ok(Self {
            sequence,
            message_ttl: ttl_from_row(row.message_ttl)?,
            last_message: row.last_message.map(last_message).transpose()?,
            changes,
        })
    }
}

impl HeadSummary {
    /// Skips the preview instead of copying it.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, BoxError> {
        let (row, rest) = postcard::take_from_bytes::<HeadRow<&[u8]>>(bytes)?;
        let sequence = followed(row.sequence)?;
        let (changes, _) = read_head_end(sequence, rest)?;
        Ok(Self { sequence, message_ttl: ttl_from_row(row.message_ttl)?, changes })
    }
}

/// Decodes the end of the row of a head at `head`: the number of changes, and the sequence of the last message, if that
/// is not the head.
fn read_head_end(head: Sequence, rest: &[u8]) -> Result<(u64, Option<Sequence>), BoxError> {
    match postcard::take_from_bytes::<u64>(rest) {
        Ok((changes, last @ [_, ..])) => match from_bytes::<Sequence>(last)? {
            last if Sequence::ZERO < last && last < head => Ok((changes, Some(last))),
            last => Err(format!("a chat with the head {head} has no last message at {last} below it").into()),
        },
        _ => Ok((read_number_at_end(rest)?.unwrap_or(0), None)),
    }
}

/// Validates a head sequence: a next sequence must exist. No real chat reaches the maximum.
fn followed(sequence: u64) -> Result<Sequence, BoxError> {
    match sequence {
        u64::MAX => Err(format!("a chat cannot hold {sequence} messages").into()),
        _ => Ok(Sequence(sequence)),
    }
}

#[derive(Serialize, Deserialize)]
struct SendKeyRow {
    message_id: MessageId,
    sequence: Sequence,
    created_at: Millis,
    fingerprint: Fingerprint,
}

impl Stored for SendKey {
    fn encode(&self) -> Vec<u8> {
        to_bytes(&SendKeyRow {
            message_id: self.receipt.message_id,
            sequence: self.receipt.sequence,
            created_at: self.receipt.created_at.as_millis(),
            fingerprint: self.fingerprint,
        })
    }

    fn decode(bytes: &[u8]) -> Result<Self, BoxError> {
        let row: SendKeyRow = from_bytes(bytes)?;
        let receipt = Receipt {
            message_id: row.message_id,
            sequence: row.sequence,
            created_at: Timestamp::from_millis(row.created_at),
        };
        Ok(Self { receipt, fingerprint: row.fingerprint })
    }
}

impl Stored for MessageLocation {
    fn encode(&self) -> Vec<u8> {
        to_bytes(&(self.chat_id, self.sequence))
    }

    fn decode(bytes: &[u8]) -> Result<Self, BoxError> {
        let (chat_id, sequence) = from_bytes(bytes)?;
        Ok(Self { chat_id, sequence })
    }
}
