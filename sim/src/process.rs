use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use domain::Timestamp;
use ports::Clock;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::Instant;

/// A process of the simulated service: tasks that live, stand still and die together.
///
/// It dies at whatever its tasks are waiting for. What it has asked of the world before goes on without it, as packets do
/// that have left a machine.
pub(crate) struct Process {
    /// Which of the planned processes it is; a restart is another process in the same place.
    pub(crate) slot: usize,
    /// A name that no process had before it.
    pub(crate) name: String,
    pub(crate) clock: Arc<SkewedClock>,
    life: Mutex<Life>,
    /// Wakes whoever waits for a change of it, in the order in which they began to wait.
    lived: Notify,
    tasks: Mutex<JoinSet<()>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Life {
    Running,
    Paused,
    Dead,
}

impl Process {
    pub(crate) fn new(slot: usize, name: String, clock: Arc<SkewedClock>) -> Self {
        Self { slot, name, clock, life: Mutex::new(Life::Running), lived: Notify::new(), tasks: Mutex::default() }
    }

    /// Begins something that ends with the process.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        if !self.is_dead() {
            self.tasks().spawn(task);
        }
    }

    /// Its tasks, for those who begin several.
    pub(crate) fn tasks(&self) -> MutexGuard<'_, JoinSet<()>> {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What tasks that have ended died of, if any did.
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

    /// Ends it here and now.
    pub(crate) fn kill(&self) {
        self.live(Life::Dead);
        self.tasks().abort_all();
    }

    /// Has it stand still, or go on.
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

    /// Waits while it stands still; for ever if it is dead.
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
        *self.life.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn live(&self, life: Life) {
        *self.life.lock().unwrap_or_else(PoisonError::into_inner) = life;
        self.lived.notify_waiters();
    }
}

/// The clock of a machine: the world's time, off by some.
pub(crate) struct SkewedClock {
    began: Instant,
    skew_ms: AtomicI64,
}

/// When every run begins: 2026-01-30T14:30:00Z.
const EPOCH_MS: u64 = 1_769_783_400_000;

impl SkewedClock {
    pub(crate) fn new(began: Instant, skew_ms: i64) -> Self {
        Self { began, skew_ms: AtomicI64::new(skew_ms) }
    }

    /// Lets the clock jump.
    pub(crate) fn step(&self, by_ms: i64) {
        self.skew_ms.fetch_add(by_ms, Ordering::Relaxed);
    }

    /// Sets it right.
    pub(crate) fn set_right(&self) {
        self.skew_ms.store(0, Ordering::Relaxed);
    }
}

impl Clock for SkewedClock {
    fn now(&self) -> Timestamp {
        // A minute in hand, so that no skew leads before the beginning.
        let elapsed = self.began.elapsed() + Duration::from_secs(60);
        let skew_ms = self.skew_ms.load(Ordering::Relaxed);
        Timestamp::from_millis((EPOCH_MS + elapsed.as_millis() as u64).saturating_add_signed(skew_ms))
    }
}
