use std::time::Duration;

use domain::Quota;
use memory::MemoryLimits;
use ports::{LimitKey, RateLimiter};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use tidings_redis::RedisLimits;
use tokio::runtime::Builder;

use crate::fixtures::{World, user};

/// Takes by two users from none, one or both of their buckets, with random quotas and delays in milliseconds. Intervals
/// are long, so that no bucket fills by Redis' clock while the test's clock stands still.
fn takes() -> impl Strategy<Value = Vec<(usize, [Option<Quota>; 2], u64)>> {
    let quota = (1u32..20, 200u64..2000, 1u32..10, 0u32..4).prop_map(|(count, seconds, burst, weight)| {
        let quota = Quota::with_burst(count, Duration::from_secs(seconds), burst).expect("both are more than none");
        quota.weighing(weight)
    });
    let wait_ms = prop_oneof![Just(0), 1u64..50_000, 50_000u64..5_000_000];
    let quotas = proptest::array::uniform2(proptest::option::weighted(0.8, quota));
    proptest::collection::vec((0usize..2, quotas, wait_ms), 1..60)
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
            for (n, quotas, wait_ms) in takes {
                world.clock.advance(Duration::from_millis(wait_ms));
                let keys = [LimitKey::SendPerUser(users[n]), LimitKey::Sync(users[n])];
                let takes: Vec<_> =
                    keys.into_iter().zip(quotas).filter_map(|(key, quota)| Some((key, quota?))).collect();
                let (decided, expected) = (redis.take_all(&takes).await, memory.take_all(&takes).await);
                prop_assert_eq!(decided.unwrap(), expected.unwrap());
            }
            Ok(())
        })
    });
    compared.unwrap();
}
