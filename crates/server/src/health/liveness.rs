use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::{self, Instant};

/// How long after an answer the next beat begins.
const BEAT_INTERVAL: Duration = Duration::from_secs(1);

/// Whether the process gets on at all.
///
/// A beat goes through whatever everything else waits for. An answer is enough, also one that something failed: a full disk
/// is answered, heals by itself and is no reason for a restart. Only what answers nobody is.
#[derive(Clone)]
pub(crate) struct Liveness {
    what: &'static str,
    stuck_after: Duration,
    answered_at: Arc<Mutex<Instant>>,
}

/// Something that answers nobody.
#[derive(Debug)]
pub(crate) struct Stuck {
    pub(crate) what: &'static str,
    pub(crate) since: Duration,
}

impl fmt::Display for Stuck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} has not answered for {} s; restart the process", self.what, self.since.as_secs())
    }
}

impl Liveness {
    /// That of `what`, which is stuck when it has not answered for so long.
    pub(crate) fn new(what: &'static str, stuck_after: Duration) -> Self {
        Self { what, stuck_after, answered_at: Arc::new(Mutex::new(Instant::now())) }
    }

    /// Sends one beat after the other, for ever.
    pub(crate) async fn keep_beating<F: Future<Output = ()>>(&self, beat: impl Fn() -> F) {
        loop {
            beat().await;
            *self.answered_at() = Instant::now();
            time::sleep(BEAT_INTERVAL).await;
        }
    }

    /// What is stuck, if anything is.
    pub(crate) fn stuck(&self) -> Option<Stuck> {
        let since = self.answered_at().elapsed();
        (since > self.stuck_after).then_some(Stuck { what: self.what, since })
    }

    /// An instant is written whole, so one left by a panicking thread is as good as any.
    fn answered_at(&self) -> MutexGuard<'_, Instant> {
        self.answered_at.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn whatever_answers_is_alive_and_what_does_not_is_stuck_after_its_time() {
        let liveness = Liveness::new("the committer", Duration::from_secs(30));
        let answers = Arc::new(AtomicBool::new(true));
        let (beating, answering) = (liveness.clone(), answers.clone());
        let beats = tokio::spawn(async move {
            let beat = || {
                let answers = answering.load(Ordering::Relaxed);
                async move {
                    if !answers {
                        pending().await
                    }
                }
            };
            beating.keep_beating(beat).await;
        });
        time::sleep(Duration::from_secs(100)).await;
        assert!(liveness.stuck().is_none());
        answers.store(false, Ordering::Relaxed);
        time::sleep(Duration::from_secs(29)).await;
        assert!(liveness.stuck().is_none());
        time::sleep(Duration::from_secs(3)).await;
        assert_eq!(liveness.stuck().unwrap().what, "the committer");
        beats.abort();
    }
}
