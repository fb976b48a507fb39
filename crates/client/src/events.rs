use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use protocol::client::ClientEvent;
use tokio::sync::{Notify, mpsc};

/// What happens in a session, in order. Dropping it ends the session.
///
/// Asking for the next event says that the one before has been dealt with: a message is acknowledged to the server only
/// then, so that one which an application dies over comes again.
#[derive(Debug)]
pub struct Events {
    receiver: mpsc::Receiver<ClientEvent>,
    taken: Arc<Taken>,
    holds_message: bool,
}

/// Counts the messages that the application has dealt with. A counter instead of a channel back: the driver knows the
/// messages in their order, so a number says it all and costs no wake per message.
#[derive(Debug, Default)]
pub(crate) struct Taken {
    messages: AtomicU64,
    changed: Notify,
}

impl Events {
    /// The next event; `None` once the session is over and everything has been told.
    pub async fn next(&mut self) -> Option<ClientEvent> {
        if self.holds_message {
            self.holds_message = false;
            let messages = self.taken.messages.fetch_add(1, Ordering::Release) + 1;
            // The driver batches acks anyway; it is woken for a batch, and for the last message before a pause.
            if messages.is_multiple_of(Taken::BATCH) || self.receiver.is_empty() {
                self.taken.changed.notify_one();
            }
        }
        let event = self.receiver.recv().await;
        self.holds_message = matches!(event, Some(ClientEvent::Message(_)));
        event
    }
}

impl Taken {
    const BATCH: u64 = 10;

    pub(crate) fn events(self: &Arc<Self>, receiver: mpsc::Receiver<ClientEvent>) -> Events {
        Events { receiver, taken: Arc::clone(self), holds_message: false }
    }

    /// How many messages have been dealt with.
    pub(crate) fn messages(&self) -> u64 {
        self.messages.load(Ordering::Acquire)
    }

    /// Resolves when that may have changed.
    pub(crate) async fn changed(&self) {
        self.changed.notified().await;
    }
}
