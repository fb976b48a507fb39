use bytes::Bytes;
use domain::{ConnectionId, PresenceView, SessionId, Timestamp, TraceContext, UserId};
use ports::{PresenceUpdate, Push, Revocation};
use serde::{Deserialize, Serialize, Serializer};

/// Largest published envelope, in bytes. Larger content is split.
pub(crate) const ENVELOPE_BYTES_MAX: usize = 1 << 20;
/// Limit of recipients per push or presence change in an envelope; larger ones are split.
const RECIPIENTS_MAX: usize = 16 * 1024;
/// Largest frame; it leaves room for that many recipients. Real frames are far shorter.
const FRAME_BYTES_MAX: usize = ENVELOPE_BYTES_MAX / 2;
/// Upper bound of the encoding overhead of an item, and of an envelope.
const OVERHEAD_BYTES: usize = 64;

/// A message to a gateway.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum GatewayMessage {
    Pushes(Vec<Push>),
    Revoke(Revocation),
    Displace(UserId, ConnectionId),
    Presence(Vec<PresenceUpdate>),
}

/// The frame does not fit into an envelope.
#[derive(Debug, thiserror::Error)]
#[error("a frame has {bytes} bytes, limit is {FRAME_BYTES_MAX}")]
pub(crate) struct EnvelopeFrameTooLong {
    bytes: usize,
}

/// The payload is not a valid envelope.
#[derive(Debug, thiserror::Error)]
pub(crate) enum UnreadableEnvelope {
    #[error("an envelope of {bytes} bytes does not decode")]
    Form {
        bytes: usize,
        #[source]
        source: postcard::Error,
    },
    #[error("an envelope has {bytes} bytes, limit is {ENVELOPE_BYTES_MAX}")]
    TooLong { bytes: usize },
}

/// The wire format. New variants are added at the end; an older gateway drops an unknown variant and logs it.
#[derive(Serialize, Deserialize)]
enum DeliveryEnvelope<'a> {
    #[serde(borrow)]
    Pushes(Vec<PackedPush<'a>>),
    Revoke([u8; 16]),
    /// A user and a connection.
    Displace([u8; 16], [u8; 16]),
    Presence(Vec<PackedUpdate>),
    /// A user, and whether clients with another token may reconnect.
    RevokeUser([u8; 16], bool),
}

/// A push without recipients carries the trace context of the next push; a gateway of an older release ignores it.
#[derive(Serialize, Deserialize)]
struct PackedPush<'a> {
    recipients: Vec<[u8; 16]>,
    except: Option<[u8; 16]>,
    #[serde(borrow, serialize_with = "as_bytes")]
    frame: &'a [u8],
}

#[derive(Serialize, Deserialize)]
struct PackedUpdate {
    user_id: [u8; 16],
    view: PackedView,
    recipients: Vec<[u8; 16]>,
}

#[derive(Serialize, Deserialize)]
enum PackedView {
    Online,
    /// With the last-seen time in ms.
    Offline(Option<u64>),
    Unknown,
}

/// Packs pushes into as few envelopes as possible, in order.
pub(crate) fn pack(pushes: &[Push]) -> Result<Vec<Vec<u8>>, EnvelopeFrameTooLong> {
    if let Some(push) = pushes.iter().find(|push| push.frame.len() > FRAME_BYTES_MAX) {
        return Err(EnvelopeFrameTooLong { bytes: push.frame.len() });
    }
    // Unsampled traces are not recorded, so their contexts are not sent.
    let kept = |trace: TraceContext| trace.sampled.then(|| trace.to_string());
    let traces: Vec<Option<String>> = pushes.iter().map(|push| push.trace.and_then(kept)).collect();
    let packed = pushes.iter().zip(&traces).flat_map(|(push, trace)| {
        let trace = trace
            .iter()
            .map(|trace| (PackedPush { recipients: vec![], except: None, frame: trace.as_bytes() }, trace.len()));
        let chunks = push.recipients.chunks(RECIPIENTS_MAX).map(|recipients| {
            let packed = PackedPush {
                recipients: bytes_of(recipients),
                except: push.except.map(ConnectionId::to_bytes),
                frame: &push.frame,
            };
            (packed, 16 * recipients.len() + push.frame.len())
        });
        trace.chain(chunks)
    });
    Ok(fill(packed, DeliveryEnvelope::Pushes))
}

