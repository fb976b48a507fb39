use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use audit::history::fingerprint;
use domain::{ChatId, ChatType, ConnectionId, Invariant, MessageId, Sequence, Timestamp, UserId};
use memory::MemoryRoutes;
use ports::{ChatReader, Clock, GatewayId, Push, Record, Routes};
use protocol::frame::{MessageUpdated, Outbound, PushClass, ServerFrame};
use tokio::time::Instant;

use super::log::LoggedEntry;
use super::store::now;
use crate::copies::update_fingerprint;
use crate::plan::{PlannedFault, Rates, RunPlan, RunShape};
use crate::trace::{TraceActor, TraceEvent};
use crate::world::World;

/// Pushed messages by recipient.
#[derive(Default)]
pub(crate) struct PushObservations {
    pushed: BTreeMap<(ChatId, Sequence), BTreeSet<UserId>>,
    /// The last push of each entry.
    contents: BTreeMap<(ChatId, Sequence), PushedEntry>,
    /// Open connections.
    connections: BTreeMap<ConnectionId, OpenConnection>,
    /// Gateways that did not accept durable pushes of a fanout process, and no resync since.
    undelivered: BTreeSet<(String, GatewayId)>,
    /// Connections that received a slow-consumer warning.
    warned: BTreeSet<ConnectionId>,
}

/// A connection whose client has received the first frame.
struct OpenConnection {
    user_id: UserId,
    gateway: String,
    /// Entries that its gateway has accepted for it and has not written.
    unwritten: BTreeSet<(ChatId, Sequence)>,
}

/// A pushed message, or a pushed update of one.
#[derive(Clone, Copy, Debug)]
struct PushedEntry {
    chat_id: ChatId,
    sequence: Sequence,
    /// Absent in an update.
    message_id: Option<MessageId>,
    author: UserId,
    content: u64,
    is_edited: bool,
}

impl PushedEntry {
    fn of(frame: &ServerFrame) -> Option<Self> {
        match frame {
            ServerFrame::Message(body) => Some(Self {
                chat_id: body.chat_id,
                sequence: body.sequence,
                message_id: Some(body.message_id),
                author: body.sender_id,
                content: fingerprint(body.content.as_ref()),
                is_edited: body.state.as_ref().is_some_and(|state| state.edit_count.is_some()),
            }),
            ServerFrame::MessageUpdated(MessageUpdated { update, .. }) => Some(Self {
                chat_id: update.chat_id,
                sequence: update.sequence,
                message_id: None,
                author: update.user_id,
                content: update_fingerprint(update.kind, update.target_sequence, update.reaction.as_ref()),
                is_edited: false,
            }),
            _ => None,
        }
    }
}

impl World {
    /// Records pushes to a gateway.
    pub(crate) fn pushing(&self, by: &str, gateway: &GatewayId, pushes: &[Push]) {
        for push in pushes {
            let Ok(text) = str::from_utf8(&push.frame) else { continue };
            let Some(entry) = Outbound::parse(text).ok().and_then(|outbound| PushedEntry::of(&outbound.frame)) else {
                continue;
            };
            let PushedEntry { chat_id, sequence, .. } = entry;
            let recipients = push.recipients.clone();
            self.checks.deliveries().pushed.entry((chat_id, sequence)).or_default().extend(&recipients);
            self.look_at_repeated(entry);
            let gateway = gateway.0.to_string();
            self.note(
                TraceActor::Process(by.to_owned()),
                TraceEvent::Pushed { chat_id, sequence, gateway, recipients },
            );
        }
    }

    /// Checks that an entry that is pushed again, because its event was processed again, is the same entry. A message may
    /// have been edited meanwhile.
    fn look_at_repeated(&self, entry: PushedEntry) {
        let PushedEntry { chat_id, sequence, .. } = entry;
        let before = self.checks.deliveries().contents.insert((chat_id, sequence), entry);
        if let Some(before) = before {
            let is_same = (before.message_id, before.author) == (entry.message_id, entry.author)
                && (before.content == entry.content || before.is_edited || entry.is_edited);
            self.check(Invariant::ReplaySafe, is_same, || {
                format!("{sequence} of {chat_id} was pushed as {before:?}, and now as {entry:?}")
            });
        }
    }

