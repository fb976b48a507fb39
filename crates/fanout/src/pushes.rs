use std::collections::BTreeMap;

use bytes::Bytes;
use domain::{ConnectionId, Invariant, UserId};
use ports::{GatewayId, Push, Recipients, holds, trace};
use tracing::Span;

/// Pushes for each gateway, in the order of their events.
pub(crate) type GatewayPushes = BTreeMap<GatewayId, Vec<Push>>;

/// A batch of pushes that is delivered at once.
#[derive(Default)]
pub(crate) struct PushBatch {
    pub(crate) outgoing: GatewayPushes,
    /// Number of events in the batch.
    pub(crate) events: usize,
    /// Spans of the events in the batch; each ends when its pushes are delivered.
    pub(crate) spans: Vec<Span>,
}

impl PushBatch {
    /// Recipients of all pushes.
    pub(crate) fn len(&self) -> usize {
        self.outgoing.values().flatten().map(|push| push.recipients.len()).sum()
    }
}

/// Adds the pushes of a message or an update: to the other members, and to its author's connections other than its
/// origin. `encode` makes the frame for a reader.
pub(crate) fn push_entry(
    sender: UserId,
    origin: Option<ConnectionId>,
    encode: impl Fn(Option<UserId>) -> Bytes,
    recipients: &Recipients,
    outgoing: &mut GatewayPushes,
) {
    push(members_except(recipients, Some(sender)), None, || encode(None), outgoing);
    // Most senders have one device, which receives the acknowledgement. Their own frame is then never encoded.
    if recipients.members.contains(&sender) {
        let connections = recipients.connections.get(&sender).into_iter().flatten();
        // An unknown connection may be another one than the origin.
        let others = connections
            .filter(|other| origin.is_none() || other.connection_id.is_none() || other.connection_id != origin);
        let gateways: BTreeMap<_, _> = others.map(|other| (other.gateway.clone(), vec![sender])).collect();
        push(gateways, origin, || encode(Some(sender)), outgoing);
    }
}

/// Adds the pushes of a frame to all members, and to one more user if given.
pub(crate) fn push_frame(frame: Bytes, also: Option<UserId>, recipients: &Recipients, outgoing: &mut GatewayPushes) {
    let mut gateways = members_except(recipients, None);
    if let Some(user_id) = also {
        for connection in recipients.connections.get(&user_id).into_iter().flatten() {
            let there = gateways.entry(connection.gateway.clone()).or_default();
            if !there.contains(&user_id) {
                there.push(user_id);
            }
        }
    }
    push(gateways, None, || frame, outgoing);
}

/// The members on each gateway, without one of them if given.
pub(crate) fn members_except(recipients: &Recipients, except: Option<UserId>) -> BTreeMap<GatewayId, Vec<UserId>> {
    let Recipients { members, gateways, .. } = recipients;
    let on_gateways = gateways.iter().map(|(gateway, there)| {
        // Routes keep the order of members, so one pass over the members finds all of them.
        let mut rest = members.iter();
        let there = there.iter().copied().filter(|user_id| {
            let is_member = rest.any(|member| member == user_id) || members.contains(user_id);
            holds(Invariant::OnlyMembersReceive, is_member, || format!("user {user_id} is not a recipient of the push"))
                && Some(*user_id) != except
        });
        (gateway.clone(), there.collect::<Vec<_>>())
    });
    on_gateways.filter(|(_, there)| !there.is_empty()).collect()
}

/// Adds one push for each gateway. Encodes the frame only if there is one.
pub(crate) fn push(
    gateways: BTreeMap<GatewayId, Vec<UserId>>,
    except: Option<ConnectionId>,
    frame: impl FnOnce() -> Bytes,
    outgoing: &mut GatewayPushes,
) {
    if gateways.is_empty() {
        return;
    }
    let (frame, trace) = (frame(), trace::current());
    for (gateway, recipients) in gateways {
        outgoing.entry(gateway).or_default().push(Push { recipients, except, frame: frame.clone(), trace });
    }
}
