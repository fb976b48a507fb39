use std::collections::{BTreeMap, BTreeSet};

use domain::{ChatId, Invariant, Sequence, Timestamp};
use ports::{AuditPage, AuditedChatState, AuditedRecord, ConsumerOffset, LoggedChange, StoredEntry};

use super::RowChecks;
use super::ranges::Ranges;

/// Most chats with log state. The log of other chats is only checked against the store.
const CHATS_MAX: usize = 500_000;
/// Most ranges of sequences that are kept until the log explains them.
const RANGES_MAX: usize = 500_000;

/// A sequence of a chat.
pub(crate) type ChatSequence = (ChatId, Sequence);

/// State of the log, after the records read so far.
#[derive(Debug, Default)]
pub(crate) struct LogState {
    chats: BTreeMap<ChatId, SequenceSpan>,
    /// Sequences that were skipped by a later one in the log.
    unlogged: Ranges,
    /// Sequences in the log that are not stored.
    missing: Ranges,
    /// Expired sequences. An expiry event may precede the log record of a later message, or be repeated after it.
    expired: BTreeSet<ChatSequence>,
    /// The time of the oldest record.
    begins: Option<Timestamp>,
    /// Messages that first appear after a later one of their chat, unless they have expired.
    late: BTreeSet<ChatSequence>,
    /// Whether state was dropped because of a limit.
    is_partial: bool,
}

/// The range of a chat's messages in the log.
#[derive(Clone, Copy, Debug)]
struct SequenceSpan {
    first: Sequence,
    last: Sequence,
}

/// A range of sequences that the log does not explain.
pub(crate) enum UnexplainedRange {
    /// Missing in the log, although later ones are there.
    Unlogged(ChatId, Sequence, Sequence),
    /// In the log, but not in the store.
    Missing(ChatId, Sequence, Sequence),
}

impl LogState {
    /// Reads the next records of the log. Records never change, so violations between them need no re-check.
    pub(crate) fn take(&mut self, page: &AuditPage<AuditedRecord>, each_once: bool, bytes_max: usize) -> RowChecks {
        let mut look = RowChecks::default();
        for audited in &page.rows {
            let Some(record) = look.sound(audited, bytes_max) else { continue };
            self.begins = Some(self.begins.map_or(record.time, |begins| begins.min(record.time)));
            match &record.what {
                LoggedChange::Message { sequence, expires_at, .. } => {
                    // With two publishers, one may skip a message that has expired by its clock while the other publishes it.
                    let may_be_late = !each_once && expires_at.is_some();
                    let mut wrong = self.message(record, *sequence, each_once).filter(|_| !may_be_late);
                    if !each_once && wrong.take().is_some() {
                        // It may have been erased since one of them read it.
                        self.postpone((record.chat_id, *sequence));
                    }
                    look.check(Invariant::OrderingPreserved, wrong.is_none(), || {
                        let subject = format!("{} sequence {sequence}", record.chat_id);
                        (subject, wrong.unwrap_or_default().to_owned())
                    });
                    look.check(Invariant::NoZeroSequence, *sequence > Sequence::ZERO, || {
                        (format!("{} in the log", record.chat_id), "an event has sequence 0".to_owned())
                    });
                }
                LoggedChange::Expired(sequences) => {
                    for sequence in sequences {
                        self.expire((record.chat_id, *sequence));
                    }
                }
                LoggedChange::Change => {}
            }
        }
        look
    }

    /// Records a message of the log. Returns a description if its position is wrong.
    fn message(&mut self, record: &AuditedRecord, sequence: Sequence, each_once: bool) -> Option<&'static str> {
        let AuditedRecord { chat_id, came_since, .. } = *record;
        let is_full = self.chats.len() >= CHATS_MAX;
        let Some(span) = self.chats.get_mut(&chat_id) else {
            if is_full {
                self.is_partial = true;
            } else {
                self.chats.insert(chat_id, SequenceSpan { first: sequence, last: sequence });
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
            return Some("it first appears in the log after a later message");
        }
        each_once.then_some("it is in the log twice")
    }

