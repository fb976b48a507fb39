use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use audit::history::Client;
use domain::ChatId;
use protocol::frame::{MessageBody, SendMessage, SendMessageAck};
use protocol::{ErrorBody, Retry};
use tokio::sync::watch;

use crate::audit::Row;
use crate::history::History;
use crate::ledger::{Ledger, id_of};

/// How a load behaves.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Manners {
    pub(crate) refusals: Refusals,
    /// How long each sender waits from one send to the next.
    pub(crate) pause: Duration,
}

/// What a server may do with a send besides answering it, or ending the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusals {
    /// Nothing.
    None,
    /// Tell that it cannot take it now. What was sent behind it may be taken before the next try.
    ForAWhile,
}

/// What all tasks share.
pub(crate) struct World {
    state: Mutex<State>,
    /// What everybody did and saw, which others check.
    pub(crate) history: History,
    pub(crate) manners: Manners,
    /// Whether new sends are made. Those that are made go on until they are answered.
    pub(crate) sending: watch::Sender<bool>,
    /// Changes with every answer and every event.
    pub(crate) progress: watch::Sender<()>,
}

pub(crate) struct State {
    pub(crate) ledger: Ledger,
    /// What each device of the SDK has been told, chat by chat.
    pub(crate) heard: Vec<BTreeMap<ChatId, Vec<Row>>>,
}

impl World {
    /// A world in which nothing has been sent, with so many listeners.
    pub(crate) fn new(listeners: usize, manners: Manners) -> Self {
        Self {
            manners,
            history: History::new(),
            state: Mutex::new(State { ledger: Ledger::default(), heard: vec![BTreeMap::new(); listeners] }),
            sending: watch::channel(false).0,
            progress: watch::channel(()).0,
        }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("a task that panics ends the test")
    }

    /// Notes a send before its first try. `sender` is whoever keeps an order among its sends.
    pub(crate) fn sent(&self, sender: usize, client: Client, message: &SendMessage, ordered: bool) {
        self.history.began(client, message, ordered && self.keeps_orders());
        self.lock().ledger.sent(sender, client.user_id, message);
    }

    /// Whether the order of each sender's sends is kept. Where some are refused, those behind them may be taken first.
    pub(crate) fn keeps_orders(&self) -> bool {
        self.manners.refusals == Refusals::None
    }

    pub(crate) fn acked(&self, client: Client, ack: &SendMessageAck) {
        self.history.acked(client, ack);
        self.lock().ledger.acked(ack);
        self.progress.send_replace(());
    }

    /// Checks that a refusal is one that passes, and says when.
    pub(crate) fn refused(&self, error: &ErrorBody) {
        let after = error.details.as_ref().map(|details| &details["retry_after_seconds"]);
        let passes = error.code.retry() == Retry::Backoff && after.is_some_and(|seconds| seconds.is_u64());
        assert!(self.manners.refusals == Refusals::ForAWhile && passes, "refused: {error:?}");
    }

    /// The next message of a chat comes next: none is left out, none comes twice.
    pub(crate) fn heard(&self, listener: usize, message: &MessageBody<'_>) {
        let mut state = self.lock();
        state.ledger.check(message);
        let rows = state.heard[listener].entry(message.chat_id).or_default();
        assert_eq!(message.sequence.0, rows.len() as u64 + 1, "listener {listener} was told {message:?}");
        rows.push((message.message_id, id_of(&message.content)));
        drop(state);
        self.progress.send_replace(());
    }
}
