use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use domain::{ChatCommand, ChatId, UserId};
use memory::{MemoryMemberCache, MemoryPeers, MemoryRecipients, MemoryRoutes};
use ports::{
    Delivery, GatewayId, Ids, MemberCache, PeerProcess, PeerRegistry, ProcessRole, Push, RandomIds, Revocation, Route,
    Routes, StoreError, SystemClock,
};
use protocol::frame::{Resync, ServerFrame};
use tidings_fanout::{Fallback, Shared};
use tokio::sync::mpsc;
use tokio::time::{self, Instant};

use crate::world::{DeliveryRecorder, EXPIRY, World};

const TIMEOUT: Duration = Duration::from_secs(1);
const REBUILD: Duration = Duration::from_secs(15);
const REFRESH: Duration = Duration::from_secs(2);

#[tokio::test(start_paused = true)]
async fn c8_while_redis_is_unavailable_pushes_go_directly_to_every_last_known_gateway() {
    let mut outage = RedisOutage::new(&["a", "b"]).await;
    let (sender, other) = (outage.world.user(), outage.world.user());
    let origin = outage.world.connect(sender, "a").await;
    outage.world.connect(other, "a").await;
    let chat = outage.world.group(sender, &[other]).await;
    outage.world.start();
    outage.published().await;

    outage.redis.begin();
    outage.world.send(chat, sender, Some(origin)).await;
    for gateway in ["a", "b"] {
        let (called, pushes) = outage.called().await;
        assert_eq!(&*called.0, gateway);
        let told: Vec<_> = pushes.into_iter().map(|push| (push.recipients, push.except)).collect();
        assert_eq!(
            told,
            [(vec![other], None), (vec![sender], Some(origin))],
            "the sender's other devices may be there"
        );
    }
    assert!(outage.world.deliveries.is_empty());
    let gateways_of_nobody = outage.world.fanout.routes.gateways(&[]).await.unwrap();
    assert_eq!(gateways_of_nobody, BTreeMap::new());
}

#[tokio::test(start_paused = true)]
async fn c8_a_push_that_redis_does_not_take_goes_directly_to_its_gateway_alone() {
    let mut outage = RedisOutage::new(&["a", "b"]).await;
    let push = Push { recipients: vec![outage.world.user()], except: None, frame: "frame".into(), trace: None };
    outage.redis.begin();
    let gateway = GatewayId("b".into());
    outage.world.fanout.delivery.deliver(&gateway, std::slice::from_ref(&push)).await.unwrap();
    assert_eq!(outage.called().await, (gateway, vec![push]));
    assert!(outage.direct.is_empty());
}

#[tokio::test(start_paused = true)]
async fn c8_the_last_known_gateways_stay_live_while_redis_is_unavailable_and_routes_are_not_invented() {
    let outage = RedisOutage::new(&["a", "b"]).await;
    outage.world.connect(outage.world.user(), "a").await;
    let routes = &outage.world.fanout.routes;
    let [a, b] = ["a", "b"].map(|gateway| GatewayId(gateway.into()));
    assert_eq!(routes.live_gateways().await.unwrap(), std::slice::from_ref(&a), "`b` has never sent a heartbeat");
    assert_eq!(routes.on_gateway(&a, 10).await.unwrap().len(), 1);
    outage.redis.begin();
    assert!(routes.on_gateway(&a, 10).await.is_err());
    assert_eq!(routes.live_gateways().await.unwrap(), [a, b]);
}

#[tokio::test(start_paused = true)]
async fn c8_an_outage_costs_one_timeout_and_not_one_for_each_message() {
    let mut outage = RedisOutage::new(&["a"]).await;
    let (sender, other) = (outage.world.user(), outage.world.user());
    outage.world.connect(other, "a").await;
    let chat = outage.world.group(sender, &[other]).await;
    outage.world.start();
    outage.published().await;

    outage.redis.begin();
    let (began, failed) = (Instant::now(), outage.redis.failed());
    for _ in 0..50 {
        outage.world.send(chat, sender, None).await;
        outage.called().await;
    }
    assert_eq!(began.elapsed(), TIMEOUT);
    assert_eq!(outage.redis.failed() - failed, 1);

    time::sleep(60 * REFRESH).await;
    let failed = outage.redis.failed();
    outage.world.send(chat, sender, None).await;
    outage.called().await;
    assert_eq!(outage.redis.failed(), failed, "nor does a long one");
}

