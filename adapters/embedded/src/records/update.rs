use domain::{
    ClientMessageId, Edited, MessageId, MessageState, MessageUpdate, Reaction, ReactionCount, Sequence, Timestamp,
    UpdateKind, UserId,
};
use ports::BoxError;
use serde::{Deserialize, Serialize};

use super::{MessageLocation, Millis, Stored, from_bytes, to_bytes};

/// The record of an update. Its chat and sequence are in its key.
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
    to_bytes(&UpdateRecord {
        update_id: update.update_id,
        user_id: update.user_id,
        client_message_id: update.client_message_id,
        target: update.target,
        kind: (&update.kind).into(),
        created_at: update.created_at.as_millis(),
        expires_at: update.expires_at.map(Timestamp::as_millis),
    })
}

/// Decodes the update at a location.
pub(crate) fn decode_update(location: MessageLocation, bytes: &[u8]) -> Result<MessageUpdate, BoxError> {
    let row: UpdateRecord = from_bytes(bytes)?;
    Ok(MessageUpdate {
        update_id: row.update_id,
        chat_id: location.chat_id,
        sequence: location.sequence,
        user_id: row.user_id,
        client_message_id: row.client_message_id,
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
