use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use domain::Invariant;
use memory::{MemoryLog, MemoryStore, SequentialIds};
use ports::lock;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, sleep_until};

use crate::accounts::Deletions;
use crate::broken::Memories;
use crate::bugs::Bug;
use crate::checks::Checks;
use crate::dice::Dice;
use crate::directory::ProcessDirectory;
use crate::index::Indexes;
use crate::journal::Journal;
use crate::partitions::PartitionLoads;
use crate::plan::{Rates, RunPlan, RunShape};
use crate::process::{SimProcess, SkewedClock};
use crate::trace::{RunTrace, TraceActor, TraceEntry, TraceEvent};

/// The environment of the processes: their dependencies, the network, and the faults of both.
pub(crate) struct World {
    pub(crate) plan: RunPlan,
    pub(crate) began: Instant,
    /// The correct time.
    pub(crate) clock: Arc<SkewedClock>,
    pub(crate) ids: Arc<SequentialIds>,
    pub(crate) store: MemoryStore,
    pub(crate) log: Arc<MemoryLog>,
    pub(crate) streams: Streams,
    pub(crate) checks: Checks,
    pub(crate) directory: ProcessDirectory,
    /// Held while writing to the disk of a node, which has one committer.
    pub(crate) committing: tokio::sync::Mutex<()>,
    /// The journal on the disk of a node.
    journal: Mutex<Journal>,
    /// Wakes waiters when a node starts to write messages to its disk.
    pub(crate) writing: Notify,
    /// Wakes waiters when a consumer of the log gets events.
    pub(crate) consuming: Notify,
    indexes: Mutex<Indexes>,
    partitions: Mutex<PartitionLoads>,
    deletions: Mutex<Deletions>,
    memories: Mutex<Memories>,
    trouble: Mutex<Trouble>,
    trace: Mutex<RunTrace>,
}

/// Random streams, by concern.
pub(crate) struct Streams {
    pub(crate) store: Dice,
    pub(crate) disk: Dice,
    pub(crate) shared: Dice,
    pub(crate) log: Dice,
    pub(crate) network: Dice,
    pub(crate) nemesis: Dice,
    pub(crate) index: Dice,
    pub(crate) receiver: Dice,
}

/// Active faults, and their end times.
#[derive(Default)]
struct Trouble {
    away: BTreeMap<Dependency, Instant>,
    parted: Vec<(usize, usize, Instant)>,
    /// Whether fault injection has ended.
    is_over: bool,
}

/// A dependency that can be unavailable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Dependency {
    Store,
    /// The store answers, but throttles some requests.
    Throttled,
    /// Some reads find a record that does not decode.
    Legible,
    Disk,
    Log,
    Shared,
    /// The servers that get events and notifications.
    Receiver,
}

/// Timeout of a caller for another process or a dependency.
pub(crate) const DEADLINE: Duration = Duration::from_secs(5);

impl World {
    pub(crate) fn new(plan: RunPlan) -> Self {
        let began = Instant::now();
        let clock = Arc::new(SkewedClock::new(began, 0));
        let ids = Arc::new(SequentialIds::default());
        let store = match plan.shape {
            RunShape::Node => MemoryStore::new(ids.clone()),
            RunShape::Fleet => MemoryStore::beside_a_log(ids.clone()),
        };
        let stream = |concern| Dice::of(plan.seed, concern);
        let streams = Streams {
            store: stream("store"),
            disk: stream("disk"),
            shared: stream("shared"),
            log: stream("log"),
            network: stream("network"),
            nemesis: stream("nemesis"),
            index: stream("lag"),
            receiver: stream("receiver"),
        };
        let journal = Mutex::new(Journal::new(plan.bug, &streams.disk));
        Self {
            plan,
            began,
            log: Arc::new(MemoryLog::new(clock.clone())),
            clock,
            ids,
            store,
            streams,
            checks: Checks::default(),
            directory: ProcessDirectory::default(),
            committing: tokio::sync::Mutex::new(()),
            journal,
            writing: Notify::new(),
            consuming: Notify::new(),
            indexes: Mutex::default(),
            partitions: Mutex::default(),
            deletions: Mutex::default(),
            memories: Mutex::default(),
            trouble: Mutex::default(),
            trace: Mutex::default(),
        }
    }

    /// Whether a known bug is injected.
    pub(crate) fn has(&self, bug: Bug) -> bool {
        self.plan.bug == Some(bug)
    }

