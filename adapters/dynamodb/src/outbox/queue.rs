use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard};

use metrics::counter;
use ports::Committed;
use tokio::sync::Notify;

/// Messages and changes that wait for the relay of this process, at the most. Where none runs, they are what is kept in
/// vain.
const QUEUE_LEN_MAX: usize = 4096;

/// What this process has committed and its relay has not taken yet. What does not fit is dropped: it is found by its
/// marks in the tables.
#[derive(Default)]
pub(crate) struct Queue {
    waiting: Mutex<Waiting>,
    pushed: Notify,
}

#[derive(Default)]
struct Waiting {
    commits: VecDeque<Committed>,
    /// Messages and changes in them.
    len: usize,
}

impl Queue {
    pub(crate) fn push(&self, commit: Committed) {
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

    /// Waits until something is there, and takes all of it.
    pub(crate) async fn take(&self) -> Vec<Committed> {
        loop {
            let taken = std::mem::take(&mut *self.lock());
            if !taken.commits.is_empty() {
                return taken.commits.into();
            }
            self.pushed.notified().await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().expect("nothing panics with the queue in hand")
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
        let queue = Queue::default();
        assert_eq!(queue.take().now_or_never(), None);
        [1, 2].map(change).into_iter().for_each(|commit| queue.push(commit));
        assert_eq!(queue.take().await, [1, 2].map(change));
        assert_eq!(queue.take().now_or_never(), None);
    }

    #[tokio::test]
    async fn whoever_waits_is_woken() {
        let queue = Arc::new(Queue::default());
        let waiting = tokio::spawn({
            let queue = queue.clone();
            async move { queue.take().await }
        });
        tokio::task::yield_now().await;
        queue.push(change(1));
        assert_eq!(waiting.await.unwrap(), [change(1)]);
    }

    #[tokio::test]
    async fn a_full_queue_drops_what_comes_and_keeps_what_is_there() {
        let queue = Queue::default();
        (0..QUEUE_LEN_MAX as u16 + 3).map(change).for_each(|commit| queue.push(commit));
        let taken = queue.take().await;
        assert_eq!((taken.len(), taken.last()), (QUEUE_LEN_MAX, Some(&change(QUEUE_LEN_MAX as u16 - 1))));
        queue.push(change(7));
        assert_eq!(queue.take().await, [change(7)]);
    }
}