/// Packs presence changes into as few envelopes as possible, in order. Changes without recipients are sent too.
pub(crate) fn pack_updates(updates: &[PresenceUpdate]) -> Vec<Vec<u8>> {
    let packed = updates.iter().flat_map(|updates| {
        let all_at_once = updates.recipients.is_empty().then_some(&updates.recipients[..]);
        all_at_once.into_iter().chain(updates.recipients.chunks(RECIPIENTS_MAX)).map(|recipients| {
            let view = match updates.view {
                PresenceView::Online => PackedView::Online,
                PresenceView::Offline { last_seen } => PackedView::Offline(last_seen.map(Timestamp::as_millis)),
                PresenceView::Unknown => PackedView::Unknown,
            };
            let packed = PackedUpdate { user_id: updates.user_id.to_bytes(), view, recipients: bytes_of(recipients) };
            (packed, 16 * recipients.len())
        })
    });
    fill(packed, DeliveryEnvelope::Presence)
}

/// Fills as few envelopes as possible with packed items, given the size of each.
fn fill<'a, T>(items: impl Iterator<Item = (T, usize)>, envelope: fn(Vec<T>) -> DeliveryEnvelope<'a>) -> Vec<Vec<u8>> {
    let mut envelopes = vec![];
    let (mut packed, mut bytes) = (vec![], OVERHEAD_BYTES);
    for (item, item_bytes) in items {
        let more = item_bytes + OVERHEAD_BYTES;
        if bytes + more > ENVELOPE_BYTES_MAX {
            envelopes.push(encode(&envelope(std::mem::take(&mut packed))));
            bytes = OVERHEAD_BYTES;
        }
        bytes += more;
        packed.push(item);
    }
    if !packed.is_empty() {
        envelopes.push(encode(&envelope(packed)));
    }
    envelopes
}

fn bytes_of(user_ids: &[UserId]) -> Vec<[u8; 16]> {
    user_ids.iter().map(|user_id| user_id.to_bytes()).collect()
}

fn user_ids_of(bytes: Vec<[u8; 16]>) -> Vec<UserId> {
    bytes.into_iter().map(UserId::from_bytes).collect()
}

pub(crate) fn pack_revocation(revocation: Revocation) -> Vec<u8> {
    encode(&match revocation {
        Revocation::Session(session_id) => DeliveryEnvelope::Revoke(session_id.to_bytes()),
        Revocation::User(user_id) => DeliveryEnvelope::RevokeUser(user_id.to_bytes(), false),
        Revocation::Token(user_id) => DeliveryEnvelope::RevokeUser(user_id.to_bytes(), true),
    })
}

pub(crate) fn pack_displacement(user_id: UserId, connection_id: ConnectionId) -> Vec<u8> {
    encode(&DeliveryEnvelope::Displace(user_id.to_bytes(), connection_id.to_bytes()))
}

