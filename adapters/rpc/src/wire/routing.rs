use bytes::Bytes;
use domain::{ChatId, ConnectionId, SessionId, UserId};
use ports::{GatewayId, Push, Revocation, Signal, StoreError};

use super::ingest::{read_watermarks, to_watermarks};
use super::{Malformed, read_id, read_ids, read_optional_id, read_store_error, to_store_error};
use crate::config::REQUEST_BYTES_MAX;
use crate::proto;

/// Limit of recipients per push in a request; larger pushes are split.
const RECIPIENTS_MAX: usize = 4096;
/// Largest frame; it leaves room for that many recipients. Real frames are far shorter.
const FRAME_BYTES_MAX: usize = REQUEST_BYTES_MAX / 2;
/// Upper bound of the encoding overhead of a push, and of a request.
const OVERHEAD_BYTES: usize = 512;

/// The frame does not fit into a request.
#[derive(Debug, thiserror::Error)]
#[error("a frame has {bytes} bytes, limit is {FRAME_BYTES_MAX}")]
pub(crate) struct RequestFrameTooLong {
    bytes: usize,
}

/// Packs pushes into as few requests as possible, in order.
pub(crate) fn to_deliveries(
    gateway: &GatewayId,
    pushes: &[Push],
) -> Result<Vec<proto::DeliverRequest>, RequestFrameTooLong> {
    let request = |pushes| proto::DeliverRequest { gateway_id: gateway.0.to_string(), pushes };
    let mut requests = vec![];
    let (mut packed, mut bytes) = (vec![], OVERHEAD_BYTES);
    for push in pushes {
        if push.frame.len() > FRAME_BYTES_MAX {
            return Err(RequestFrameTooLong { bytes: push.frame.len() });
        }
        for recipients in push.recipients.chunks(RECIPIENTS_MAX) {
            let more = 16 * recipients.len() + push.frame.len() + OVERHEAD_BYTES;
            if bytes + more > REQUEST_BYTES_MAX {
                requests.push(request(std::mem::take(&mut packed)));
                bytes = OVERHEAD_BYTES;
            }
            bytes += more;
            packed.push(proto::Push {
                recipients: recipients.iter().flat_map(|user_id| user_id.to_bytes()).collect(),
                except: push.except.map(|id| id.to_bytes().into()),
                frame: push.frame.clone(),
                traceparent: push.trace.map(|trace| trace.to_string()).unwrap_or_default(),
            });
        }
    }
    if !packed.is_empty() {
        requests.push(request(packed));
    }
    Ok(requests)
}

pub(crate) fn read_pushes(pushes: Vec<proto::Push>) -> Result<Vec<Push>, Malformed> {
    let read = |push: proto::Push| {
        Ok(Push {
            recipients: read_ids("recipients", &push.recipients, UserId::from_bytes)?,
            except: read_optional_id("except", push.except, ConnectionId::from_bytes)?,
            // Copied once for all recipients: a slice would keep the whole request in memory while it waits in a slow
            // connection's mailbox, and the mailbox limit does not count that.
            frame: Bytes::copy_from_slice(&push.frame),
            trace: push.traceparent.parse().ok(),
        })
    };
    pushes.into_iter().map(read).collect()
}

pub(crate) fn to_revocation(revocation: Revocation) -> proto::RevokeRequest {
    match revocation {
        Revocation::Session(session_id) => {
            proto::RevokeRequest { session_id: session_id.to_bytes().into(), ..Default::default() }
        }
        Revocation::User(user_id) => proto::RevokeRequest { user_id: user_id.to_bytes().into(), ..Default::default() },
        Revocation::Token(user_id) => {
            proto::RevokeRequest { user_id: user_id.to_bytes().into(), token_only: true, ..Default::default() }
        }
    }
}

pub(crate) fn read_revocation(request: &proto::RevokeRequest) -> Result<Revocation, Malformed> {
    if request.user_id.is_empty() {
        return read_id("session_id", &request.session_id, SessionId::from_bytes).map(Revocation::Session);
    }
    let user_id = read_id("user_id", &request.user_id, UserId::from_bytes)?;
    Ok(if request.token_only { Revocation::Token(user_id) } else { Revocation::User(user_id) })
}

