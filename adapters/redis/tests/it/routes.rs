use std::collections::{BTreeMap, BTreeSet};
use std::slice;
use std::sync::Arc;
use std::time::Duration;

use domain::Quota;
use ports::{
    Clock, LimitKey, MemberCache, PeerRegistry, PresenceTransitions, ProcessRole, RateLimiter, RefreshedRoute,
    RouteWriter, Routes, Ticket, TicketStore,
};
use tidings_redis::{RedisLimits, RedisMemberCache, RedisPeers, RedisTickets};

use crate::engine::command;
use crate::fixtures::{EXPIRY, World, chat, gateway, on_one_and_on_a_cluster, peer, register, route, user};

on_one_and_on_a_cluster!(
    redis_recovery_rebuilds_state,
    a_whole_gateway_is_refreshed_in_batches,
    a_refresh_of_known_routes_is_eight_commands_for_each,
    a_beat_is_one_script_however_many_connections,
    all_users_are_asked_for_in_one_read_each,
    a_gateway_of_another_process_is_found_and_missed,
    a_gateway_is_removed_with_its_last_connection,
    endless_reconnects_of_a_user_cost_no_more_than_their_routes,
    every_key_has_an_expiry,
);

/// Heartbeats report that the gateways are unknown. They refresh all routes, which restores the state.
async fn redis_recovery_rebuilds_state(world: World) {
    let routes = world.routes();
    let registered = [route(user(), "a"), route(user(), "b"), route(user(), "b")];
    register(&routes, &registered).await;
    let users: Vec<_> = registered.iter().map(|route| route.user_id).collect();
    routes.settle(&routes.claim(10).await.unwrap()).await.unwrap();
    world.flush();
    assert_eq!(routes.gateways(&users).await.unwrap(), BTreeMap::new());
    assert_eq!(routes.routes(users[0]).await.unwrap(), []);

    for name in ["a", "b"] {
        assert!(!routes.heartbeat(&gateway(name)).await.unwrap());
        let own: Vec<_> = registered.iter().filter(|route| route.gateway == gateway(name)).cloned().collect();
        let lost = vec![RefreshedRoute { was_known: false, connections: 1 }; own.len()];
        assert_eq!(routes.refresh(&own).await.unwrap(), lost);
    }
    let expected = BTreeMap::from([(gateway("a"), users[..1].to_vec()), (gateway("b"), users[1..].to_vec())]);
    assert_eq!(routes.gateways(&users).await.unwrap(), expected);
    assert_eq!(routes.routes(users[0]).await.unwrap(), registered[..1]);
    assert_eq!(routes.on_gateway(&gateway("a"), 10).await.unwrap(), registered[..1]);
    assert_eq!(routes.claim(10).await.unwrap(), [], "nobody has gone, so nobody is announced");
}

async fn a_whole_gateway_is_refreshed_in_batches(world: World) {
    let routes = world.routes();
    let registered: Vec<_> = (0..1000).map(|_| route(user(), "a")).collect();
    routes.heartbeat(&gateway("a")).await.unwrap();
    assert!(routes.refresh(&registered).await.unwrap().iter().all(|refreshed| !refreshed.was_known));
    assert!(routes.refresh(&registered).await.unwrap().iter().all(|refreshed| refreshed.was_known));
    let users: Vec<_> = registered.iter().map(|route| route.user_id).collect();
    assert_eq!(routes.gateways(&users).await.unwrap(), BTreeMap::from([(gateway("a"), users)]));
}

/// A gateway refreshes a twentieth of its routes with each heartbeat, so this is 0.4 per connection and heartbeat.
async fn a_refresh_of_known_routes_is_eight_commands_for_each(world: World) {
    let routes = world.routes();
    let registered: Vec<_> = (0..256).map(|_| route(user(), "a")).collect();
    // The first rounds load the routes and the scripts.
    for _ in 0..2 {
        routes.refresh(&registered).await.unwrap();
    }
    let before = world.commands_processed();
    routes.refresh(&registered).await.unwrap();
    let processed = world.commands_processed() - before;
    println!("a refresh of 256 routes: {processed} commands");
    assert!(processed <= 8 * 256 + 10 * world.engines.len(), "{processed} commands");
    assert!(processed >= 8 * 256, "{processed} commands are fewer than a refresh is made of");
}

async fn a_beat_is_one_script_however_many_connections(world: World) {
    let routes = world.routes();
    register(&routes, &(0..50).map(|_| route(user(), "a")).collect::<Vec<_>>()).await;
    let before = world.all_calls();
    assert!(routes.heartbeat(&gateway("a")).await.unwrap());
    let mut calls = world.all_calls();
    calls.iter_mut().for_each(|(command, count)| *count -= before.get(command).unwrap_or(&0));
    calls.retain(|command, count| *count > 0 && command != "info" && !command.starts_with("client"));
    let expected = ["evalsha", "pexpire", "zadd", "zscore"].map(|command| (command.to_owned(), 1));
    assert_eq!(calls, expected.into());
}

