use std::sync::Arc;

use async_trait::async_trait;
use domain::PresenceView;
use ports::{PresenceLookup, PresenceReader, ProcessRole, StoreError};

use crate::directory::Directory;
use crate::link::{PeerCallError, timed};
use crate::wire;

/// Looks up presence by calling any API process.
pub struct RemotePresences {
    directory: Arc<Directory>,
}

impl RemotePresences {
    /// Uses the processes in `directory`.
    pub fn new(directory: Arc<Directory>) -> Self {
        Self { directory }
    }
}

#[async_trait]
impl PresenceReader for RemotePresences {
    async fn lookup(&self, lookups: &[PresenceLookup]) -> Result<Vec<PresenceView>, StoreError> {
        let mut views = Vec::with_capacity(lookups.len());
        for (count, body) in wire::look_chunks(lookups) {
            let links = self.directory.shuffled(ProcessRole::Api);
            let reply = self.directory.call(ProcessRole::Api, "look", links, 2, |link, timeout| {
                let (mut client, body) = (link.presence(), body.clone());
                async move { client.look(timed(timeout, body)).await }
            });
            let reply = wire::read_look_reply(count, reply.await.map_err(StoreError::unavailable)?);
            views.extend(reply.map_err(|malformed| StoreError::unavailable(PeerCallError::from(malformed)))??);
        }
        Ok(views)
    }
}
