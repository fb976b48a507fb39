use std::borrow::Cow;

use domain::{
    CodeDigest, DeviceId, DisplayName, ExternalId, GroupInvites, OneTimeCode, PendingCode, PhoneNumber,
    PresenceVisibility, Session, SessionId, SpentToken, Timestamp, TokenChain, TokenDigest, User, UserId,
};
use ports::{BoxError, MessageDisposition, PendingDeletion, StoredResponse};
use serde::{Deserialize, Serialize};
use ulid::Ulid;

use super::{IdBytes, Millis, Stored, from_bytes, row_enum, to_bytes};

row_enum!(VisibilityRow for PresenceVisibility { Everyone, ContactsOnly, Nobody });
row_enum!(GroupInvitesRow for GroupInvites { Everyone, Contacts, Nobody });

/// Placeholder for an absent time that another field follows.
const NEVER: Millis = 0;

#[derive(Serialize, Deserialize)]
struct UserRecord<'a> {
    user_id: UserId,
    phone_number: Option<Cow<'a, str>>,
    display_name: Cow<'a, str>,
    presence_visibility: VisibilityRow,
    created_at: Millis,
    updated_at: Millis,
}

impl Stored for User {
    fn encode(&self) -> Vec<u8> {
        let row = UserRecord {
            user_id: self.user_id,
            phone_number: self.phone_number.as_ref().map(|number| Cow::Borrowed(number.as_str())),
            display_name: Cow::Borrowed(self.display_name.as_str()),
            presence_visibility: self.presence_visibility.into(),
            created_at: self.created_at.as_millis(),
            updated_at: self.updated_at.as_millis(),
        };
        let [last_seen_at, deleted_at] = [self.last_seen_at, self.deleted_at].map(|at| at.map(Timestamp::as_millis));
        let seen = last_seen_at.unwrap_or(NEVER);
        let deleted = deleted_at.unwrap_or(NEVER);
        let group_invites = GroupInvitesRow::from(self.group_invites);
        match (last_seen_at, deleted_at, self.group_invites, &self.external_id) {
            (_, _, _, Some(external_id)) => to_bytes(&(row, seen, deleted, group_invites, external_id.as_str())),
            (None, None, GroupInvites::Everyone, None) => to_bytes(&row),
            (Some(at), None, GroupInvites::Everyone, None) => to_bytes(&(row, at)),
            (_, Some(deleted_at), GroupInvites::Everyone, None) => to_bytes(&(row, seen, deleted_at)),
            (_, _, GroupInvites::Contacts | GroupInvites::Nobody, None) => {
                to_bytes(&(row, seen, deleted, group_invites))
            }
        }
    }

    fn decode(bytes: &[u8]) -> Result<Self, BoxError> {
        // Absent fields at the end have their default values; rows of earlier versions are shorter. The fields are the
        // last-seen time, the time of deletion, the setting of group invitations, and the external id.
        let (row, rest): (UserRecord<'static>, _) = postcard::take_from_bytes(bytes)?;
        let (last_seen_at, rest) = take::<Millis>(rest)?;
        let (deleted_at, rest) = take::<Millis>(rest)?;
        let (group_invites, rest) = take::<GroupInvitesRow>(rest)?;
        let (external_id, rest) = take::<String>(rest)?;
        if !rest.is_empty() {
            return Err(format!("{} trailing bytes", rest.len()).into());
        }
        // The last field of a row is not a placeholder.
        let is_last = [deleted_at.is_none(), group_invites.is_none()];
        if [last_seen_at, deleted_at].into_iter().zip(is_last).any(|(at, is_last)| is_last && at == Some(NEVER)) {
            return Err("a timestamp of 0".into());
        }
        let group_invites = group_invites.map(GroupInvites::from);
        if group_invites == Some(GroupInvites::Everyone) && external_id.is_none() {
            return Err("the default of group invitations is stored".into());
        }
        let [last_seen_at, deleted_at] = [last_seen_at, deleted_at].map(|at| at.filter(|at| *at != NEVER));
        Ok(Self {
            user_id: row.user_id,
            phone_number: row.phone_number.map(|number| number.parse::<PhoneNumber>()).transpose()?,
            external_id: external_id.map(ExternalId::try_from).transpose()?,
            display_name: DisplayName::from_stored(row.display_name.into_owned())?,
            presence_visibility: row.presence_visibility.into(),
            group_invites: group_invites.unwrap_or_default(),
            created_at: Timestamp::from_millis(row.created_at),
            updated_at: Timestamp::from_millis(row.updated_at),
            last_seen_at: last_seen_at.map(Timestamp::from_millis),
            deleted_at: deleted_at.map(Timestamp::from_millis),
        })
    }
}

/// Decodes the next optional field of a row.
fn take<'a, T: Deserialize<'a>>(rest: &'a [u8]) -> Result<(Option<T>, &'a [u8]), BoxError> {
    if rest.is_empty() {
        return Ok((None, rest));
    }
    let (field, rest) = postcard::take_from_bytes(rest)?;
    Ok((Some(field), rest))
}

#[derive(Serialize, Deserialize)]
struct SessionRecord {
    session_id: SessionId,
    user_id: UserId,
    device_id: DeviceId,
    created_at: Millis,
    last_active_at: Millis,
    expires_at: Millis,
    current: TokenDigest,
    spent: Option<SpentTokenRow>,
}

#[derive(Serialize, Deserialize)]
struct SpentTokenRow {
    digest: TokenDigest,
    spent_at: Millis,
    forgiven: bool,
}

#[derive(Serialize, Deserialize)]
struct TokenChainRow {
    current: TokenDigest,
    spent: Option<SpentTokenRow>,
}

impl From<&SpentToken> for SpentTokenRow {
    fn from(spent: &SpentToken) -> Self {
        Self { digest: spent.digest, spent_at: spent.spent_at.as_millis(), forgiven: spent.forgiven }
    }
}

impl From<SpentTokenRow> for SpentToken {
    fn from(row: SpentTokenRow) -> Self {
        Self { digest: row.digest, spent_at: Timestamp::from_millis(row.spent_at), forgiven: row.forgiven }
    }
}

impl From<&TokenChain> for TokenChainRow {
    fn from(chain: &TokenChain) -> Self {
        Self { current: chain.current, spent: chain.spent.as_ref().map(SpentTokenRow::from) }
    }
}

impl From<TokenChainRow> for TokenChain {
    fn from(row: TokenChainRow) -> Self {
        Self { current: row.current, spent: row.spent.map(SpentToken::from) }
    }
}

impl Stored for Session {
    fn encode(&self) -> Vec<u8> {
        let row = SessionRecord {
            session_id: self.session_id,
            user_id: self.user_id,
            device_id: self.device_id,
            created_at: self.created_at.as_millis(),
            last_active_at: self.last_active_at.as_millis(),
            expires_at: self.expires_at.as_millis(),
            current: self.current,
            spent: self.spent.as_ref().map(SpentTokenRow::from),
        };
        let overtaken: Vec<_> = self.overtaken.iter().map(TokenChainRow::from).collect();
        if overtaken.is_empty() { to_bytes(&row) } else { to_bytes(&(row, overtaken)) }
    }

