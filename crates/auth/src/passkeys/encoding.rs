use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use domain::CredentialId;

use super::refusal::PasskeyRefusal;

/// Maximum characters of a part of a response: more than those of the longest part, an attestation object.
const PART_CHARS_MAX: usize = 6 * 1024;

/// Decodes a part of a response: base64url without padding, as the JSON forms of WebAuthn have it.
pub(super) fn decode(text: &str) -> Result<Vec<u8>, PasskeyRefusal> {
    if text.len() > PART_CHARS_MAX {
        return Err(PasskeyRefusal::Malformed);
    }
    BASE64_URL_SAFE_NO_PAD.decode(text).map_err(|_| PasskeyRefusal::Malformed)
}

/// The credential id of a response, which it states twice.
pub(super) fn credential_id(id: &str, raw_id: &str) -> Result<CredentialId, PasskeyRefusal> {
    if id != raw_id {
        return Err(PasskeyRefusal::CredentialId);
    }
    decode(id)?.try_into().map_err(|_| PasskeyRefusal::CredentialId)
}