async fn all_users_are_asked_for_in_one_read_each(world: World) {
    let routes = world.routes();
    let registered: Vec<_> = (0..100).map(|n| route(user(), &(n % 3).to_string())).collect();
    register(&routes, &registered).await;
    let users: Vec<_> = registered.iter().map(|route| route.user_id).collect();
    // The first call also reads the gateways, although the cache already has the heartbeats of this process.
    for expected in [101, 100, 100] {
        let before = world.calls("zrangebyscore");
        assert_eq!(routes.gateways(&users).await.unwrap().len(), 3);
        assert_eq!(world.calls("zrangebyscore") - before, expected);
    }
}

/// One process sends heartbeats and another looks routes up. It finds a gateway as soon as a route names it, and drops
/// the gateway exactly at its expiry.
async fn a_gateway_of_another_process_is_found_and_missed(world: World) {
    let [gateways, reader] = [world.routes(), world.routes()];
    let [early, late] = [route(user(), "a"), route(user(), "b")];
    register(&gateways, slice::from_ref(&early)).await;
    assert_eq!(reader.routes(early.user_id).await.unwrap(), slice::from_ref(&early));
    world.clock.advance(Duration::from_millis(100));
    register(&gateways, slice::from_ref(&late)).await;
    assert_eq!(reader.routes(late.user_id).await.unwrap(), slice::from_ref(&late));

    world.clock.advance(EXPIRY - Duration::from_millis(100));
    assert_eq!(reader.routes(early.user_id).await.unwrap(), []);
    assert_eq!(reader.gateways(&[early.user_id, late.user_id]).await.unwrap().len(), 1);
    gateways.heartbeat(&gateway("a")).await.unwrap();
    world.clock.advance(Duration::from_millis(100));
    assert_eq!(reader.gateways(&[early.user_id, late.user_id]).await.unwrap().len(), 1);
    assert_eq!(reader.routes(early.user_id).await.unwrap(), slice::from_ref(&early));

    // A dead gateway is looked up occasionally, not with every call.
    let before = world.calls("zrangebyscore");
    for _ in 0..50 {
        assert_eq!(reader.gateways(&[late.user_id]).await.unwrap(), BTreeMap::new());
    }
    assert!(world.calls("zrangebyscore") - before <= 52);
}

/// Two connections of one user on one gateway, one of which was written later.
async fn a_gateway_is_removed_with_its_last_connection(world: World) {
    let routes = world.routes();
    let user_id = user();
    let [early, late, elsewhere] = [route(user_id, "a"), route(user_id, "a"), route(user_id, "b")];
    register(&routes, slice::from_ref(&early)).await;
    world.clock.advance(Duration::from_secs(10));
    register(&routes, &[late.clone(), elsewhere]).await;
    let on_both = BTreeMap::from([(gateway("a"), vec![user_id]), (gateway("b"), vec![user_id])]);

    routes.unregister(slice::from_ref(&late), Duration::ZERO).await.unwrap();
    assert_eq!(routes.gateways(&[user_id]).await.unwrap(), on_both);
    world.clock.advance(Duration::from_secs(290));
    routes.heartbeat(&gateway("a")).await.unwrap();
    routes.heartbeat(&gateway("b")).await.unwrap();
    let on_b = BTreeMap::from([(gateway("b"), vec![user_id])]);
    assert_eq!(routes.gateways(&[user_id]).await.unwrap(), on_b, "its youngest connection there has ended");
    routes.refresh(&[early.clone(), late.clone()]).await.unwrap();
    routes.unregister(slice::from_ref(&early), Duration::ZERO).await.unwrap();
    assert_eq!(routes.gateways(&[user_id]).await.unwrap(), on_both);
    routes.unregister(slice::from_ref(&late), Duration::ZERO).await.unwrap();
    assert_eq!(routes.gateways(&[user_id]).await.unwrap(), on_b);
}

async fn endless_reconnects_of_a_user_cost_no_more_than_their_routes(world: World) {
    let routes = world.routes();
    let user_id = user();
    for n in 0..20 {
        register(&routes, &[route(user_id, "a"), route(user_id, &n.to_string())]).await;
        world.clock.advance(Duration::from_secs(100));
    }
    let sizes = ["user_connections:*", "user_servers:*", "server_connections:{a}"].map(|pattern| {
        let sizes = world.keys(pattern).into_iter().map(|(engine, key)| command(engine, &format!("ZCARD {key}")));
        sizes.collect::<Vec<usize>>()
    });
    assert_eq!(sizes, [[6], [4], [3]]);
}

