use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use gateway::Hub;
use serde_json::{Map, Value};

/// A kind of work that a process has to finish before it may be removed, and how much of it is left.
pub(crate) type RemainingWork = (&'static str, Arc<dyn Fn() -> usize + Send + Sync>);

/// Whether the process is draining, and its remaining work.
///
/// An operator can start a drain and cancel it. A shutdown cannot be cancelled.
pub(crate) struct Drain {
    asked: AtomicBool,
    ending: AtomicBool,
    /// The sockets of clients, if this process is a gateway: a drain moves them elsewhere.
    hub: Option<Arc<Hub>>,
    left: Vec<RemainingWork>,
}

impl Drain {
    pub(crate) fn of(hub: Option<Arc<Hub>>, left: impl IntoIterator<Item = RemainingWork>) -> Self {
        let mut left: Vec<RemainingWork> = left.into_iter().collect();
        if let Some(hub) = hub.clone() {
            left.insert(0, ("connections", Arc::new(move || hub.connections())));
        }
        Self { asked: AtomicBool::new(false), ending: AtomicBool::new(false), hub, left }
    }

    /// Marks the process as not ready and moves its clients elsewhere. Requests that still arrive are answered.
    pub(crate) fn begin(&self) {
        self.asked.store(true, Ordering::Relaxed);
        if let Some(hub) = &self.hub {
            hub.begin_drain();
        }
    }

    /// Cancels the drain of an operator.
    pub(crate) fn end(&self) {
        self.asked.store(false, Ordering::Relaxed);
        if let Some(hub) = &self.hub {
            hub.end_drain();
        }
    }

    /// Marks the process as shutting down.
    pub(crate) fn end_of_process(&self) {
        self.ending.store(true, Ordering::Relaxed);
    }

    /// Whether an operator drains the whole process.
    pub(crate) fn is_asked(&self) -> bool {
        self.asked.load(Ordering::Relaxed)
    }

    /// Whether the process, or its gateway alone, is draining.
    pub(crate) fn is_draining(&self) -> bool {
        self.is_asked() || self.ending.load(Ordering::Relaxed) || self.hub.as_ref().is_some_and(|hub| hub.is_draining())
    }

    /// The remaining work by kind, and whether none is left.
    pub(crate) fn standing(&self) -> Map<String, Value> {
        let left: Vec<(&str, usize)> = self.left.iter().map(|(name, count)| (*name, count())).collect();
        let is_safe = self.is_draining() && left.iter().all(|(_, count)| *count == 0);
        let counts = left.into_iter().map(|(name, count)| (name.to_owned(), count.into()));
        counts.chain([("safe_to_remove".to_owned(), is_safe.into())]).collect()
    }
}