    /// Records pushes that a gateway accepts.
    pub(crate) fn accepted(&self, gateway: &GatewayId, pushes: &[Push]) {
        let mut deliveries = self.checks.deliveries();
        for push in pushes {
            let Ok(text) = str::from_utf8(&push.frame) else { continue };
            let Some(entry) = Outbound::parse(text).ok().and_then(|outbound| PushedEntry::of(&outbound.frame)) else {
                continue;
            };
            for (connection, open) in &mut deliveries.connections {
                let is_meant = *open.gateway == *gateway.0 && push.recipients.contains(&open.user_id);
                if is_meant && push.except != Some(*connection) {
                    open.unwritten.insert((entry.chat_id, entry.sequence));
                }
            }
        }
    }

    /// Records the outcome of a delivery to a gateway, as the calling fanout process knows it.
    pub(crate) fn delivered(&self, by: &str, gateway: &GatewayId, pushes: &[Push], is_delivered: bool) {
        let mut deliveries = self.checks.deliveries();
        let pair = (by.to_owned(), gateway.clone());
        let is_resync = |push: &Push| {
            let frame = str::from_utf8(&push.frame).ok().and_then(|text| Outbound::parse(text).ok());
            frame.is_some_and(|outbound| matches!(outbound.frame, ServerFrame::Resync(_)))
        };
        if is_delivered && pushes.iter().any(is_resync) {
            deliveries.undelivered.remove(&pair);
        } else if !is_delivered && pushes.iter().any(|push| ServerFrame::class_of(&push.frame) == PushClass::Durable) {
            deliveries.undelivered.insert(pair);
        }
    }

    /// Records the gateways that a fanout process takes for live. The clients of the others sync when they reconnect.
    pub(crate) fn taken_for_live(&self, by: &str, live: &[GatewayId]) {
        self.checks.deliveries().undelivered.retain(|(process, gateway)| process != by || live.contains(gateway));
    }

    /// Checks that a fanout process commits its offset only after its deliveries.
    pub(crate) fn commits_offset(&self, by: &str) {
        let deliveries = self.checks.deliveries();
        let pending = deliveries.undelivered.iter().find(|(process, _)| process == by).cloned();
        drop(deliveries);
        self.check(Invariant::CommitAfterProcess, pending.is_none(), || {
            format!("{by} commits its offset, and the clients of {pending:?} were not asked to resync")
        });
    }

    /// Records a connection whose first frame is written.
    pub(crate) fn established(&self, user_id: UserId, connection: ConnectionId, gateway: &str) {
        let open = OpenConnection { user_id, gateway: gateway.to_owned(), unwritten: BTreeSet::new() };
        self.checks.deliveries().connections.insert(connection, open);
    }

    /// Records the end of a connection.
    pub(crate) fn ended(&self, connection: ConnectionId) {
        self.checks.deliveries().connections.remove(&connection);
    }

    /// Checks that the clients of all open connections have received each message that their gateways have accepted, or
    /// were asked to resync.
    pub(crate) fn look_at_connections(&self) {
        let connections = std::mem::take(&mut self.checks.deliveries().connections);
        for (connection, OpenConnection { user_id, gateway, unwritten }) in connections {
            if self.directory.gateway(&GatewayId(gateway.as_str().into())).is_none() {
                continue;
            }
            self.check(Invariant::BackpressureSignaled, unwritten.is_empty(), || {
                format!("{connection} of {user_id} missed {unwritten:?}, and was not asked to resync")
            });
        }
    }