/// Decodes an envelope.
pub(crate) fn unpack(payload: Bytes) -> Result<GatewayMessage, UnreadableEnvelope> {
    let bytes = payload.len();
    if bytes > ENVELOPE_BYTES_MAX {
        return Err(UnreadableEnvelope::TooLong { bytes });
    }
    let (envelope, rest) =
        postcard::take_from_bytes(&payload).map_err(|source| UnreadableEnvelope::Form { bytes, source })?;
    if !rest.is_empty() {
        return Err(UnreadableEnvelope::Form { bytes, source: postcard::Error::SerdeDeCustom });
    }
    Ok(match envelope {
        DeliveryEnvelope::Pushes(pushes) => {
            let mut trace = None;
            let unpacked = pushes.into_iter().filter_map(|push| {
                if push.recipients.is_empty() {
                    trace = std::str::from_utf8(push.frame).ok().and_then(|text| text.parse().ok());
                    return None;
                }
                Some(Push {
                    recipients: user_ids_of(push.recipients),
                    except: push.except.map(ConnectionId::from_bytes),
                    frame: share(&payload, push.frame),
                    trace: trace.take(),
                })
            });
            GatewayMessage::Pushes(unpacked.collect())
        }
        DeliveryEnvelope::Revoke(session_id) => {
            GatewayMessage::Revoke(Revocation::Session(SessionId::from_bytes(session_id)))
        }
        DeliveryEnvelope::RevokeUser(user_id, token_only) => {
            let user_id = UserId::from_bytes(user_id);
            GatewayMessage::Revoke(if token_only { Revocation::Token(user_id) } else { Revocation::User(user_id) })
        }
        DeliveryEnvelope::Displace(user_id, connection_id) => {
            GatewayMessage::Displace(UserId::from_bytes(user_id), ConnectionId::from_bytes(connection_id))
        }
        DeliveryEnvelope::Presence(updates) => {
            let unpacked = updates.into_iter().map(|updates| PresenceUpdate {
                user_id: UserId::from_bytes(updates.user_id),
                view: match updates.view {
                    PackedView::Online => PresenceView::Online,
                    PackedView::Offline(last_seen) => {
                        PresenceView::Offline { last_seen: last_seen.map(Timestamp::from_millis) }
                    }
                    PackedView::Unknown => PresenceView::Unknown,
                },
                recipients: user_ids_of(updates.recipients),
            });
            GatewayMessage::Presence(unpacked.collect())
        }
    })
}

/// A frame that makes up most of its envelope shares its bytes. Any other frame is copied once for all recipients: a
/// slice would keep the whole envelope in memory while it waits in a slow connection's mailbox, and the mailbox limit
/// does not count that.
fn share(payload: &Bytes, frame: &[u8]) -> Bytes {
    if frame.len() * 2 >= payload.len() { payload.slice_ref(frame) } else { Bytes::copy_from_slice(frame) }
}

fn encode(envelope: &DeliveryEnvelope<'_>) -> Vec<u8> {
    postcard::to_stdvec(envelope).expect("bytes and sequences of known length always encode")
}

