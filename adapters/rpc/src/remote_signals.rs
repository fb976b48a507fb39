use std::sync::Arc;

use async_trait::async_trait;
use ports::{ProcessRole, Signal, SignalSender, StoreError};

use crate::directory::Directory;
use crate::link::{PeerCallError, timed};
use crate::rendezvous::rank;
use crate::wire;

/// Routes all signals of a chat to one fanout process, which coalesces them. Best effort, so each signal is tried once.
pub struct RemoteSignals {
    directory: Arc<Directory>,
}

impl RemoteSignals {
    /// Uses the processes in `directory`.
    pub fn new(directory: Arc<Directory>) -> Self {
        Self { directory }
    }
}

#[async_trait]
impl SignalSender for RemoteSignals {
    async fn signal(&self, signal: Signal) -> Result<bool, StoreError> {
        let (Signal::Typing { chat_id, .. } | Signal::Receipt { chat_id, .. }) = signal;
        let links = rank(chat_id, self.directory.links(ProcessRole::Fanout).to_vec(), |link| &*link.peer.id);
        let reply = self.directory.call(ProcessRole::Fanout, "signal", links, 1, |link, timeout| {
            let (mut client, body) = (link.signals(), wire::to_signal(&signal));
            async move { client.signal(timed(timeout, body)).await }
        });
        let reply = reply.await.map_err(StoreError::unavailable)?;
        wire::read_signal_reply(reply).map_err(|error| StoreError::unavailable(PeerCallError::from(error)))?
    }
}
