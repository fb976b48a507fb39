use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use ports::lock;
use tokio::time::{self, Instant};

/// Pause between an answer and the next heartbeat.
const BEAT_INTERVAL: Duration = Duration::from_secs(1);

/// Whether the process makes progress at all.
///
/// A heartbeat passes through the component that all work depends on. Any answer counts, even a failure: a full disk is
/// answered and can recover without a restart. Only a component that does not answer at all is stuck.
#[derive(Clone)]
pub(crate) struct Liveness {
    what: &'static str,
    stuck_after: Duration,
    answered_at: Arc<Mutex<Instant>>,
}

/// A component that does not answer.
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
    /// Watches `what`, which is stuck when it has not answered for `stuck_after`.
    pub(crate) fn new(what: &'static str, stuck_after: Duration) -> Self {
        Self { what, stuck_after, answered_at: Arc::new(Mutex::new(Instant::now())) }
    }

    /// Sends one heartbeat after the other, until it is stopped.
    pub(crate) async fn keep_beating<F: Future<Output = ()>>(&self, beat: impl Fn() -> F) {
        loop {
            beat().await;
            *self.answered_at() = Instant::now();
            time::sleep(BEAT_INTERVAL).await;
        }
    }

    /// The stuck component, if there is one.
    pub(crate) fn stuck(&self) -> Option<Stuck> {
        let since = self.answered_at().elapsed();
        (since > self.stuck_after).then_some(Stuck { what: self.what, since })
    }

    fn answered_at(&self) -> MutexGuard<'_, Instant> {
        lock(&self.answered_at)
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_component_is_stuck_when_it_has_not_answered_in_time() {
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
