use std::collections::{BTreeMap, BTreeSet};
use std::slice;
use std::sync::Arc;
use std::time::Duration;

use domain::Quota;
use ports::{Clock, LimitKey, MemberCache, Peers, ProcessRole, RateLimiter, Routes, Ticket, TicketStore};
use tidings_redis::{RedisLimits, RedisMemberCache, RedisPeers, RedisRoutes, RedisTickets};

use crate::engine::command;
use crate::fixtures::{World, chat, gateway, on_one_and_on_a_cluster, peer, route, user};

on_one_and_on_a_cluster!(
    a_flush_heals_with_the_next_refresh,
    a_whole_gateway_is_registered_in_batches,
    a_beat_of_a_thousand_connections_is_two_commands_for_each,
    all_users_are_asked_for_in_one_read_each,
    a_gateway_is_forgotten_with_its_last_connection,
    a_user_who_reconnects_for_ever_costs_no_more_than_their_live_routes,
    nothing_is_left_behind_without_an_expiry,
);

async fn a_flush_heals_with_the_next_refresh(world: World) {
    let routes = RedisRoutes::new(world.redis.clone());
    let registered = [route(user(), "a"), route(user(), "b")];
    let [one, other] = [registered[0].user_id, registered[1].user_id];
    routes.register(&registered).await.unwrap();
    world.flush();
    assert_eq!(routes.gateways(&[one, other]).await.unwrap(), BTreeMap::new());

    routes.register(&registered).await.unwrap();
    let expected = BTreeMap::from([(gateway("a"), vec![one]), (gateway("b"), vec![other])]);
    assert_eq!(routes.gateways(&[one, other]).await.unwrap(), expected);
    assert_eq!(routes.routes(one).await.unwrap(), registered[..1]);
}

async fn a_whole_gateway_is_registered_in_batches(world: World) {
    let routes = RedisRoutes::new(world.redis.clone());
    let registered: Vec<_> = (0..1000).map(|_| route(user(), "a")).collect();
    routes.register(&registered).await.unwrap();
    let users: Vec<_> = registered.iter().map(|route| route.user_id).collect();
    assert_eq!(routes.gateways(&users).await.unwrap(), BTreeMap::from([(gateway("a"), users)]));
}

async fn a_beat_of_a_thousand_connections_is_two_commands_for_each(world: World) {
    let routes = RedisRoutes::new(world.redis.clone());
    let registered: Vec<_> = (0..1000).map(|_| route(user(), "a")).collect();
    // The first one brings the scripts.
    routes.register(&registered).await.unwrap();
    let before = world.all_calls();
    routes.register(&registered).await.unwrap();
    let mut calls = world.all_calls();
    calls.iter_mut().for_each(|(command, count)| *count -= before.get(command).unwrap_or(&0));
    calls.retain(|command, count| *count > 0 && command != "info");
    println!("a beat of 1000 connections: {calls:?}");
    let sent = calls.remove("evalsha").unwrap();
    assert!(sent <= 2 * 1000 + 4, "{sent} scripts, two for each connection and one for each batch");
    let by_scripts: usize = calls.into_values().sum();
    assert!(by_scripts <= 8 * 1000 + 3 * 4, "{by_scripts} commands within scripts");
}

async fn all_users_are_asked_for_in_one_read_each(world: World) {
    let routes = RedisRoutes::new(world.redis.clone());
    let users: Vec<_> = (0..100).map(|_| user()).collect();
    assert_eq!(routes.gateways(&users).await.unwrap(), BTreeMap::new());
    assert_eq!(world.calls("zrangebyscore"), 100);
}

/// Two connections of one user on one gateway, one of which was not heard of for a while.
async fn a_gateway_is_forgotten_with_its_last_connection(world: World) {
    let routes = RedisRoutes::new(world.redis.clone());
    let user_id = user();
    let [silent, beating, elsewhere] = [route(user_id, "a"), route(user_id, "a"), route(user_id, "b")];
    routes.register(slice::from_ref(&silent)).await.unwrap();
    world.clock.advance(Duration::from_secs(10));
    routes.register(&[beating.clone(), elsewhere]).await.unwrap();
    let on_both = BTreeMap::from([(gateway("a"), vec![user_id]), (gateway("b"), vec![user_id])]);

    routes.unregister(&silent).await.unwrap();
    assert_eq!(routes.gateways(&[user_id]).await.unwrap(), on_both);
    routes.register(slice::from_ref(&silent)).await.unwrap();
    routes.unregister(&beating).await.unwrap();
    assert_eq!(routes.gateways(&[user_id]).await.unwrap(), on_both);
    routes.unregister(&silent).await.unwrap();
    assert_eq!(routes.gateways(&[user_id]).await.unwrap(), BTreeMap::from([(gateway("b"), vec![user_id])]));
}

async fn a_user_who_reconnects_for_ever_costs_no_more_than_their_live_routes(world: World) {
    let routes = RedisRoutes::new(world.redis.clone());
    let user_id = user();
    for n in 0..20 {
        routes.register(&[route(user_id, "a"), route(user_id, &n.to_string())]).await.unwrap();
        world.clock.advance(Duration::from_secs(5));
    }
    let sizes = ["user_connections:*", "user_servers:*", "server_connections:{a}"].map(|pattern| {
        let sizes = world.keys(pattern).into_iter().map(|(engine, key)| command(engine, &format!("ZCARD {key}")));
        sizes.collect::<Vec<usize>>()
    });
    assert_eq!(sizes, [[6], [4], [3]]);
}

async fn nothing_is_left_behind_without_an_expiry(world: World) {
    let (redis, now) = (&world.redis, world.clock.now());
    let routes = RedisRoutes::new(redis.clone());
    let user_id = user();
    let [kept, forgotten] = [route(user_id, "a"), route(user_id, "a")];
    routes.register(&[kept, forgotten.clone()]).await.unwrap();
    // Forgetting one of them must not bring a part of the other back that was lost.
    for (engine, key) in world.keys("user_servers:*") {
        command::<()>(engine, &format!("DEL {key}"));
    }
    routes.unregister(&forgotten).await.unwrap();
    routes.register(&[route(user(), "a")]).await.unwrap();
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
            _ => 15_000,
        };
        assert!((1..=life_ms_max).contains(&life_ms), "{key} lives {life_ms} ms");
        families.insert(family);
    }
    let expected = [
        "chat_members",
        "connection",
        "peers",
        "ratelimit",
        "server_connections",
        "user_connections",
        "user_servers",
        "ws_ticket",
    ];
    assert_eq!(families, expected.map(str::to_owned).into());
}

/// While a slot is on its way its new keys are at the node that it goes to; then all are.
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
