use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use domain::{ChatId, DeviceId, Event, EventBody, EventId, EventNumber, Invariant, MessageId, Timestamp, UserId};
use ports::{
    Clock, DeadLetterStore, MessageReader, Notice, NoticeStore, PushDeviceStore, Record, Settled, UndeliveredItem,
};
use tokio::time::Instant;

use super::log::LoggedEntry;
use super::store::now;
use crate::plan::{PlannedFault, RunPlan, RunShape};
use crate::world::World;

/// The calls that the application's server has received, and the users for whom notices were queued.
#[derive(Default)]
pub(crate) struct OutwardObservations {
    /// The events of each chat that are in the log.
    logged: BTreeMap<ChatId, BTreeMap<EventNumber, EventId>>,
    /// For each event that the webhook has read, the events before it that were in the log then.
    earlier: BTreeMap<EventId, Vec<EventId>>,
    /// When each event with a limited lifetime expires.
    ends: BTreeMap<EventId, Timestamp>,
    /// The message of each event that has one. It may be erased before its end.
    messages: BTreeMap<EventId, MessageId>,
    received: BTreeSet<EventId>,
    /// When the last notice of a chat was queued for a user.
    noticed: BTreeMap<(UserId, ChatId), Instant>,
    /// The notices that a process has taken and none has settled.
    taken: BTreeMap<NoticeTarget, Notice>,
    /// The devices whose push service has received a notification that no process has settled yet.
    notified: BTreeSet<NoticeTarget>,
}

/// The recipient, the chat and the device of a notice.
pub(crate) type NoticeTarget = (UserId, ChatId, DeviceId);

fn target(notice: &Notice) -> NoticeTarget {
    (notice.user_id, notice.chat_id, notice.device_id)
}

/// A notice that is due for so long is lost.
const OVERDUE: Duration = Duration::from_secs(45);
/// Longer than any notice waits.
const FOREVER: Duration = Duration::from_secs(24 * 60 * 60);
/// How long a user is offline before a notice is certain.
const ABSENT: Duration = Duration::from_secs(10);

impl World {
    /// Records an event that is in the log.
    pub(crate) fn logged(&self, event: &Event) {
        let mut outward = self.checks.outward();
        let expires_at = LoggedEntry::of(&event.body).and_then(|entry| entry.expires_at);
        outward.ends.extend(expires_at.map(|at| (event.event_id, at)));
        if let EventBody::MessagePersisted { message, .. } = &event.body {
            outward.messages.insert(event.event_id, message.message_id);
        }
        if let Some(number) = event.event_number {
            outward.logged.entry(event.body.chat_id()).or_default().insert(number, event.event_id);
        }
    }

    /// Records events that the webhook has read from the log.
    pub(crate) fn webhook_reads(&self, records: &[Record]) {
        for Record { event, .. } in records {
            if self.plan.shape == RunShape::Node {
                self.logged(event);
            }
            let Some(number) = event.event_number else { continue };
            let mut outward = self.checks.outward();
            let before = outward.logged.get(&event.body.chat_id()).into_iter().flat_map(|chat| chat.range(..number));
            let before: Vec<EventId> = before.map(|(_, event_id)| *event_id).collect();
            outward.earlier.entry(event.event_id).or_insert(before);
        }
    }

    /// Checks an event that the application's server takes: it has taken those before it, unless they were given up.
    pub(crate) fn received(&self, event: &Event) {
        let mut outward = self.checks.outward();
        if !outward.received.insert(event.event_id) {
            return;
        }
        let earlier = outward.earlier.get(&event.event_id).cloned().unwrap_or_default();
        drop(outward);
        if keeps_webhook_order(&self.plan) {
            let settled = self.settled_events();
            let missing = earlier.iter().find(|event_id| !settled(**event_id));
            self.check(Invariant::WebhookKeepsOrder, missing.is_none(), || {
                let (chat_id, number) = (event.body.chat_id(), event.event_number);
                format!("the webhook gets {number:?} of {chat_id} before {missing:?}, which was in the log")
            });
        }
    }

