use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::join_all;
use ports::{Delivery, GatewayId, ProcessRole, Push, Revocation, StoreError, lock};
use tokio::time::{self, Instant, MissedTickBehavior};
use tracing::info;

use crate::directory::Directory;
use crate::link::{PeerLink, timed};
use crate::wire;

/// Deadline of one call with a revocation, and the interval of retries.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);
/// Most revocations that one gateway may have to acknowledge. Beyond it a revocation is not repeated.
const UNACKNOWLEDGED_MAX: usize = 10_000;

/// Calls gateways directly: with pushes while delivery through Redis is unavailable (C8), and with every revocation.
///
/// A revocation is repeated at a gateway until that acknowledges it, or is no longer listed. A gateway that is listed
/// again re-checks all its connections. [`run`](Self::run) must be running.
pub struct RemoteDelivery {
    directory: Arc<Directory>,
    /// The revocations that each gateway has not acknowledged yet.
    unacknowledged: Mutex<BTreeMap<Arc<str>, BTreeSet<Revocation>>>,
}

/// The gateway is not in the directory.
#[derive(Debug, thiserror::Error)]
#[error("no gateway `{}` is known", .0.0)]
struct UnknownGateway(GatewayId);

/// A gateway did not acknowledge a revocation in time.
#[derive(Debug, thiserror::Error)]
#[error("gateway `{}` has not acknowledged a revocation (repeated: {is_repeated})", .gateway.0)]
struct UnacknowledgedRevocation {
    gateway: GatewayId,
    /// Whether the call is repeated.
    is_repeated: bool,
    source: StoreError,
}

impl RemoteDelivery {
    /// Uses the gateways in `directory`.
    pub fn new(directory: Arc<Directory>) -> Self {
        Self { directory, unacknowledged: Mutex::default() }
    }

    /// Repeats the revocations that gateways have not acknowledged; never returns.
    pub async fn run(&self) -> Infallible {
        let mut ticks = time::interval(RETRY_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let links = self.directory.links(ProcessRole::Gateway);
            let pending = {
                let mut unacknowledged = self.lock();
                unacknowledged.retain(|id, _| links.iter().any(|link| link.peer.id == *id));
                unacknowledged.clone()
            };
            let of = |link: &Arc<PeerLink>| pending.get(&link.peer.id).map(|pending| (link.clone(), pending));
            join_all(links.iter().filter_map(of).map(|(link, pending)| self.repeat_at(link, pending))).await;
        }
    }

    /// Repeats revocations at a gateway until one fails.
    async fn repeat_at(&self, link: Arc<PeerLink>, pending: &BTreeSet<Revocation>) {
        for revocation in pending {
            if self.revoke_at(&link, *revocation).await.is_err() {
                return;
            }
        }
        info!(gateway = &*link.peer.id, revocations = pending.len(), "the gateway has acknowledged late revocations");
    }

    /// Calls a gateway, and keeps the revocation for a retry unless it is acknowledged. The circuit breaker does not
    /// apply: it would delay a retry by up to its pause.
    async fn revoke_at(&self, link: &PeerLink, revocation: Revocation) -> Result<(), UnacknowledgedRevocation> {
        let mut client = link.gateway();
        let body = timed(RETRY_INTERVAL, wire::to_revocation(revocation));
        let reply = link.call("revoke", Instant::now() + RETRY_INTERVAL, client.revoke(body)).await;
        let gateway = &link.peer.id;
        match reply.map_err(StoreError::unavailable).and_then(|reply| wire::read_taken(reply.error)) {
            Ok(()) => {
                self.forget(gateway, revocation);
                Ok(())
            }
            Err(source) => {
                let is_repeated = self.keep(gateway, revocation);
                Err(UnacknowledgedRevocation { gateway: GatewayId(gateway.clone()), is_repeated, source })
            }
        }
    }

    /// Keeps a revocation for retries. Returns `false` if the gateway already has too many of them.
    fn keep(&self, gateway: &Arc<str>, revocation: Revocation) -> bool {
        let mut unacknowledged = self.lock();
        let of_gateway = unacknowledged.entry(gateway.clone()).or_default();
        let is_kept = of_gateway.contains(&revocation) || of_gateway.len() < UNACKNOWLEDGED_MAX;
        if is_kept {
            of_gateway.insert(revocation);
        }
        is_kept
    }

    fn forget(&self, gateway: &Arc<str>, revocation: Revocation) {
        let mut unacknowledged = self.lock();
        let Some(of_gateway) = unacknowledged.get_mut(gateway) else { return };
        of_gateway.remove(&revocation);
        if of_gateway.is_empty() {
            unacknowledged.remove(gateway);
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Arc<str>, BTreeSet<Revocation>>> {
        lock(&self.unacknowledged)
    }
}

#[async_trait]
impl Delivery for RemoteDelivery {
    async fn deliver(&self, gateway: &GatewayId, pushes: &[Push]) -> Result<(), StoreError> {
        let links = self.directory.links(ProcessRole::Gateway);
        let link = links.iter().find(|link| link.peer.id == gateway.0);
        let link = link.ok_or_else(|| StoreError::unavailable(UnknownGateway(gateway.clone())))?;
        // Sequential requests keep the order.
        for body in wire::to_deliveries(gateway, pushes).map_err(StoreError::unavailable)? {
            let reply = self.directory.call(ProcessRole::Gateway, "deliver", [link.clone()], 1, |link, timeout| {
                let (mut client, body) = (link.gateway(), body.clone());
                async move { client.deliver(timed(timeout, body)).await }
            });
            wire::read_taken(reply.await.map_err(StoreError::unavailable)?.error)?;
        }
        Ok(())
    }

    async fn revoke(&self, revocation: Revocation) -> Result<(), StoreError> {
        // Calls all gateways, even if some fail: an unreachable gateway must not keep the session open at another.
        let links = self.directory.links(ProcessRole::Gateway);
        // Before the first call, so that a dropped future loses none.
        for link in links.iter() {
            self.keep(&link.peer.id, revocation);
        }
        let outcomes = join_all(links.iter().map(|link| self.revoke_at(link, revocation))).await;
        outcomes.into_iter().collect::<Result<_, _>>().map_err(StoreError::unavailable)
    }
}