/// Redis comes back empty. Until all gateways have registered again, a missing route does not mean that a user is offline.
#[tokio::test(start_paused = true)]
async fn c8_redis_is_trusted_again_after_routes_had_time_to_be_registered() {
    let mut outage = RedisOutage::new(&["a", "b"]).await;
    let (sender, other) = (outage.world.user(), outage.world.user());
    let chat = outage.world.group(sender, &[other]).await;
    outage.world.start();
    outage.redis.begin();
    outage.world.send(chat, sender, None).await;
    while outage.redis.failed() == 0 {
        time::sleep(TIMEOUT).await;
    }
    outage.peers.leave(&peer("a"), &[ProcessRole::Gateway]).await.unwrap();
    outage.redis.end();
    time::sleep(REBUILD - REFRESH).await;
    while outage.direct.try_recv().is_ok() {}
    outage.world.send(chat, sender, None).await;
    let called = [outage.called().await.0, outage.called().await.0];
    assert_eq!(called.map(|gateway| gateway.0.to_string()), ["a", "b"]);

    time::sleep(2 * REFRESH).await;
    outage.world.connect(other, "a").await;
    outage.world.send(chat, sender, None).await;
    let (gateway, push, _) = outage.published().await;
    assert_eq!((&*gateway, push.recipients), ("a", vec![other]));
    assert!(outage.direct.is_empty());
}

/// Clients of a dead gateway reconnect to its replacement, possibly before Redis is trusted again.
#[tokio::test(start_paused = true)]
async fn c8_a_new_gateway_is_called_as_soon_as_redis_answers_again() {
    let mut outage = RedisOutage::new(&["a"]).await;
    let (sender, other) = (outage.world.user(), outage.world.user());
    let chat = outage.world.group(sender, &[other]).await;
    outage.redis.begin();
    outage.world.start();
    outage.called().await;
    outage.redis.end();
    // The next refresh of the gateways finds that Redis answers.
    time::sleep(2 * REFRESH).await;
    outage.peers.announce(&peer("b"), &[ProcessRole::Gateway]).await.unwrap();
    while outage.direct.try_recv().is_ok() {}
    outage.world.send(chat, sender, None).await;
    let called = [outage.called().await.0, outage.called().await.0];
    assert_eq!(called.map(|gateway| gateway.0.to_string()), ["a", "b"]);
}

/// Redis is back, but fanout has not noticed yet, and a gateway replaces another. The new gateway has registered routes and
/// notices no failure, but fanout does not push to it.
#[tokio::test(start_paused = true)]
async fn c8_clients_of_a_gateway_with_missed_pushes_resync() {
    let mut outage = RedisOutage::new(&["a"]).await;
    let (sender, other) = (outage.world.user(), outage.world.user());
    let chat = outage.world.group(sender, &[other]).await;
    outage.redis.begin();
    outage.world.start();
    outage.called().await;
    outage.redis.end();
    outage.peers.announce(&peer("b"), &[ProcessRole::Gateway]).await.unwrap();
    outage.world.connect(other, "b").await;
    while outage.direct.try_recv().is_ok() {}
    outage.world.send(chat, sender, None).await;
    assert_eq!(&*outage.called().await.0.0, "a", "no refresh has found the other gateway yet");

    outage.to_refuse_directly.store(1, Ordering::SeqCst);
    let began = Instant::now();
    let (gateway, pushes) = outage.called().await;
    assert_eq!((&*gateway.0, pushes.len()), ("b", 1));
    assert_eq!((&pushes[0].recipients, &pushes[0].frame), (&vec![other], &Resync::missed_pushes()));
    assert!(began.elapsed() > REFRESH, "at the second try, since it did not take the first");
    time::sleep(REBUILD + 2 * REFRESH).await;
    assert!(outage.direct.is_empty(), "once is enough");
}

