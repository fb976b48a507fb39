use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use protocol::client::ClientEvent;
use tokio::sync::{Notify, mpsc};

/// The events of a session, in order. Dropping it ends the session.
///
/// The call for the next event confirms that the application has processed the previous one. Only then is a message
/// or an update acknowledged to the server, so it is delivered again if the application crashes while processing it.
#[derive(Debug)]
pub struct Events {
    receiver: mpsc::Receiver<ClientEvent>,
    taken: Arc<ProcessedEntries>,
    holds_entry: bool,
}

/// Counts the messages and updates that the application has processed. A counter is cheaper than a channel: the driver
/// knows their order, so a number is enough and needs no wake-up for each.
#[derive(Debug, Default)]
pub(crate) struct ProcessedEntries {
    entries: AtomicU64,
    changed: Notify,
}

impl Events {
    /// The next event; `None` once the session has ended and all events were returned.
    pub async fn next(&mut self) -> Option<ClientEvent> {
        if self.holds_entry {
            self.holds_entry = false;
            let entries = self.taken.entries.fetch_add(1, Ordering::Release) + 1;
            // The driver batches acks, so wake it only for a full batch and for the last queued entry.
            if entries.is_multiple_of(ProcessedEntries::BATCH) || self.receiver.is_empty() {
                self.taken.changed.notify_one();
            }
        }
        let event = self.receiver.recv().await;
        self.holds_entry = matches!(event, Some(ClientEvent::Message(_) | ClientEvent::Updated(_)));
        event
    }
}

impl ProcessedEntries {
    const BATCH: u64 = 10;

    pub(crate) fn events(self: &Arc<Self>, receiver: mpsc::Receiver<ClientEvent>) -> Events {
        Events { receiver, taken: Arc::clone(self), holds_entry: false }
    }

    /// The number of processed messages and updates.
    pub(crate) fn entries(&self) -> u64 {
        self.entries.load(Ordering::Acquire)
    }

    /// Resolves when the count may have changed.
    pub(crate) async fn changed(&self) {
        self.changed.notified().await;
    }
}
