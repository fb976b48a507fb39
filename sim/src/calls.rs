use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use domain::{ChatId, ConnectionId, DeviceId, IngestError, PresenceView, UserId, Watermarks};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use ports::{
    AdvanceRequest, ConnectionDisplacer, ConnectionHolder, Delivery, GatewayId, Identity, IdentityError, Ingest, Page,
    PresenceLookup, PresenceNotifier, PresenceReader, PresenceUpdate, Principal, ProcessRole, Push, Revocation, Route,
    Routes, SendRequest, Sent, Signal, SignalSender, StoreError, SyncRequest, lock,
};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep};

use crate::bugs::Bug;
use crate::directory::RunningProcess;
use crate::process::SimProcess;
use crate::world::{Dependency, World, until_deadline};

/// One process of a fleet, with its connections to the others.
#[derive(Clone)]
pub(crate) struct Remote {
    pub(crate) world: Arc<World>,
    pub(crate) process: Arc<SimProcess>,
}

fn lost() -> StoreError {
    StoreError::unavailable("the call was lost")
}

impl Remote {
    /// Calls another process. An error may hide a success.
    async fn call<T: Send + 'static>(
        &self,
        to: &Arc<RunningProcess>,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, StoreError> {
        let began = Instant::now();
        self.leave(to, began).await?;
        let (answer, answered) = oneshot::channel();
        let callee = to.process.clone();
        to.process.spawn(async move {
            callee.runs().await;
            let done = work.await;
            callee.runs().await;
            // The caller may have stopped waiting.
            drop(answer.send(done));
        });
        let answer = tokio::select! {
            biased;
            Ok(answer) = answered => answer,
            () = to.process.died() => return Err(lost()),
            () = until_deadline(began) => return Err(lost()),
        };
        self.leave(to, began).await?;
        self.process.runs().await;
        Ok(answer)
    }

    /// One network hop to another process, or back from it.
    async fn leave(&self, to: &RunningProcess, began: Instant) -> Result<(), StoreError> {
        self.process.runs().await;
        self.world.travel().await;
        if to.process.is_dead() {
            return Err(lost());
        }
        let reaches = self.world.reaches(self.process.slot, to.process.slot);
        if !reaches || self.world.streams.network.chance(self.world.rates().calls_lost) {
            until_deadline(began).await;
            return Err(lost());
        }
        Ok(())
    }

    fn one(&self, role: ProcessRole, chat_id: ChatId) -> Result<Arc<RunningProcess>, StoreError> {
        self.world.directory.for_chat(role, chat_id).ok_or_else(lost)
    }

    fn any(&self, role: ProcessRole) -> Result<Arc<RunningProcess>, StoreError> {
        let candidates = self.world.directory.of(role);
        let index = self.world.streams.network.index(candidates.len().max(1));
        candidates.into_iter().nth(index).ok_or_else(lost)
    }
}

/// The connection to the durability plane. Sends from one process to another stay in order, as on one stream; when one
/// is lost, the later ones are lost too.
pub(crate) struct SimRemoteIngest {
    remote: Remote,
    lanes: Mutex<BTreeMap<String, mpsc::UnboundedSender<QueuedSend>>>,
}

struct QueuedSend {
    request: SendRequest,
    reply: oneshot::Sender<Result<Sent, IngestError>>,
}

const UNAVAILABLE: IngestError = IngestError::Unavailable { retry_after: Duration::from_secs(1) };

impl SimRemoteIngest {
    pub(crate) fn new(remote: Remote) -> Self {
        Self { remote, lanes: Mutex::default() }
    }

    fn lane(&self, to: &Arc<RunningProcess>) -> mpsc::UnboundedSender<QueuedSend> {
        let mut lanes = lock(&self.lanes);
        let name = to.process.name.clone();
        lanes
            .entry(name)
            .or_insert_with(|| {
                let (sender, sends) = mpsc::unbounded_channel();
                self.remote.process.spawn(carry(self.remote.clone(), to.clone(), sends));
                sender
            })
            .clone()
    }
}

