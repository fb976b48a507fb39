use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use domain::Invariant;
use memory::{MemoryLog, MemoryStore, SequentialIds};
use tokio::time::{Instant, sleep, sleep_until};

use crate::broken::Memories;
use crate::bugs::Bug;
use crate::checks::Checks;
use crate::dice::Dice;
use crate::directory::Directory;
use crate::plan::{Plan, Rates, Shape};
use crate::process::{Process, SkewedClock};
use crate::trace::{Actor, Entry, Trace, What};

/// Everything outside the processes: what they stand on, what is between them, and what goes wrong with it.
pub(crate) struct World {
    pub(crate) plan: Plan,
    pub(crate) began: Instant,
    /// The right time.
    pub(crate) clock: Arc<SkewedClock>,
    pub(crate) ids: Arc<SequentialIds>,
    pub(crate) store: MemoryStore,
    pub(crate) log: Arc<MemoryLog>,
    pub(crate) streams: Streams,
    pub(crate) checks: Checks,
    pub(crate) directory: Directory,
    /// Held by whoever writes to the disk of a node: it has one committer.
    pub(crate) committing: tokio::sync::Mutex<()>,
    memories: Mutex<Memories>,
    trouble: Mutex<Trouble>,
    trace: Mutex<Trace>,
}

/// Where chance comes from, by concern.
pub(crate) struct Streams {
    pub(crate) store: Dice,
    pub(crate) shared: Dice,
    pub(crate) log: Dice,
    pub(crate) network: Dice,
    pub(crate) nemesis: Dice,
}

/// What does not work, and until when.
#[derive(Default)]
struct Trouble {
    away: BTreeMap<Part, Instant>,
    parted: Vec<(usize, usize, Instant)>,
    /// Whether nothing goes wrong any more.
    is_over: bool,
}

/// What can be away.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Part {
    Store,
    /// The store answers, but takes only some of what it is asked.
    Throttled,
    Disk,
    Log,
    Shared,
}

/// How long a caller waits for another process, or for what it stands on.
pub(crate) const DEADLINE: Duration = Duration::from_secs(5);

impl World {
    pub(crate) fn new(plan: Plan) -> Self {
        let began = Instant::now();
        let clock = Arc::new(SkewedClock::new(began, 0));
        let ids = Arc::new(SequentialIds::default());
        let store = match plan.shape {
            Shape::Node => MemoryStore::new(ids.clone()),
            Shape::Fleet => MemoryStore::beside_a_log(ids.clone()),
        };
        let stream = |concern| Dice::of(plan.seed, concern);
        let streams = Streams {
            store: stream("store"),
            shared: stream("shared"),
            log: stream("log"),
            network: stream("network"),
            nemesis: stream("nemesis"),
        };
        Self {
            plan,
            began,
            log: Arc::new(MemoryLog::new(clock.clone())),
            clock,
            ids,
            store,
            streams,
            checks: Checks::default(),
            directory: Directory::default(),
            committing: tokio::sync::Mutex::new(()),
            memories: Mutex::default(),
            trouble: Mutex::default(),
            trace: Mutex::default(),
        }
    }

    /// Whether a known bug is in.
    pub(crate) fn has(&self, bug: Bug) -> bool {
        self.plan.bug == Some(bug)
    }

    /// How often calls fail on their own, now.
    pub(crate) fn rates(&self) -> Rates {
        if self.trouble().is_over { Rates::default() } else { self.plan.rates.clone() }
    }

    pub(crate) fn note(&self, actor: Actor, what: What) {
        let at = self.began.elapsed();
        self.trace().entries.push(Entry { at, actor, what });
    }

    /// Notes that a promise is broken.
    pub(crate) fn violated(&self, invariant: Invariant, detail: String) {
        self.note_violation(invariant, detail.clone());
        self.checks.findings().violate(invariant, detail);
    }

    /// Puts a violation into the trace, where somebody else counts it.
    pub(crate) fn note_violation(&self, invariant: Invariant, detail: String) {
        self.note(Actor::Checker, What::Violated { invariant, detail });
    }

    /// Notes one check of a promise.
    pub(crate) fn check(&self, invariant: Invariant, holds: bool, detail: impl FnOnce() -> String) {
        self.checks.findings().checked(invariant, 1);
        if !holds {
            self.violated(invariant, detail());
        }
    }

    pub(crate) fn trace(&self) -> MutexGuard<'_, Trace> {
        self.trace.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has something be away for a while.
    pub(crate) fn take_away(&self, part: Part, lasts: Duration) {
        let until = Instant::now() + lasts;
        let mut trouble = self.trouble();
        let away = trouble.away.entry(part).or_insert(until);
        *away = until.max(*away);
    }

    pub(crate) fn is_away(&self, part: Part) -> bool {
        self.trouble().away.get(&part).is_some_and(|until| Instant::now() < *until)
    }

    /// Has two processes not reach each other for a while.
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

    /// Lets things go wrong from here on.
    pub(crate) fn begin(&self) {
        self.trouble().is_over = false;
    }

    /// Repairs everything: from here on nothing goes wrong.
    pub(crate) fn repair(&self) {
        *self.trouble() = Trouble { is_over: true, ..Trouble::default() };
    }

    /// How long one way between two machines takes.
    pub(crate) async fn travel(&self) {
        let micros = self.streams.network.below(100, 3_000);
        sleep(Duration::from_micros(micros)).await;
    }

    /// Asks something that processes stand on, and waits as long as that takes. What was asked for is done even if nobody
    /// waits for the answer any more.
    pub(crate) async fn ask<T: Send + 'static>(
        self: &Arc<Self>,
        process: &Arc<Process>,
        work: impl Future<Output = T> + Send + 'static,
    ) -> T {
        process.runs().await;
        let (answer, answered) = tokio::sync::oneshot::channel();
        tokio::spawn(async move {
            // Whoever asked may be dead.
            drop(answer.send(work.await));
        });
        let Ok(answer) = answered.await else { std::future::pending().await };
        process.runs().await;
        answer
    }

    /// What a known bug has to remember.
    pub(crate) fn memories(&self) -> MutexGuard<'_, Memories> {
        self.memories.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn trouble(&self) -> MutexGuard<'_, Trouble> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Waits until the patience of a caller is over.
pub(crate) async fn until_deadline(began: Instant) {
    sleep_until(began + DEADLINE).await;
}
