use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard};

use domain::{ChatId, IngestError};
use metrics::{Gauge, gauge};
use ports::{NewEntry, Sent, lock};
use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;
use tracing::Span;

use crate::outcome::{answer, unavailable};

/// The sends of this process that wait for a commit, in order for each chat.
///
/// A chat with queued sends is either *ready* or *committing*. [`next_batch`](Self::next_batch) takes the sends of ready
/// chats in the order in which they became ready, and the chats are committing until [`finish`](Self::finish). So a
/// chat has at most one commit in progress, which keeps its order, and a slow commit delays no other chat.
///
/// When a send fails without a decision of the store, all sends queued behind it in its chat fail too. Otherwise they
/// would overtake its retry. They leave the queue before any of them is answered, so an immediate retry is not among
/// them.
pub(crate) struct SendQueue {
    state: Mutex<QueueState>,
    /// Notified when a chat becomes ready and when the queue is closed.
    changed: Notify,
    len_max: usize,
    /// The metric of queued sends, looked up once.
    waiting: Gauge,
}

/// A queued send.
pub(crate) struct UncommittedSend {
    pub(crate) entry: NewEntry,
    pub(crate) deadline: Instant,
    pub(crate) reply: oneshot::Sender<Result<Sent, IngestError>>,
    /// Trace span of the send.
    pub(crate) span: Span,
}

/// The sends of one commit.
pub(crate) struct Batch {
    pub(crate) sends: Vec<UncommittedSend>,
    /// The chats of the sends, each once.
    pub(crate) chats: Vec<ChatId>,
}

/// Limits of a batch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BatchBounds {
    pub(crate) sends_max: usize,
    pub(crate) chats_max: usize,
}

#[derive(Default)]
struct QueueState {
    chats: HashMap<ChatId, ChatQueue>,
    /// The ready chats. The first waits longest.
    ready: VecDeque<ChatId>,
    /// Queued sends of all chats.
    len: usize,
    is_closed: bool,
}

/// A chat with queued sends, a commit in progress, or both.
#[derive(Default)]
struct ChatQueue {
    sends: VecDeque<UncommittedSend>,
    is_committing: bool,
}

impl SendQueue {
    /// An empty queue for `len_max` sends.
    pub(crate) fn new(len_max: usize) -> Self {
        let waiting = gauge!("tidings_ingest_queue_sends");
        waiting.set(0);
        gauge!("tidings_ingest_queue_sends_max").set(len_max as f64);
        Self { state: Mutex::default(), changed: Notify::new(), len_max, waiting }
    }

    /// Queues a send, or answers it at once: as busy if the queue is full, or if its chat fills half of the queue. The
    /// second limit leaves room for other chats while one chat is stuck.
    pub(crate) fn push(&self, send: UncommittedSend) {
        let refusal = {
            let mut state = self.state();
            let is_full = state.len >= self.len_max;
            let QueueState { chats, ready, len, is_closed } = &mut *state;
            let chat_id = send.entry.chat_id();
            let chat = chats.entry(chat_id).or_default();
            if !*is_closed && !is_full && chat.sends.len() < self.len_max.div_ceil(2) {
                *len += 1;
                self.waiting.increment(1);
                chat.sends.push_back(send);
                if chat.sends.len() == 1 && !chat.is_committing {
                    ready.push_back(chat_id);
                    self.changed.notify_one();
                }
                return;
            }
            if chat.sends.is_empty() && !chat.is_committing {
                chats.remove(&chat_id);
            }
            if *is_closed { unavailable() } else { IngestError::Busy }
        };
        answer(send.reply, Err(refusal));
    }

    /// The next sends to commit, at least one. A chat whose first send has passed its deadline fails instead: the
    /// client no longer expects a commit.
    pub(crate) fn next_batch(&self, bounds: BatchBounds, now: Instant) -> Option<Batch> {
        let mut batch = Batch { sends: vec![], chats: vec![] };
        let mut expired = VecDeque::new();
        {
            let mut state = self.state();
            let QueueState { chats, ready, len, .. } = &mut *state;
            while batch.sends.len() < bounds.sends_max && batch.chats.len() < bounds.chats_max {
                let Some(chat_id) = ready.pop_front() else { break };
                let chat = chats.get_mut(&chat_id).expect("a ready chat has queued sends");
                if chat.sends.front().is_some_and(|first| first.deadline <= now) {
                    expired.append(&mut chat.sends);
                    chats.remove(&chat_id);
                    continue;
                }
                let room = bounds.sends_max - batch.sends.len();
                batch.sends.extend(chat.sends.drain(..chat.sends.len().min(room)));
                batch.chats.push(chat_id);
                chat.is_committing = true;
            }
            *len -= batch.sends.len() + expired.len();
            self.waiting.decrement((batch.sends.len() + expired.len()) as f64);
        }
        fail(expired);
        (!batch.sends.is_empty()).then_some(batch)
    }

    /// Ends the commit of these chats. The sends that were queued meanwhile are next, or fail if the commit failed.
    pub(crate) fn finish(&self, chat_ids: &[ChatId], is_committed: bool) -> FailedSends {
        let mut behind = VecDeque::new();
        let mut state = self.state();
        let QueueState { chats, ready, len, .. } = &mut *state;
        for chat_id in chat_ids {
            let chat = chats.get_mut(chat_id).expect("a committing chat stays in the queue");
            chat.is_committing = false;
            if !is_committed {
                behind.append(&mut chat.sends);
            }
            if chat.sends.is_empty() {
                chats.remove(chat_id);
            } else {
                ready.push_back(*chat_id);
            }
        }
        *len -= behind.len();
        self.waiting.decrement(behind.len() as f64);
        FailedSends(behind)
    }

    /// Waits until a chat has become ready or the queue was closed.
    pub(crate) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Number of queued sends.
    pub(crate) fn len(&self) -> usize {
        self.state().len
    }

    /// Refuses further sends.
    pub(crate) fn close(&self) {
        self.state().is_closed = true;
        self.changed.notify_one();
    }

    /// Closes the queue and fails all queued sends.
    pub(crate) fn close_now(&self) {
        let mut state = self.state();
        state.is_closed = true;
        state.ready.clear();
        let chats = std::mem::take(&mut state.chats);
        let len = std::mem::take(&mut state.len);
        drop(state);
        self.waiting.decrement(len as f64);
        chats.into_values().for_each(|chat| fail(chat.sends));
    }

    /// Whether the queue is closed and empty.
    pub(crate) fn is_done(&self) -> bool {
        let state = self.state();
        state.is_closed && state.len == 0
    }

    fn state(&self) -> MutexGuard<'_, QueueState> {
        lock(&self.state)
    }
}

/// Sends that failed with a commit of their chat.
#[must_use]
pub(crate) struct FailedSends(VecDeque<UncommittedSend>);

impl FailedSends {
    pub(crate) fn answer(self) {
        fail(self.0);
    }
}

fn fail(sends: VecDeque<UncommittedSend>) {
    sends.into_iter().for_each(|send| answer(send.reply, Err(unavailable())));
}