async fn carry(remote: Remote, to: Arc<RunningProcess>, mut sends: mpsc::UnboundedReceiver<QueuedSend>) {
    while let Some(QueuedSend { request, reply }) = sends.recv().await {
        let began = Instant::now();
        if remote.leave(&to, began).await.is_err() {
            refuse(reply);
            while let Ok(QueuedSend { reply, .. }) = sends.try_recv() {
                refuse(reply);
            }
            continue;
        }
        let Some(ingest) = to.services.ingest.clone() else { continue };
        let outcome = ingest.send(request);
        let (remote, to) = (remote.clone(), to.clone());
        remote.process.clone().spawn(async move {
            let outcome = tokio::select! {
                biased;
                outcome = outcome => outcome,
                () = to.process.died() => Err(UNAVAILABLE),
                () = until_deadline(began) => Err(UNAVAILABLE),
            };
            let outcome = match remote.leave(&to, began).await {
                Ok(()) => outcome,
                Err(_) => Err(UNAVAILABLE),
            };
            drop(reply.send(outcome));
        });
    }
}

fn refuse(reply: oneshot::Sender<Result<Sent, IngestError>>) {
    drop(reply.send(Err(UNAVAILABLE)));
}

#[async_trait]
impl Ingest for SimRemoteIngest {
    fn send(&self, request: SendRequest) -> BoxFuture<'static, Result<Sent, IngestError>> {
        let (reply, outcome) = oneshot::channel();
        match self.remote.one(ProcessRole::Ingest, request.chat_id) {
            Ok(to) => drop(self.lane(&to).send(QueuedSend { request, reply })),
            Err(_) => refuse(reply),
        }
        outcome.map(|outcome| outcome.unwrap_or(Err(UNAVAILABLE))).boxed()
    }

    async fn sync(&self, request: SyncRequest) -> Result<Page, IngestError> {
        let to = self.remote.one(ProcessRole::Ingest, request.chat_id).map_err(|_| UNAVAILABLE)?;
        let Some(ingest) = to.services.ingest.clone() else { return Err(UNAVAILABLE) };
        self.remote.call(&to, async move { ingest.sync(request).await }).await.unwrap_or(Err(UNAVAILABLE))
    }

    async fn advance(&self, request: AdvanceRequest) -> Result<Watermarks, IngestError> {
        let running = self.remote.one(ProcessRole::Ingest, request.chat_id).map_err(|_| UNAVAILABLE)?;
        let Some(ingest) = running.services.ingest.clone() else { return Err(UNAVAILABLE) };
        let advanced = self.remote.call(&running, async move { ingest.advance(request).await });
        advanced.await.unwrap_or(Err(UNAVAILABLE))
    }
}

#[async_trait]
impl SignalSender for Remote {
    async fn signal(&self, signal: Signal) -> Result<bool, StoreError> {
        let chat_id = match &signal {
            Signal::Typing { chat_id, .. } | Signal::Receipt { chat_id, .. } => *chat_id,
        };
        let to = self.one(ProcessRole::Fanout, chat_id)?;
        let Some(fanout) = to.services.fanout.clone() else { return Err(lost()) };
        if let Signal::Receipt { .. } = signal {
            // Receipts are fire-and-forget.
            let remote = self.clone();
            self.process.spawn(async move {
                drop(remote.call(&to, async move { fanout.signal(signal).await }).await);
            });
            return Ok(true);
        }
        self.call(&to, async move { fanout.signal(signal).await }).await?
    }
}

#[async_trait]
impl Identity for Remote {
    async fn identify(&self, token: &str, device: DeviceId) -> Result<Principal, IdentityError> {
        let (to, token) = (self.any(ProcessRole::Api)?, token.to_owned());
        let Some(identity) = to.services.identity.clone() else { return Err(lost().into()) };
        self.call(&to, async move { identity.identify(&token, device).await }).await?
    }

    async fn redeem(&self, ticket: &str, device: DeviceId) -> Result<Principal, IdentityError> {
        let (to, ticket) = (self.any(ProcessRole::Api)?, ticket.to_owned());
        let Some(identity) = to.services.identity.clone() else { return Err(lost().into()) };
        self.call(&to, async move { identity.redeem(&ticket, device).await }).await?
    }

    async fn live(&self, holders: &[ConnectionHolder]) -> Result<Vec<bool>, StoreError> {
        let (to, holders) = (self.any(ProcessRole::Api)?, holders.to_vec());
        let Some(identity) = to.services.identity.clone() else { return Err(lost()) };
        self.call(&to, async move { identity.live(&holders).await }).await?
    }
}

#[async_trait]
impl PresenceReader for Remote {
    async fn lookup(&self, lookups: &[PresenceLookup]) -> Result<Vec<PresenceView>, StoreError> {
        let (to, lookups) = (self.any(ProcessRole::Api)?, lookups.to_vec());
        let Some(presences) = to.services.presences.clone() else { return Err(lost()) };
        self.call(&to, async move { presences.lookup(&lookups).await }).await?
    }
}