#[tokio::test(start_paused = true)]
async fn c8_a_gateway_that_joined_two_seconds_before_an_outage_is_called() {
    let mut outage = RedisOutage::new(&["a"]).await;
    outage.peers.announce(&peer("b"), &[ProcessRole::Gateway]).await.unwrap();
    time::sleep(Duration::from_secs(2)).await;
    outage.redis.begin();
    outage.world.group(outage.world.user(), &[]).await;
    outage.world.start();
    let called = [outage.called().await.0, outage.called().await.0];
    assert_eq!(called.map(|gateway| gateway.0.to_string()), ["a", "b"]);
}

#[tokio::test(start_paused = true)]
async fn a_gateway_that_has_left_before_an_outage_is_not_called() {
    let mut outage = RedisOutage::new(&["a", "b"]).await;
    outage.peers.leave(&peer("a"), &[ProcessRole::Gateway]).await.unwrap();
    time::sleep(REFRESH).await;
    outage.redis.begin();
    outage.world.group(outage.world.user(), &[]).await;
    outage.world.start();
    assert_eq!(&*outage.called().await.0.0, "b");
}

#[tokio::test(start_paused = true)]
async fn gateways_stay_known_when_redis_was_wiped_before_its_outage() {
    let mut outage = RedisOutage::new(&["a"]).await;
    outage.peers.leave(&peer("a"), &[ProcessRole::Gateway]).await.unwrap();
    time::sleep(REFRESH).await;
    outage.redis.begin();
    outage.world.group(outage.world.user(), &[]).await;
    outage.world.start();
    assert_eq!(&*outage.called().await.0.0, "a");
}

/// The cache survives the outage, as in a network partition.
#[tokio::test(start_paused = true)]
async fn a_member_removed_in_an_outage_receives_nothing_after_it() {
    let mut outage = RedisOutage::new(&["a"]).await;
    let (owner, member) = (outage.world.user(), outage.world.user());
    for user_id in [owner, member] {
        outage.world.connect(user_id, "a").await;
    }
    let chat = outage.world.group(owner, &[member]).await;
    outage.world.start();
    outage.published().await;
    assert_eq!(outage.cache.members(chat).await.unwrap().map(|members| members.len()), Some(2));

    outage.redis.begin();
    outage.world.apply(chat, owner, ChatCommand::RemoveMember { user_id: member }).await;
    outage.called().await;
    outage.redis.end();
    time::sleep(REBUILD + REFRESH).await;
    outage.world.send(chat, owner, None).await;
    let (_, push, frame) = outage.published().await;
    assert!(matches!(frame, ServerFrame::Message(_)), "{frame:?}");
    assert_eq!(push.recipients, [owner]);
}

#[tokio::test(start_paused = true)]
async fn invalidations_that_wait_for_redis_are_bounded() {
    let outage = RedisOutage::new(&[]).await;
    outage.redis.begin();
    let cache = &outage.world.fanout.cache;
    let first: ChatId = RandomIds.ulid().into();
    cache.invalidate(first).await.unwrap();
    for _ in 1..100_000 {
        cache.invalidate(RandomIds.ulid().into()).await.unwrap();
    }
    cache.invalidate(first).await.unwrap();
    let refused = cache.invalidate(RandomIds.ulid().into()).await.unwrap_err();
    let StoreError::Unavailable(reason) = refused else { panic!("{refused}") };
    assert_eq!(reason.to_string(), "100000 chats already have a pending cache invalidation");
}

#[tokio::test(start_paused = true)]
async fn c8_a_revocation_goes_directly_too_because_only_that_is_acknowledged() {
    let outage = RedisOutage::new(&["a"]).await;
    let delivery = &outage.world.fanout.delivery;
    let revocation = Revocation::Session(RandomIds.ulid().into());
    // Redis accepts a message that no gateway receives.
    delivery.revoke(revocation).await.unwrap();
    assert_eq!(outage.revoked_directly.load(Ordering::SeqCst), 1);
    outage.redis.begin();
    for count in 2..=3 {
        delivery.revoke(revocation).await.unwrap();
        assert_eq!(outage.revoked_directly.load(Ordering::SeqCst), count);
    }
}

