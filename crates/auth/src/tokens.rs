use std::time::Duration;

use domain::{DeviceId, Secret, Session, SessionId, Timestamp, UserId};
use jsonwebtoken::errors::{Error, ErrorKind};
use jsonwebtoken::{Algorithm, Header, Validation, decode, encode};
use serde::{Deserialize, Serialize};

use crate::AuthError;
use crate::keys::TokenKey;

const ISSUER: &str = "tidings";

/// The claims of an access token of this server.
#[derive(Serialize, Deserialize)]
pub(crate) struct AccessClaims {
    iss: String,
    pub(crate) sub: UserId,
    pub(crate) sid: SessionId,
    did: DeviceId,
    iat: u64,
    exp: u64,
    pub(crate) jti: String,
}

impl AccessClaims {
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

    /// Verifies a token that names a key of this server. Issuer and verifier share a clock, so there is no leeway.
    pub(crate) fn verify(token: &str, key: &TokenKey, now: Timestamp) -> Result<Self, AuthError> {
        let mut validation = Validation::new(Algorithm::EdDSA);
        // The library would use the system clock; the code below checks the expiry against the injected clock.
        validation.validate_exp = false;
        validation.set_issuer(&[ISSUER]);
        let claims: Self = decode(token, &key.verifying, &validation).map_err(invalid)?.claims;
        if claims.expires_at() <= now { Err(AuthError::InvalidToken("it has expired")) } else { Ok(claims) }
    }
}

/// The reason for the client why a JWT is invalid.
pub(crate) fn invalid(error: Error) -> AuthError {
    AuthError::InvalidToken(match error.kind() {
        ErrorKind::InvalidSignature => "its signature is wrong",
        ErrorKind::InvalidAlgorithm => "its algorithm does not match its key",
        ErrorKind::InvalidIssuer => "it has the wrong issuer",
        ErrorKind::InvalidAudience => "it has the wrong audience",
        ErrorKind::MissingRequiredClaim(_) => "it lacks a claim",
        _ => "it is malformed",
    })
}
