use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use domain::{ChatId, ConnectionId, DeviceId, PresenceView, Sequence, SessionId, UserId, WatermarkKind, Watermarks};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use ports::{
    Delivery, Displacement, GatewayId, Identity, IdentityError, Ingest, IngestError, Look, Page, PresenceNews,
    Presences, Principal, ProcessRole, Push, SendRequest, Sent, Signal, Signals, StoreError, SyncRequest, Watchers,
};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep};

use crate::bugs::Bug;
use crate::directory::Running;
use crate::process::Process;
use crate::world::{Part, World, until_deadline};

/// One process of a fleet, as it reaches the others.
#[derive(Clone)]
pub(crate) struct Remote {
    pub(crate) world: Arc<World>,
    pub(crate) process: Arc<Process>,
}

fn lost() -> StoreError {
    StoreError::unavailable("the call was lost")
}

impl Remote {
    /// Has another process do something. An error may hide a success.
    async fn call<T: Send + 'static>(
        &self,
        to: &Arc<Running>,
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
            // Whoever called may have stopped waiting.
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

    /// One way to another process, or back from it.
    async fn leave(&self, to: &Running, began: Instant) -> Result<(), StoreError> {
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

    fn one(&self, role: ProcessRole, chat_id: ChatId) -> Result<Arc<Running>, StoreError> {
        self.world.directory.for_chat(role, chat_id).ok_or_else(lost)
    }

    fn any(&self, role: ProcessRole) -> Result<Arc<Running>, StoreError> {
        let candidates = self.world.directory.of(role);
        let index = self.world.streams.network.index(candidates.len().max(1));
        candidates.into_iter().nth(index).ok_or_else(lost)
    }
}

/// The way to the durability plane. Sends of one process to another keep their order, as on one stream; when one is lost,
/// those behind it are too.
pub(crate) struct RemoteIngest {
    remote: Remote,
    lanes: Mutex<BTreeMap<String, mpsc::UnboundedSender<Sending>>>,
}

struct Sending {
    request: SendRequest,
    reply: oneshot::Sender<Result<Sent, IngestError>>,
}

const UNAVAILABLE: IngestError = IngestError::Unavailable { retry_after: Duration::from_secs(1) };

impl RemoteIngest {
    pub(crate) fn new(remote: Remote) -> Self {
        Self { remote, lanes: Mutex::default() }
    }

