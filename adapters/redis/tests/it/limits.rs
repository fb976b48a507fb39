use std::time::Duration;

use domain::Quota;
use memory::MemoryLimits;
use ports::{LimitKey, RateLimiter};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use tidings_redis::RedisLimits;
use tokio::runtime::Builder;

use crate::fixtures::{World, user};

/// Takes by two users with quotas that may differ each time, so many milliseconds after the one before. Intervals are
/// long, so that no bucket fills by Redis' clock while the test's stands still.
fn takes() -> impl Strategy<Value = Vec<(usize, Quota, u64)>> {
    let quota = (1u32..20, 200u64..2000, 1u32..10, 0u32..4).prop_map(|(count, seconds, burst, weight)| {
        let quota = Quota::with_burst(count, Duration::from_secs(seconds), burst).expect("both are more than none");
        quota.weighing(weight)
    });
    let wait_ms = prop_oneof![Just(0), 1u64..50_000, 50_000u64..5_000_000];
    proptest::collection::vec((0usize..2, quota, wait_ms), 1..60)
}

#[test]
fn redis_decides_like_memory() {
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let world = runtime.block_on(World::one());
    let redis = RedisLimits::new(world.redis.clone());
    let config = ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() };
    let compared = TestRunner::new(config).run(&takes(), |takes| {
        runtime.block_on(async {
            let memory = MemoryLimits::new(world.clock.clone());
            let users = [user(), user()];
            for (n, quota, wait_ms) in takes {
                world.clock.advance(Duration::from_millis(wait_ms));
                let key = LimitKey::SendPerUser(users[n]);
                let (decided, expected) =
                    (redis.take(key, quota).await.unwrap(), memory.take(key, quota).await.unwrap());
                prop_assert_eq!(decided, expected);
            }
            Ok(())
        })
    });
    compared.unwrap();
}
