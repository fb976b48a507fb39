use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use domain::{Invariant, Timestamp};
use memory::{Damage, ManualClock, MemoryStore, SequentialIds};
use ports::contract::Peopled;
use ports::{Clock, EventLog};
use tidings_audit::{AtOnce, Checkpoint, Findings, Options, Pace, Progress, audit};

pub(crate) struct World {
    pub(crate) store: MemoryStore,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) people: Peopled,
}

impl World {
    /// A store in which everything has been used, and a consumer has read all of its log.
    pub(crate) async fn new() -> Self {
        let store = MemoryStore::new(Arc::new(SequentialIds::default()));
        let clock = Arc::new(ManualClock::at(Timestamp::from_millis(1_800_000_000_000)));
        let people = Peopled::make(&store, clock.now()).await;
        let mut consumer = store.consumer("fanout").await.unwrap();
        consumer.next().await.unwrap();
        consumer.commit().await.unwrap();
        Self { store, clock, people }
    }

    pub(crate) fn options(&self) -> Options {
        Options { page_len: 3, overdue_after: Duration::ZERO, ..Options::new(self.clock.clone()) }
    }

    pub(crate) async fn audit(&self) -> Findings {
        self.audit_from(None, &AtOnce).await
    }

    pub(crate) async fn audit_from(&self, from: Option<Checkpoint>, pace: &dyn Pace) -> Findings {
        audit(&self.store, Some(&self.store), &self.options(), pace, from).await.unwrap()
    }

    /// Breaks the store, and says which invariants an audit finds violated.
    pub(crate) async fn broken_by(&self, damage: Damage) -> Vec<Invariant> {
        self.store.spoil(damage);
        violated(&self.audit().await)
    }
}

pub(crate) fn violated(findings: &Findings) -> Vec<Invariant> {
    findings.iter().filter(|(_, tally)| tally.violated > 0).map(|(invariant, _)| invariant).collect()
}

/// Keeps all that it hears.
#[derive(Default)]
pub(crate) struct Heard {
    pub(crate) checkpoints: Mutex<Vec<Checkpoint>>,
    pub(crate) progress: Mutex<Vec<Progress>>,
    pub(crate) moments: Mutex<usize>,
}

#[async_trait]
impl Pace for Heard {
    async fn read(&self, progress: Progress) {
        self.progress.lock().unwrap().push(progress);
    }

    async fn moment(&self) {
        *self.moments.lock().unwrap() += 1;
    }

    async fn reached(&self, checkpoint: &Checkpoint) {
        self.checkpoints.lock().unwrap().push(checkpoint.clone());
    }
}
