use std::fmt;

use crate::limits::CREDENTIAL_ID_BYTES_MAX;
use crate::{DisplayName, PasskeyId, Timestamp, UserId};

/// A passkey: the public half of a WebAuthn credential with which its user signs in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Passkey {
    pub passkey_id: PasskeyId,
    pub user_id: UserId,
    pub credential_id: CredentialId,
    /// The public key as a COSE key (RFC 9052), at most `PASSKEY_KEY_BYTES_MAX` bytes.
    pub public_key: Vec<u8>,
    /// The counter of the last use; 0 if the authenticator has none.
    pub sign_count: u32,
    /// Whether the authenticator may copy the private key to other devices. It never changes.
    pub is_backup_eligible: bool,
    /// Whether the private key was copied, as of the last use.
    pub is_backed_up: bool,
    /// The name that the user gave it.
    pub name: DisplayName,
    pub created_at: Timestamp,
    /// Absent until the first sign-in.
    pub last_used_at: Option<Timestamp>,
}

/// A verified signature of a passkey.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PasskeyUse {
    /// The authenticator's counter.
    pub sign_count: u32,
    pub is_backed_up: bool,
    pub at: Timestamp,
}

impl Passkey {
    /// The passkey after a use; `None` if its counter has not grown, although one of the two is not 0. Then two copies of
    /// the private key exist, or the use is a replay (WebAuthn Level 3, 6.1.1).
    pub fn after(&self, used: PasskeyUse) -> Option<Self> {
        let has_counter = self.sign_count > 0 || used.sign_count > 0;
        if has_counter && used.sign_count <= self.sign_count {
            return None;
        }
        Some(Self {
            sign_count: used.sign_count,
            is_backed_up: used.is_backed_up,
            last_used_at: Some(used.at),
            ..self.clone()
        })
    }
}

/// The id of a WebAuthn credential, which its authenticator has chosen: 1 to 1023 bytes.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CredentialId(Vec<u8>);

/// Why bytes are not a credential id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("credential id has {bytes} bytes, allowed are 1 to {CREDENTIAL_ID_BYTES_MAX}")]
pub struct CredentialIdError {
    bytes: usize,
}

impl CredentialId {
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl TryFrom<Vec<u8>> for CredentialId {
    type Error = CredentialIdError;

    fn try_from(bytes: Vec<u8>) -> Result<Self, CredentialIdError> {
        if (1..=CREDENTIAL_ID_BYTES_MAX).contains(&bytes.len()) {
            Ok(Self(bytes))
        } else {
            Err(CredentialIdError { bytes: bytes.len() })
        }
    }
}

/// Only the beginning, because it is long.
impl fmt::Debug for CredentialId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().take(4).try_for_each(|byte| write!(f, "{byte:02x}"))?;
        write!(f, "… ({} bytes)", self.0.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passkey(sign_count: u32) -> Passkey {
        Passkey {
            passkey_id: PasskeyId::from_bytes([1; 16]),
            user_id: UserId::from_bytes([2; 16]),
            credential_id: vec![3; 16].try_into().unwrap(),
            public_key: vec![4; 77],
            sign_count,
            is_backup_eligible: true,
            is_backed_up: false,
            name: "Phone".to_owned().try_into().unwrap(),
            created_at: Timestamp::from_millis(1),
            last_used_at: None,
        }
    }

    #[test]
    fn a_counter_has_to_grow_unless_both_are_zero() {
        let at = Timestamp::from_millis(7);
        let after = |stored, sign_count| passkey(stored).after(PasskeyUse { sign_count, is_backed_up: true, at });
        for (stored, sign_count, is_accepted) in
            [(0, 0, true), (0, 1, true), (5, 6, true), (5, 5, false), (5, 4, false), (5, 0, false)]
        {
            assert_eq!(after(stored, sign_count).is_some(), is_accepted, "{stored} then {sign_count}");
        }
        let expected = Passkey { is_backed_up: true, last_used_at: Some(at), ..passkey(9) };
        assert_eq!(after(8, 9), Some(expected));
    }

    #[test]
    fn a_credential_id_is_bounded() {
        for (len, fits) in [(0, false), (1, true), (1023, true), (1024, false)] {
            assert_eq!(CredentialId::try_from(vec![0; len]).is_ok(), fits, "{len}");
        }
    }
}
