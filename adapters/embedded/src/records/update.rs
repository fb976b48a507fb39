use domain::{
    ClientMessageId, Edited, MessageId, MessageState, MessageUpdate, Reaction, ReactionCount, Sequence, Timestamp,
    UpdateKind, UserId, UuidSpelling,
};
use ports::BoxError;
use serde::{Deserialize, Serialize};

use super::message::read_spelling;
use super::{MessageLocation, Millis, Stored, from_bytes, number_at_end, read_number_at_end, to_bytes};

/// The record of an update. Its chat and sequence are in its key. The spelling of the author's id follows the record, if
/// it is not the usual one.
#[derive(Serialize, Deserialize)]
struct UpdateRecord {
    update_id: MessageId,
    user_id: UserId,
    client_message_id: ClientMessageId,
    target: Sequence,
    kind: UpdateKindRow,
    created_at: Millis,
    expires_at: Option<Millis>,
}

/// New kinds are added at the end.
#[derive(Serialize, Deserialize)]
enum UpdateKindRow {
    Edited,
    Deleted,
    Reacted(Reaction),
    Unreacted(Reaction),
}

impl From<&UpdateKind> for UpdateKindRow {
    fn from(kind: &UpdateKind) -> Self {
        match kind {
            UpdateKind::Edited => Self::Edited,
            UpdateKind::Deleted => Self::Deleted,
            UpdateKind::Reacted(reaction) => Self::Reacted(reaction.clone()),
            UpdateKind::Unreacted(reaction) => Self::Unreacted(reaction.clone()),
        }
    }
}

impl From<UpdateKindRow> for UpdateKind {
    fn from(row: UpdateKindRow) -> Self {
        match row {
            UpdateKindRow::Edited => Self::Edited,
            UpdateKindRow::Deleted => Self::Deleted,
            UpdateKindRow::Reacted(reaction) => Self::Reacted(reaction),
            UpdateKindRow::Unreacted(reaction) => Self::Unreacted(reaction),
        }
    }
}

/// Encodes an update without its chat and sequence, which are in its key.
pub(crate) fn encode_update(update: &MessageUpdate) -> Vec<u8> {
    let mut bytes = to_bytes(&UpdateRecord {
        update_id: update.update_id,
        user_id: update.user_id,
        client_message_id: update.client_message_id,
        target: update.target,
        kind: (&update.kind).into(),
        created_at: update.created_at.as_millis(),
        expires_at: update.expires_at.map(Timestamp::as_millis),
    });
    let spelling = update.client_message_id.spelling();
    bytes.extend(number_at_end((spelling != UuidSpelling::default()).then(|| spelling.to_bits())));
    bytes
}

/// Decodes the update at a location.
pub(crate) fn decode_update(location: MessageLocation, bytes: &[u8]) -> Result<MessageUpdate, BoxError> {
    let (row, rest): (UpdateRecord, _) = postcard::take_from_bytes(bytes)?;
    let spelling = read_number_at_end(rest)?.map(read_spelling).transpose()?.unwrap_or_default();
    Ok(MessageUpdate {
        update_id: row.update_id,
        chat_id: location.chat_id,
        sequence: location.sequence,
        user_id: row.user_id,
        client_message_id: row.client_message_id.spelled(spelling),
        target: row.target,
        kind: row.kind.into(),
        created_at: Timestamp::from_millis(row.created_at),
        expires_at: row.expires_at.map(Timestamp::from_millis),
    })
}

/// The state of an updated message, in the row of the message.
#[derive(Serialize, Deserialize)]
pub(super) struct MessageStateRecord {
    revision: Sequence,
    edited: Option<(Millis, u32)>,
    reactions: Vec<(Reaction, u32)>,
}

impl From<&MessageState> for MessageStateRecord {
    fn from(state: &MessageState) -> Self {
        let MessageState { revision, edited, reactions } = state;
        Self {
            revision: *revision,
            edited: edited.map(|edited| (edited.at.as_millis(), edited.count)),
            reactions: reactions.iter().map(|known| (known.reaction.clone(), known.count)).collect(),
        }
    }
}

impl From<MessageStateRecord> for MessageState {
    fn from(record: MessageStateRecord) -> Self {
        let MessageStateRecord { revision, edited, reactions } = record;
        Self {
            revision,
            edited: edited.map(|(at, count)| Edited { at: Timestamp::from_millis(at), count }),
            reactions: reactions.into_iter().map(|(reaction, count)| ReactionCount { reaction, count }).collect(),
        }
    }
}

/// The reactions of a user on a message.
impl Stored for Vec<Reaction> {
    fn encode(&self) -> Vec<u8> {
        to_bytes(self)
    }

    fn decode(bytes: &[u8]) -> Result<Self, BoxError> {
        from_bytes(bytes)
    }
}