async fn every_key_has_an_expiry(world: World) {
    let (redis, now) = (&world.redis, world.clock.now());
    let routes = world.routes();
    let user_id = user();
    let [kept, deleted] = [route(user_id, "a"), route(user_id, "a")];
    register(&routes, &[kept, deleted.clone()]).await;
    // Removing one connection must not recreate the lost part of the other.
    for (engine, key) in world.keys("user_servers:*") {
        command::<()>(engine, &format!("DEL {key}"));
    }
    routes.unregister(slice::from_ref(&deleted), Duration::ZERO).await.unwrap();
    let [refreshed, gone] = [route(user(), "a"), route(user(), "a")];
    routes.refresh(slice::from_ref(&refreshed)).await.unwrap();
    routes.unregister(slice::from_ref(&gone), Duration::ZERO).await.unwrap();
    let transitions = routes.claim(10).await.unwrap();
    routes.settle(&transitions[..1]).await.unwrap();
    let cache = RedisMemberCache::new(redis.clone());
    cache.fill(chat(), [user()].into()).await.unwrap();
    cache.invalidate(chat()).await.unwrap();
    let (peers, [stays, leaves]) = (RedisPeers::new(redis.clone()), [peer("a"), peer("b")]);
    for peer in [&stays, &leaves] {
        peers.announce(peer, &ProcessRole::ALL).await.unwrap();
    }
    peers.leave(&leaves, &ProcessRole::ALL).await.unwrap();
    let quota = Quota::per(3, Duration::from_secs(60)).unwrap();
    RedisLimits::new(redis.clone()).take(LimitKey::Sync(user()), quota).await.unwrap();
    let ticket = Ticket {
        user_id: user(),
        session_id: None,
        device_id: None,
        token_expires_at: now + Duration::from_secs(900),
        expires_at: now + Duration::from_secs(30),
    };
    RedisTickets::new(redis.clone()).put([1; 32], ticket).await.unwrap();

    let mut families = BTreeSet::new();
    for (engine, key) in world.keys("*") {
        let life_ms: i64 = command(engine, &format!("PTTL {key}"));
        let family = key.split(':').next().unwrap().to_owned();
        let life_ms_max = match &*family {
            "chat_members" => 300_000,
            "ws_ticket" => 30_000,
            "ratelimit" => 20_000,
            "peers" => 15_000,
            "presence_claims" | "presence_due" | "servers" => 3_600_000,
            _ => 300_000,
        };
        assert!((1..=life_ms_max).contains(&life_ms), "{key} lives {life_ms} ms");
        families.insert(family);
    }
    let expected = [
        "chat_members",
        "connection",
        "peers",
        "presence_claims",
        "presence_due",
        "ratelimit",
        "server_connections",
        "servers",
        "user_connections",
        "user_presence",
        "user_servers",
        "ws_ticket",
    ];
    assert_eq!(families, expected.map(str::to_owned).into());
}

/// While a slot migrates, its new keys are at the target node; afterwards all its keys are.
#[tokio::test]
async fn a_slot_that_moves_is_followed() {
    let world = World::cluster().await;
    let cache = RedisMemberCache::new(world.redis.clone());
    let chat_id = chat();
    let slot: usize = command(&world.engines[0], &format!("CLUSTER KEYSLOT chat_members:{{{chat_id}}}"));
    world.redis.ping().await.unwrap();
    let place = world.engines.iter().position(|engine| {
        let slots: String = command(engine, "CLUSTER NODES");
        let own = slots.lines().find(|line| line.contains("myself")).unwrap().split(' ').next_back().unwrap();
        let (first, last) = own.split_once('-').unwrap();
        (first.parse().unwrap()..=last.parse().unwrap()).contains(&slot)
    });
    let place = place.expect("every slot has a node");
    let (from, to) = (&world.engines[place], &world.engines[(place + 1) % 3]);
    let id = |engine: &engines::Redis| command::<String>(engine, "CLUSTER MYID");

    command::<()>(to, &format!("CLUSTER SETSLOT {slot} IMPORTING {}", id(from)));
    command::<()>(from, &format!("CLUSTER SETSLOT {slot} MIGRATING {}", id(to)));
    let members: Arc<[_]> = [user()].into();
    cache.fill(chat_id, members.clone()).await.unwrap();
    assert_eq!(cache.members(chat_id).await.unwrap(), Some(members.clone()));
    assert_eq!(command::<usize>(from, &format!("CLUSTER COUNTKEYSINSLOT {slot}")), 0);
    assert_eq!(command::<usize>(to, &format!("CLUSTER COUNTKEYSINSLOT {slot}")), 1);

    for engine in [to, from] {
        command::<()>(engine, &format!("CLUSTER SETSLOT {slot} NODE {}", id(to)));
    }
    assert_eq!(cache.members(chat_id).await.unwrap(), Some(members));
}
