use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use contract::SampleData;
use domain::{Invariant, Timestamp};
use memory::{Damage, ManualClock, MemoryStore, SequentialIds};
use ports::{Clock, EventLog, NewUpdate};
use tidings_audit::{AtOnce, AuditOptions, AuditPacer, AuditProgress, Checkpoint, Findings, audit};

pub(crate) struct World {
    pub(crate) store: MemoryStore,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) people: SampleData,
}

impl World {
    /// A store with data of every kind, and a consumer at the end of its log.
    pub(crate) async fn new() -> Self {
        let store = MemoryStore::new(Arc::new(SequentialIds::default()));
        let clock = Arc::new(ManualClock::at(Timestamp::from_millis(1_800_000_000_000)));
        let people = SampleData::make(&store, clock.now()).await;
        let mut consumer = store.consumer("fanout").await.unwrap();
        consumer.next().await.unwrap();
        consumer.commit().await.unwrap();
        Self { store, clock, people }
    }

    /// The same store, with updates of its messages.
    pub(crate) async fn updated() -> (Self, Vec<NewUpdate>) {
        let world = Self::new().await;
        let updates = world.people.update(&world.store, world.clock.now()).await;
        (world, updates)
    }

    pub(crate) fn options(&self) -> AuditOptions {
        AuditOptions { page_len: 3, overdue_after: Duration::ZERO, ..AuditOptions::new(self.clock.clone()) }
    }

    pub(crate) async fn audit(&self) -> Findings {
        self.audit_from(None, &AtOnce).await
    }

    pub(crate) async fn audit_from(&self, from: Option<Checkpoint>, pace: &dyn AuditPacer) -> Findings {
        audit(&self.store, Some(&self.store), &self.options(), pace, from).await.unwrap()
    }

    /// Damages the store and returns the invariants that an audit finds violated.
    pub(crate) async fn broken_by(&self, damage: Damage) -> Vec<Invariant> {
        self.store.spoil(damage);
        violated(&self.audit().await)
    }
}

pub(crate) fn violated(findings: &Findings) -> Vec<Invariant> {
    findings.iter().filter(|(_, tally)| tally.violated > 0).map(|(invariant, _)| invariant).collect()
}

/// Records all calls.
#[derive(Default)]
pub(crate) struct PaceRecorder {
    pub(crate) checkpoints: Mutex<Vec<Checkpoint>>,
    pub(crate) progress: Mutex<Vec<AuditProgress>>,
    pub(crate) moments: Mutex<usize>,
}

#[async_trait]
impl AuditPacer for PaceRecorder {
    async fn read(&self, progress: AuditProgress) {
        self.progress.lock().unwrap().push(progress);
    }

    async fn moment(&self) {
        *self.moments.lock().unwrap() += 1;
    }

    async fn reached(&self, checkpoint: &Checkpoint) {
        self.checkpoints.lock().unwrap().push(checkpoint.clone());
    }
}