/// Checks the answers of other processes before they are passed on.
pub(crate) struct CheckedPresences {
    pub(crate) world: Arc<World>,
    pub(crate) presences: Arc<dyn PresenceReader>,
}

#[async_trait]
impl PresenceReader for CheckedPresences {
    async fn lookup(&self, lookups: &[PresenceLookup]) -> Result<Vec<PresenceView>, StoreError> {
        let began = Instant::now();
        let views = self.presences.lookup(lookups).await?;
        for (look, view) in lookups.iter().zip(&views) {
            self.world.looked(began, *look, *view);
        }
        Ok(views)
    }
}

/// Pushes through the shared state: delivery is not confirmed.
#[derive(Clone)]
pub(crate) struct SharedPushes(pub(crate) Remote);

impl SharedPushes {
    /// Delivers a message to a gateway; it may be lost, duplicated or delayed.
    async fn publish<F: Future<Output = Result<(), StoreError>> + Send + 'static>(
        &self,
        gateway: &GatewayId,
        hear: impl Fn(Arc<gateway::Hub>) -> F + Send + Sync + 'static,
    ) -> Result<(), StoreError> {
        let Remote { world, process } = &self.0;
        process.runs().await;
        let began = Instant::now();
        world.travel().await;
        if world.is_unavailable(Dependency::Shared) {
            until_deadline(began).await;
            return Err(StoreError::unavailable("shared memory does not answer"));
        }
        let (dice, rates) = (&world.streams.network, world.rates());
        let copies = match (dice.chance(rates.pushes_lost), dice.chance(rates.pushes_doubled)) {
            (true, _) => 0,
            (false, true) => 2,
            (false, false) => 1,
        };
        if copies == 0 {
            world.lose_link(gateway);
        }
        let hear = Arc::new(hear);
        for _ in 0..copies {
            let late = dice.chance(rates.pushes_late);
            let delay = if late { dice.time(Duration::from_millis(5), Duration::from_secs(3)) } else { Duration::ZERO };
            let (world, gateway, hear) = (world.clone(), gateway.clone(), hear.clone());
            tokio::spawn(async move {
                world.travel().await;
                sleep(delay).await;
                if let Some(running) = world.directory.gateway(&gateway)
                    && let Some(there) = &running.services.gateway
                {
                    running.process.runs().await;
                    // The call stays within the gateway's memory and cannot fail.
                    drop(hear(there.hub.clone()).await);
                }
            });
        }
        process.runs().await;
        Ok(())
    }
}

impl World {
    /// Makes a gateway notice, after a delay, that its connection to the shared state was interrupted. That is how
    /// published messages get lost.
    fn lose_link(&self, gateway: &GatewayId) {
        let Some(running) = self.directory.gateway(gateway) else { return };
        let Some(there) = running.services.gateway.clone() else { return };
        let delay = self.streams.network.time(Duration::from_millis(50), Duration::from_secs(5));
        let process = running.process.clone();
        running.process.spawn(async move {
            sleep(delay).await;
            process.runs().await;
            there.make_up_for_gap().await;
        });
    }

    /// The same for all gateways, when the shared state is available again.
    pub(crate) fn lose_links(&self) {
        for running in self.directory.of(ProcessRole::Gateway) {
            self.lose_link(&GatewayId(running.process.name.as_str().into()));
        }
    }
}

#[async_trait]
impl Delivery for SharedPushes {
    async fn deliver(&self, gateway: &GatewayId, pushes: &[Push]) -> Result<(), StoreError> {
        let pushes = skipped(&self.0.world, pushes);
        self.0.world.pushing(&self.0.process.name, gateway, &pushes);
        let (id, world) = (gateway.clone(), self.0.world.clone());
        self.publish(gateway, move |hub| {
            let (id, pushes) = (id.clone(), pushes.clone());
            let world = world.clone();
            async move {
                world.accepted(&id, &pushes);
                hub.deliver(&id, &pushes).await
            }
        })
        .await
    }

    async fn revoke(&self, revocation: Revocation) -> Result<(), StoreError> {
        for running in self.0.world.directory.of(ProcessRole::Gateway) {
            let id = GatewayId(running.process.name.as_str().into());
            self.publish(&id, move |hub| async move { hub.revoke(revocation).await }).await?;
        }
        Ok(())
    }
}

