use domain::{ChatId, Invitation, Timestamp, UserId};
use ports::BoxError;
use serde::{Deserialize, Serialize};

use super::{Millis, Stored, from_bytes, to_bytes};

#[derive(Serialize, Deserialize)]
struct InvitationRow {
    chat_id: ChatId,
    user_id: UserId,
    invited_by: UserId,
    created_at: Millis,
    declined_at: Option<Millis>,
}

impl Stored for Invitation {
    fn encode(&self) -> Vec<u8> {
        to_bytes(&InvitationRow {
            chat_id: self.chat_id,
            user_id: self.user_id,
            invited_by: self.invited_by,
            created_at: self.created_at.as_millis(),
            declined_at: self.declined_at.map(Timestamp::as_millis),
        })
    }

    fn decode(bytes: &[u8]) -> Result<Self, BoxError> {
        let row: InvitationRow = from_bytes(bytes)?;
        Ok(Self {
            chat_id: row.chat_id,
            user_id: row.user_id,
            invited_by: row.invited_by,
            created_at: Timestamp::from_millis(row.created_at),
            declined_at: row.declined_at.map(Timestamp::from_millis),
        })
    }
}
