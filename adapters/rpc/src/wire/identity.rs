use domain::{DeviceId, SessionId, Timestamp, UserId};
use ports::{ConnectionHolder, IdentityError, Principal, StoreError};

use super::assertion::{read_assertion, to_assertion};
use super::{Malformed, read_id, read_ids, read_optional_id, read_store_error, to_store_error};
use crate::proto;

/// Limit of connections per request: about half of the request size limit.
const HOLDERS_MAX: usize = 2048;

pub(crate) fn to_identity_reply(outcome: Result<Principal, IdentityError>) -> proto::IdentityReply {
    use proto::identity_reply::Kind;
    let kind = match outcome {
        Ok(principal) => Kind::Principal(proto::Principal {
            user_id: principal.user_id.to_bytes().into(),
            session_id: principal.session_id.map(|id| id.to_bytes().into()),
            device_id: principal.device_id.map(|id| id.to_bytes().into()),
            token_expires_at_ms: principal.token_expires_at.as_millis(),
            assertion: principal.assertion.as_ref().map(to_assertion),
        }),
        Err(error) => Kind::Error(to_identity_error(error)),
    };
    proto::IdentityReply { kind: Some(kind) }
}

pub(crate) fn read_identity(reply: proto::IdentityReply) -> Result<Result<Principal, IdentityError>, Malformed> {
    use proto::identity_reply::Kind;
    match reply.kind {
        Some(Kind::Principal(principal)) => Ok(Ok(Principal {
            user_id: read_id("user_id", &principal.user_id, UserId::from_bytes)?,
            session_id: read_optional_id("session_id", principal.session_id, SessionId::from_bytes)?,
            device_id: read_optional_id("device_id", principal.device_id, DeviceId::from_bytes)?,
            token_expires_at: Timestamp::from_millis(principal.token_expires_at_ms),
            assertion: principal.assertion.map(read_assertion),
        })),
        Some(Kind::Error(error)) => Ok(Err(read_identity_error(error)?)),
        None => Err(Malformed::Missing { field: "kind" }),
    }
}

pub(super) fn to_identity_error(error: IdentityError) -> proto::IdentityError {
    use proto::identity_error::Kind;
    let kind = match error {
        IdentityError::InvalidToken(reason) => Kind::InvalidToken(reason.into_owned()),
        IdentityError::TokenRevoked => Kind::TokenRevoked(proto::Nothing {}),
        IdentityError::Suspended => Kind::Suspended(proto::Nothing {}),
        IdentityError::Unavailable(error) => Kind::Unavailable(to_store_error(&error)),
    };
    proto::IdentityError { kind: Some(kind) }
}

pub(super) fn read_identity_error(error: proto::IdentityError) -> Result<IdentityError, Malformed> {
    use proto::identity_error::Kind;
    Ok(match error.kind {
        Some(Kind::InvalidToken(reason)) => IdentityError::InvalidToken(reason.into()),
        Some(Kind::TokenRevoked(_)) => IdentityError::TokenRevoked,
        Some(Kind::Suspended(_)) => IdentityError::Suspended,
        Some(Kind::Unavailable(error)) => IdentityError::Unavailable(read_store_error(error)),
        None => return Err(Malformed::Missing { field: "error.kind" }),
    })
}

pub(crate) fn read_device(bytes: &[u8]) -> Result<DeviceId, Malformed> {
    read_id("device_id", bytes, DeviceId::from_bytes)
}

/// Splits connections into requests, in order, each with its connections.
pub(crate) fn live_chunks(
    holders: &[ConnectionHolder],
) -> impl Iterator<Item = (&[ConnectionHolder], proto::LiveRequest)> {
    holders.chunks(HOLDERS_MAX).map(|chunk| {
        let session_ids = chunk.iter().filter_map(|holder| holder.session_id).flat_map(SessionId::to_bytes).collect();
        let holders = chunk.iter().map(|holder| proto::ConnectionHolder {
            user_id: holder.user_id.to_bytes().into(),
            session_id: holder.session_id.map(|id| id.to_bytes().into()).unwrap_or_default(),
            connected_at_ms: holder.connected_at.as_millis(),
        });
        (chunk, proto::LiveRequest { session_ids, holders: holders.collect() })
    })
}

