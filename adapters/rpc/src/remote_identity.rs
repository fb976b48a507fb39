use std::sync::Arc;

use async_trait::async_trait;
use domain::{DeviceId, SessionId};
use ports::{Identity, IdentityError, Principal, ProcessRole, StoreError};
use rand::seq::SliceRandom;

use crate::directory::Directory;
use crate::link::{CallError, Link, timed};
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

    /// The processes in an order that differs from call to call, so that each has its share of them.
    fn links(&self) -> Vec<Arc<Link>> {
        let mut links = self.directory.links(ProcessRole::Api).to_vec();
        links.shuffle(&mut rand::rng());
        links
    }
}

#[async_trait]
impl Identity for RemoteIdentity {
    async fn identify(&self, token: &str, device: DeviceId) -> Result<Principal, IdentityError> {
        let reply = self.directory.ask(ProcessRole::Api, "identify", self.links(), 2, |link, timeout| {
            let body = proto::IdentifyRequest { token: token.to_owned(), device_id: device.to_bytes().into() };
            let mut client = link.identity();
            async move { client.identify(timed(timeout, body)).await }
        });
        wire::read_identity(reply.await.map_err(StoreError::unavailable)?).map_err(unusable)?
    }

    async fn redeem(&self, ticket: &str, device: DeviceId) -> Result<Principal, IdentityError> {
        // Once: the ticket may be spent even though nobody has said so.
        let reply = self.directory.ask(ProcessRole::Api, "redeem", self.links(), 1, |link, timeout| {
            let body = proto::RedeemRequest { ticket: ticket.to_owned(), device_id: device.to_bytes().into() };
            let mut client = link.identity();
            async move { client.redeem(timed(timeout, body)).await }
        });
        wire::read_identity(reply.await.map_err(StoreError::unavailable)?).map_err(unusable)?
    }

    async fn live(&self, session_ids: &[SessionId]) -> Result<Vec<bool>, StoreError> {
        let mut live = Vec::with_capacity(session_ids.len());
        for (count, body) in wire::live_chunks(session_ids) {
            let reply = self.directory.ask(ProcessRole::Api, "live", self.links(), 2, |link, timeout| {
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
