//! Checks the invariants at every step. The checkers only read.
//!
//! [`audit::history::Checker`] checks the observations of clients, and [`audit::audit`] checks the final store: the
//! same code that checks real runs and real stores. This module has the checks that need a view of all components at
//! once.

mod delivery;
mod expired;
mod log;
mod outward;
mod presence;
mod routing;
mod store;

use std::sync::{Mutex, MutexGuard};

use audit::Findings;
use audit::history::{Checker, Entry};
use domain::Invariant;
use ports::lock;

pub(crate) use delivery::PushObservations;
pub(crate) use log::LogObservations;
pub(crate) use outward::OutwardObservations;
pub(crate) use presence::{Appearances, LOOK_INTERVAL};
pub(crate) use routing::{EXPIRY, Routed};
pub(crate) use store::StoreObservations;

use self::expired::LogWithExpiredUpdates;
use crate::plan::RunShape;
use crate::world::World;

/// State of the checkers.
#[derive(Default)]
pub(crate) struct Checks {
    findings: Mutex<Findings>,
    history: Mutex<Option<Checker>>,
    stored: Mutex<StoreObservations>,
    logged: Mutex<LogObservations>,
    routed: Mutex<Routed>,
    appearances: Mutex<Appearances>,
    deliveries: Mutex<PushObservations>,
    outward: Mutex<OutwardObservations>,
}

impl Checks {
    pub(crate) fn findings(&self) -> MutexGuard<'_, Findings> {
        lock(&self.findings)
    }

    /// Counts a call of a plane that must not write. [`SimStore`](crate::store::SimStore) reports a write.
    pub(crate) fn downstream(&self, may_write: bool) {
        if !may_write {
            self.findings().checked(Invariant::DownstreamNeverWritesUpstream, 1);
        }
    }

    fn stored(&self) -> MutexGuard<'_, StoreObservations> {
        lock(&self.stored)
    }

    fn logged(&self) -> MutexGuard<'_, LogObservations> {
        lock(&self.logged)
    }

    fn routed(&self) -> MutexGuard<'_, Routed> {
        lock(&self.routed)
    }

    fn appearances(&self) -> MutexGuard<'_, Appearances> {
        lock(&self.appearances)
    }

    fn outward(&self) -> MutexGuard<'_, OutwardObservations> {
        lock(&self.outward)
    }

    fn deliveries(&self) -> MutexGuard<'_, PushObservations> {
        lock(&self.deliveries)
    }
}

impl World {
    /// Records an action or observation of a client.
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

    /// Finishes the history checker, and adds its findings to the others.
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

/// Audits the store of a run with the auditor for real stores.
pub(crate) async fn audit_store(world: &World) -> Findings {
    let mut options = audit::AuditOptions::new(world.clock.clone());
    // All delayed work has had time to complete.
    options.overdue_after = std::time::Duration::from_secs(30);
    let of_fleet = LogWithExpiredUpdates { world };
    let log: &dyn ports::AuditLog = match world.plan.shape {
        RunShape::Node => &world.store,
        RunShape::Fleet => &of_fleet,
    };
    audit::audit(&world.store, Some(log), &options, &audit::AtOnce, None).await.unwrap_or_default()
}