    fn expire(&mut self, location: ChatSequence) {
        self.unlogged.remove(location.0, location.1);
        self.missing.remove(location.0, location.1);
        self.late.remove(&location);
        if self.expired.len() >= RANGES_MAX {
            self.is_partial = true;
        } else {
            self.expired.insert(location);
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

    fn postpone(&mut self, location: ChatSequence) {
        if self.late.len() >= RANGES_MAX {
            self.is_partial = true;
        } else if !self.expired.contains(&location) {
            self.late.insert(location);
        }
    }

    /// The messages that are out of order, after the whole log was read. The store says which have expired.
    pub(crate) fn take_late(&mut self) -> Vec<ChatSequence> {
        std::mem::take(&mut self.late).into_iter().collect()
    }

    /// Records a message of the log that is not stored. If it has expired, a later record says so.
    pub(crate) fn miss(&mut self, (chat_id, sequence): ChatSequence) {
        if self.expired.contains(&(chat_id, sequence)) {
            return;
        }
        if self.missing.len() >= RANGES_MAX {
            self.is_partial = true;
        } else {
            // A record may be repeated.
            self.missing.remove(chat_id, sequence);
            self.missing.insert(chat_id, sequence, sequence);
        }
    }

    /// The next range that is unexplained after the whole log was read.
    pub(crate) fn pop_open(&mut self) -> Option<UnexplainedRange> {
        if let Some((chat_id, first, last)) = self.unlogged.pop() {
            return Some(UnexplainedRange::Unlogged(chat_id, first, last));
        }
        self.missing.pop().map(|(chat_id, first, last)| UnexplainedRange::Missing(chat_id, first, last))
    }

    /// Whether the log should contain a message of this time but does not.
    pub(crate) fn lacks(&self, (chat_id, sequence): ChatSequence, created_at: Timestamp) -> bool {
        let Some(begins) = self.begins else { return false };
        match self.chats.get(&chat_id) {
            Some(span) => sequence > span.last,
            None => !self.is_partial && created_at >= begins,
        }
    }
}

/// The sequences and chats in a page of the log.
pub(crate) fn spoken_of(page: &AuditPage<AuditedRecord>) -> (Vec<ChatSequence>, Vec<ChatId>) {
    let (mut locations, mut chats) = (vec![], BTreeSet::new());
    for record in to_explain(page) {
        chats.insert(record.chat_id);
        match &record.what {
            LoggedChange::Message { sequence, .. } => locations.push((record.chat_id, *sequence)),
            LoggedChange::Expired(sequences) => {
                locations.extend(sequences.iter().map(|sequence| (record.chat_id, *sequence)))
            }
            LoggedChange::Change => {}
        }
    }
    (locations, chats.into_iter().collect())
}

/// The sequences that the records of a page announce as expired.
pub(crate) fn expired(page: &AuditPage<AuditedRecord>) -> BTreeSet<ChatSequence> {
    let records = page.rows.iter().filter_map(|audited| audited.row.as_ref().ok());
    let sequences = records.filter_map(|record| match &record.what {
        LoggedChange::Expired(sequences) => Some(sequences.iter().map(|sequence| (record.chat_id, *sequence))),
        LoggedChange::Message { .. } | LoggedChange::Change => None,
    });
    sequences.flatten().collect()
}

/// The records from before the audit. Later ones may be explained by data that is still being written.
fn to_explain(page: &AuditPage<AuditedRecord>) -> impl Iterator<Item = &AuditedRecord> {
    let records = page.rows.iter().filter_map(|audited| audited.row.as_ref().ok());
    records.filter(|record| !record.came_since)
}

/// The stored data for a page of the log: entries, the messages that updates among them have changed, and chats.
#[derive(Default)]
pub(crate) struct Reflected {
    pub(crate) stored: BTreeMap<ChatSequence, Option<StoredEntry>>,
    pub(crate) chats: BTreeMap<ChatId, AuditedChatState>,
}

impl Reflected {
    /// The messages that were changed by updates at these locations.
    pub(crate) fn targets(&self, locations: &[ChatSequence]) -> Vec<ChatSequence> {
        let target = |(chat_id, sequence): &ChatSequence| {
            let entry = self.stored.get(&(*chat_id, *sequence)).copied().flatten()?;
            Some((*chat_id, entry.target?))
        };
        locations.iter().filter_map(target).collect::<BTreeSet<_>>().into_iter().collect()
    }
}

/// Checks a page of the log against the store. Also returns the entries that are not stored, and the missing messages of
/// updates. A message was there when its update was committed, so the log has a later event that it is gone, unless the
/// update is from before `kept_since`.
pub(crate) fn reflect(
    page: &AuditPage<AuditedRecord>,
    store: &Reflected,
    now: Timestamp,
    kept_since: Timestamp,
) -> (RowChecks, Vec<ChatSequence>) {
    let (mut look, mut missing) = (RowChecks::default(), vec![]);
    for record in to_explain(page) {
        let chat_id = record.chat_id;
        let standing = store.chats.get(&chat_id).copied().unwrap_or_default();
        let at = |sequence: Sequence| store.stored.get(&(chat_id, sequence)).copied().flatten();
        look.check(Invariant::LogReflectsStore, standing.exists, || {
            (format!("{chat_id} in the log"), "an event belongs to a chat that is not stored".to_owned())
        });
        match &record.what {
            LoggedChange::Message { sequence, message_id, expires_at } => {
                let subject = || format!("{chat_id} sequence {sequence}");
                if let Some(head) = standing.head {
                    look.check(Invariant::CounterLowerBound, *sequence <= head, || {
                        (subject(), format!("the log has an event for it, but the head of the chat is at {head}"))
                    });
                }
                match at(*sequence) {
                    Some(stored) => {
                        look.check(Invariant::SequenceContiguous, true, Default::default);
                        let same = message_id.zip(stored.message_id).is_none_or(|(logged, stored)| logged == stored);
                        look.check(Invariant::SequenceUniqueness, same, || {
                            (subject(), "the log and the store have different messages there".to_owned())
                        });
                        let is_recent = record.time >= kept_since && stored.expires_at.is_none_or(|at| at > now);
                        if let Some(target) = stored.target.filter(|target| is_recent && at(*target).is_none()) {
                            missing.push((chat_id, target));
                        }
                    }
                    None if expires_at.is_some_and(|at| at <= now) => {
                        look.check(Invariant::SequenceContiguous, true, Default::default);
                    }
                    None => missing.push((chat_id, *sequence)),
                }
            }
            LoggedChange::Expired(sequences) => {
                for sequence in sequences {
                    look.check(Invariant::LogReflectsStore, at(*sequence).is_none(), || {
                        let subject = format!("{chat_id} sequence {sequence}");
                        (subject, "an event says that it was purged, but it is still stored".to_owned())
                    });
                }
            }
            LoggedChange::Change => {}
        }
    }
    (look, missing)
}

/// Checks the offsets of consumers.
pub(crate) fn consumers(offsets: &[ConsumerOffset]) -> RowChecks {
    let mut look = RowChecks::default();
    for ConsumerOffset { group, part, next, end } in offsets {
        look.check(Invariant::CommitAfterProcess, next <= end, || {
            let part = if part.is_empty() { String::new() } else { format!(" in {part}") };
            (format!("group `{group}`{part}"), format!("it has committed {next}, but the log ends at {end}"))
        });
    }
    look
}
