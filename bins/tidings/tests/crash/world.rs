use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use audit::history::Client;
use domain::ChatId;
use protocol::frame::{MessageBody, SendMessage, SendMessageAck};
use protocol::{ErrorBody, Retry};
use tokio::sync::watch;

use crate::audit::AuditRow;
use crate::history::RecordedHistory;
use crate::ledger::{SendLedger, id_of};

/// Parameters of a load.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Manners {
    pub(crate) refusals: Refusals,
    /// Pause of each sender between two sends.
    pub(crate) pause: Duration,
}

/// Allowed responses to a send besides an ack, or the end of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusals {
    /// None.
    None,
    /// Temporary refusal, which a fleet on a loaded machine may give at any time. The order is checked if there was none.
    WhenLoaded,
    /// Temporary refusal, because of the fault under test. Later sends may be committed before the retry.
    ForAWhile,
}

/// State shared by all tasks.
pub(crate) struct World {
    state: Mutex<LoadState>,
    /// The operations and observations of all clients, for the checker.
    pub(crate) history: RecordedHistory,
    pub(crate) manners: Manners,
    /// Whether a send was refused.
    was_refused: AtomicBool,
    /// Whether senders make new sends. Existing sends continue until they are acknowledged.
    pub(crate) sending: watch::Sender<bool>,
    /// Changes with every ack and every event.
    pub(crate) progress: watch::Sender<()>,
}

pub(crate) struct LoadState {
    pub(crate) ledger: SendLedger,
    /// The messages delivered to each SDK device, by chat.
    pub(crate) heard: Vec<BTreeMap<ChatId, Vec<AuditRow>>>,
}

impl World {
    /// The state before the first send, for this many listeners.
    pub(crate) fn new(listeners: usize, manners: Manners) -> Self {
        Self {
            manners,
            was_refused: AtomicBool::new(false),
            history: RecordedHistory::new(),
            state: Mutex::new(LoadState { ledger: SendLedger::default(), heard: vec![BTreeMap::new(); listeners] }),
            sending: watch::channel(false).0,
            progress: watch::channel(()).0,
        }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, LoadState> {
        self.state.lock().expect("a task that panics ends the test")
    }

    /// Records a send before its first attempt. `sender` identifies a source of ordered sends.
    pub(crate) fn sent(&self, sender: usize, client: Client, message: &SendMessage, ordered: bool) {
        self.history.began(client, message, ordered && self.records_orders());
        self.lock().ledger.sent(sender, client.user_id, message);
    }

    /// Whether the history records which sends are ordered. It has to know before their outcome.
    pub(crate) fn records_orders(&self) -> bool {
        self.manners.refusals == Refusals::None
    }

    /// Whether each sender's order is preserved. After a refusal, later sends may be committed first.
    pub(crate) fn keeps_orders(&self) -> bool {
        match self.manners.refusals {
            Refusals::None => true,
            Refusals::WhenLoaded => !self.was_refused.load(Ordering::Relaxed),
            Refusals::ForAWhile => false,
        }
    }

    pub(crate) fn acked(&self, client: Client, ack: &SendMessageAck) {
        self.history.acked(client, ack);
        self.lock().ledger.acked(ack);
        self.progress.send_replace(());
    }

    /// Checks that a refusal is temporary and carries a retry time.
    pub(crate) fn refused(&self, error: &ErrorBody) {
        let after = error.details.as_ref().map(|details| &details["retry_after_seconds"]);
        let passes = error.code.retry() == Retry::Backoff && after.is_some_and(|seconds| seconds.is_u64());
        let is_allowed = [Refusals::WhenLoaded, Refusals::ForAWhile].contains(&self.manners.refusals);
        assert!(is_allowed && passes, "refused: {error:?}");
        self.was_refused.store(true, Ordering::Relaxed);
    }

    /// Checks that the messages of a chat arrive in order, without gaps or duplicates.
    pub(crate) fn heard(&self, listener: usize, message: &MessageBody<'_>) {
        let mut state = self.lock();
        state.ledger.check(message);
        let rows = state.heard[listener].entry(message.chat_id).or_default();
        assert_eq!(message.sequence.0, rows.len() as u64 + 1, "listener {listener} received {message:?}");
        rows.push((message.message_id, id_of(&message.content)));
        drop(state);
        self.progress.send_replace(());
    }
}
