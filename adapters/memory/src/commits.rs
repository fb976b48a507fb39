use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard};

use ports::Committed;
use tokio::sync::Notify;

/// Messages and changes that wait for the relay of a process, at the most. Where none runs, they are what is kept in vain.
const LEN_MAX: usize = 4096;

/// What one process has committed and its relay has not taken yet. What does not fit is dropped: it is overdue soon.
#[derive(Default)]
pub(crate) struct Commits {
    waiting: Mutex<Waiting>,
    pushed: Notify,
}

#[derive(Default)]
struct Waiting {
    commits: VecDeque<Committed>,
    /// Messages and changes in them.
    len: usize,
}

impl Commits {
    pub(crate) fn push(&self, commit: Committed) {
        let len = commit.messages.len().max(1);
        let mut waiting = self.lock();
        if waiting.len + len > LEN_MAX {
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
