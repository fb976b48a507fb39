use std::collections::{BTreeMap, BTreeSet};

use domain::{ChatId, Invariant, Sequence, Timestamp};
use ports::{AuditPage, ChatStanding, ConsumerPlace, LogRow, Logged, StoredMessage};

use super::Look;
use super::ranges::Ranges;

/// Chats that are remembered, at the most. Of others the log is checked against the store alone.
const CHATS_MAX: usize = 500_000;
/// Ranges of sequences that are remembered until the log explains them, at the most.
const RANGES_MAX: usize = 500_000;

/// A sequence of a chat.
pub(crate) type Place = (ChatId, Sequence);

/// What the records so far have told.
#[derive(Debug, Default)]
pub(crate) struct LogState {
    chats: BTreeMap<ChatId, Span>,
    /// Sequences that a later one came before.
    unlogged: Ranges,
    /// Sequences that were told of and are not stored.
    missing: Ranges,
    /// Sequences that have expired. The event of one may be purged before a later message is told of, or come again after.
    expired: BTreeSet<Place>,
    /// The time of the oldest record.
    begins: Option<Timestamp>,
    /// Whether something found no room.
    is_partial: bool,
}

/// The messages of a chat that the log has told of.
#[derive(Clone, Copy, Debug)]
struct Span {
    first: Sequence,
    last: Sequence,
}

/// A range of sequences that the log leaves open.
pub(crate) enum Open {
    /// Later ones are in the log and these are not.
    Unlogged(ChatId, Sequence, Sequence),
    /// They are in the log and not in the store.
    Missing(ChatId, Sequence, Sequence),
}

impl LogState {
    /// Takes the next records of the log. What they say of each other never changes, so it is no suspect: it is believed.
    pub(crate) fn take(&mut self, page: &AuditPage<LogRow>, each_once: bool, bytes_max: usize) -> Look {
        let mut look = Look::default();
        for audited in &page.rows {
            let Some(record) = look.sound(audited, bytes_max) else { continue };
            self.begins = Some(self.begins.map_or(record.time, |begins| begins.min(record.time)));
            match &record.what {
                Logged::Message { sequence, expires_at, .. } => {
                    // Of two who publish, one may find by its clock that a message has expired and pass it over, and the other not.
                    let may_be_late = !each_once && expires_at.is_some();
                    let wrong = self.message(record, *sequence, each_once).filter(|_| !may_be_late);
                    look.check(Invariant::OrderingPreserved, wrong.is_none(), || {
                        let subject = format!("{} sequence {sequence}", record.chat_id);
                        (subject, wrong.unwrap_or_default().to_owned())
                    });
                    look.check(Invariant::NoZeroSequence, *sequence > Sequence::ZERO, || {
                        (format!("{} in the log", record.chat_id), "an event tells of sequence 0".to_owned())
                    });
                }
                Logged::Expired(sequences) => {
                    for sequence in sequences {
                        self.expire((record.chat_id, *sequence));
                    }
                }
                Logged::Change => {}
            }
        }
        look
    }

    /// Notes a message of the log, and says what is wrong with its place there.
    fn message(&mut self, record: &LogRow, sequence: Sequence, each_once: bool) -> Option<&'static str> {
        let LogRow { chat_id, came_since, .. } = *record;
        let is_full = self.chats.len() >= CHATS_MAX;
        let Some(span) = self.chats.get_mut(&chat_id) else {
            if is_full {
                self.is_partial = true;
            } else {
                self.chats.insert(chat_id, Span { first: sequence, last: sequence });
            }
            return None;
        };
        if sequence > span.last {
            let (first, last) = (Sequence(span.last.0.saturating_add(1)), Sequence(sequence.0 - 1));
            span.last = sequence;
            if first <= last && !came_since {
                self.open(chat_id, first, last);
            }
            return None;
        }
        if self.unlogged.remove(chat_id, sequence) || (each_once && sequence < span.first) {
            return Some("it is in the log for the first time behind a later one");
        }
        each_once.then_some("it is in the log twice")
    }

    fn expire(&mut self, place: Place) {
        self.unlogged.remove(place.0, place.1);
        self.missing.remove(place.0, place.1);
        if self.expired.len() >= RANGES_MAX {
            self.is_partial = true;
        } else {
            self.expired.insert(place);
        }
    }

    fn open(&mut self, chat_id: ChatId, first: Sequence, last: Sequence) {
        if self.unlogged.len() >= RANGES_MAX {
            self.is_partial = true;
            return;
        }
        self.unlogged.insert(chat_id, first, last);
        for (chat_id, sequence) in self.expired.range((chat_id, first)..=(chat_id, last)) {
            self.unlogged.remove(*chat_id, *sequence);
        }
    }

    /// Notes a message of the log that is not stored. If it has expired, the log will say so.
    pub(crate) fn miss(&mut self, (chat_id, sequence): Place) {
        if self.expired.contains(&(chat_id, sequence)) {
            return;
        }
        if self.missing.len() >= RANGES_MAX {
            self.is_partial = true;
        } else {
            // An event may come again.
            self.missing.remove(chat_id, sequence);
            self.missing.insert(chat_id, sequence, sequence);
        }
    }

    /// The next range that the log, read to its end, has left open.
    pub(crate) fn pop_open(&mut self) -> Option<Open> {
        if let Some((chat_id, first, last)) = self.unlogged.pop() {
            return Some(Open::Unlogged(chat_id, first, last));
        }
        self.missing.pop().map(|(chat_id, first, last)| Open::Missing(chat_id, first, last))
    }

    /// Whether the log should have told of a message of this time and has not.
    pub(crate) fn lacks(&self, (chat_id, sequence): Place, created_at: Timestamp) -> bool {
        let Some(begins) = self.begins else { return false };
        match self.chats.get(&chat_id) {
            Some(span) => sequence > span.last,
            None => !self.is_partial && created_at >= begins,
        }
    }
}

