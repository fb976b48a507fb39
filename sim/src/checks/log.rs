use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use domain::{ChatId, ConnectionId, Event, EventBody, EventId, Invariant, MessageId, Sequence, Timestamp};
use ports::{AuditSource, Clock, Record};

use super::store::now;
use crate::trace::{TraceActor, TraceEvent};
use crate::world::World;

/// Published and processed events of the log.
#[derive(Default)]
pub(crate) struct LogObservations {
    /// The highest published sequence of each chat.
    published: BTreeMap<ChatId, Sequence>,
    entries: BTreeSet<(ChatId, Sequence)>,
    /// Events that a consumer has processed before its commit.
    processed: BTreeSet<EventId>,
}

/// The entry of a chat that an event announces.
#[derive(Clone, Copy)]
pub(super) struct LoggedEntry {
    pub(super) message_id: MessageId,
    pub(super) chat_id: ChatId,
    pub(super) sequence: Sequence,
    pub(super) expires_at: Option<Timestamp>,
    /// The connection that gets no push of it.
    pub(super) origin: Option<ConnectionId>,
}

impl LoggedEntry {
    pub(super) fn of(body: &EventBody) -> Option<Self> {
        match body {
            EventBody::MessagePersisted { message, origin_connection_id } => Some(Self {
                message_id: message.message_id,
                chat_id: message.chat_id,
                sequence: message.sequence,
                expires_at: message.expires_at,
                origin: *origin_connection_id,
            }),
            EventBody::MessageUpdated { update, .. } => Some(Self {
                message_id: update.update_id,
                chat_id: update.chat_id,
                sequence: update.sequence,
                expires_at: update.expires_at,
                origin: None,
            }),
            _ => None,
        }
    }

    pub(super) fn is_expired(&self, at: Timestamp) -> bool {
        self.expires_at.is_some_and(|end| end <= at)
    }
}

impl World {
    /// Checks events that were just published.
    pub(crate) fn published(&self, events: &[Arc<Event>]) {
        for event in events {
            if let Some(entry) = LoggedEntry::of(&event.body) {
                self.look_at_published(entry);
            }
        }
    }

    fn look_at_published(&self, entry: LoggedEntry) {
        let LoggedEntry { message_id, chat_id, sequence, .. } = entry;
        self.note(TraceActor::Log, TraceEvent::Published { chat_id, sequence });
        let committed = self.checks.committed(chat_id, sequence);
        let row = now(self.store.stored(&[(chat_id, sequence)])).and_then(|mut rows| rows.pop().flatten());
        // The message may have been erased since its event was read.
        let is_over = |at| committed.and_then(|known| known.expires_at).is_some_and(|end| end <= at);
        let is_gone = entry.is_expired(self.clock.now()) || is_over(self.clock.now());
        let is_row = row.is_some_and(|row| row.message_id == Some(message_id));
        let is_stored = is_row && committed.is_some_and(|known| known.message_id == message_id);
        for invariant in [Invariant::LogReflectsStore, Invariant::WriteOrderPreserved] {
            self.check(invariant, is_stored || is_gone, || {
                format!("{message_id} is published as {sequence} of {chat_id}, and is not stored")
            });
        }
        let mut logged = self.checks.logged();
        let is_first = logged.entries.insert((chat_id, sequence));
        let before = logged.published.get(&chat_id).copied().unwrap_or_default();
        logged.published.insert(chat_id, before.max(sequence));
        drop(logged);
        // With skewed clocks, the message may have expired for one relay and not yet for another.
        let latest = self.clock.now() + self.plan.skew_bound();
        let may_be_gone = entry.is_expired(latest) || is_over(latest);
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
            .filter_map(|record| LoggedEntry::of(&record.event.body))
            .map(|entry| (entry.chat_id, entry.sequence))
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
            let is_gone = LoggedEntry::of(&record.event.body).is_some_and(|entry| entry.is_expired(clock));
            let is_processed = self.checks.logged().processed.contains(&record.event.event_id);
            self.check(Invariant::CommitAfterProcess, is_processed || is_gone, || {
                format!("the group has committed past {}, which no consumer has processed", record.event.event_id)
            });
        }
    }
}