    /// Whether an event has reached the application's server, was given up, or may have expired or been erased.
    fn settled_events(&self) -> impl Fn(EventId) -> bool + '_ {
        let letters = now(self.store.dead_letters(None, usize::MAX)).unwrap_or_default();
        let dead: BTreeSet<EventId> = letters
            .into_iter()
            .filter_map(|letter| match letter.what {
                UndeliveredItem::Event { event_id, .. } => Some(event_id),
                _ => None,
            })
            .collect();
        let latest = self.clock.now() + self.plan.skew_bound();
        let outward = self.checks.outward();
        let (received, ends, messages) = (outward.received.clone(), outward.ends.clone(), outward.messages.clone());
        let is_erased = move |message_id: &MessageId| now(self.store.by_id(*message_id, latest)) == Some(None);
        move |event_id| {
            let may_be_gone = ends.get(&event_id).is_some_and(|end| *end <= latest);
            let is_settled = received.contains(&event_id) || dead.contains(&event_id) || may_be_gone;
            is_settled || messages.get(&event_id).is_some_and(&is_erased)
        }
    }

    /// Records notices that are queued.
    pub(crate) fn noticed(&self, notices: &[Notice]) {
        let mut outward = self.checks.outward();
        outward.noticed.extend(notices.iter().map(|notice| ((notice.user_id, notice.chat_id), Instant::now())));
    }

    /// Checks notices that a process takes: none replaces one that was taken and not settled.
    pub(crate) fn notices_taken(&self, notices: &[Notice]) {
        for notice in notices {
            let before = self.checks.outward().taken.insert(target(notice), notice.clone());
            let is_kept = before.as_ref().is_none_or(|before| before.from == notice.from);
            self.check(Invariant::OutwardAtLeastOnce, is_kept, || format!("{notice:?} is in the place of {before:?}"));
        }
    }

    /// Records that a push service has received a notification.
    pub(crate) fn notified(&self, target: NoticeTarget) {
        self.checks.outward().notified.insert(target);
    }

    /// Checks a notice that a process settles. A delivered notice must have reached its push service.
    pub(crate) fn notice_settled(&self, notice: &Notice, settled: Settled) {
        if let Settled::Again { .. } = settled {
            return;
        }
        let mut outward = self.checks.outward();
        // Another process may have settled it, and the next one may have been taken.
        if outward.taken.get(&target(notice)).is_none_or(|taken| taken.from != notice.from) {
            return;
        }
        outward.taken.remove(&target(notice));
        let has_arrived = outward.notified.remove(&target(notice));
        drop(outward);
        if let Settled::Notified { .. } = settled {
            self.check(Invariant::OutwardAtLeastOnce, has_arrived, || {
                format!("{notice:?} counts as delivered, and its push service has not received it")
            });
        }
    }

    /// Checks messages that the notify plane has processed: each member who is offline for long has a notice since then.
    pub(crate) fn look_at_noticed(&self, began: Instant, records: &[Record]) {
        for Record { event, .. } in records {
            let EventBody::MessagePersisted { message, .. } = &event.body else { continue };
            let patience = began.elapsed() + ABSENT + self.plan.skew_bound();
            if message.is_expired(self.clock.now() + patience) {
                continue;
            }
            for user_id in self.checks.first_members(message.chat_id) {
                let has_device = now(self.store.devices(&[user_id])).is_some_and(|devices| !devices.is_empty());
                let Some(since) = self.checks.unrouted_since(user_id).filter(|since| since.elapsed() > patience) else {
                    continue;
                };
                if user_id == message.sender_id || !has_device {
                    continue;
                }
                let noticed_at = self.checks.outward().noticed.get(&(user_id, message.chat_id)).copied();
                self.check(Invariant::OutwardAtLeastOnce, noticed_at.is_some_and(|at| at >= since), || {
                    let (sequence, chat_id) = (message.sequence, message.chat_id);
                    format!("{user_id} is offline and has no notice of {sequence} of {chat_id}")
                });
            }
        }
    }

    /// Checks at the end of a run that every event has reached the application's server, and that no notice is left.
    pub(crate) fn look_at_outward(&self, records: &[Record]) {
        let settled = self.settled_events();
        for Record { event, .. } in records {
            self.check(Invariant::OutwardAtLeastOnce, settled(event.event_id), || {
                let (event_id, chat_id) = (event.event_id, event.body.chat_id());
                format!("{event_id} of {chat_id} has not reached the application's server, and is no dead letter")
            });
        }
        let due = self.clock.now().minus(OVERDUE);
        let left = now(self.store.take_due(due, due, usize::MAX)).unwrap_or_default();
        self.check(Invariant::OutwardAtLeastOnce, left.is_empty(), || format!("no process delivers {left:?}"));
        let end = self.clock.now() + FOREVER;
        let pending = now(self.store.take_due(end, end, usize::MAX)).unwrap_or_default();
        let pending: BTreeSet<NoticeTarget> = pending.iter().map(target).collect();
        let taken = self.checks.outward().taken.clone();
        let lost: Vec<&Notice> = taken.values().filter(|notice| !pending.contains(&target(notice))).collect();
        self.check(Invariant::OutwardAtLeastOnce, lost.is_empty(), || format!("{lost:?} were taken and then lost"));
    }
}

/// Whether the webhook can keep the order: its consumers change only on a node, which has one, and the log answers.
fn keeps_webhook_order(plan: &RunPlan) -> bool {
    let first_api = plan.size.processes() - plan.size.apis;
    let is_harmless = |fault: &PlannedFault| match fault {
        PlannedFault::Kill { process, .. }
        | PlannedFault::Roll { process, .. }
        | PlannedFault::Pause { process, .. } => *process < first_api,
        PlannedFault::LogAway { .. } => false,
        _ => true,
    };
    plan.shape == RunShape::Node || plan.faults.iter().all(|fault| is_harmless(&fault.what))
}
