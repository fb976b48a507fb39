use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use domain::{ChatId, Event, EventBody, EventId, Invariant, Message, Sequence};
use ports::{Clock, MessageReader, Record};

use super::store::now;
use crate::trace::{Actor, What};
use crate::world::World;

/// What the log has, and what became of it.
#[derive(Default)]
pub(crate) struct Logged {
    /// The highest sequence of each chat that has been published.
    published: BTreeMap<ChatId, Sequence>,
    messages: BTreeSet<(ChatId, Sequence)>,
    /// What a consumer was given, and has said to have dealt with.
    processed: BTreeSet<EventId>,
    handed: BTreeSet<EventId>,
}

impl World {
    /// Looks at events that have just got into the log.
    pub(crate) fn published(&self, events: &[Arc<Event>]) {
        for event in events {
            let EventBody::MessagePersisted { message, .. } = &event.body else { continue };
            self.look_at_published(message);
        }
    }

    fn look_at_published(&self, message: &Message) {
        let (chat_id, sequence) = (message.chat_id, message.sequence);
        self.note(Actor::Log, What::Published { chat_id, sequence });
        let committed = self.checks.committed(chat_id, sequence);
        let row = now(self.store.by_id(message.message_id, domain::Timestamp::from_millis(0))).flatten();
        let is_gone = message.is_expired(self.clock.now());
        let is_stored = row.is_some() && committed.is_some_and(|(message_id, _)| message_id == message.message_id);
        for invariant in [Invariant::KafkaReflectsDynamodb, Invariant::WriteOrderPreserved] {
            self.check(invariant, is_stored || is_gone, || {
                format!("{} is published as {sequence} of {chat_id}, and is not stored", message.message_id)
            });
        }
        let mut logged = self.checks.logged();
        let is_first = logged.messages.insert((chat_id, sequence));
        let before = logged.published.get(&chat_id).copied().unwrap_or_default();
        logged.published.insert(chat_id, before.max(sequence));
        drop(logged);
        // By the clock of one relay it may be gone, and by that of another not yet.
        let may_be_gone = message.is_expired(self.clock.now() + self.plan.skew_bound());
        if is_first && !may_be_gone {
            self.check(Invariant::OrderingPreserved, sequence > before, || {
                format!("{sequence} of {chat_id} is published for the first time after {before}")
            });
        }
    }

    /// Takes note of events that a consumer is given. Such as were given before have to change nothing.
    pub(crate) fn handed(&self, records: &[Record]) {
        let mut logged = self.checks.logged();
        let repeated = records.iter().filter(|record| !logged.handed.insert(record.event.event_id)).count();
        drop(logged);
        self.checks.findings().checked(Invariant::ReplaySafe, repeated as u64);
    }

    /// Takes note that a consumer has dealt with events.
    pub(crate) fn processed(&self, records: &[Record]) {
        let mut logged = self.checks.logged();
        logged.processed.extend(records.iter().map(|record| record.event.event_id));
    }

    /// Looks at the log when everything has had its time.
    pub(crate) fn look_at_log(&self, records: &[Record]) {
        let clock = self.clock.now();
        let published: BTreeSet<(ChatId, Sequence)> = records
            .iter()
            .filter_map(|record| match &record.event.body {
                EventBody::MessagePersisted { message, .. } => Some((message.chat_id, message.sequence)),
                _ => None,
            })
            .collect();
        for (chat_id, sequence, expires_at) in self.checks.all_committed() {
            if expires_at.is_some_and(|at| at <= clock) {
                continue;
            }
            self.check(Invariant::PublishedEventually, published.contains(&(chat_id, sequence)), || {
                format!("{sequence} of {chat_id} was committed and is not in the log")
            });
        }
        for record in records {
            let is_gone = match &record.event.body {
                EventBody::MessagePersisted { message, .. } => message.is_expired(clock),
                _ => false,
            };
            let is_processed = self.checks.logged().processed.contains(&record.event.event_id);
            self.check(Invariant::CommitAfterProcess, is_processed || is_gone, || {
                format!("the group has passed {}, and nobody has processed it", record.event.event_id)
            });
        }
    }
}