    /// Whether faults are injected now.
    pub(crate) fn injects_faults(&self) -> bool {
        !self.trouble().is_over
    }

    /// The current failure rates of calls.
    pub(crate) fn rates(&self) -> Rates {
        if self.trouble().is_over { Rates::default() } else { self.plan.rates.clone() }
    }

    pub(crate) fn note(&self, actor: TraceActor, what: TraceEvent) {
        let at = self.began.elapsed();
        self.trace().entries.push(TraceEntry { at, actor, what });
    }

    /// Records a violation.
    pub(crate) fn violated(&self, invariant: Invariant, detail: String) {
        self.note_violation(invariant, detail.clone());
        self.checks.findings().violate(invariant, detail);
    }

    /// Adds a violation to the trace only; the caller has counted it.
    pub(crate) fn note_violation(&self, invariant: Invariant, detail: String) {
        self.note(TraceActor::Checker, TraceEvent::Violated { invariant, detail });
    }

    /// Records one check of an invariant.
    pub(crate) fn check(&self, invariant: Invariant, holds: bool, detail: impl FnOnce() -> String) {
        self.checks.findings().checked(invariant, 1);
        if !holds {
            self.violated(invariant, detail());
        }
    }

    pub(crate) fn trace(&self) -> MutexGuard<'_, RunTrace> {
        lock(&self.trace)
    }

    /// Makes a dependency unavailable for a while.
    pub(crate) fn take_away(&self, part: Dependency, lasts: Duration) {
        let until = Instant::now() + lasts;
        let mut trouble = self.trouble();
        let away = trouble.away.entry(part).or_insert(until);
        *away = until.max(*away);
    }

    pub(crate) fn is_unavailable(&self, part: Dependency) -> bool {
        self.trouble().away.get(&part).is_some_and(|until| Instant::now() < *until)
    }

    /// Partitions two processes for a while.
    pub(crate) fn part(&self, one: usize, other: usize, lasts: Duration) {
        self.trouble().parted.push((one, other, Instant::now() + lasts));
    }

    /// Whether a packet gets from one process to another.
    pub(crate) fn reaches(&self, from: usize, to: usize) -> bool {
        let now = Instant::now();
        let parts = |(one, other, until): &(usize, usize, Instant)| {
            now < *until && ((*one, *other) == (from, to) || (*one, *other) == (to, from))
        };
        !self.trouble().parted.iter().any(parts)
    }

    /// Starts fault injection.
    pub(crate) fn begin(&self) {
        self.trouble().is_over = false;
    }

    /// Repairs everything and ends fault injection.
    pub(crate) fn repair(&self) {
        *self.trouble() = Trouble { is_over: true, ..Trouble::default() };
    }

    /// Waits for one network hop between two machines.
    pub(crate) async fn travel(&self) {
        let micros = self.streams.network.below(100, 3_000);
        sleep(Duration::from_micros(micros)).await;
    }

    /// Calls a dependency, and waits for the answer. The call is executed even if the caller stops waiting.
    pub(crate) async fn call<T: Send + 'static>(
        self: &Arc<Self>,
        process: &Arc<SimProcess>,
        work: impl Future<Output = T> + Send + 'static,
    ) -> T {
        process.runs().await;
        let (answer, answered) = tokio::sync::oneshot::channel();
        tokio::spawn(async move {
            // The caller may be dead.
            drop(answer.send(work.await));
        });
        let Ok(answer) = answered.await else { std::future::pending().await };
        process.runs().await;
        answer
    }

    pub(crate) fn journal(&self) -> MutexGuard<'_, Journal> {
        lock(&self.journal)
    }

    pub(crate) fn indexes(&self) -> MutexGuard<'_, Indexes> {
        lock(&self.indexes)
    }

    pub(crate) fn partitions(&self) -> MutexGuard<'_, PartitionLoads> {
        lock(&self.partitions)
    }

    /// The users with a begun deletion.
    pub(crate) fn deletions(&self) -> MutexGuard<'_, Deletions> {
        lock(&self.deletions)
    }

    /// State of the injected bugs.
    pub(crate) fn memories(&self) -> MutexGuard<'_, Memories> {
        lock(&self.memories)
    }

    fn trouble(&self) -> MutexGuard<'_, Trouble> {
        lock(&self.trouble)
    }
}

/// Waits until the caller's timeout.
pub(crate) async fn until_deadline(began: Instant) {
    sleep_until(began + DEADLINE).await;
}
