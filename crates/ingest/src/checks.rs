//! Checks of a store's results before they are passed on.
//!
//! A false acknowledgement is worse than none, because the client then discards its copy. An implausible result is
//! therefore treated as no result, and the client retries.

use std::collections::HashMap;
use std::sync::Arc;

use domain::{ChatId, Event, Invariant, MessageId, Sequence, Timestamp, WatermarkKind, Watermarks};
use ports::{AppendOutcome, NewEntry, Page, Receipt, SendRefusal, SyncRequest, holds, violated};

/// The expected entry of a send.
pub(crate) struct ExpectedEntry {
    chat_id: ChatId,
    message_id: MessageId,
}

impl ExpectedEntry {
    pub(crate) fn of(entry: &NewEntry) -> Self {
        Self { chat_id: entry.chat_id(), message_id: entry.message_id() }
    }
}

/// Checks the outcomes of commits. Reused between commits to keep its allocation.
#[derive(Default)]
pub(crate) struct OutcomeChecker {
    /// The last new message of each chat in this commit.
    last: HashMap<ChatId, Sequence>,
}

impl OutcomeChecker {
    /// Starts a commit and checks that there is one outcome for each send.
    pub(crate) fn begin_commit(&mut self, sends: usize, outcomes: usize) -> bool {
        self.last.clear();
        holds(Invariant::AckImpliesPersistence, sends == outcomes, || format!("{outcomes} outcomes of {sends} sends"))
    }

    /// Whether the next outcome may be sent to its client.
    pub(crate) fn may_be_sent(&mut self, expected: &ExpectedEntry, outcome: &AppendOutcome) -> bool {
        let ExpectedEntry { chat_id, message_id } = expected;
        match outcome {
            AppendOutcome::New(receipt) => {
                let is_ours = || {
                    holds(Invariant::AckImpliesPersistence, receipt.message_id == *message_id, || {
                        format!("message {message_id} of chat {chat_id} is acknowledged as {}", receipt.message_id)
                    })
                };
                has_sequence(*chat_id, receipt) && is_ours() && self.is_after_the_last(*chat_id, receipt.sequence)
            }
            AppendOutcome::Duplicate(receipt) => has_sequence(*chat_id, receipt),
            AppendOutcome::Refused(refusal) => {
                if *refusal == SendRefusal::CounterMissing {
                    violated(Invariant::CounterMustExist, format_args!("chat {chat_id}"));
                }
                true
            }
        }
    }

    /// New messages of a chat must ascend. Another process may have committed some between them.
    fn is_after_the_last(&mut self, chat_id: ChatId, sequence: Sequence) -> bool {
        let last = self.last.insert(chat_id, sequence).unwrap_or_default();
        holds(Invariant::WriteOrderPreserved, last < sequence, || {
            format!("sequence {sequence} of chat {chat_id} was assigned after {last}")
        })
    }
}

fn has_sequence(chat_id: ChatId, receipt: &Receipt) -> bool {
    holds(Invariant::NoZeroSequence, receipt.sequence > Sequence::ZERO, || {
        format!("message {} of chat {chat_id}", receipt.message_id)
    })
}

/// Whether a page may be returned for `request`. Its `after` is not above the head.
pub(crate) fn page_may_be_returned(request: &SyncRequest, now: Timestamp, page: &Page) -> bool {
    let SyncRequest { chat_id, after, .. } = *request;
    let mut last = after;
    for message in &page.messages {
        let sequence = message.sequence;
        let may_be_shown = holds(Invariant::OnlyMembersReceive, message.chat_id == chat_id, || {
            format!("a page of chat {chat_id} has message {sequence} of chat {}", message.chat_id)
        }) && holds(Invariant::SyncCompleteness, last < sequence, || {
            format!("a page of chat {chat_id} has sequence {sequence} after {last}")
        }) && holds(Invariant::ExpiredNeverRead, !message.is_expired(now), || {
            format!("a page of chat {chat_id} has message {sequence}, which has expired")
        });
        if !may_be_shown {
            return false;
        }
        last = sequence;
    }
    let mut last_update = after;
    for update in &page.updates {
        let may_be_shown = update.chat_id == chat_id && last_update < update.sequence && !update.is_expired(now);
        if !holds(Invariant::SyncCompleteness, may_be_shown, || {
            format!("a page of chat {chat_id} has the update {} of {}", update.sequence, update.chat_id)
        }) {
            return false;
        }
        last_update = update.sequence;
    }
    let last = last.max(last_update);
    for message in &page.updated {
        let may_be_shown = message.chat_id == chat_id && !message.is_expired(now);
        if !holds(Invariant::ExpiredNeverRead, may_be_shown, || {
            format!("a page of chat {chat_id} has the updated message {} of {}", message.sequence, message.chat_id)
        }) {
            return false;
        }
    }
    let Page { examined, head, .. } = *page;
    holds(Invariant::SyncCompleteness, last <= examined && examined <= head, || {
        format!("a page of chat {chat_id} ends at {last} and claims to cover up to {examined}, but the head is {head}")
    })
}

/// Whether the watermarks of a move to `to` may be returned: at least `to`, and exactly `to` if they moved.
pub(crate) fn watermarks_may_be_returned(kind: WatermarkKind, to: Sequence, has_moved: bool, now: Watermarks) -> bool {
    let Watermarks { delivered, read } = now;
    let at = match kind {
        WatermarkKind::Delivered => delivered,
        WatermarkKind::Read => read,
    };
    holds(Invariant::ReadImpliesDelivered, read <= delivered, || format!("read {read} and delivered {delivered}"))
        && holds(Invariant::DeliveryWatermarkMonotonic, to <= at, || format!("{kind:?} is {at}, expected at least {to}"))
        // The request was bounded by the head.
        && holds(Invariant::WatermarkBoundedByHead, !has_moved || at == to, || {
            format!("{kind:?} moved to {at} instead of {to}")
        })
}

/// Whether the messages of a commit may be published directly: all belong to the chat, without a gap.
pub(crate) fn commit_may_be_published(chat_id: ChatId, messages: &[Arc<Event>]) -> bool {
    let mut expected = None;
    let is_one_run = messages.iter().all(|event| {
        let sequence = sequence_in(chat_id, event);
        let follows = sequence.is_some() && (expected.is_none() || expected == sequence);
        expected = sequence.map(Sequence::next);
        follows
    });
    holds(Invariant::OrderingPreserved, is_one_run, || format!("a commit of chat {chat_id} is not one run of messages"))
}

/// Whether the oldest unpublished messages of a chat may be published. All must belong to the chat and ascend from `end`,
/// the last sequence in the log. Gaps are allowed, because messages may have expired.
pub(crate) fn backlog_may_be_published(chat_id: ChatId, end: Sequence, messages: &[Arc<Event>]) -> bool {
    let mut last = end;
    messages.iter().all(|event| {
        let sequence = sequence_in(chat_id, event).unwrap_or_default();
        let before = std::mem::replace(&mut last, sequence);
        holds(Invariant::OrderingPreserved, before < sequence, || {
            format!("sequence {sequence} of chat {chat_id} would be published after {before}")
        })
    })
}

/// The sequence of an entry, if it belongs to this chat.
fn sequence_in(chat_id: ChatId, event: &Event) -> Option<Sequence> {
    event.body.sequence().filter(|_| event.body.chat_id() == chat_id)
}
