use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use protocol::client::ClientEvent;
use tokio::sync::{Notify, mpsc};

/// The events of a session, in order. Dropping it ends the session.
///
/// The call for the next event confirms that the application has processed the previous one. Only then is a message
/// acknowledged to the server, so a message is delivered again if the application crashes while processing it.
#[derive(Debug)]
pub struct Events {
    receiver: mpsc::Receiver<ClientEvent>,
    taken: Arc<ProcessedMessages>,
    holds_message: bool,
}

/// Counts the messages that the application has processed. A counter is cheaper than a channel: the driver knows the
/// order of the messages, so a number is enough and needs no wake-up per message.
#[derive(Debug, Default)]
pub(crate) struct ProcessedMessages {
    messages: AtomicU64,
    changed: Notify,
}

impl Events {
    /// The next event; `None` once the session has ended and all events were returned.
    pub async fn next(&mut self) -> Option<ClientEvent> {
        if self.holds_message {
            self.holds_message = false;
            let messages = self.taken.messages.fetch_add(1, Ordering::Release) + 1;
            // The driver batches acks, so wake it only for a full batch and for the last queued message.
            if messages.is_multiple_of(ProcessedMessages::BATCH) || self.receiver.is_empty() {
                self.taken.changed.notify_one();
            }
        }
        let event = self.receiver.recv().await;
        self.holds_message = matches!(event, Some(ClientEvent::Message(_)));
        event
    }
}

impl ProcessedMessages {
    const BATCH: u64 = 10;

    pub(crate) fn events(self: &Arc<Self>, receiver: mpsc::Receiver<ClientEvent>) -> Events {
        Events { receiver, taken: Arc::clone(self), holds_message: false }
    }

    /// The number of processed messages.
    pub(crate) fn messages(&self) -> u64 {
        self.messages.load(Ordering::Acquire)
    }

    /// Resolves when the count may have changed.
    pub(crate) async fn changed(&self) {
        self.changed.notified().await;
    }
}
