//! What is asserted of a store's answers before anybody is told them.
//!
//! A false acknowledgement is worse than none: it is the client's licence to forget. So an answer that cannot be true is
//! treated like no answer, and the client tries again.

use std::collections::HashMap;
use std::sync::Arc;

use domain::{ChatId, Event, EventBody, Invariant, MessageId, Sequence, Timestamp, WatermarkKind, Watermarks};
use ports::{Appended, NewMessage, Page, Receipt, SendRefusal, SyncRequest, holds, violated};

/// What a send was to become.
pub(crate) struct Asked {
    chat_id: ChatId,
    message_id: MessageId,
}

impl Asked {
    pub(crate) fn of(message: &NewMessage) -> Self {
        Self { chat_id: message.chat_id, message_id: message.message_id }
    }
}

/// Looks at the outcomes of commits. It is kept from one commit to the next for the memory that it has.
#[derive(Default)]
pub(crate) struct Outcomes {
    /// The last new message of each chat in this commit.
    last: HashMap<ChatId, Sequence>,
}

impl Outcomes {
    /// Begins with the outcomes of a commit: whether there is one for each send.
    pub(crate) fn answer_all(&mut self, sends: usize, outcomes: usize) -> bool {
        self.last.clear();
        holds(Invariant::AckImpliesPersistence, sends == outcomes, || format!("{outcomes} outcomes of {sends} sends"))
    }

    /// Whether the next outcome may be told to who sent it.
    pub(crate) fn may_be_told(&mut self, asked: &Asked, outcome: &Appended) -> bool {
        let Asked { chat_id, message_id } = asked;
        match outcome {
            Appended::New(receipt) => {
                let is_ours = || {
                    holds(Invariant::AckImpliesPersistence, receipt.message_id == *message_id, || {
                        format!("message {message_id} of chat {chat_id} is acknowledged as {}", receipt.message_id)
                    })
                };
                has_a_place(*chat_id, receipt) && is_ours() && self.is_behind_the_last(*chat_id, receipt.sequence)
            }
            Appended::Duplicate(receipt) => has_a_place(*chat_id, receipt),
            Appended::Refused(refusal) => {
                if *refusal == SendRefusal::CounterMissing {
                    violated(Invariant::CounterMustExist, format_args!("chat {chat_id}"));
                }
                true
            }
        }
    }

    /// New messages of a chat ascend. Another process may have committed some between them.
    fn is_behind_the_last(&mut self, chat_id: ChatId, sequence: Sequence) -> bool {
        let last = self.last.insert(chat_id, sequence).unwrap_or_default();
        holds(Invariant::WriteOrderPreserved, last < sequence, || {
            format!("sequence {sequence} of chat {chat_id} was given after {last}")
        })
    }
}

fn has_a_place(chat_id: ChatId, receipt: &Receipt) -> bool {
    holds(Invariant::NoZeroSequence, receipt.sequence > Sequence::ZERO, || {
        format!("message {} of chat {chat_id}", receipt.message_id)
    })
}

/// Whether a page may be shown to who has asked for what comes after `request.after`, which is not above the head.
pub(crate) fn page_may_be_shown(request: &SyncRequest, now: Timestamp, page: &Page) -> bool {
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
    let Page { examined, head, .. } = *page;
    holds(Invariant::SyncCompleteness, last <= examined && examined <= head, || {
        format!("a page of chat {chat_id} up to {last} accounts for what is up to {examined}, and the head is {head}")
    })
}

/// Whether watermarks may be told that were to be at `to` or further: at `to` exactly if they have moved.
pub(crate) fn watermarks_may_be_told(kind: WatermarkKind, to: Sequence, has_moved: bool, now: Watermarks) -> bool {
    let Watermarks { delivered, read } = now;
    let at = match kind {
        WatermarkKind::Delivered => delivered,
        WatermarkKind::Read => read,
    };
    holds(Invariant::ReadImpliesDelivered, read <= delivered, || format!("read {read} and delivered {delivered}"))
        && holds(Invariant::DeliveryWatermarkMonotonic, to <= at, || format!("{kind:?} is {at} and was to be {to}"))
        // Whoever asked was bounded by the head.
        && holds(Invariant::WatermarkBoundedByHead, !has_moved || at == to, || {
            format!("{kind:?} was moved to {at} and was to be moved to {to}")
        })
}

/// Whether the messages of a commit may be published as they are: they are of their chat, without a hole.
pub(crate) fn commit_may_be_published(chat_id: ChatId, messages: &[Arc<Event>]) -> bool {
    let mut expected = None;
    let is_one_run = messages.iter().all(|event| {
        let sequence = place(chat_id, event);
        let follows = sequence.is_some() && (expected.is_none() || expected == sequence);
        expected = sequence.map(Sequence::next);
        follows
    });
    holds(Invariant::OrderingPreserved, is_one_run, || format!("a commit of chat {chat_id} is not one run of messages"))
}

/// Whether the oldest unpublished messages of a chat, of which the log has all up to `end`, may be published: they are of
/// their chat, and ascend. Some between them may have expired.
pub(crate) fn backlog_may_be_published(chat_id: ChatId, end: Sequence, messages: &[Arc<Event>]) -> bool {
    let mut last = end;
    messages.iter().all(|event| {
        let sequence = place(chat_id, event).unwrap_or_default();
        let before = std::mem::replace(&mut last, sequence);
        holds(Invariant::OrderingPreserved, before < sequence, || {
            format!("sequence {sequence} of chat {chat_id} was to be published after {before}")
        })
    })
}

/// Where a message of this chat is.
fn place(chat_id: ChatId, event: &Event) -> Option<Sequence> {
    match &event.body {
        EventBody::MessagePersisted { message, .. } if message.chat_id == chat_id => Some(message.sequence),
        _ => None,
    }
}
