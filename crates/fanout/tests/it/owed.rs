use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use domain::SessionId;
use memory::{MemoryMemberCache, MemoryRoutes};
use ports::{Delivery, EventLog, GatewayId, Push, StoreError, SystemClock};
use protocol::frame::ServerFrame;
use tidings_fanout::Fanout;

use crate::world::{EXPIRY, Recorder, World};

/// A way to the gateways on which one of them cannot be reached for a while.
struct Parted {
    recorder: Recorder,
    from: &'static str,
    is_parted: Arc<AtomicBool>,
}

#[async_trait]
impl Delivery for Parted {
    async fn deliver(&self, gateway: &GatewayId, pushes: &[Push]) -> Result<(), StoreError> {
        if &*gateway.0 == self.from && self.is_parted.load(Ordering::SeqCst) {
            return Err(StoreError::unavailable("parted"));
        }
        self.recorder.deliver(gateway, pushes).await
    }

    async fn revoke(&self, _: SessionId) -> Result<(), StoreError> {
        Ok(())
    }
}

/// A world in which gateway `b` cannot be reached, until the flag says otherwise.
fn parted() -> (World, Arc<AtomicBool>) {
    let (recorder, deliveries) = Recorder::new();
    let is_parted = Arc::new(AtomicBool::new(true));
    let delivery = Parted { recorder, from: "b", is_parted: is_parted.clone() };
    let routes = Arc::new(MemoryRoutes::new(Arc::new(SystemClock), EXPIRY));
    let cache = Arc::new(MemoryMemberCache::new(Arc::new(SystemClock)));
    (World::over(routes.clone(), routes, cache, Arc::new(delivery), deliveries), is_parted)
}

async fn lag_is(world: &World, expected: impl Fn(u64) -> bool) {
    let came = async {
        while !expected(world.store.lag(Fanout::GROUP).await.unwrap()) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), came).await.unwrap();
}

#[tokio::test]
async fn who_missed_the_last_push_is_told_to_sync_when_their_gateway_is_back() {
    let (mut world, is_parted) = parted();
    let (ann, bob) = (world.user(), world.user());
    world.connect(ann, "a").await;
    world.connect(bob, "b").await;
    world.start();
    let chat_id = world.group(ann, &[bob]).await;
    world.send(chat_id, ann, None).await;
    // The chat and the message reach the gateway that can be reached, and go on to do so.
    let reached = world.pushes(2).await;
    assert!(reached.iter().all(|(gateway, ..)| gateway == "a"), "{reached:?}");
    world.send(chat_id, ann, None).await;
    assert_eq!(world.pushes(1).await[0].0, "a");
    lag_is(&world, |lag| lag > 0).await;

    is_parted.store(false, Ordering::SeqCst);
    let told = world.pushes(1).await;
    let [(gateway, push, ServerFrame::Resync(_))] = &told[..] else { panic!("{told:?}") };
    assert_eq!((gateway.as_str(), push.recipients.as_slice()), ("b", &[bob][..]));
    lag_is(&world, |lag| lag == 0).await;
}

#[tokio::test]
async fn a_crash_before_they_are_told_repeats_what_they_missed() {
    let (mut world, is_parted) = parted();
    let (ann, bob) = (world.user(), world.user());
    world.connect(ann, "a").await;
    world.connect(bob, "b").await;
    let running = world.start();
    let chat_id = world.group(ann, &[bob]).await;
    world.send(chat_id, ann, None).await;
    world.pushes(2).await;
    running.abort();
    is_parted.store(false, Ordering::SeqCst);
    world.start();
    let again = world.pushes(4).await;
    assert_eq!(again.iter().filter(|(gateway, ..)| gateway == "b").count(), 2, "{again:?}");
}