#[async_trait]
impl ConnectionDisplacer for SharedPushes {
    async fn displace(
        &self,
        gateway: &GatewayId,
        user_id: UserId,
        connection_id: ConnectionId,
    ) -> Result<(), StoreError> {
        let id = gateway.clone();
        self.publish(gateway, move |hub| {
            let id = id.clone();
            async move { hub.displace(&id, user_id, connection_id).await }
        })
        .await
    }
}

#[async_trait]
impl PresenceNotifier for SharedPushes {
    async fn notify(&self, gateway: &GatewayId, updates: Vec<PresenceUpdate>) -> Result<(), StoreError> {
        let id = gateway.clone();
        self.publish(gateway, move |hub| {
            let (id, updates) = (id.clone(), updates.clone());
            async move { hub.notify(&id, updates).await }
        })
        .await
    }
}

/// Pushes directly to a gateway.
#[async_trait]
impl Delivery for Remote {
    async fn deliver(&self, gateway: &GatewayId, pushes: &[Push]) -> Result<(), StoreError> {
        let pushes = skipped(&self.world, pushes);
        self.world.pushing(&self.process.name, gateway, &pushes);
        let running = self.world.directory.gateway(gateway).ok_or_else(lost)?;
        let Some(there) = running.services.gateway.clone() else { return Err(lost()) };
        let (id, world) = (gateway.clone(), self.world.clone());
        self.call(&running, async move {
            world.accepted(&id, &pushes);
            there.hub.deliver(&id, &pushes).await
        })
        .await?
    }

    async fn revoke(&self, revocation: Revocation) -> Result<(), StoreError> {
        for running in self.world.directory.of(ProcessRole::Gateway) {
            if let Some(there) = running.services.gateway.clone() {
                self.call(&running, async move { there.hub.revoke(revocation).await }).await??;
            }
        }
        Ok(())
    }
}

/// Pushes within the one process of a node.
pub(crate) struct Local {
    pub(crate) world: Arc<World>,
    pub(crate) name: String,
    pub(crate) hub: Arc<gateway::Hub>,
}

#[async_trait]
impl Delivery for Local {
    async fn deliver(&self, gateway: &GatewayId, pushes: &[Push]) -> Result<(), StoreError> {
        let pushes = skipped(&self.world, pushes);
        self.world.pushing(&self.name, gateway, &pushes);
        self.world.accepted(gateway, &pushes);
        self.hub.deliver(gateway, &pushes).await
    }

    async fn revoke(&self, revocation: Revocation) -> Result<(), StoreError> {
        self.hub.revoke(revocation).await
    }
}

/// The ports of a fanout process. Records the outcome of its deliveries.
pub(crate) struct CheckedFanout {
    pub(crate) world: Arc<World>,
    pub(crate) name: String,
    pub(crate) delivery: Arc<dyn Delivery>,
    pub(crate) routes: Arc<dyn Routes>,
}

#[async_trait]
impl Delivery for CheckedFanout {
    async fn deliver(&self, gateway: &GatewayId, pushes: &[Push]) -> Result<(), StoreError> {
        let delivered = self.delivery.deliver(gateway, pushes).await;
        self.world.delivered(&self.name, gateway, pushes, delivered.is_ok());
        delivered
    }

    async fn revoke(&self, revocation: Revocation) -> Result<(), StoreError> {
        self.delivery.revoke(revocation).await
    }
}

#[async_trait]
impl Routes for CheckedFanout {
    async fn routes(&self, user_id: UserId) -> Result<Vec<Route>, StoreError> {
        self.routes.routes(user_id).await
    }

    async fn gateways(&self, user_ids: &[UserId]) -> Result<BTreeMap<GatewayId, Vec<UserId>>, StoreError> {
        self.routes.gateways(user_ids).await
    }

    async fn live_gateways(&self) -> Result<Vec<GatewayId>, StoreError> {
        let live = self.routes.live_gateways().await?;
        self.world.taken_for_live(&self.name, &live);
        Ok(live)
    }

    async fn on_gateway(&self, gateway: &GatewayId, limit: usize) -> Result<Vec<Route>, StoreError> {
        self.routes.on_gateway(gateway, limit).await
    }
}

/// Leaves out the pushes that a known bug skips, and adds recipients.
fn skipped(world: &World, pushes: &[Push]) -> Vec<Push> {
    let mut pushes = pushes.to_vec();
    if world.has(Bug::SendersDevicesSkipped) {
        pushes.retain(|push| push.except.is_none());
    }
    if world.has(Bug::UpdatesToFormerMembers) {
        pushes.iter_mut().for_each(|push| crate::broken::push_to_former_members(world, push));
    }
    pushes
}
