use domain::{DeviceId, SessionId, Timestamp, UserId};
use ports::{IdentityError, Principal, StoreError};

use super::{Malformed, read_id, read_ids, read_optional_id, read_store_error, to_store_error};
use crate::proto;

/// Sessions in one question, at the most: half of what a request may hold.
const SESSIONS_MAX: usize = 8192;

pub(crate) fn to_identity_reply(outcome: Result<Principal, IdentityError>) -> proto::IdentityReply {
    use proto::identity_error::Kind as ErrorKind;
    use proto::identity_reply::Kind;
    let kind = match outcome {
        Ok(principal) => Kind::Principal(proto::Principal {
            user_id: principal.user_id.to_bytes().into(),
            session_id: principal.session_id.map(|id| id.to_bytes().into()),
            device_id: principal.device_id.map(|id| id.to_bytes().into()),
            token_expires_at_ms: principal.token_expires_at.as_millis(),
        }),
        Err(error) => {
            let kind = match error {
                IdentityError::InvalidToken(reason) => ErrorKind::InvalidToken(reason.into_owned()),
                IdentityError::TokenRevoked => ErrorKind::TokenRevoked(proto::Nothing {}),
                IdentityError::Unavailable(error) => ErrorKind::Unavailable(to_store_error(&error)),
            };
            Kind::Error(proto::IdentityError { kind: Some(kind) })
        }
    };
    proto::IdentityReply { kind: Some(kind) }
}

pub(crate) fn read_identity(reply: proto::IdentityReply) -> Result<Result<Principal, IdentityError>, Malformed> {
    use proto::identity_error::Kind as ErrorKind;
    use proto::identity_reply::Kind;
    match reply.kind {
        Some(Kind::Principal(principal)) => Ok(Ok(Principal {
            user_id: read_id("user_id", &principal.user_id, UserId::from_bytes)?,
            session_id: read_optional_id("session_id", principal.session_id, SessionId::from_bytes)?,
            device_id: read_optional_id("device_id", principal.device_id, DeviceId::from_bytes)?,
            token_expires_at: Timestamp::from_millis(principal.token_expires_at_ms),
        })),
        Some(Kind::Error(error)) => Ok(Err(match error.kind {
            Some(ErrorKind::InvalidToken(reason)) => IdentityError::InvalidToken(reason.into()),
            Some(ErrorKind::TokenRevoked(_)) => IdentityError::TokenRevoked,
            Some(ErrorKind::Unavailable(error)) => IdentityError::Unavailable(read_store_error(error)),
            None => return Err(Malformed::Missing { field: "error.kind" }),
        })),
        None => Err(Malformed::Missing { field: "kind" }),
    }
}

pub(crate) fn read_device(bytes: &[u8]) -> Result<DeviceId, Malformed> {
    read_id("device_id", bytes, DeviceId::from_bytes)
}

/// Questions for these sessions, in order, each with how many it asks for.
pub(crate) fn live_chunks(session_ids: &[SessionId]) -> impl Iterator<Item = (usize, proto::LiveRequest)> {
    session_ids.chunks(SESSIONS_MAX).map(|chunk| {
        let session_ids = chunk.iter().flat_map(|id| id.to_bytes()).collect();
        (chunk.len(), proto::LiveRequest { session_ids })
    })
}

pub(crate) fn read_sessions(request: &proto::LiveRequest) -> Result<Vec<SessionId>, Malformed> {
    read_ids("session_ids", &request.session_ids, SessionId::from_bytes)
}

pub(crate) fn to_live_reply(outcome: Result<Vec<bool>, StoreError>) -> proto::LiveReply {
    use proto::live_reply::Kind;
    let kind = match outcome {
        Ok(live) => Kind::Live(proto::Live { live }),
        Err(error) => Kind::Error(to_store_error(&error)),
    };
    proto::LiveReply { kind: Some(kind) }
}

/// Reads what a question for `count` sessions was answered.
pub(crate) fn read_live(count: usize, reply: proto::LiveReply) -> Result<Result<Vec<bool>, StoreError>, Malformed> {
    use proto::live_reply::Kind;
    match reply.kind {
        Some(Kind::Live(proto::Live { live })) if live.len() == count => Ok(Ok(live)),
        Some(Kind::Live(proto::Live { live })) => {
            Err(Malformed::value("live", format!("{} answers were given for {count} sessions", live.len())))
        }
        Some(Kind::Error(error)) => Ok(Err(read_store_error(error))),
        None => Err(Malformed::Missing { field: "kind" }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_sessions_are_several_questions_in_order() {
        let sessions: Vec<_> = (0..20_000u128).map(|n| SessionId::from_bytes(n.to_be_bytes())).collect();
        let chunks: Vec<_> = live_chunks(&sessions).collect();
        assert_eq!(chunks.iter().map(|(count, _)| *count).collect::<Vec<_>>(), [8192, 8192, 3616]);
        let asked: Vec<_> = chunks.iter().flat_map(|(_, request)| read_sessions(request).unwrap()).collect();
        assert_eq!(asked, sessions);
    }

    #[test]
    fn an_answer_for_fewer_sessions_is_refused() {
        assert_eq!(read_live(2, to_live_reply(Ok(vec![true, false]))).unwrap().unwrap(), [true, false]);
        let error = read_live(2, to_live_reply(Ok(vec![true]))).unwrap_err();
        assert_eq!(error.to_string(), "`live` cannot be used: 1 answers were given for 2 sessions");
    }
}