    fn decode(bytes: &[u8]) -> Result<Self, BoxError> {
        // Most sessions have no overtaken tokens, and those of earlier versions none.
        let (row, rest): (SessionRecord, _) = postcard::take_from_bytes(bytes)?;
        let overtaken: Vec<TokenChainRow> = if rest.is_empty() { vec![] } else { from_bytes(rest)? };
        if overtaken.is_empty() && !rest.is_empty() {
            return Err("an empty list of overtaken tokens is stored".into());
        }
        Ok(Self {
            session_id: row.session_id,
            user_id: row.user_id,
            device_id: row.device_id,
            created_at: Timestamp::from_millis(row.created_at),
            last_active_at: Timestamp::from_millis(row.last_active_at),
            expires_at: Timestamp::from_millis(row.expires_at),
            current: row.current,
            spent: row.spent.map(SpentToken::from),
            overtaken: overtaken.into_iter().map(TokenChain::from).collect(),
        })
    }
}

#[derive(Serialize, Deserialize)]
struct CodeRow {
    pending: Option<PendingCodeRow>,
    locked_until: Option<Millis>,
}

#[derive(Serialize, Deserialize)]
struct PendingCodeRow {
    digest: CodeDigest,
    expires_at: Millis,
    tries_left: u32,
}

impl Stored for OneTimeCode {
    fn encode(&self) -> Vec<u8> {
        to_bytes(&CodeRow {
            pending: self.pending.as_ref().map(|pending| PendingCodeRow {
                digest: pending.digest,
                expires_at: pending.expires_at.as_millis(),
                tries_left: pending.tries_left,
            }),
            locked_until: self.locked_until.map(Timestamp::as_millis),
        })
    }

    fn decode(bytes: &[u8]) -> Result<Self, BoxError> {
        let row: CodeRow = from_bytes(bytes)?;
        Ok(Self {
            pending: row.pending.map(|pending| PendingCode {
                digest: pending.digest,
                expires_at: Timestamp::from_millis(pending.expires_at),
                tries_left: pending.tries_left,
            }),
            locked_until: row.locked_until.map(Timestamp::from_millis),
        })
    }
}

/// A started REST request, with its answer once there is one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct IdempotentRequest {
    pub(crate) fingerprint: [u8; 32],
    pub(crate) reserved: Ulid,
    pub(crate) begun_at: Timestamp,
    pub(crate) response: Option<StoredResponse>,
}

#[derive(Serialize, Deserialize)]
struct RequestRow<'a> {
    fingerprint: [u8; 32],
    reserved: IdBytes,
    begun_at: Millis,
    response: Option<(u16, Cow<'a, [u8]>)>,
}

impl Stored for IdempotentRequest {
    fn encode(&self) -> Vec<u8> {
        to_bytes(&RequestRow {
            fingerprint: self.fingerprint,
            reserved: self.reserved.to_bytes(),
            begun_at: self.begun_at.as_millis(),
            response: self.response.as_ref().map(|response| (response.status, Cow::Borrowed(&response.body[..]))),
        })
    }

    fn decode(bytes: &[u8]) -> Result<Self, BoxError> {
        let row: RequestRow<'static> = from_bytes(bytes)?;
        Ok(Self {
            fingerprint: row.fingerprint,
            reserved: Ulid::from_bytes(row.reserved),
            begun_at: Timestamp::from_millis(row.begun_at),
            response: row.response.map(|(status, body)| StoredResponse { status, body: body.into_owned() }),
        })
    }
}

row_enum!(OwnMessagesRow for MessageDisposition { Keep, Erase });

#[derive(Serialize, Deserialize)]
struct DeletionRow {
    user_id: UserId,
    messages: OwnMessagesRow,
    begun_at: Millis,
}

impl Stored for PendingDeletion {
    fn encode(&self) -> Vec<u8> {
        to_bytes(&DeletionRow {
            user_id: self.user_id,
            messages: self.messages.into(),
            begun_at: self.begun_at.as_millis(),
        })
    }

    fn decode(bytes: &[u8]) -> Result<Self, BoxError> {
        let row: DeletionRow = from_bytes(bytes)?;
        Ok(Self { user_id: row.user_id, messages: row.messages.into(), begun_at: Timestamp::from_millis(row.begun_at) })
    }
}
