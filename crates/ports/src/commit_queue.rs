use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard};

use metrics::counter;
use tokio::sync::Notify;

use crate::{Committed, lock};

/// Maximum number of messages and changes that the queue holds for the relay of this process. In a process without a
/// relay, this bounds the wasted memory.
const QUEUE_LEN_MAX: usize = 4096;

/// Commits of this process that its relay has not taken yet; it implements
/// [`Outbox::committed`](crate::Outbox::committed). A commit that does not fit is dropped. The relay finds it later, by
/// the marker that the commit left in the store.
#[derive(Debug, Default)]
pub struct CommitQueue {
    waiting: Mutex<QueuedCommits>,
    pushed: Notify,
}

#[derive(Debug, Default)]
struct QueuedCommits {
    commits: VecDeque<Committed>,
    /// The number of messages and changes in `commits`.
    len: usize,
}

impl CommitQueue {
    /// Appends a commit, unless the queue is full.
    pub fn push(&self, commit: Committed) {
        let len = commit.messages.len().max(1);
        let mut waiting = self.lock();
        if waiting.len + len > QUEUE_LEN_MAX {
            counter!("tidings_outbox_dropped_total").increment(len as u64);
            return;
        }
        waiting.len += len;
        waiting.commits.push_back(commit);
        drop(waiting);
        self.pushed.notify_one();
    }

    /// Waits until the queue is not empty, and takes all of it.
    pub async fn take(&self) -> Vec<Committed> {
        loop {
            let taken = std::mem::take(&mut *self.lock());
            if !taken.commits.is_empty() {
                return taken.commits.into();
            }
            self.pushed.notified().await;
        }
    }

    /// The number of queued messages and changes.
    pub fn waiting(&self) -> usize {
        self.lock().len
    }

    fn lock(&self) -> MutexGuard<'_, QueuedCommits> {
        lock(&self.waiting)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use domain::ChatId;
    use futures_util::FutureExt;

    use super::*;

    fn change(chat: u16) -> Committed {
        let mut bytes = [0; 16];
        bytes[..2].copy_from_slice(&chat.to_be_bytes());
        Committed { chat_id: ChatId::from_bytes(bytes), messages: vec![] }
    }

    #[tokio::test]
    async fn commits_are_taken_once_in_their_order() {
        let queue = CommitQueue::default();
        assert_eq!(queue.take().now_or_never(), None);
        [1, 2].map(change).into_iter().for_each(|commit| queue.push(commit));
        assert_eq!(queue.take().await, [1, 2].map(change));
        assert_eq!(queue.take().now_or_never(), None);
    }

    #[tokio::test]
    async fn a_waiting_taker_is_woken() {
        let queue = Arc::new(CommitQueue::default());
        let waiting = tokio::spawn({
            let queue = queue.clone();
            async move { queue.take().await }
        });
        tokio::task::yield_now().await;
        queue.push(change(1));
        assert_eq!(waiting.await.unwrap(), [change(1)]);
    }

    #[tokio::test]
    async fn a_full_queue_drops_new_commits() {
        let queue = CommitQueue::default();
        (0..QUEUE_LEN_MAX as u16 + 3).map(change).for_each(|commit| queue.push(commit));
        let taken = queue.take().await;
        assert_eq!((taken.len(), taken.last()), (QUEUE_LEN_MAX, Some(&change(QUEUE_LEN_MAX as u16 - 1))));
        queue.push(change(7));
        assert_eq!(queue.take().await, [change(7)]);
    }
}