    fn lane(&self, to: &Arc<Running>) -> mpsc::UnboundedSender<Sending> {
        let mut lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
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

async fn carry(remote: Remote, to: Arc<Running>, mut sends: mpsc::UnboundedReceiver<Sending>) {
    while let Some(Sending { request, reply }) = sends.recv().await {
        let began = Instant::now();
        if remote.leave(&to, began).await.is_err() {
            refuse(reply);
            while let Ok(Sending { reply, .. }) = sends.try_recv() {
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
impl Ingest for RemoteIngest {
    fn send(&self, request: SendRequest) -> BoxFuture<'static, Result<Sent, IngestError>> {
        let (reply, outcome) = oneshot::channel();
        match self.remote.one(ProcessRole::Ingest, request.chat_id) {
            Ok(to) => drop(self.lane(&to).send(Sending { request, reply })),
            Err(_) => refuse(reply),
        }
        outcome.map(|outcome| outcome.unwrap_or(Err(UNAVAILABLE))).boxed()
    }

    async fn sync(&self, request: SyncRequest) -> Result<Page, IngestError> {
        let to = self.remote.one(ProcessRole::Ingest, request.chat_id).map_err(|_| UNAVAILABLE)?;
        let Some(ingest) = to.services.ingest.clone() else { return Err(UNAVAILABLE) };
        self.remote.call(&to, async move { ingest.sync(request).await }).await.unwrap_or(Err(UNAVAILABLE))
    }

    async fn advance(
        &self,
        user_id: UserId,
        chat_id: ChatId,
        kind: WatermarkKind,
        to: Sequence,
    ) -> Result<Watermarks, IngestError> {
        let running = self.remote.one(ProcessRole::Ingest, chat_id).map_err(|_| UNAVAILABLE)?;
        let Some(ingest) = running.services.ingest.clone() else { return Err(UNAVAILABLE) };
        let advanced = self.remote.call(&running, async move { ingest.advance(user_id, chat_id, kind, to).await });
        advanced.await.unwrap_or(Err(UNAVAILABLE))
    }
}

#[async_trait]
impl Signals for Remote {
    async fn signal(&self, signal: Signal) -> Result<bool, StoreError> {
        let chat_id = match &signal {
            Signal::Typing { chat_id, .. } | Signal::Receipt { chat_id, .. } => *chat_id,
        };
        let to = self.one(ProcessRole::Fanout, chat_id)?;
        let Some(fanout) = to.services.fanout.clone() else { return Err(lost()) };
        if let Signal::Receipt { .. } = signal {
            // Nobody waits for a receipt to get through.
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

    async fn live(&self, session_ids: &[SessionId]) -> Result<Vec<bool>, StoreError> {
        let (to, session_ids) = (self.any(ProcessRole::Api)?, session_ids.to_vec());
        let Some(identity) = to.services.identity.clone() else { return Err(lost()) };
        self.call(&to, async move { identity.live(&session_ids).await }).await?
    }
}

#[async_trait]
impl Presences for Remote {
    async fn look(&self, looks: &[Look]) -> Result<Vec<PresenceView>, StoreError> {
        let (to, looks) = (self.any(ProcessRole::Api)?, looks.to_vec());
        let Some(presences) = to.services.presences.clone() else { return Err(lost()) };
        self.call(&to, async move { presences.look(&looks).await }).await?
    }
}

/// Looks at what others answer before it is passed on.
pub(crate) struct Watched {
    pub(crate) world: Arc<World>,
    pub(crate) presences: Arc<dyn Presences>,
}

#[async_trait]
impl Presences for Watched {
    async fn look(&self, looks: &[Look]) -> Result<Vec<PresenceView>, StoreError> {
        let began = Instant::now();
        let views = self.presences.look(looks).await?;
        for (look, view) in looks.iter().zip(&views) {
            self.world.looked(began, *look, *view);
        }
        Ok(views)
    }
}

/// The way of pushes through shared memory: nobody knows whether they arrive.
#[derive(Clone)]
pub(crate) struct Published(pub(crate) Remote);

impl Published {
    /// Has a gateway hear something, perhaps, perhaps twice, perhaps late.
    async fn publish<F: Future<Output = Result<(), StoreError>> + Send + 'static>(
        &self,
        gateway: &GatewayId,
        hear: impl Fn(Arc<gateway::Hub>) -> F + Send + Sync + 'static,
    ) -> Result<(), StoreError> {
        let Remote { world, process } = &self.0;
        process.runs().await;
        let began = Instant::now();
        world.travel().await;
        if world.is_away(Part::Shared) {
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
                    // It is the gateway's own memory, and cannot fail.
                    drop(hear(there.hub.clone()).await);
                }
            });
        }
        process.runs().await;
        Ok(())
    }
}

impl World {
    /// Has a gateway notice, after a while, that its link to shared memory was cut and is back: that is how something
    /// published gets lost.
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

    /// The same for all gateways, when shared memory is back.
    pub(crate) fn lose_links(&self) {
        for running in self.directory.of(ProcessRole::Gateway) {
            self.lose_link(&GatewayId(running.process.name.as_str().into()));
        }
    }
}

#[async_trait]
impl Delivery for Published {
    async fn deliver(&self, gateway: &GatewayId, pushes: &[Push]) -> Result<(), StoreError> {
        let pushes = skipped(&self.0.world, pushes);
        self.0.world.pushing(&self.0.process.name, gateway, &pushes);
        let id = gateway.clone();
        self.publish(gateway, move |hub| {
            let (id, pushes) = (id.clone(), pushes.clone());
            async move { hub.deliver(&id, &pushes).await }
        })
        .await
    }

    async fn revoke(&self, session_id: SessionId) -> Result<(), StoreError> {
        for running in self.0.world.directory.of(ProcessRole::Gateway) {
            let id = GatewayId(running.process.name.as_str().into());
            self.publish(&id, move |hub| async move { hub.revoke(session_id).await }).await?;
        }
        Ok(())
    }
}

#[async_trait]
impl Displacement for Published {
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
impl Watchers for Published {
    async fn tell(&self, gateway: &GatewayId, news: Vec<PresenceNews>) -> Result<(), StoreError> {
        let id = gateway.clone();
        self.publish(gateway, move |hub| {
            let (id, news) = (id.clone(), news.clone());
            async move { hub.tell(&id, news).await }
        })
        .await
    }
}

/// The way of pushes that goes to a gateway itself.
#[async_trait]
impl Delivery for Remote {
    async fn deliver(&self, gateway: &GatewayId, pushes: &[Push]) -> Result<(), StoreError> {
        let pushes = skipped(&self.world, pushes);
        self.world.pushing(&self.process.name, gateway, &pushes);
        let running = self.world.directory.gateway(gateway).ok_or_else(lost)?;
        let Some(there) = running.services.gateway.clone() else { return Err(lost()) };
        let id = gateway.clone();
        self.call(&running, async move { there.hub.deliver(&id, &pushes).await }).await?
    }

    async fn revoke(&self, session_id: SessionId) -> Result<(), StoreError> {
        for running in self.world.directory.of(ProcessRole::Gateway) {
            if let Some(there) = running.services.gateway.clone() {
                self.call(&running, async move { there.hub.revoke(session_id).await }).await??;
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
        self.hub.deliver(gateway, &pushes).await
    }

    async fn revoke(&self, session_id: SessionId) -> Result<(), StoreError> {
        self.hub.revoke(session_id).await
    }
}

/// Leaves out what a known bug does not push.
fn skipped(world: &World, pushes: &[Push]) -> Vec<Push> {
    let mut pushes = pushes.to_vec();
    if world.has(Bug::SendersDevicesSkipped) {
        pushes.retain(|push| push.except.is_none());
    }
    pushes
}
