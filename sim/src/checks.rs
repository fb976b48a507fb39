//! The promises, looked at on every step. Whatever is here only reads.
//!
//! What clients did and saw goes to [`audit::history::Checker`], what is stored at the end to [`audit::audit`]: the same code
//! that judges real runs and real stores. Here is what only somebody can check who sees all sides at once.

mod delivery;
mod log;
mod presence;
mod routing;
mod store;

use std::sync::{Mutex, MutexGuard, PoisonError};

use audit::Findings;
use audit::history::{Checker, Entry};
use domain::Invariant;

pub(crate) use delivery::Deliveries;
pub(crate) use log::Logged;
pub(crate) use presence::{Appearances, LOOK_INTERVAL};
pub(crate) use routing::{EXPIRY, Routed};
pub(crate) use store::Stored;

use crate::plan::Shape;
use crate::world::World;

/// What the checkers remember.
#[derive(Default)]
pub(crate) struct Checks {
    findings: Mutex<Findings>,
    history: Mutex<Option<Checker>>,
    stored: Mutex<Stored>,
    logged: Mutex<Logged>,
    routed: Mutex<Routed>,
    appearances: Mutex<Appearances>,
    deliveries: Mutex<Deliveries>,
}

impl Checks {
    pub(crate) fn findings(&self) -> MutexGuard<'_, Findings> {
        lock(&self.findings)
    }

    /// Counts a call of a plane that may not write.
    pub(crate) fn downstream(&self, may_write: bool) {
        if !may_write {
            self.findings().checked(Invariant::DownstreamNeverWritesUpstream, 1);
        }
    }

    fn stored(&self) -> MutexGuard<'_, Stored> {
        lock(&self.stored)
    }

    fn logged(&self) -> MutexGuard<'_, Logged> {
        lock(&self.logged)
    }

    fn routed(&self) -> MutexGuard<'_, Routed> {
        lock(&self.routed)
    }

    fn appearances(&self) -> MutexGuard<'_, Appearances> {
        lock(&self.appearances)
    }

    fn deliveries(&self) -> MutexGuard<'_, Deliveries> {
        lock(&self.deliveries)
    }
}

impl World {
    /// Takes note of what a client did or saw.
    pub(crate) fn observe(&self, entry: &Entry) {
        let mut history = lock(&self.checks.history);
        let checker = history.get_or_insert_with(Checker::new);
        let before: Vec<_> = checker.findings().violations().cloned().collect();
        checker.observe(entry);
        let new: Vec<_> =
            checker.findings().violations().filter(|violation| !before.contains(violation)).cloned().collect();
        drop(history);
        for violation in new {
            self.note_violation(violation.invariant, violation.detail);
        }
    }

    /// Ends the history, and adds what it says to the rest.
    pub(crate) fn end_history(&self) {
        if let Some(checker) = lock(&self.checks.history).take() {
            let findings = checker.finish();
            for violation in findings.violations() {
                self.note_violation(violation.invariant, violation.detail.clone());
            }
            self.checks.findings().merge(findings);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Has the auditor of real stores look at the store of a run.
pub(crate) async fn audit_store(world: &World) -> Findings {
    let mut options = audit::Options::new(world.clock.clone());
    // Everything has had its time.
    options.overdue_after = std::time::Duration::from_secs(30);
    let log: &dyn ports::AuditLog = match world.plan.shape {
        Shape::Node => &world.store,
        Shape::Fleet => &*world.log,
    };
    audit::audit(&world.store, Some(log), &options, &audit::AtOnce, None).await.unwrap_or_default()
}
