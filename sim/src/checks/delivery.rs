use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use domain::{ChatId, ConnectionId, EventBody, Invariant, Sequence, UserId};
use memory::MemoryRoutes;
use ports::{Clock, GatewayId, Push, Record, Routes};
use protocol::frame::{Outbound, ServerFrame};
use tokio::time::Instant;

use super::store::now;
use crate::plan::{Rates, RunPlan};
use crate::trace::{TraceActor, TraceEvent};
use crate::world::World;

/// Pushed messages by recipient.
#[derive(Default)]
pub(crate) struct PushObservations {
    pushed: BTreeMap<(ChatId, Sequence), BTreeSet<UserId>>,
    /// Connections that received a slow-consumer warning.
    warned: BTreeSet<ConnectionId>,
}

impl World {
    /// Records pushes to a gateway.
    pub(crate) fn pushing(&self, by: &str, gateway: &GatewayId, pushes: &[Push]) {
        for push in pushes {
            let Ok(text) = str::from_utf8(&push.frame) else { continue };
            let Ok(Outbound { frame: ServerFrame::Message(body), .. }) = Outbound::parse(text) else { continue };
            let (chat_id, sequence) = (body.chat_id, body.sequence);
            let recipients = push.recipients.clone();
            self.checks.deliveries().pushed.entry((chat_id, sequence)).or_default().extend(&recipients);
            let gateway = gateway.0.to_string();
            self.note(
                TraceActor::Process(by.to_owned()),
                TraceEvent::Pushed { chat_id, sequence, gateway, recipients },
            );
        }
    }

    /// Checks messages that a consumer has processed: every user with a connection throughout was pushed them.
    pub(crate) fn pushed(&self, began: Instant, records: &[Record], routes: &MemoryRoutes) {
        if !shares_calmly(&self.plan) {
            return;
        }
        for record in records {
            let EventBody::MessagePersisted { message, origin_connection_id } = &record.event.body else { continue };
            if message.expires_at.is_some_and(|at| at <= self.clock.now() + Duration::from_secs(10)) {
                continue;
            }
            let (chat_id, sequence) = (message.chat_id, message.sequence);
            let pushed = self.checks.deliveries().pushed.get(&(chat_id, sequence)).cloned().unwrap_or_default();
            for user_id in self.checks.first_members(chat_id) {
                let stood = |route: &ports::Route| {
                    Some(route.connection_id) != *origin_connection_id
                        && self.clock.now().since(route.connected_at) > began.elapsed() + Duration::from_secs(5)
                };
                let is_there = now(routes.routes(user_id)).is_some_and(|routes| routes.iter().any(stood));
                if is_there {
                    self.check(Invariant::MultiDeviceDelivery, pushed.contains(&user_id), || {
                        format!("{user_id} was connected and was not pushed {sequence} of {chat_id}")
                    });
                }
            }
        }
    }

    /// Checks a frame on its way to a client.
    pub(crate) fn written(&self, user_id: UserId, connection: ConnectionId, text: &str) {
        let Ok(Outbound { frame, .. }) = Outbound::parse(text) else { return };
        let chat_id = match &frame {
            ServerFrame::Message(body) => body.chat_id,
            ServerFrame::Error(error) if error.code == protocol::ErrorCode::SlowConsumer => {
                self.checks.deliveries().warned.insert(connection);
                return;
            }
            _ => return,
        };
        let (is_member, changed_at) = self.checks.membership(chat_id, user_id);
        let since = changed_at.map_or(Duration::ZERO, |at| at.elapsed());
        self.check(Invariant::OnlyMembersReceive, is_member || since <= leak_max(&self.plan), || {
            format!("{user_id} gets a message of {chat_id}, which they left {since:?} ago")
        });
    }

    /// Checks a connection that is closed because its client is too slow.
    pub(crate) fn cut_for_slowness(&self, connection: ConnectionId) {
        let is_warned = self.checks.deliveries().warned.contains(&connection);
        self.check(Invariant::BackpressureSignaled, is_warned, || {
            format!("{connection} is cut because its client is slow, without an earlier warning")
        });
    }
}

/// Whether no fault can affect the lookup of routes.
fn shares_calmly(plan: &RunPlan) -> bool {
    let Rates { shared_fails, calls_lost, store_fails, store_unknown, store_slow, .. } = plan.rates;
    let rates = [shared_fails, calls_lost, store_fails, store_unknown, store_slow];
    rates.iter().all(|rate| *rate == 0.0) && plan.faults.is_empty()
}

/// Maximum time after a removal during which a user may still receive messages in flight.
fn leak_max(plan: &RunPlan) -> Duration {
    if shares_calmly(plan) && plan.rates.log_fails == 0.0 { Duration::from_secs(10) } else { Duration::from_secs(60) }
}
