//! What is asserted while the service runs.
//!
//! An assertion stands where a plane takes an answer from a neighbour, or a store is about to commit, and costs nothing
//! there: no read, no allocation. Whoever finds that something does not hold refuses the operation, as if the neighbour had
//! failed, and never ends the process: one damaged chat is no reason to stop the others. The violation is counted, and an
//! alert fires (`deploy/prometheus/processes.rules.yml`).

use std::fmt::Display;

use domain::Invariant;
use metrics::counter;
use tracing::error;

/// The invariants that are asserted somewhere. What the others say cannot be seen from one place, or follows from how the
/// code is built; the simulator and `tidings verify` check them.
pub const ASSERTED: &[Invariant] = &[
    Invariant::DynamodbIsAuthoritative,
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

/// Asserts an invariant: `condition`, with a violation counted and logged where it is false. The caller then refuses the
/// operation. `detail` names ids and numbers, never a content or a secret.
#[must_use]
pub fn holds<D: Display>(invariant: Invariant, condition: bool, detail: impl FnOnce() -> D) -> bool {
    if !condition {
        violated(invariant, detail());
    }
    condition
}

/// Counts and logs a violation that was found in another way.
pub fn violated(invariant: Invariant, detail: impl Display) {
    counter!("tidings_invariant_violations_total", "name" => invariant.name()).increment(1);
    error!(invariant = invariant.name(), %detail, "an invariant does not hold; the operation is refused");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::Violations;

    #[test]
    fn what_holds_costs_no_detail_and_what_does_not_is_counted_by_name() {
        let violations = Violations::default();
        let _watched = violations.watch();
        assert!(holds(Invariant::NoZeroSequence, true, || -> String { unreachable!("nobody asked for it") }));
        assert_eq!(violations.seen(), []);
        assert!(!holds(Invariant::NoZeroSequence, false, || "message 7"));
        assert!(!holds(Invariant::NoZeroSequence, false, || 8));
        violated(Invariant::CounterMustExist, "chat 9");
        let expected = [("counter_must_exist".to_owned(), 1), ("no_zero_sequence".to_owned(), 2)];
        assert_eq!(violations.seen(), expected);
    }
}