/// A fleet with a Redis that can fail. Pushes through Redis are the world's deliveries, the others arrive in `direct`.
struct RedisOutage {
    world: World,
    redis: Arc<RedisSwitch>,
    peers: Arc<MemoryPeers>,
    cache: Arc<MemoryMemberCache>,
    direct: mpsc::Receiver<(GatewayId, Vec<Push>)>,
    revoked_directly: Arc<AtomicUsize>,
    /// Number of direct calls to reject from now on.
    to_refuse_directly: Arc<AtomicUsize>,
}

impl RedisOutage {
    /// Redis and these gateways are available.
    async fn new(gateways: &[&str]) -> Self {
        let clock = Arc::new(SystemClock);
        let redis = Arc::new(RedisSwitch::default());
        let (peers, cache) =
            (Arc::new(MemoryPeers::new(clock.clone())), Arc::new(MemoryMemberCache::new(clock.clone())));
        for gateway in gateways {
            peers.announce(&peer(gateway), &[ProcessRole::Gateway]).await.unwrap();
        }
        let routes = Arc::new(MemoryRoutes::new(clock, EXPIRY));
        let (published, deliveries) = DeliveryRecorder::new();
        let (wrapped_routes, wrapped_cache) = (redis.wrap(routes.clone()), redis.wrap(cache.clone()));
        let shared = Shared {
            recipients: Arc::new(MemoryRecipients::new(wrapped_routes.clone(), wrapped_cache.clone())),
            routes: wrapped_routes,
            cache: wrapped_cache,
            delivery: redis.wrap(published.into()),
            peers: redis.wrap(peers.clone()),
        };
        let (recorder, direct) = DeliveryRecorder::new();
        let revoked_directly = Arc::new(AtomicUsize::new(0));
        let to_refuse_directly = Arc::new(AtomicUsize::new(0));
        let called =
            DirectDelivery { recorder, revoked: revoked_directly.clone(), to_refuse: to_refuse_directly.clone() };
        let fallback = Arc::new(Fallback::new(shared, Arc::new(called)));
        let world =
            World::over(fallback.clone(), fallback.clone(), routes, fallback.clone(), fallback.clone(), deliveries);
        tokio::spawn(async move { fallback.run().await });
        // The first refresh of the gateways takes no time.
        time::sleep(Duration::from_millis(1)).await;
        Self { world, redis, peers, cache, direct, revoked_directly, to_refuse_directly }
    }

    /// The next push through Redis.
    async fn published(&mut self) -> (String, Push, ServerFrame) {
        soon(self.world.pushes(1)).await.remove(0)
    }

    /// The next direct call to a gateway.
    async fn called(&mut self) -> (GatewayId, Vec<Push>) {
        soon(self.direct.recv()).await.expect("the fallback is there")
    }
}

/// The result of `event`; fails the test after a timeout.
async fn soon<T>(event: impl Future<Output = T>) -> T {
    time::timeout(Duration::from_secs(600), event).await.expect("it happens soon")
}

fn peer(gateway: &str) -> PeerProcess {
    PeerProcess { id: gateway.into(), address: "127.0.0.1:7000".into() }
}

/// Direct deliveries, recorded and counted.
struct DirectDelivery {
    recorder: DeliveryRecorder,
    revoked: Arc<AtomicUsize>,
    to_refuse: Arc<AtomicUsize>,
}

#[async_trait]
impl Delivery for DirectDelivery {
    async fn deliver(&self, gateway: &GatewayId, pushes: &[Push]) -> Result<(), StoreError> {
        let less_one = |count: usize| count.checked_sub(1);
        if self.to_refuse.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less_one).is_ok() {
            return Err(StoreError::unavailable("it does not listen yet"));
        }
        self.recorder.deliver(gateway, pushes).await
    }

    async fn revoke(&self, _: Revocation) -> Result<(), StoreError> {
        self.revoked.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }
}

