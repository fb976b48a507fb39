use std::time::Duration;

use domain::{DeviceId, Session, SessionId, Timestamp, UserId};
use jsonwebtoken::errors::{Error, ErrorKind};
use jsonwebtoken::{Algorithm, Header, Validation, decode, encode};
use serde::{Deserialize, Serialize};

use crate::keys::TokenKey;
use crate::{AuthError, Secret};

const ISSUER: &str = "tidings";

/// What an access token of ours says.
#[derive(Serialize, Deserialize)]
pub(crate) struct Claims {
    iss: String,
    sub: UserId,
    pub(crate) sid: SessionId,
    did: DeviceId,
    iat: u64,
    exp: u64,
    jti: String,
}

impl Claims {
    pub(crate) fn new(session: &Session, now: Timestamp, ttl: Duration, jti: String) -> Self {
        Self {
            iss: ISSUER.to_owned(),
            sub: session.user_id,
            sid: session.session_id,
            did: session.device_id,
            iat: now.as_secs(),
            exp: (now + ttl).as_secs(),
            jti,
        }
    }

    pub(crate) fn expires_at(&self) -> Timestamp {
        Timestamp::from_millis(self.exp.saturating_mul(1000))
    }

    pub(crate) fn sign(&self, key: &TokenKey) -> Secret {
        let header = Header { kid: Some(key.kid.clone()), ..Header::new(Algorithm::EdDSA) };
        encode(&header, self, &key.signing).expect("an Ed25519 key that was loaded signs").into()
    }

    /// Reads a token that a key of ours is said to have signed. Our tokens meet our clock: there is no leeway.
    pub(crate) fn verify(token: &str, key: &TokenKey, now: Timestamp) -> Result<Self, AuthError> {
        let mut validation = Validation::new(Algorithm::EdDSA);
        // The library would ask the machine's clock; time is checked below, by ours.
        validation.validate_exp = false;
        validation.set_issuer(&[ISSUER]);
        let claims: Self = decode(token, &key.verifying, &validation).map_err(invalid)?.claims;
        if claims.expires_at() <= now { Err(AuthError::InvalidToken("it has expired")) } else { Ok(claims) }
    }
}

/// What a client is told about a JWT that does not verify.
pub(crate) fn invalid(error: Error) -> AuthError {
    AuthError::InvalidToken(match error.kind() {
        ErrorKind::InvalidSignature => "its signature is wrong",
        ErrorKind::InvalidAlgorithm => "its algorithm is not that of its key",
        ErrorKind::InvalidIssuer => "its issuer is another one",
        ErrorKind::InvalidAudience => "it is meant for another audience",
        ErrorKind::MissingRequiredClaim(_) => "it lacks a claim",
        _ => "it is malformed",
    })
}
