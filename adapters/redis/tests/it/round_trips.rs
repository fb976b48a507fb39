//! The number of round trips that calls wait for.

use std::sync::Arc;
use std::time::Duration;

use domain::{Quota, UserId};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use ports::{LimitKey, MemberCache, RateLimiter, RecipientLookup};
use tidings_redis::{RedisLimits, RedisMemberCache, RedisRecipients};

use crate::fixtures::{World, chat, on_one_and_on_a_cluster, register, route, user};

on_one_and_on_a_cluster!(
    the_recipients_of_a_cached_chat_are_one_round_trip,
    a_changed_member_list_costs_one_more_round_trip_once,
    several_limits_are_one_round_trip,
);

/// The servers know the scripts and the client knows the servers, as after the first calls of a process.
async fn the_recipients_of_a_cached_chat_are_one_round_trip(world: World) {
    let recorder = PrometheusBuilder::new().build_recorder();
    let _guard = metrics::set_default_local_recorder(&recorder);
    let handle = recorder.handle();
    let routes = Arc::new(world.routes());
    let online: Vec<_> = (0..40).map(|n| route(user(), ["a", "b", "c"][n % 3])).collect();
    register(&routes, &online).await;
    let members: Arc<[UserId]> = online.iter().map(|route| route.user_id).collect();
    let (cache, lookup, chat_id) = (RedisMemberCache::new(world.redis.clone()), RedisRecipients::new(routes), chat());
    cache.fill(chat_id, members.clone()).await.unwrap();
    let sender = members[0];
    lookup.cached(chat_id, &[sender]).await.unwrap();
    let before = round_trips(&handle);
    for n in 1..=5 {
        let recipients = lookup.cached(chat_id, &[sender]).await.unwrap().unwrap();
        assert_eq!((recipients.gateways.len(), recipients.connections.len()), (3, 1));
        assert_eq!(round_trips(&handle) - before, n);
    }
    lookup.of(members, &[sender]).await.unwrap();
    assert_eq!(round_trips(&handle) - before, 6);
}

async fn a_changed_member_list_costs_one_more_round_trip_once(world: World) {
    let recorder = PrometheusBuilder::new().build_recorder();
    let _guard = metrics::set_default_local_recorder(&recorder);
    let handle = recorder.handle();
    let routes = Arc::new(world.routes());
    let [stays, joins] = [route(user(), "a"), route(user(), "b")];
    register(&routes, &[stays.clone(), joins.clone()]).await;
    let (cache, lookup, chat_id) = (RedisMemberCache::new(world.redis.clone()), RedisRecipients::new(routes), chat());
    cache.fill(chat_id, [stays.user_id].into()).await.unwrap();
    lookup.cached(chat_id, &[]).await.unwrap();
    cache.fill(chat_id, [stays.user_id, joins.user_id].into()).await.unwrap();
    for expected in [2, 1, 1] {
        let before = round_trips(&handle);
        assert_eq!(lookup.cached(chat_id, &[]).await.unwrap().unwrap().gateways.len(), 2);
        assert_eq!(round_trips(&handle) - before, expected);
    }
}

async fn several_limits_are_one_round_trip(world: World) {
    let recorder = PrometheusBuilder::new().build_recorder();
    let _guard = metrics::set_default_local_recorder(&recorder);
    let handle = recorder.handle();
    let (limits, user_id) = (RedisLimits::new(world.redis.clone()), user());
    let quota = Quota::per(2, Duration::from_secs(60)).unwrap();
    let takes = [LimitKey::SendPerUser(user_id), LimitKey::SendPerChat(user_id, chat())].map(|key| (key, quota));
    // The servers do not know the script before the first call.
    limits.take_all(&takes).await.unwrap();
    for is_allowed in [true, false] {
        let before = round_trips(&handle);
        let decisions = limits.take_all(&takes).await.unwrap();
        assert!(decisions.iter().all(|decision| decision.allowed == is_allowed), "{decisions:?}");
        assert_eq!(round_trips(&handle) - before, 1);
    }
}

fn round_trips(handle: &PrometheusHandle) -> u64 {
    let text = handle.render();
    let count = text.lines().find_map(|line| line.strip_prefix("tidings_redis_round_trips_total "));
    count.map_or(0, |count| count.parse().unwrap())
}
