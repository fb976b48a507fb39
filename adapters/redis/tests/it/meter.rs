use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use ports::{MemberCache, Routes};
use tidings_redis::{Config, Nodes, RedisMemberCache, RedisMetrics};
use tokio::{select, task};

use crate::engine::command;
use crate::fixtures::{World, chat, on_one_and_on_a_cluster, soon, user};

on_one_and_on_a_cluster!(
    the_state_of_redis_is_measured,
    an_unavailable_redis_is_reported,
    lookups_are_counted_by_their_outcome,
);

async fn the_state_of_redis_is_measured(world: World) {
    let recorder = PrometheusBuilder::new().build_recorder();
    let _guard = metrics::set_default_local_recorder(&recorder);
    let cache = RedisMemberCache::new(world.redis.clone());
    let [known, unknown] = [chat(), chat()];
    cache.fill(known, [user()].into()).await.unwrap();
    for chat_id in [known, known, unknown] {
        cache.members(chat_id).await.unwrap();
    }
    let told = told_once(&world, &recorder.handle()).await;
    assert_eq!(value(&told, "tidings_redis_available"), Some(1.0), "{told}");
    // The fill script reads before it writes.
    assert_eq!(value(&told, "tidings_redis_keyspace_hits_total"), Some(2.0), "{told}");
    assert_eq!(value(&told, "tidings_redis_keyspace_misses_total"), Some(2.0), "{told}");
    assert_eq!(value(&told, "tidings_redis_expired_keys_total"), Some(0.0), "{told}");
    assert_eq!(value(&told, "tidings_redis_evicted_keys_total"), Some(0.0), "{told}");
    assert!(value(&told, "tidings_redis_connected_clients").unwrap() >= world.engines.len() as f64, "{told}");
    assert_eq!(value(&told, "tidings_redis_pubsub_channels"), Some(0.0), "{told}");
    assert_eq!(value(&told, "tidings_redis_pubsub_patterns"), Some(0.0), "{told}");
    assert_eq!(value(&told, "tidings_redis_used_memory_ratio"), None, "its memory has no bound");

    let recorder = PrometheusBuilder::new().build_recorder();
    let _guard = metrics::set_default_local_recorder(&recorder);
    command::<()>(&world.engines[0], "CONFIG SET maxmemory 100mb");
    let told = told_once(&world, &recorder.handle()).await;
    let ratio = value(&told, "tidings_redis_used_memory_ratio").expect("its memory has a bound");
    assert!((0.005..0.2).contains(&ratio), "{ratio}");
}

async fn an_unavailable_redis_is_reported(mut world: World) {
    let recorder = PrometheusBuilder::new().build_recorder();
    let _guard = metrics::set_default_local_recorder(&recorder);
    world.stop().await;
    let told = told_once(&world, &recorder.handle()).await;
    assert_eq!(value(&told, "tidings_redis_available"), Some(0.0), "{told}");
    assert_eq!(value(&told, "tidings_redis_connected_clients"), None, "{told}");
}

/// Without the permission for `INFO` there are no numbers, but Redis still counts as available.
#[tokio::test]
async fn a_redis_without_info_counts_as_available() {
    let recorder = PrometheusBuilder::new().build_recorder();
    let _guard = metrics::set_default_local_recorder(&recorder);
    let acl = "--user tidings on >open ~* &* +@all -info";
    let engine = engines::Redis::start_with(&acl.split(' ').collect::<Vec<_>>()).await;
    let config = Config::new(Nodes::Single(engine.url().parse().unwrap()));
    let (username, password) = (Some("tidings".to_owned()), Some("open".to_owned().into()));
    let world = World::new(vec![engine], Config { username, password, ..config });
    let told = told_once(&world, &recorder.handle()).await;
    assert_eq!(value(&told, "tidings_redis_available"), Some(1.0), "{told}");
    assert_eq!(value(&told, "tidings_redis_connected_clients"), None, "{told}");
    assert_eq!(world.redis.health(), ports::EngineHealth::Ok);
}

async fn lookups_are_counted_by_their_outcome(mut world: World) {
    let recorder = PrometheusBuilder::new().build_recorder();
    let _guard = metrics::set_default_local_recorder(&recorder);
    let routes = world.routes();
    routes.gateways(&[user()]).await.unwrap();
    routes.routes(user()).await.unwrap();
    world.stop().await;
    routes.gateways(&[user()]).await.unwrap_err();
    let told = recorder.handle().render();
    assert_eq!(value(&told, "tidings_routing_lookups_total{outcome=\"ok\"}"), Some(2.0), "{told}");
    assert_eq!(value(&told, "tidings_routing_lookups_total{outcome=\"error\"}"), Some(1.0), "{told}");
}

/// The metrics after the first query of Redis.
async fn told_once(world: &World, told: &PrometheusHandle) -> String {
    let until_told = async {
        while !told.render().contains("tidings_redis_available") {
            task::yield_now().await;
        }
    };
    select! {
        never = RedisMetrics::new(world.redis.clone()).run() => match never {},
        () = soon(until_told) => {}
    }
    told.render()
}

fn value(told: &str, name: &str) -> Option<f64> {
    let value = told.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    value.map(|value| value.parse().unwrap())
}