pub(crate) fn to_signal(signal: &Signal) -> proto::SignalRequest {
    use proto::signal_request::Kind;
    let (chat_id, user_id, kind) = match signal {
        Signal::Typing { chat_id, user_id, is_typing } => (chat_id, user_id, Kind::IsTyping(*is_typing)),
        Signal::Receipt { chat_id, user_id, watermarks } => {
            (chat_id, user_id, Kind::Receipt(to_watermarks(*watermarks)))
        }
    };
    let (chat_id, user_id) = (chat_id.to_bytes().into(), user_id.to_bytes().into());
    proto::SignalRequest { chat_id, user_id, kind: Some(kind) }
}

pub(crate) fn read_signal(request: proto::SignalRequest) -> Result<Signal, Malformed> {
    use proto::signal_request::Kind;
    let chat_id = read_id("chat_id", &request.chat_id, ChatId::from_bytes)?;
    let user_id = read_id("user_id", &request.user_id, UserId::from_bytes)?;
    match request.kind {
        Some(Kind::IsTyping(is_typing)) => Ok(Signal::Typing { chat_id, user_id, is_typing }),
        Some(Kind::Receipt(watermarks)) => {
            Ok(Signal::Receipt { chat_id, user_id, watermarks: read_watermarks(watermarks) })
        }
        None => Err(Malformed::Missing { field: "kind" }),
    }
}

pub(crate) fn to_signal_reply(outcome: Result<bool, StoreError>) -> proto::SignalReply {
    use proto::signal_reply::Kind;
    let kind = match outcome {
        Ok(passed_on) => Kind::PassedOn(passed_on),
        Err(error) => Kind::Error(to_store_error(&error)),
    };
    proto::SignalReply { kind: Some(kind) }
}

pub(crate) fn read_signal_reply(reply: proto::SignalReply) -> Result<Result<bool, StoreError>, Malformed> {
    use proto::signal_reply::Kind;
    match reply.kind {
        Some(Kind::PassedOn(passed_on)) => Ok(Ok(passed_on)),
        Some(Kind::Error(error)) => Ok(Err(read_store_error(error))),
        None => Err(Malformed::Missing { field: "kind" }),
    }
}

#[cfg(test)]
mod tests {
    use prost::Message as _;

    use super::*;

    fn push(recipients: usize, frame_bytes: usize) -> Push {
        Push {
            recipients: (0..recipients).map(|n| UserId::from_bytes((n as u128).to_be_bytes())).collect(),
            except: None,
            frame: vec![b'x'; frame_bytes].into(),
            trace: None,
        }
    }

    fn gateway() -> GatewayId {
        GatewayId("gateway-1".into())
    }

    #[test]
    fn an_oversized_request_is_split_in_order() {
        let sent = [push(20_000, 100_000), push(1, 130_000), push(1, 130_001), push(2, 3)];
        let requests = to_deliveries(&gateway(), &sent).unwrap();
        assert!(requests.iter().all(|request| request.encoded_len() <= REQUEST_BYTES_MAX));
        let received: Vec<Push> =
            requests.into_iter().flat_map(|request| read_pushes(request.pushes).unwrap()).collect();
        let each = |pushes: &[Push]| -> Vec<(UserId, usize)> {
            let pairs = pushes.iter().flat_map(|push| push.recipients.iter().map(|id| (*id, push.frame.len())));
            pairs.collect()
        };
        assert_eq!(each(&received), each(&sent));
    }

    #[test]
    fn a_frame_that_fits_nowhere_is_refused_and_measured() {
        let error = to_deliveries(&gateway(), &[push(1, FRAME_BYTES_MAX + 1)]).map(drop).unwrap_err();
        assert_eq!(error.to_string(), "a frame has 131073 bytes, limit is 131072");
    }
}
