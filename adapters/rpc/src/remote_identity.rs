use std::sync::Arc;

use async_trait::async_trait;
use domain::{DeviceId, SessionId};
use ports::{Identity, IdentityError, Principal, ProcessRole, StoreError};

use crate::directory::Directory;
use crate::link::{CallError, timed};
use crate::{proto, wire};

/// Who is behind a token, as any API process says.
pub struct RemoteIdentity {
    directory: Arc<Directory>,
}

impl RemoteIdentity {
    /// The processes that `directory` knows.
    pub fn new(directory: Arc<Directory>) -> Self {
        Self { directory }
    }
}

#[async_trait]
impl Identity for RemoteIdentity {
    async fn identify(&self, token: &str, device: DeviceId) -> Result<Principal, IdentityError> {
        let links = self.directory.shuffled(ProcessRole::Api);
        let reply = self.directory.ask(ProcessRole::Api, "identify", links, 2, |link, timeout| {
            let body = proto::IdentifyRequest { token: token.to_owned(), device_id: device.to_bytes().into() };
            let mut client = link.identity();
            async move { client.identify(timed(timeout, body)).await }
        });
        wire::read_identity(reply.await.map_err(StoreError::unavailable)?).map_err(unusable)?
    }

    async fn redeem(&self, ticket: &str, device: DeviceId) -> Result<Principal, IdentityError> {
        let links = self.directory.shuffled(ProcessRole::Api);
        // Once: the ticket may be spent even though nobody has said so.
        let reply = self.directory.ask(ProcessRole::Api, "redeem", links, 1, |link, timeout| {
            let body = proto::RedeemRequest { ticket: ticket.to_owned(), device_id: device.to_bytes().into() };
            let mut client = link.identity();
            async move { client.redeem(timed(timeout, body)).await }
        });
        wire::read_identity(reply.await.map_err(StoreError::unavailable)?).map_err(unusable)?
    }

    async fn live(&self, session_ids: &[SessionId]) -> Result<Vec<bool>, StoreError> {
        let mut live = Vec::with_capacity(session_ids.len());
        for (count, body) in wire::live_chunks(session_ids) {
            let links = self.directory.shuffled(ProcessRole::Api);
            let reply = self.directory.ask(ProcessRole::Api, "live", links, 2, |link, timeout| {
                let (mut client, body) = (link.identity(), body.clone());
                async move { client.live(timed(timeout, body)).await }
            });
            live.extend(wire::read_live(count, reply.await.map_err(StoreError::unavailable)?).map_err(unusable)??);
        }
        Ok(live)
    }
}

fn unusable(malformed: wire::Malformed) -> StoreError {
    StoreError::unavailable(CallError::from(malformed))
}
