use std::borrow::Cow;

use domain::limits::PASSKEY_KEY_BYTES_MAX;
use domain::{CredentialId, DisplayName, Passkey, PasskeyId, Timestamp, UserId};
use ports::BoxError;
use serde::{Deserialize, Serialize};

use super::{Millis, Stored, from_bytes, to_bytes};

#[derive(Serialize, Deserialize)]
struct PasskeyRow<'a> {
    passkey_id: PasskeyId,
    user_id: UserId,
    credential_id: Cow<'a, [u8]>,
    public_key: Cow<'a, [u8]>,
    sign_count: u32,
    is_backup_eligible: bool,
    is_backed_up: bool,
    name: Cow<'a, str>,
    created_at: Millis,
    last_used_at: Option<Millis>,
}

impl Stored for Passkey {
    fn encode(&self) -> Vec<u8> {
        to_bytes(&PasskeyRow {
            passkey_id: self.passkey_id,
            user_id: self.user_id,
            credential_id: Cow::Borrowed(self.credential_id.as_bytes()),
            public_key: Cow::Borrowed(&self.public_key),
            sign_count: self.sign_count,
            is_backup_eligible: self.is_backup_eligible,
            is_backed_up: self.is_backed_up,
            name: Cow::Borrowed(self.name.as_str()),
            created_at: self.created_at.as_millis(),
            last_used_at: self.last_used_at.map(Timestamp::as_millis),
        })
    }

    fn decode(bytes: &[u8]) -> Result<Self, BoxError> {
        let row: PasskeyRow<'_> = from_bytes(bytes)?;
        if row.public_key.len() > PASSKEY_KEY_BYTES_MAX {
            return Err(format!("a public key of {} bytes", row.public_key.len()).into());
        }
        Ok(Self {
            passkey_id: row.passkey_id,
            user_id: row.user_id,
            credential_id: row.credential_id.into_owned().try_into()?,
            public_key: row.public_key.into_owned(),
            sign_count: row.sign_count,
            is_backup_eligible: row.is_backup_eligible,
            is_backed_up: row.is_backed_up,
            name: DisplayName::from_stored(row.name.into_owned())?,
            created_at: Timestamp::from_millis(row.created_at),
            last_used_at: row.last_used_at.map(Timestamp::from_millis),
        })
    }
}

impl Stored for CredentialId {
    fn encode(&self) -> Vec<u8> {
        self.as_bytes().to_vec()
    }

    fn decode(bytes: &[u8]) -> Result<Self, BoxError> {
        Ok(bytes.to_vec().try_into()?)
    }
}