/// Reads the connections of a request. For a gateway of an earlier release only the sessions are known.
pub(crate) fn read_holders(request: &proto::LiveRequest) -> Result<Vec<ConnectionHolder>, Malformed> {
    if request.holders.is_empty() {
        let session_ids = read_ids("session_ids", &request.session_ids, SessionId::from_bytes)?;
        let holder = |session_id| ConnectionHolder {
            user_id: UserId::from_bytes([0; 16]),
            session_id: Some(session_id),
            connected_at: Timestamp::MAX,
        };
        return Ok(session_ids.into_iter().map(holder).collect());
    }
    if request.holders.len() > HOLDERS_MAX {
        let count = request.holders.len();
        return Err(Malformed::value("holders", format!("{count} connections, limit is {HOLDERS_MAX}")));
    }
    let read = |holder: &proto::ConnectionHolder| {
        let session_id = match holder.session_id.is_empty() {
            true => None,
            false => Some(read_id("session_id", &holder.session_id, SessionId::from_bytes)?),
        };
        Ok(ConnectionHolder {
            user_id: read_id("user_id", &holder.user_id, UserId::from_bytes)?,
            session_id,
            connected_at: Timestamp::from_millis(holder.connected_at_ms),
        })
    };
    request.holders.iter().map(read).collect()
}

pub(crate) fn to_live_reply(outcome: Result<Vec<bool>, StoreError>) -> proto::LiveReply {
    use proto::live_reply::Kind;
    let kind = match outcome {
        Ok(live) => Kind::Live(proto::Live { live }),
        Err(error) => Kind::Error(to_store_error(&error)),
    };
    proto::LiveReply { kind: Some(kind) }
}

/// Reads the reply for connections. A process of an earlier release answers for those with a session only; the others
/// stay open.
pub(crate) fn read_live(
    holders: &[ConnectionHolder],
    reply: proto::LiveReply,
) -> Result<Result<Vec<bool>, StoreError>, Malformed> {
    use proto::live_reply::Kind;
    let live = match reply.kind {
        Some(Kind::Live(proto::Live { live })) => live,
        Some(Kind::Error(error)) => return Ok(Err(read_store_error(error))),
        None => return Err(Malformed::Missing { field: "kind" }),
    };
    let with_session = holders.iter().filter(|holder| holder.session_id.is_some()).count();
    if live.len() == holders.len() {
        Ok(Ok(live))
    } else if live.len() == with_session {
        let mut live = live.into_iter();
        let answer = |holder: &ConnectionHolder| holder.session_id.is_none() || live.next().unwrap_or(true);
        Ok(Ok(holders.iter().map(answer).collect()))
    } else {
        let (answers, asked) = (live.len(), holders.len());
        Err(Malformed::value("live", format!("{answers} answers were given for {asked} connections")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holder(n: u128) -> ConnectionHolder {
        ConnectionHolder {
            user_id: UserId::from_bytes(n.to_be_bytes()),
            session_id: n.is_multiple_of(2).then(|| SessionId::from_bytes(n.to_be_bytes())),
            connected_at: Timestamp::from_millis(7),
        }
    }

    #[test]
    fn many_connections_are_several_questions_in_order() {
        let holders: Vec<_> = (0..20_000).map(holder).collect();
        let chunks: Vec<_> = live_chunks(&holders).collect();
        assert_eq!(
            chunks.iter().map(|(chunk, _)| chunk.len()).collect::<Vec<_>>(),
            [[2048; 9].as_slice(), &[1568]].concat()
        );
        let asked: Vec<_> = chunks.iter().flat_map(|(_, request)| read_holders(request).unwrap()).collect();
        assert_eq!(asked, holders);
    }

    #[test]
    fn an_answer_for_fewer_connections_is_refused() {
        let holders: Vec<_> = (0..4).map(holder).collect();
        let whole = vec![true, false, false, true];
        assert_eq!(read_live(&holders, to_live_reply(Ok(whole.clone()))).unwrap().unwrap(), whole);
        let error = read_live(&holders, to_live_reply(Ok(vec![true]))).unwrap_err();
        assert_eq!(error.to_string(), "`live` cannot be used: 1 answers were given for 4 connections");
    }

    #[test]
    fn an_earlier_release_answers_for_sessions_only() {
        let holders: Vec<_> = (0..4).map(holder).collect();
        let (_, request) = live_chunks(&holders).next().unwrap();
        let earlier = proto::LiveRequest { holders: vec![], ..request };
        let asked = read_holders(&earlier).unwrap();
        assert_eq!(
            asked.iter().map(|one| one.session_id).collect::<Vec<_>>(),
            [holders[0], holders[2]].map(|one| one.session_id)
        );
        let answer = read_live(&holders, to_live_reply(Ok(vec![true, false])));
        assert_eq!(answer.unwrap().unwrap(), [true, true, false, true]);
    }
}
