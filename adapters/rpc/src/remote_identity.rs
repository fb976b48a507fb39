use std::sync::Arc;

use async_trait::async_trait;
use domain::DeviceId;
use ports::{Assertion, ConnectionHolder, Identity, IdentityError, Principal, ProcessRole, StoreError};

use crate::directory::Directory;
use crate::link::{PeerCallError, timed};
use crate::{proto, wire};

/// Authenticates tokens by calling any API process.
pub struct RemoteIdentity {
    directory: Arc<Directory>,
}

impl RemoteIdentity {
    /// Uses the processes in `directory`.
    pub fn new(directory: Arc<Directory>) -> Self {
        Self { directory }
    }
}

#[async_trait]
impl Identity for RemoteIdentity {
    async fn identify(&self, token: &str, device: DeviceId) -> Result<Principal, IdentityError> {
        let links = self.directory.shuffled(ProcessRole::Api);
        let reply = self.directory.call(ProcessRole::Api, "identify", links, 2, |link, timeout| {
            let body = proto::IdentifyRequest { token: token.to_owned(), device_id: device.to_bytes().into() };
            let mut client = link.identity();
            async move { client.identify(timed(timeout, body)).await }
        });
        wire::read_identity(reply.await.map_err(StoreError::unavailable)?).map_err(unusable)?
    }

    async fn redeem(&self, ticket: &str, device: DeviceId) -> Result<Principal, IdentityError> {
        let links = self.directory.shuffled(ProcessRole::Api);
        // Tried once: the ticket may be spent even though no answer arrived.
        let reply = self.directory.call(ProcessRole::Api, "redeem", links, 1, |link, timeout| {
            let body = proto::RedeemRequest { ticket: ticket.to_owned(), device_id: device.to_bytes().into() };
            let mut client = link.identity();
            async move { client.redeem(timed(timeout, body)).await }
        });
        wire::read_identity(reply.await.map_err(StoreError::unavailable)?).map_err(unusable)?
    }

    async fn live(&self, holders: &[ConnectionHolder]) -> Result<Vec<bool>, StoreError> {
        let mut live = Vec::with_capacity(holders.len());
        for (chunk, body) in wire::live_chunks(holders) {
            let links = self.directory.shuffled(ProcessRole::Api);
            let reply = self.directory.call(ProcessRole::Api, "live", links, 2, |link, timeout| {
                let (mut client, body) = (link.identity(), body.clone());
                async move { client.live(timed(timeout, body)).await }
            });
            live.extend(wire::read_live(chunk, reply.await.map_err(StoreError::unavailable)?).map_err(unusable)??);
        }
        Ok(live)
    }

    async fn renew(&self, assertion: &Assertion) -> Result<Assertion, IdentityError> {
        let links = self.directory.shuffled(ProcessRole::Api);
        let reply = self.directory.call(ProcessRole::Api, "renew", links, 2, |link, timeout| {
            let body = proto::RenewRequest { proof: assertion.proof.to_vec() };
            let mut client = link.identity();
            async move { client.renew(timed(timeout, body)).await }
        });
        wire::read_renew_reply(reply.await.map_err(StoreError::unavailable)?).map_err(unusable)?
    }
}

fn unusable(malformed: wire::Malformed) -> StoreError {
    StoreError::unavailable(PeerCallError::from(malformed))
}
