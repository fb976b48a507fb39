use domain::Timestamp;
use keyfile::{Keys, base64url};
use serde::{Deserialize, Serialize};

/// The content of the file `keys.json`.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct KeyRecords {
    /// The secret of the HMACs of one-time codes.
    #[serde(with = "base64url")]
    pub(crate) code_secret: Vec<u8>,
    /// The keys of access tokens, oldest first; the last one signs.
    pub(crate) token_keys: Vec<TokenKeyRecord>,
}

#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct TokenKeyRecord {
    pub(crate) created_at: Timestamp,
    /// An Ed25519 key pair.
    #[serde(with = "base64url")]
    pub(crate) pkcs8: Vec<u8>,
}

impl Keys for KeyRecords {
    const FILE: &'static str = "keys.json";
    const VERSION: u32 = 1;
    const LOSS: &'static str = "access tokens are then refreshed, pending one-time codes are invalid";
}
