//! Bytes as base64url, for `#[serde(with = "keyfile::base64url")]`.

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use serde::{Deserialize, Deserializer, Serializer, de};

pub fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&BASE64_URL_SAFE_NO_PAD.encode(bytes))
}

pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
    // The decoder's error names the offending bytes, which are secret.
    let text = String::deserialize(deserializer)?;
    BASE64_URL_SAFE_NO_PAD.decode(text).map_err(|_| de::Error::custom("a value is not base64url"))
}