/// Whether Redis is unavailable. It then hangs, and every call ends in a timeout.
#[derive(Default)]
struct RedisSwitch {
    away: AtomicBool,
    failed: AtomicUsize,
}

impl RedisSwitch {
    fn begin(&self) {
        self.away.store(true, Ordering::SeqCst);
    }

    fn end(&self) {
        self.away.store(false, Ordering::SeqCst);
    }

    /// Number of calls that timed out.
    fn failed(&self) -> usize {
        self.failed.load(Ordering::SeqCst)
    }

    async fn check(&self) -> Result<(), StoreError> {
        if !self.away.load(Ordering::SeqCst) {
            return Ok(());
        }
        self.failed.fetch_add(1, Ordering::SeqCst);
        time::sleep(TIMEOUT).await;
        Err(StoreError::unavailable("it hangs"))
    }

    fn wrap<P>(self: &Arc<Self>, port: Arc<P>) -> Arc<BehindRedis<P>> {
        Arc::new(BehindRedis { port, redis: self.clone() })
    }
}

/// A port that Redis serves.
struct BehindRedis<P> {
    port: Arc<P>,
    redis: Arc<RedisSwitch>,
}

#[async_trait]
impl<P: Routes> Routes for BehindRedis<P> {
    async fn routes(&self, user_id: UserId) -> Result<Vec<Route>, StoreError> {
        self.redis.check().await?;
        self.port.routes(user_id).await
    }

    async fn gateways(&self, user_ids: &[UserId]) -> Result<BTreeMap<GatewayId, Vec<UserId>>, StoreError> {
        self.redis.check().await?;
        self.port.gateways(user_ids).await
    }

    async fn live_gateways(&self) -> Result<Vec<GatewayId>, StoreError> {
        self.redis.check().await?;
        self.port.live_gateways().await
    }

    async fn on_gateway(&self, gateway: &GatewayId, limit: usize) -> Result<Vec<Route>, StoreError> {
        self.redis.check().await?;
        self.port.on_gateway(gateway, limit).await
    }
}

#[async_trait]
impl<P: Delivery> Delivery for BehindRedis<P> {
    async fn deliver(&self, gateway: &GatewayId, pushes: &[Push]) -> Result<(), StoreError> {
        self.redis.check().await?;
        self.port.deliver(gateway, pushes).await
    }

    async fn revoke(&self, revocation: Revocation) -> Result<(), StoreError> {
        self.redis.check().await?;
        self.port.revoke(revocation).await
    }
}

#[async_trait]
impl<P: MemberCache> MemberCache for BehindRedis<P> {
    async fn members(&self, chat_id: ChatId) -> Result<Option<Arc<[UserId]>>, StoreError> {
        self.redis.check().await?;
        self.port.members(chat_id).await
    }

    async fn fill(&self, chat_id: ChatId, members: Arc<[UserId]>) -> Result<(), StoreError> {
        self.redis.check().await?;
        self.port.fill(chat_id, members).await
    }

    async fn invalidate(&self, chat_id: ChatId) -> Result<(), StoreError> {
        self.redis.check().await?;
        self.port.invalidate(chat_id).await
    }
}

#[async_trait]
impl<P: PeerRegistry> PeerRegistry for BehindRedis<P> {
    async fn announce(&self, peer: &PeerProcess, roles: &[ProcessRole]) -> Result<(), StoreError> {
        self.redis.check().await?;
        self.port.announce(peer, roles).await
    }

    async fn leave(&self, peer: &PeerProcess, roles: &[ProcessRole]) -> Result<(), StoreError> {
        self.redis.check().await?;
        self.port.leave(peer, roles).await
    }

    async fn peers(&self, role: ProcessRole) -> Result<Vec<PeerProcess>, StoreError> {
        self.redis.check().await?;
        self.port.peers(role).await
    }
}