/// Writes one byte string; by default serde would serialize each byte.
fn as_bytes<S: Serializer>(frame: &&[u8], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_bytes(frame)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn push(recipients: usize, frame_bytes: usize) -> Push {
        Push {
            recipients: (0..recipients).map(|n| UserId::from_bytes((n as u128).to_be_bytes())).collect(),
            except: None,
            frame: vec![b'x'; frame_bytes].into(),
            trace: None,
        }
    }

    pub(super) fn pushes() -> impl Strategy<Value = Vec<Push>> {
        let ids = proptest::collection::vec(any::<[u8; 16]>(), 1..5);
        let frame = proptest::collection::vec(any::<u8>(), 0..99);
        let push = (ids, any::<Option<[u8; 16]>>(), frame).prop_map(|(recipients, except, frame)| Push {
            recipients: recipients.into_iter().map(UserId::from_bytes).collect(),
            except: except.map(ConnectionId::from_bytes),
            frame: frame.into(),
            trace: None,
        });
        proptest::collection::vec(push, 1..5)
    }

    pub(super) fn updates() -> impl Strategy<Value = PresenceUpdate> {
        let last_seen = proptest::option::of((0u64..1 << 47).prop_map(Timestamp::from_millis));
        let view = prop_oneof![
            Just(PresenceView::Online),
            last_seen.prop_map(|last_seen| PresenceView::Offline { last_seen }),
            Just(PresenceView::Unknown),
        ];
        let ids = proptest::collection::vec(any::<[u8; 16]>(), 0..5);
        (any::<[u8; 16]>(), view, ids).prop_map(|(user_id, view, ids)| PresenceUpdate {
            user_id: UserId::from_bytes(user_id),
            view,
            recipients: user_ids_of(ids),
        })
    }

    #[test]
    fn a_thousand_recipients_are_one_envelope_with_one_frame() {
        let envelopes = pack(&[push(1000, 4096)]).unwrap();
        assert_eq!(envelopes.len(), 1);
        assert!(envelopes[0].len() < 1000 * 16 + 4096 + OVERHEAD_BYTES);
    }

    #[test]
    fn a_push_has_its_sampled_trace_and_older_gateways_see_a_push_without_recipients() {
        let context = TraceContext { trace_id: [7; 16], span_id: [8; 8], sampled: true };
        let traced = |sampled| Push { trace: Some(TraceContext { sampled, ..context }), ..push(2, 10) };
        let sent = [push(1, 10), traced(true), traced(false), push(1, 10)];
        let envelope = pack(&sent).unwrap().remove(0);
        let DeliveryEnvelope::Pushes(seen) = postcard::from_bytes(&envelope).unwrap() else {
            panic!("pushes were packed")
        };
        assert_eq!(seen.iter().map(|push| push.recipients.len()).collect::<Vec<_>>(), [1, 0, 2, 2, 1]);
        let GatewayMessage::Pushes(received) = unpack(envelope.into()).unwrap() else { panic!("pushes were packed") };
        let traces: Vec<_> = received.iter().map(|push| (push.recipients.len(), push.trace)).collect();
        assert_eq!(traces, [(1, None), (2, Some(context)), (2, None), (1, None)]);
    }

    #[test]
    fn an_oversized_push_is_split_into_envelopes_in_order() {
        let sent = [push(50_000, 200_000), push(1, 500_000), push(1, 500_001), push(2, 3)];
        let envelopes = pack(&sent).unwrap();
        assert!(envelopes.iter().all(|envelope| envelope.len() <= ENVELOPE_BYTES_MAX));
        let unpacked = envelopes.into_iter().map(|envelope| unpack(envelope.into()).unwrap());
        let received: Vec<Push> = unpacked
            .flat_map(|message| match message {
                GatewayMessage::Pushes(pushes) => pushes,
                other => panic!("nothing but pushes was packed: {other:?}"),
            })
            .collect();
        let each = |pushes: &[Push]| -> Vec<(UserId, usize)> {
            let pairs = pushes.iter().flat_map(|push| push.recipients.iter().map(|id| (*id, push.frame.len())));
            pairs.collect()
        };
        assert_eq!(each(&received), each(&sent));
    }

    #[test]
    fn presence_updates_with_many_recipients_are_split_and_empty_ones_are_kept() {
        let user = |n: u128| UserId::from_bytes(n.to_be_bytes());
        let updates = |n: u128, recipients: u128| PresenceUpdate {
            user_id: user(n),
            view: PresenceView::Online,
            recipients: (0..recipients).map(user).collect(),
        };
        let sent = [updates(1, 100_000), updates(2, 0), updates(3, 1)];
        let envelopes = pack_updates(&sent);
        assert_eq!(envelopes.len(), 2, "1.6 MB are twice 1 MiB");
        assert!(envelopes.iter().all(|envelope| envelope.len() <= ENVELOPE_BYTES_MAX));
        let mut received: Vec<PresenceUpdate> = vec![];
        for envelope in envelopes {
            let GatewayMessage::Presence(unpacked) = unpack(envelope.into()).unwrap() else {
                panic!("news were packed")
            };
            for updates in unpacked {
                match received.last_mut() {
                    Some(last) if last.user_id == updates.user_id => last.recipients.extend(updates.recipients),
                    _ => received.push(updates),
                }
            }
        }
        assert_eq!(received, sent);
        assert_eq!(pack_updates(&[]), Vec::<Vec<u8>>::new());
    }

    #[test]
    fn a_frame_that_fits_nowhere_is_refused_and_measured() {
        let error = pack(&[push(1, FRAME_BYTES_MAX + 1)]).unwrap_err();
        assert_eq!(error.to_string(), "a frame has 524289 bytes, limit is 524288");
    }

    #[test]
    fn a_small_frame_does_not_keep_its_envelope_alive() {
        let payload = Bytes::from(pack(&[push(1, 10), push(1, 1000)]).unwrap().remove(0));
        let GatewayMessage::Pushes(pushes) = unpack(payload.clone()).unwrap() else { panic!("pushes were packed") };
        let within = |frame: &Bytes| payload.as_ptr_range().contains(&frame.as_ptr());
        assert_eq!(pushes.iter().map(|push| within(&push.frame)).collect::<Vec<_>>(), [false, true]);
    }

    proptest! {
        #[test]
        fn pushes_round_trip(sent in pushes()) {
            let mut envelopes = pack(&sent).unwrap();
            prop_assert_eq!(unpack(envelopes.remove(0).into()).unwrap(), GatewayMessage::Pushes(sent));
            prop_assert!(envelopes.is_empty());
        }

        #[test]
        fn a_displacement_round_trips(user_id in any::<[u8; 16]>(), connection_id in any::<[u8; 16]>()) {
            let (user_id, connection_id) = (UserId::from_bytes(user_id), ConnectionId::from_bytes(connection_id));
            let packed = pack_displacement(user_id, connection_id);
            prop_assert_eq!(unpack(packed.into()).unwrap(), GatewayMessage::Displace(user_id, connection_id));
        }

        #[test]
        fn presence_updates_round_trip(sent in proptest::collection::vec(updates(), 1..9)) {
            let mut envelopes = pack_updates(&sent);
            prop_assert_eq!(unpack(envelopes.remove(0).into()).unwrap(), GatewayMessage::Presence(sent));
            prop_assert!(envelopes.is_empty());
        }

        #[test]
        fn a_revocation_round_trips(id in any::<[u8; 16]>()) {
            let user_id = UserId::from_bytes(id);
            for revocation in [
                Revocation::Session(SessionId::from_bytes(id)),
                Revocation::User(user_id),
                Revocation::Token(user_id),
            ] {
                let packed = pack_revocation(revocation);
                prop_assert_eq!(unpack(packed.into()).unwrap(), GatewayMessage::Revoke(revocation));
            }
        }

        #[test]
        fn a_cut_or_lengthened_envelope_is_refused(sent in pushes(), cut in 1usize..20) {
            let whole = pack(&sent).unwrap().remove(0);
            let short = whole[..whole.len().saturating_sub(cut)].to_vec();
            prop_assert!(unpack(short.into()).is_err());
            let long = [whole, vec![0; cut]].concat();
            prop_assert!(unpack(long.into()).is_err());
        }
    }
}

