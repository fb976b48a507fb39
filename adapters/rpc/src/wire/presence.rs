use domain::{PresenceView, Timestamp, UserId};
use ports::{PresenceLookup, StoreError};

use super::{Malformed, read_ids, read_store_error, to_store_error};
use crate::proto;

/// Limit of looks per request, so that no reply occupies a process for long.
const LOOKS_MAX: usize = 1000;

/// Splits looks into requests, in order, each with its number of looks.
pub(crate) fn look_chunks(lookups: &[PresenceLookup]) -> impl Iterator<Item = (usize, proto::LookRequest)> {
    lookups.chunks(LOOKS_MAX).map(|chunk| {
        let lookups = chunk.iter().flat_map(|look| [look.viewer.to_bytes(), look.user_id.to_bytes()]);
        (chunk.len(), proto::LookRequest { looks: lookups.flatten().collect() })
    })
}

pub(crate) fn read_looks(request: &proto::LookRequest) -> Result<Vec<PresenceLookup>, Malformed> {
    let ids = read_ids("looks", &request.looks, UserId::from_bytes)?;
    match ids.as_chunks() {
        (pairs, []) if pairs.len() <= LOOKS_MAX => {
            Ok(pairs.iter().map(|&[viewer, user_id]| PresenceLookup { viewer, user_id }).collect())
        }
        (pairs, []) => Err(Malformed::value("looks", format!("there are {}, limit is {LOOKS_MAX}", pairs.len()))),
        _ => Err(Malformed::value("looks", "the last viewer has no user to look up")),
    }
}

pub(crate) fn to_look_reply(outcome: Result<Vec<PresenceView>, StoreError>) -> proto::LookReply {
    use proto::look_reply::Kind;
    let kind = match outcome {
        Ok(views) => Kind::Views(proto::Views { views: views.into_iter().map(to_view).collect() }),
        Err(error) => Kind::Error(to_store_error(&error)),
    };
    proto::LookReply { kind: Some(kind) }
}

/// Reads the reply for `count` looks.
pub(crate) fn read_look_reply(
    count: usize,
    reply: proto::LookReply,
) -> Result<Result<Vec<PresenceView>, StoreError>, Malformed> {
    use proto::look_reply::Kind;
    match reply.kind {
        Some(Kind::Views(proto::Views { views })) if views.len() == count => {
            views.into_iter().map(read_view).collect::<Result<_, _>>().map(Ok)
        }
        Some(Kind::Views(proto::Views { views })) => {
            Err(Malformed::value("views", format!("{} answers were given for {count} looks", views.len())))
        }
        Some(Kind::Error(error)) => Ok(Err(read_store_error(error))),
        None => Err(Malformed::Missing { field: "kind" }),
    }
}

fn to_view(view: PresenceView) -> proto::View {
    use proto::view::Kind;
    let kind = match view {
        PresenceView::Online => Kind::Online(proto::Nothing {}),
        PresenceView::Offline { last_seen } => {
            Kind::Offline(proto::Offline { last_seen_ms: last_seen.map(Timestamp::as_millis) })
        }
        PresenceView::Unknown => Kind::Unknown(proto::Nothing {}),
    };
    proto::View { kind: Some(kind) }
}

fn read_view(view: proto::View) -> Result<PresenceView, Malformed> {
    use proto::view::Kind;
    match view.kind {
        Some(Kind::Online(_)) => Ok(PresenceView::Online),
        Some(Kind::Offline(proto::Offline { last_seen_ms })) => {
            Ok(PresenceView::Offline { last_seen: last_seen_ms.map(Timestamp::from_millis) })
        }
        Some(Kind::Unknown(_)) => Ok(PresenceView::Unknown),
        None => Err(Malformed::Missing { field: "views.kind" }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lookup(n: u128) -> PresenceLookup {
        PresenceLookup {
            viewer: UserId::from_bytes(n.to_be_bytes()),
            user_id: UserId::from_bytes((n + 1).to_be_bytes()),
        }
    }

    #[test]
    fn many_looks_are_several_questions_in_order() {
        let lookups: Vec<_> = (0..2_500).map(lookup).collect();
        let chunks: Vec<_> = look_chunks(&lookups).collect();
        assert_eq!(chunks.iter().map(|(count, _)| *count).collect::<Vec<_>>(), [1000, 1000, 500]);
        let asked: Vec<_> = chunks.iter().flat_map(|(_, request)| read_looks(request).unwrap()).collect();
        assert_eq!(asked, lookups);
    }

    #[test]
    fn half_a_look_and_too_many_are_refused() {
        let refused =
            |ids: usize| read_looks(&proto::LookRequest { looks: vec![7; 16 * ids] }).unwrap_err().to_string();
        assert_eq!(refused(3), "`looks` cannot be used: the last viewer has no user to look up");
        assert_eq!(refused(2002), "`looks` cannot be used: there are 1001, limit is 1000");
    }

    #[test]
    fn an_answer_for_fewer_looks_is_refused() {
        let online = || to_look_reply(Ok(vec![PresenceView::Online]));
        assert_eq!(read_look_reply(1, online()).unwrap().unwrap(), [PresenceView::Online]);
        let error = read_look_reply(2, online()).unwrap_err();
        assert_eq!(error.to_string(), "`views` cannot be used: 1 answers were given for 2 looks");
    }
}
