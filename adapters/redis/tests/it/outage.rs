use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ports::{Clock, Delivery, RouteWriter, Routes, StoreError};
use tidings_redis::{Config, EngineHealth, InboxState, Nodes, Redis, RedisDelivery};

use crate::engine::{command, wait_for_cluster};
use crate::fixtures::{Delivered, InboxListener, World, gateway, on_one_and_on_a_cluster, push, route, soon, user};

/// Allowance for a busy machine.
const SLACK: Duration = Duration::from_secs(5);

on_one_and_on_a_cluster!(
    a_killed_redis_heals_when_it_is_back,
    a_connection_that_is_lost_is_not_noticed,
    a_dead_redis_fails_at_once,
    a_hanging_redis_fails_within_the_timeout,
);

/// The gateway refreshes its routes, and its inbox reports a gap for missed pushes.
async fn a_killed_redis_heals_when_it_is_back(mut world: World) {
    let routes = world.routes();
    let mut listener = InboxListener::start(&world.redis, "a").await;
    let registered = [route(user(), "a")];
    let user_id = registered[0].user_id;
    routes.refresh(&registered).await.unwrap();

    world.stop().await;
    assert_eq!(listener.until(|state| !state.listening).await.gaps, 0);
    assert!(matches!(routes.refresh(&registered).await, Err(StoreError::Unavailable(_))));

    for engine in &mut world.engines {
        engine.start_again().await;
    }
    if world.engines.len() > 1 {
        wait_for_cluster(&world.engines).await;
    }
    assert_eq!(listener.until(|state| state.listening).await, InboxState { listening: true, gaps: 1 });
    soon(async { while routes.heartbeat(&gateway("a")).await.is_err() {} }).await;
    soon(async { while routes.refresh(&registered).await.is_err() {} }).await;
    let found = routes.gateways(&[user_id]).await.unwrap();
    assert_eq!(found, BTreeMap::from([(gateway("a"), vec![user_id])]));
    let pushes = vec![push(vec![user_id], "hello")];
    RedisDelivery::new(world.redis.clone()).deliver(&gateway("a"), &pushes).await.unwrap();
    assert_eq!(listener.next().await, Delivered::Pushes(gateway("a"), pushes));
}

async fn a_connection_that_is_lost_is_not_noticed(world: World) {
    let routes = world.routes();
    let registered: Vec<_> = (0..20).map(|_| route(user(), "a")).collect();
    for _ in 0..3 {
        routes.refresh(&registered).await.unwrap();
        let lost = world.engines.iter().map(|engine| command::<usize>(engine, "CLIENT KILL TYPE normal"));
        assert!(lost.sum::<usize>() >= world.engines.len());
    }
    routes.refresh(&registered).await.unwrap();
}

async fn a_dead_redis_fails_at_once(mut world: World) {
    world.redis.ping().await.unwrap();
    assert_eq!(world.redis.health(), EngineHealth::Ok);
    world.stop().await;
    let began = Instant::now();
    assert!(matches!(world.redis.ping().await, Err(StoreError::Unavailable(_))));
    assert!(began.elapsed() <= world.config.command_timeout + SLACK);
    let EngineHealth::Failing { since, reason } = world.redis.health() else { panic!("the ping has failed") };
    assert_eq!(since, world.clock.now());
    assert_ne!(reason, "");
}

async fn a_hanging_redis_fails_within_the_timeout(world: World) {
    let routes = world.routes();
    let registered = [route(user(), "a")];
    routes.refresh(&registered).await.unwrap();
    world.engines.iter().for_each(engines::Redis::pause);
    let began = Instant::now();
    assert!(matches!(routes.refresh(&registered).await, Err(StoreError::Unavailable(_))));
    let took = began.elapsed();
    let timeout = world.config.command_timeout;
    assert!((timeout..timeout + SLACK).contains(&took), "{took:?}");

    world.engines.iter().for_each(engines::Redis::resume);
    soon(async { while routes.refresh(&registered).await.is_err() {} }).await;
    assert_eq!(world.redis.health(), EngineHealth::Ok);
}

#[tokio::test]
async fn a_redis_that_starts_late_is_connected() {
    let mut engine = engines::Redis::start().await;
    engine.stop().await;
    let config = Config::new(Nodes::Single(engine.url().parse().unwrap()));
    let redis = Redis::open(config, Arc::new(ports::SystemClock)).unwrap();
    assert!(redis.ping().await.is_err());
    engine.start_again().await;
    redis.ping().await.unwrap();
}

#[tokio::test]
async fn commands_beyond_the_bound_are_refused_and_do_not_wait() {
    let engine = engines::Redis::start().await;
    let config = Config { commands_max: 1, ..Config::new(Nodes::Single(engine.url().parse().unwrap())) };
    let world = World::new(vec![engine], config);
    world.redis.ping().await.unwrap();
    world.engines[0].pause();
    let began = Instant::now();
    // Both are pending at the same time; the second is answered first.
    let second = async {
        let refused = world.redis.ping().await.unwrap_err();
        (refused, began.elapsed())
    };
    let (first, (refused, took)) = tokio::join!(biased; world.redis.ping(), second);
    assert!(first.is_err());
    assert!(took < world.config.command_timeout, "{took:?}");
    let StoreError::Unavailable(reason) = refused else { panic!("{refused}") };
    assert_eq!(reason.to_string(), "1 redis commands are already pending");
}
