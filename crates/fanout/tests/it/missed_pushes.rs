use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use memory::{MemoryMemberCache, MemoryRoutes};
use ports::{Delivery, EventLog, GatewayId, Push, Revocation, StoreError, SystemClock};
use protocol::frame::ServerFrame;
use tidings_fanout::Fanout;

use crate::world::{DeliveryRecorder, EXPIRY, World};

/// A delivery with one gateway that is unreachable while `is_partitioned` is set.
struct PartitionedDelivery {
    recorder: DeliveryRecorder,
    from: &'static str,
    is_partitioned: Arc<AtomicBool>,
}

#[async_trait]
impl Delivery for PartitionedDelivery {
    async fn deliver(&self, gateway: &GatewayId, pushes: &[Push]) -> Result<(), StoreError> {
        if &*gateway.0 == self.from && self.is_partitioned.load(Ordering::SeqCst) {
            return Err(StoreError::unavailable("partitioned"));
        }
        self.recorder.deliver(gateway, pushes).await
    }

    async fn revoke(&self, _: Revocation) -> Result<(), StoreError> {
        Ok(())
    }
}

/// A world in which gateway `b` is unreachable while the flag is set.
fn partitioned() -> (World, Arc<AtomicBool>) {
    let (recorder, deliveries) = DeliveryRecorder::new();
    let is_partitioned = Arc::new(AtomicBool::new(true));
    let delivery = PartitionedDelivery { recorder, from: "b", is_partitioned: is_partitioned.clone() };
    let routes = Arc::new(MemoryRoutes::new(Arc::new(SystemClock), EXPIRY));
    let cache = Arc::new(MemoryMemberCache::new(Arc::new(SystemClock)));
    (World::over_memory(routes.clone(), routes, cache, Arc::new(delivery), deliveries), is_partitioned)
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
async fn recipients_of_a_failed_push_resync_when_their_gateway_is_reachable() {
    let (mut world, is_partitioned) = partitioned();
    let (ann, bob) = (world.user(), world.user());
    world.connect(ann, "a").await;
    world.connect(bob, "b").await;
    world.start();
    let chat_id = world.group(ann, &[bob]).await;
    world.send(chat_id, ann, None).await;
    // The reachable gateway keeps receiving events.
    let reached = world.pushes(2).await;
    assert!(reached.iter().all(|(gateway, ..)| gateway == "a"), "{reached:?}");
    world.send(chat_id, ann, None).await;
    assert_eq!(world.pushes(1).await[0].0, "a");
    lag_is(&world, |lag| lag > 0).await;

    is_partitioned.store(false, Ordering::SeqCst);
    let told = world.pushes(1).await;
    let [(gateway, push, ServerFrame::Resync(_))] = &told[..] else { panic!("{told:?}") };
    assert_eq!((gateway.as_str(), push.recipients.as_slice()), ("b", &[bob][..]));
    lag_is(&world, |lag| lag == 0).await;
}

#[tokio::test]
async fn a_crash_before_the_resync_repeats_the_missed_pushes() {
    let (mut world, is_partitioned) = partitioned();
    let (ann, bob) = (world.user(), world.user());
    world.connect(ann, "a").await;
    world.connect(bob, "b").await;
    let running = world.start();
    let chat_id = world.group(ann, &[bob]).await;
    world.send(chat_id, ann, None).await;
    world.pushes(2).await;
    running.abort();
    is_partitioned.store(false, Ordering::SeqCst);
    world.start();
    let again = world.pushes(4).await;
    assert_eq!(again.iter().filter(|(gateway, ..)| gateway == "b").count(), 2, "{again:?}");
}
