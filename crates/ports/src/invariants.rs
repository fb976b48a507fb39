//! Assertions of invariants at run time.
//!
//! A plane asserts where it takes an answer from another component; a store asserts before it commits. The check costs
//! no read and no allocation. If an invariant does not hold, the caller refuses the operation, as if the other
//! component had failed. It never ends the process: one damaged chat must not stop the others. Each violation is
//! counted, and an alert fires (`deploy/prometheus/processes.rules.yml`).

use std::fmt::Display;

use domain::Invariant;
use metrics::counter;
use tracing::error;

/// The invariants that are asserted at run time. The others cannot be checked in one component, or follow from the
/// structure of the code; the simulator and `tidings store verify` check them.
pub const ASSERTED: &[Invariant] = &[
    Invariant::StoreIsAuthoritative,
    Invariant::WriteOrderPreserved,
    Invariant::CounterMustExist,
    Invariant::AllocationMonotonicity,
    Invariant::SequenceMonotonicity,
    Invariant::AckImpliesPersistence,
    Invariant::NoZeroSequence,
    Invariant::DeliveryWatermarkMonotonic,
    Invariant::WatermarkBoundedByHead,
    Invariant::ReadImpliesDelivered,
    Invariant::SyncCompleteness,
    Invariant::ExpiredNeverRead,
    Invariant::OrderingPreserved,
    Invariant::RoutingDenormalizationConsistent,
    Invariant::PrivacyEnforced,
    Invariant::OnlyMembersReceive,
];

/// Asserts an invariant: returns `condition`, and counts and logs a violation if it is false. The caller then refuses
/// the operation. `detail` contains ids and numbers, never message content or a secret.
#[must_use]
pub fn holds<D: Display>(invariant: Invariant, condition: bool, detail: impl FnOnce() -> D) -> bool {
    if !condition {
        violated(invariant, detail());
    }
    condition
}

/// Counts and logs a violation that the caller has detected itself.
pub fn violated(invariant: Invariant, detail: impl Display) {
    counter!("tidings_invariant_violations_total", "name" => invariant.name()).increment(1);
    error!(invariant = invariant.name(), %detail, "an invariant does not hold; the operation is refused");
}
