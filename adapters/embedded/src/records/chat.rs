use std::borrow::Cow;

use domain::{Chat, ChatId, ChatName, ChatType, DeliveryState, Member, Role, Sequence, Timestamp, UserId, Watermarks};
use ports::BoxError;
use serde::{Deserialize, Serialize};

use super::{Millis, Seconds, Stored, from_bytes, row_enum, to_bytes, ttl_from_row, ttl_to_row};

row_enum!(ChatTypeRow for ChatType { Direct, Group });
row_enum!(RoleRow for Role { Member, Admin, Owner });

#[derive(Serialize, Deserialize)]
struct ChatRecord<'a> {
    chat_id: ChatId,
    chat_type: ChatTypeRow,
    name: Option<Cow<'a, str>>,
    created_by: UserId,
    created_at: Millis,
    updated_at: Millis,
    member_count: u32,
    message_ttl: Option<Seconds>,
}

impl Stored for Chat {
    fn encode(&self) -> Vec<u8> {
        to_bytes(&ChatRecord {
            chat_id: self.chat_id,
            chat_type: self.chat_type.into(),
            name: self.name.as_ref().map(|name| Cow::Borrowed(name.as_str())),
            created_by: self.created_by,
            created_at: self.created_at.as_millis(),
            updated_at: self.updated_at.as_millis(),
            member_count: self.member_count,
            message_ttl: ttl_to_row(self.message_ttl),
        })
    }

    fn decode(bytes: &[u8]) -> Result<Self, BoxError> {
        let row: ChatRecord<'static> = from_bytes(bytes)?;
        Ok(Self {
            chat_id: row.chat_id,
            chat_type: row.chat_type.into(),
            name: row.name.map(|name| ChatName::from_stored(name.into_owned())).transpose()?,
            created_by: row.created_by,
            created_at: Timestamp::from_millis(row.created_at),
            updated_at: Timestamp::from_millis(row.updated_at),
            member_count: row.member_count,
            message_ttl: ttl_from_row(row.message_ttl)?,
        })
    }
}

#[derive(Serialize, Deserialize)]
struct MemberRecord {
    user_id: UserId,
    role: RoleRow,
    joined_at: Millis,
    muted_until: Option<Millis>,
}

impl Stored for Member {
    fn encode(&self) -> Vec<u8> {
        to_bytes(&MemberRecord {
            user_id: self.user_id,
            role: self.role.into(),
            joined_at: self.joined_at.as_millis(),
            muted_until: self.muted_until.map(Timestamp::as_millis),
        })
    }

    fn decode(bytes: &[u8]) -> Result<Self, BoxError> {
        let row: MemberRecord = from_bytes(bytes)?;
        Ok(Self {
            user_id: row.user_id,
            role: row.role.into(),
            joined_at: Timestamp::from_millis(row.joined_at),
            muted_until: row.muted_until.map(Timestamp::from_millis),
        })
    }
}

/// When each watermark moved: at the end of a row, since a later version, if one of them has moved.
type MovedAt = (Option<Millis>, Option<Millis>);

impl Stored for DeliveryState {
    fn encode(&self) -> Vec<u8> {
        let mut row = to_bytes(&(self.watermarks.delivered.0, self.watermarks.read.0));
        let moved_at: MovedAt = (self.delivered_at.map(Timestamp::as_millis), self.read_at.map(Timestamp::as_millis));
        if moved_at != (None, None) {
            row.extend(to_bytes(&moved_at));
        }
        row
    }

    fn decode(bytes: &[u8]) -> Result<Self, BoxError> {
        let ((delivered, read), rest): ((u64, u64), _) = postcard::take_from_bytes(bytes)?;
        let (delivered_at, read_at): MovedAt = match rest {
            [] => (None, None),
            rest => match from_bytes(rest)? {
                (None, None) => return Err("its times are empty".into()),
                moved_at => moved_at,
            },
        };
        Ok(Self {
            watermarks: Watermarks { delivered: Sequence(delivered), read: Sequence(read) },
            delivered_at: delivered_at.map(Timestamp::from_millis),
            read_at: read_at.map(Timestamp::from_millis),
        })
    }
}
