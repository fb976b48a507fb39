use std::sync::Arc;

use async_trait::async_trait;
use ports::{ProcessRole, Signal, Signals, StoreError};

use crate::directory::Directory;
use crate::link::{CallError, timed};
use crate::rendezvous::rank;
use crate::wire;

/// The way of signals through a fleet: all of a chat through one fanout process, which gathers them. Best effort, so a
/// signal is tried once.
pub struct RemoteSignals {
    directory: Arc<Directory>,
}

impl RemoteSignals {
    /// The processes that `directory` knows.
    pub fn new(directory: Arc<Directory>) -> Self {
        Self { directory }
    }
}

#[async_trait]
impl Signals for RemoteSignals {
    async fn signal(&self, signal: Signal) -> Result<bool, StoreError> {
        let (Signal::Typing { chat_id, .. } | Signal::Receipt { chat_id, .. }) = signal;
        let links = rank(chat_id, self.directory.links(ProcessRole::Fanout).to_vec(), |link| &*link.peer.id);
        let reply = self.directory.ask(ProcessRole::Fanout, "signal", links, 1, |link, timeout| {
            let (mut client, body) = (link.signals(), wire::to_signal(&signal));
            async move { client.signal(timed(timeout, body)).await }
        });
        let reply = reply.await.map_err(StoreError::unavailable)?;
        wire::read_signal_reply(reply).map_err(|error| StoreError::unavailable(CallError::from(error)))?
    }
}
