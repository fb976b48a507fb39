use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use gateway::Hub;
use serde_json::{Map, Value};

/// Something that a process has to do before it may be removed, and how much of it is left.
pub(crate) type Left = (&'static str, Arc<dyn Fn() -> usize + Send + Sync>);

/// Whether the process is about to go, and what it still has to do.
///
/// An operator may have it drained and call that off; the end of the process is never called off.
pub(crate) struct Drain {
    asked: AtomicBool,
    ending: AtomicBool,
    /// The sockets of clients, where this process is a gateway: an operator may have them go elsewhere.
    hub: Option<Arc<Hub>>,
    left: Vec<Left>,
}

impl Drain {
    pub(crate) fn of(hub: Option<Arc<Hub>>, left: impl IntoIterator<Item = Left>) -> Self {
        let mut left: Vec<Left> = left.into_iter().collect();
        if let Some(hub) = hub.clone() {
            left.insert(0, ("connections", Arc::new(move || hub.connections())));
        }
        Self { asked: AtomicBool::new(false), ending: AtomicBool::new(false), hub, left }
    }

    /// Is not ready from now on, and has clients go elsewhere. Whatever still comes is answered.
    pub(crate) fn begin(&self) {
        self.asked.store(true, Ordering::Relaxed);
        if let Some(hub) = &self.hub {
            hub.begin_drain();
        }
    }

    /// Is ready again.
    pub(crate) fn end(&self) {
        self.asked.store(false, Ordering::Relaxed);
        if let Some(hub) = &self.hub {
            hub.end_drain();
        }
    }

    /// The process was told to end.
    pub(crate) fn end_of_process(&self) {
        self.ending.store(true, Ordering::Relaxed);
    }

    /// Whether an operator has asked for it, of the whole process.
    pub(crate) fn is_asked(&self) -> bool {
        self.asked.load(Ordering::Relaxed)
    }

    /// Whether the process, or its gateway alone, is about to go.
    pub(crate) fn is_draining(&self) -> bool {
        self.is_asked() || self.ending.load(Ordering::Relaxed) || self.hub.as_ref().is_some_and(|hub| hub.is_draining())
    }

    /// What is left of each thing, and whether nothing is.
    pub(crate) fn standing(&self) -> Map<String, Value> {
        let left: Vec<(&str, usize)> = self.left.iter().map(|(name, count)| (*name, count())).collect();
        let is_safe = self.is_draining() && left.iter().all(|(_, count)| *count == 0);
        let counts = left.into_iter().map(|(name, count)| (name.to_owned(), count.into()));
        counts.chain([("safe_to_remove".to_owned(), is_safe.into())]).collect()
    }
}
