use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use domain::Timestamp;
use ports::{Clock, lock};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::plan::ProcessVersion;

/// A simulated process: a set of tasks that run, pause and die together.
///
/// It dies at any await point of its tasks. Its outstanding requests continue without it, like packets that have left a
/// machine.
pub(crate) struct SimProcess {
    /// Its slot in the plan; a restart is a new process in the same slot.
    pub(crate) slot: usize,
    /// A unique name, also across restarts.
    pub(crate) name: String,
    pub(crate) clock: Arc<SkewedClock>,
    pub(crate) version: ProcessVersion,
    life: Mutex<Life>,
    /// Wakes waiters for a change of its state, in the order in which they began to wait.
    lived: Notify,
    tasks: Mutex<JoinSet<()>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Life {
    Running,
    Paused,
    Dead,
}

impl SimProcess {
    pub(crate) fn new(slot: usize, name: String, clock: Arc<SkewedClock>, version: ProcessVersion) -> Self {
        Self {
            slot,
            name,
            clock,
            version,
            life: Mutex::new(Life::Running),
            lived: Notify::new(),
            tasks: Mutex::default(),
        }
    }

    /// Spawns a task that ends with the process.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        if !self.is_dead() {
            self.tasks().spawn(task);
        }
    }

    /// Its tasks, to spawn several at once.
    pub(crate) fn tasks(&self) -> MutexGuard<'_, JoinSet<()>> {
        lock(&self.tasks)
    }

    /// The panic message of a finished task, if any panicked.
    pub(crate) fn take_panic(&self) -> Option<String> {
        let mut tasks = self.tasks();
        while let Some(ended) = tasks.try_join_next() {
            if let Err(error) = ended
                && error.is_panic()
            {
                let panic = error.into_panic();
                let text = panic.downcast_ref::<String>().cloned();
                let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
                return Some(text.unwrap_or_else(|| "a panic without a message".to_owned()));
            }
        }
        None
    }

    /// Kills the process immediately.
    pub(crate) fn kill(&self) {
        self.live(Life::Dead);
        self.tasks().abort_all();
    }

    /// Pauses or resumes it.
    pub(crate) fn pause(&self, paused: bool) {
        if !self.is_dead() {
            self.live(if paused { Life::Paused } else { Life::Running });
        }
    }

    pub(crate) fn is_dead(&self) -> bool {
        self.life() == Life::Dead
    }

    pub(crate) fn is_paused(&self) -> bool {
        self.life() == Life::Paused
    }

    /// Waits while it is paused; never returns if it is dead.
    pub(crate) async fn runs(&self) {
        self.until(Life::Running).await;
    }

    /// Waits for its death.
    pub(crate) async fn died(&self) {
        self.until(Life::Dead).await;
    }

    async fn until(&self, wanted: Life) {
        loop {
            let changed = self.lived.notified();
            if self.life() == wanted {
                return;
            }
            changed.await;
        }
    }

    fn life(&self) -> Life {
        *lock(&self.life)
    }

    fn live(&self, life: Life) {
        *lock(&self.life) = life;
        self.lived.notify_waiters();
    }
}

/// The clock of a machine: the time of the simulation plus a skew.
pub(crate) struct SkewedClock {
    began: Instant,
    skew_ms: AtomicI64,
}

/// The start time of every run: 2026-01-30T14:30:00Z.
const EPOCH_MS: u64 = 1_769_783_400_000;

impl SkewedClock {
    pub(crate) fn new(began: Instant, skew_ms: i64) -> Self {
        Self { began, skew_ms: AtomicI64::new(skew_ms) }
    }

    /// Steps the clock.
    pub(crate) fn step(&self, by_ms: i64) {
        self.skew_ms.fetch_add(by_ms, Ordering::Relaxed);
    }

    /// Removes the skew.
    pub(crate) fn set_right(&self) {
        self.skew_ms.store(0, Ordering::Relaxed);
    }
}

impl Clock for SkewedClock {
    fn now(&self) -> Timestamp {
        // Start a minute late, so that no skew leads to a time before the epoch.
        let elapsed = self.began.elapsed() + Duration::from_secs(60);
        let skew_ms = self.skew_ms.load(Ordering::Relaxed);
        Timestamp::from_millis((EPOCH_MS + elapsed.as_millis() as u64).saturating_add_signed(skew_ms))
    }
}
