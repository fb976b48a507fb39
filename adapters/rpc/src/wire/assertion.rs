use domain::{DeviceId, SessionId, Timestamp, UserId};
use ports::{Assertion, IdentityError};

use super::identity::{read_identity_error, to_identity_error};
use super::{Malformed, read_id, read_optional_id};
use crate::assertion::Claims;
use crate::proto;

pub(crate) fn to_assertion(assertion: &Assertion) -> proto::Assertion {
    proto::Assertion {
        proof: assertion.proof.to_vec(),
        renew_at_ms: assertion.renew_at.as_millis(),
        expires_at_ms: assertion.expires_at.as_millis(),
    }
}

pub(crate) fn read_assertion(assertion: proto::Assertion) -> Assertion {
    Assertion {
        proof: assertion.proof.into(),
        renew_at: Timestamp::from_millis(assertion.renew_at_ms),
        expires_at: Timestamp::from_millis(assertion.expires_at_ms),
    }
}

/// An assertion of which only the proof is known.
pub(crate) fn read_renewal(request: proto::RenewRequest) -> Assertion {
    Assertion { proof: request.proof.into(), renew_at: Timestamp::MAX, expires_at: Timestamp::MAX }
}

pub(crate) fn to_renew_reply(outcome: Result<Assertion, IdentityError>) -> proto::RenewReply {
    use proto::renew_reply::Kind;
    let kind = match outcome {
        Ok(assertion) => Kind::Assertion(to_assertion(&assertion)),
        Err(error) => Kind::Error(to_identity_error(error)),
    };
    proto::RenewReply { kind: Some(kind) }
}

pub(crate) fn read_renew_reply(reply: proto::RenewReply) -> Result<Result<Assertion, IdentityError>, Malformed> {
    use proto::renew_reply::Kind;
    match reply.kind {
        Some(Kind::Assertion(assertion)) => Ok(Ok(read_assertion(assertion))),
        Some(Kind::Error(error)) => Ok(Err(read_identity_error(error)?)),
        None => Err(Malformed::Missing { field: "kind" }),
    }
}

pub(crate) fn to_claims(claims: &Claims) -> proto::Claims {
    proto::Claims {
        user_id: claims.user_id.to_bytes().into(),
        session_id: claims.session_id.map(|id| id.to_bytes().into()),
        device_id: claims.device_id.map(|id| id.to_bytes().into()),
        authenticated_at_ms: claims.authenticated_at.as_millis(),
        token_expires_at_ms: claims.token_expires_at.as_millis(),
        expires_at_ms: claims.expires_at.as_millis(),
    }
}

pub(crate) fn read_claims(claims: proto::Claims) -> Result<Claims, Malformed> {
    Ok(Claims {
        user_id: read_id("user_id", &claims.user_id, UserId::from_bytes)?,
        session_id: read_optional_id("session_id", claims.session_id, SessionId::from_bytes)?,
        device_id: read_optional_id("device_id", claims.device_id, DeviceId::from_bytes)?,
        authenticated_at: Timestamp::from_millis(claims.authenticated_at_ms),
        token_expires_at: Timestamp::from_millis(claims.token_expires_at_ms),
        expires_at: Timestamp::from_millis(claims.expires_at_ms),
    })
}
