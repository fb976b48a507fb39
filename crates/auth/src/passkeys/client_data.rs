use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use serde::Deserialize;

use super::refusal::PasskeyRefusal;
use super::relying_party::RelyingParty;

/// Maximum bytes of `clientDataJSON`. Browsers send about 200; the specification allows further members.
pub(super) const CLIENT_DATA_BYTES_MAX: usize = 4096;

/// The procedure that a client was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ceremony {
    Registration,
    Authentication,
}

impl Ceremony {
    fn type_name(self) -> &'static str {
        match self {
            Self::Registration => "webauthn.create",
            Self::Authentication => "webauthn.get",
        }
    }
}

/// The checked `clientDataJSON` of a response, with the challenge still to check.
#[derive(Debug)]
pub(super) struct ClientData {
    pub(super) challenge: Vec<u8>,
    /// SHA-256 of the bytes; signed by the authenticator.
    pub(super) hash: [u8; 32],
}

/// The members of `CollectedClientData` (WebAuthn Level 3, 5.8.1). Further members are allowed there.
#[derive(Deserialize)]
struct CollectedClientData {
    r#type: String,
    challenge: String,
    origin: String,
    #[serde(rename = "crossOrigin", default)]
    cross_origin: bool,
    #[serde(rename = "topOrigin")]
    top_origin: Option<String>,
}

impl ClientData {
    /// Checks type and origin: WebAuthn Level 3, 7.1 steps 5 to 10 and 7.2 steps 9 to 14, without the challenge.
    pub(super) fn parse(bytes: &[u8], ceremony: Ceremony, party: &RelyingParty) -> Result<Self, PasskeyRefusal> {
        if bytes.len() > CLIENT_DATA_BYTES_MAX {
            return Err(PasskeyRefusal::Malformed);
        }
        let data: CollectedClientData = serde_json::from_slice(bytes).map_err(|_| PasskeyRefusal::Malformed)?;
        if data.r#type != ceremony.type_name() {
            return Err(PasskeyRefusal::Type);
        }
        if !party.allows_origin(&data.origin) {
            return Err(PasskeyRefusal::Origin);
        }
        if data.cross_origin || data.top_origin.is_some() {
            return Err(PasskeyRefusal::CrossOrigin);
        }
        let challenge = BASE64_URL_SAFE_NO_PAD.decode(&data.challenge).map_err(|_| PasskeyRefusal::Malformed)?;
        let hash = digest(&SHA256, bytes).as_ref().try_into().expect("SHA-256 has 32 bytes");
        Ok(Self { challenge, hash })
    }
}
