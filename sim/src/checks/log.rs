use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use domain::{ChatId, Event, EventBody, EventId, Invariant, Message, Sequence};
use ports::{Clock, MessageReader, Record};

use super::store::now;
use crate::trace::{TraceActor, TraceEvent};
use crate::world::World;

/// Published and processed events of the log.
#[derive(Default)]
pub(crate) struct LogObservations {
    /// The highest published sequence of each chat.
    published: BTreeMap<ChatId, Sequence>,
    messages: BTreeSet<(ChatId, Sequence)>,
    /// Events that a consumer has processed before its commit.
    processed: BTreeSet<EventId>,
}

impl World {
    /// Checks events that were just published.
    pub(crate) fn published(&self, events: &[Arc<Event>]) {
        for event in events {
            let EventBody::MessagePersisted { message, .. } = &event.body else { continue };
            self.look_at_published(message);
        }
    }

    fn look_at_published(&self, message: &Message) {
        let (chat_id, sequence) = (message.chat_id, message.sequence);
        self.note(TraceActor::Log, TraceEvent::Published { chat_id, sequence });
        let committed = self.checks.committed(chat_id, sequence);
        let row = now(self.store.by_id(message.message_id, domain::Timestamp::from_millis(0))).flatten();
        // The message may have been erased since its event was read.
        let is_over = |at| committed.and_then(|(_, expires_at)| expires_at).is_some_and(|end| end <= at);
        let is_gone = message.is_expired(self.clock.now()) || is_over(self.clock.now());
        let is_stored = row.is_some() && committed.is_some_and(|(message_id, _)| message_id == message.message_id);
        for invariant in [Invariant::LogReflectsStore, Invariant::WriteOrderPreserved] {
            self.check(invariant, is_stored || is_gone, || {
                format!("{} is published as {sequence} of {chat_id}, and is not stored", message.message_id)
            });
        }
        let mut logged = self.checks.logged();
        let is_first = logged.messages.insert((chat_id, sequence));
        let before = logged.published.get(&chat_id).copied().unwrap_or_default();
        logged.published.insert(chat_id, before.max(sequence));
        drop(logged);
        // With skewed clocks, the message may have expired for one relay and not yet for another.
        let latest = self.clock.now() + self.plan.skew_bound();
        let may_be_gone = message.is_expired(latest) || is_over(latest);
        if is_first && !may_be_gone {
            self.check(Invariant::OrderingPreserved, sequence > before, || {
                format!("{sequence} of {chat_id} is published for the first time after {before}")
            });
        }
    }

    /// Records events that a consumer has processed.
    pub(crate) fn processed(&self, records: &[Record]) {
        let mut logged = self.checks.logged();
        logged.processed.extend(records.iter().map(|record| record.event.event_id));
    }

    /// Checks the log at the end of the run.
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
        let mut numbered = BTreeMap::new();
        for Record { event, .. } in records {
            if let Some(event_number) = event.event_number {
                let chat_id = event.body.chat_id();
                let first = *numbered.entry((chat_id, event_number)).or_insert(event.event_id);
                self.check(Invariant::OrderingPreserved, first == event.event_id, || {
                    format!("{first} and {} both have number {event_number} of {chat_id}", event.event_id)
                });
            }
        }
        for record in records {
            let is_gone = match &record.event.body {
                EventBody::MessagePersisted { message, .. } => message.is_expired(clock),
                _ => false,
            };
            let is_processed = self.checks.logged().processed.contains(&record.event.event_id);
            self.check(Invariant::CommitAfterProcess, is_processed || is_gone, || {
                format!("the group has committed past {}, which no consumer has processed", record.event.event_id)
            });
        }
    }
}
