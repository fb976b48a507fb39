use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use metrics::{
    Counter, CounterFn, Gauge, Histogram, Key, KeyName, LocalRecorderGuard, Metadata, Recorder, SharedString, Unit,
};
use ports::lock;

/// Counts the invariant violations that the code under test reports.
#[derive(Clone, Default)]
pub struct Violations {
    seen: Arc<Mutex<BTreeMap<String, u64>>>,
}

impl Violations {
    /// Counts the violations on this thread while the guard lives. A single-threaded runtime runs all its tasks on it.
    #[must_use]
    pub fn watch(&self) -> LocalRecorderGuard<'_> {
        metrics::set_default_local_recorder(self)
    }

    /// The names of the violated invariants, with their counts.
    pub fn seen(&self) -> Vec<(String, u64)> {
        let seen = lock(&self.seen);
        seen.iter().map(|(name, times)| (name.clone(), *times)).collect()
    }
}

/// The counter of one invariant.
struct ViolationCounter {
    name: String,
    violations: Violations,
}

impl CounterFn for ViolationCounter {
    fn increment(&self, times: u64) {
        let mut seen = lock(&self.violations.seen);
        *seen.entry(self.name.clone()).or_default() += times;
    }

    // No counter of the service is set to an absolute value.
    fn absolute(&self, _value: u64) {}
}

impl Recorder for Violations {
    fn register_counter(&self, key: &Key, _metadata: &Metadata<'_>) -> Counter {
        match key.labels().find(|label| label.key() == "name") {
            Some(label) if key.name() == "tidings_invariant_violations_total" => {
                Counter::from_arc(Arc::new(ViolationCounter {
                    name: label.value().to_owned(),
                    violations: self.clone(),
                }))
            }
            _ => Counter::noop(),
        }
    }

    fn register_gauge(&self, _key: &Key, _metadata: &Metadata<'_>) -> Gauge {
        Gauge::noop()
    }

    fn register_histogram(&self, _key: &Key, _metadata: &Metadata<'_>) -> Histogram {
        Histogram::noop()
    }

    fn describe_counter(&self, _key: KeyName, _unit: Option<Unit>, _description: SharedString) {}

    fn describe_gauge(&self, _key: KeyName, _unit: Option<Unit>, _description: SharedString) {}

    fn describe_histogram(&self, _key: KeyName, _unit: Option<Unit>, _description: SharedString) {}
}

#[cfg(test)]
mod tests {
    use domain::Invariant;
    use ports::{holds, violated};

    use super::*;

    #[test]
    fn only_violations_evaluate_their_detail_and_are_counted_by_name() {
        let violations = Violations::default();
        let _watched = violations.watch();
        assert!(holds(Invariant::NoZeroSequence, true, || -> String { unreachable!("the invariant holds") }));
        assert_eq!(violations.seen(), []);
        assert!(!holds(Invariant::NoZeroSequence, false, || "message 7"));
        assert!(!holds(Invariant::NoZeroSequence, false, || 8));
        violated(Invariant::CounterMustExist, "chat 9");
        let expected = [("counter_must_exist".to_owned(), 1), ("no_zero_sequence".to_owned(), 2)];
        assert_eq!(violations.seen(), expected);
    }
}