    /// Checks messages that a consumer has processed: every user with a connection throughout was pushed them.
    pub(crate) fn pushed(&self, began: Instant, records: &[Record], routes: &MemoryRoutes) {
        if !routes_are_steady(&self.plan) {
            return;
        }
        let skew = self.plan.skew_bound();
        for record in records {
            let Some(entry) = LoggedEntry::of(&record.event.body) else { continue };
            let LoggedEntry { chat_id, sequence, origin, .. } = entry;
            // A message may have been deleted since its event was read.
            let known = self.checks.committed(chat_id, sequence).and_then(|known| known.expires_at);
            let ends_soon = |at: Timestamp| at <= self.clock.now() + Duration::from_secs(10) + skew;
            if entry.expires_at.into_iter().chain(known).any(ends_soon) {
                continue;
            }
            let pushed = self.checks.deliveries().pushed.get(&(chat_id, sequence)).cloned().unwrap_or_default();
            for user_id in self.checks.first_members(chat_id) {
                let stood = |route: &ports::Route| {
                    Some(route.connection_id) != origin
                        && self.clock.now().since(route.connected_at) > began.elapsed() + Duration::from_secs(5) + skew
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
        match &frame {
            ServerFrame::Resync(_) => {
                if let Some(open) = self.checks.deliveries().connections.get_mut(&connection) {
                    open.unwritten.clear();
                }
            }
            ServerFrame::TypingIndicator(typing) => self.look_at_signal(user_id, typing.chat_id, typing.user_id),
            ServerFrame::Receipt(receipt) => self.look_at_signal(user_id, receipt.chat_id, receipt.user_id),
            ServerFrame::Error(error) if error.code == protocol::ErrorCode::SlowConsumer => {
                self.checks.deliveries().warned.insert(connection);
            }
            frame => {
                if let Some(entry) = PushedEntry::of(frame) {
                    self.written_entry(user_id, connection, entry);
                }
            }
        }
    }

    fn written_entry(&self, user_id: UserId, connection: ConnectionId, entry: PushedEntry) {
        let PushedEntry { chat_id, sequence, .. } = entry;
        if let Some(open) = self.checks.deliveries().connections.get_mut(&connection) {
            open.unwritten.remove(&(chat_id, sequence));
        }
        let (is_member, changed_at) = self.checks.membership(chat_id, user_id);
        let since = changed_at.map_or(Duration::ZERO, |at| at.elapsed());
        self.check(Invariant::OnlyMembersReceive, is_member || since <= leak_max(&self.plan), || {
            format!("{user_id} gets {sequence} of {chat_id}, which they left {since:?} ago")
        });
    }

    /// Checks a typing indicator or a receipt on its way to a client: in a direct chat it is hidden from a user while
    /// either has blocked the other.
    fn look_at_signal(&self, recipient: UserId, chat_id: ChatId, user_id: UserId) {
        let chat = now(self.store.chat(chat_id)).flatten();
        if recipient == user_id || chat.is_none_or(|chat| chat.chat_type != ChatType::Direct) {
            return;
        }
        let blocked_for = self.checks.blocked_for(recipient, user_id);
        let holds = blocked_for.is_none_or(|blocked_for| blocked_for <= leak_max(&self.plan));
        self.check(Invariant::PrivacyEnforced, holds, || {
            format!("{recipient} is shown what {user_id} does in {chat_id}, blocked {blocked_for:?} ago")
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

/// Whether the routes of connections that stay open are found all the time.
fn routes_are_steady(plan: &RunPlan) -> bool {
    let is_harmless = |fault: &PlannedFault| match fault {
        PlannedFault::StoreAway { .. }
        | PlannedFault::Throttle { .. }
        | PlannedFault::LogAway { .. }
        | PlannedFault::Unreadable { .. }
        | PlannedFault::DiskFails { .. }
        | PlannedFault::ReceiverAway { .. }
        | PlannedFault::Cut { .. } => true,
        PlannedFault::Kill { process, .. } | PlannedFault::Roll { process, .. } => {
            plan.shape == RunShape::Fleet && *process >= plan.size.gateways
        }
        PlannedFault::Step { .. }
        | PlannedFault::Pause { .. }
        | PlannedFault::Part { .. }
        | PlannedFault::SharedAway { .. }
        | PlannedFault::Wipe => false,
    };
    plan.rates.shared_fails == 0.0 && plan.faults.iter().all(|fault| is_harmless(&fault.what))
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