/// The places and chats that a page of the log speaks of.
pub(crate) fn spoken_of(page: &AuditPage<LogRow>) -> (Vec<Place>, Vec<ChatId>) {
    let (mut places, mut chats) = (vec![], BTreeSet::new());
    for record in to_explain(page) {
        chats.insert(record.chat_id);
        match &record.what {
            Logged::Message { sequence, .. } => places.push((record.chat_id, *sequence)),
            Logged::Expired(sequences) => places.extend(sequences.iter().map(|sequence| (record.chat_id, *sequence))),
            Logged::Change => {}
        }
    }
    (places, chats.into_iter().collect())
}

/// The records that were there when the audit began. Of others it may be on its way what explains them.
fn to_explain(page: &AuditPage<LogRow>) -> impl Iterator<Item = &LogRow> {
    let records = page.rows.iter().filter_map(|audited| audited.row.as_ref().ok());
    records.filter(|record| !record.came_since)
}

/// What the store has of a page of the log.
#[derive(Default)]
pub(crate) struct Reflected {
    pub(crate) stored: BTreeMap<Place, Option<StoredMessage>>,
    pub(crate) chats: BTreeMap<ChatId, ChatStanding>,
}

/// A page of the log against the store, and the messages that are not stored.
pub(crate) fn reflect(page: &AuditPage<LogRow>, store: &Reflected, now: Timestamp) -> (Look, Vec<Place>) {
    let (mut look, mut missing) = (Look::default(), vec![]);
    for record in to_explain(page) {
        let chat_id = record.chat_id;
        let standing = store.chats.get(&chat_id).copied().unwrap_or_default();
        let at = |sequence: Sequence| store.stored.get(&(chat_id, sequence)).copied().flatten();
        look.check(Invariant::KafkaReflectsDynamodb, standing.exists, || {
            (format!("{chat_id} in the log"), "an event tells of a chat that is not stored".to_owned())
        });
        match &record.what {
            Logged::Message { sequence, message_id, expires_at } => {
                let subject = || format!("{chat_id} sequence {sequence}");
                if let Some(head) = standing.head {
                    look.check(Invariant::CounterLowerBound, *sequence <= head, || {
                        (subject(), format!("an event tells of it, and the head of the chat is at {head}"))
                    });
                }
                match at(*sequence) {
                    Some(stored) => {
                        look.check(Invariant::SequenceContiguous, true, Default::default);
                        let same = message_id.zip(stored.message_id).is_none_or(|(logged, stored)| logged == stored);
                        look.check(Invariant::SequenceUniqueness, same, || {
                            (subject(), "the log and the store have different messages there".to_owned())
                        });
                    }
                    None if expires_at.is_some_and(|at| at <= now) => {
                        look.check(Invariant::SequenceContiguous, true, Default::default);
                    }
                    None => missing.push((chat_id, *sequence)),
                }
            }
            Logged::Expired(sequences) => {
                for sequence in sequences {
                    look.check(Invariant::KafkaReflectsDynamodb, at(*sequence).is_none(), || {
                        let subject = format!("{chat_id} sequence {sequence}");
                        (subject, "an event tells that it was purged, and it is stored".to_owned())
                    });
                }
            }
            Logged::Change => {}
        }
    }
    (look, missing)
}

/// Where consumers are.
pub(crate) fn consumers(places: &[ConsumerPlace]) -> Look {
    let mut look = Look::default();
    for ConsumerPlace { group, part, next, end } in places {
        look.check(Invariant::CommitAfterProcess, next <= end, || {
            let part = if part.is_empty() { String::new() } else { format!(" in {part}") };
            (format!("group `{group}`{part}"), format!("it has committed {next}, and the log ends at {end}"))
        });
    }
    look
}
