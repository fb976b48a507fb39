use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use metrics::{
    Counter, CounterFn, Gauge, Histogram, Key, KeyName, LocalRecorderGuard, Metadata, Recorder, SharedString, Unit,
};

/// Counts the invariants that the code under test finds violated.
#[derive(Clone, Default)]
pub struct Violations {
    seen: Arc<Mutex<BTreeMap<String, u64>>>,
}

impl Violations {
    /// Counts what happens on this thread, as long as the guard lives. A test on a runtime of one thread sees all its tasks.
    #[must_use]
    pub fn watch(&self) -> LocalRecorderGuard<'_> {
        metrics::set_default_local_recorder(self)
    }

    /// The names of what was violated, and how often.
    pub fn seen(&self) -> Vec<(String, u64)> {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.iter().map(|(name, times)| (name.clone(), *times)).collect()
    }
}

/// The counter of one invariant.
struct Tally {
    name: String,
    of: Violations,
}

impl CounterFn for Tally {
    fn increment(&self, times: u64) {
        let mut seen = self.of.seen.lock().unwrap_or_else(PoisonError::into_inner);
        *seen.entry(self.name.clone()).or_default() += times;
    }

    // No counter of ours is set.
    fn absolute(&self, _value: u64) {}
}

impl Recorder for Violations {
    fn register_counter(&self, key: &Key, _metadata: &Metadata<'_>) -> Counter {
        match key.labels().find(|label| label.key() == "name") {
            Some(label) if key.name() == "tidings_invariant_violations_total" => {
                Counter::from_arc(Arc::new(Tally { name: label.value().to_owned(), of: self.clone() }))
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