#[cfg(test)]
mod fuzz {
    use proptest::prelude::*;

    use super::tests::{pushes, updates};
    use super::*;

    /// Valid envelopes of every kind.
    fn envelopes() -> impl Strategy<Value = Vec<u8>> {
        let (session_id, user_id) = (SessionId::from_bytes([1; 16]), UserId::from_bytes([2; 16]));
        prop_oneof![
            4 => pushes().prop_map(|pushes| pack(&pushes).unwrap().remove(0)),
            2 => proptest::collection::vec(updates(), 1..4).prop_map(|updates| pack_updates(&updates).remove(0)),
            1 => Just(pack_revocation(Revocation::Session(session_id))),
            1 => Just(pack_revocation(Revocation::User(user_id))),
            1 => Just(pack_displacement(user_id, ConnectionId::from_bytes([3; 16]))),
        ]
    }

    proptest! {
        #[test]
        fn a_damaged_envelope_is_refused_or_holds_no_more_than_its_bytes(payload in damage::bytes(envelopes())) {
            let len = payload.len();
            let bytes = match unpack(payload.into()) {
                Ok(GatewayMessage::Pushes(pushes)) => {
                    pushes.iter().map(|push| 16 * push.recipients.len() + push.frame.len()).sum()
                }
                Ok(GatewayMessage::Presence(updates)) => updates.iter().map(|updates| 16 * (1 + updates.recipients.len())).sum(),
                Ok(GatewayMessage::Revoke(_)) => 16,
                Ok(GatewayMessage::Displace(..)) => 32,
                Err(_) => 0,
            };
            prop_assert!(bytes <= len);
        }
    }
}
