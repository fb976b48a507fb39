//! Checks the invariants of ADR-010 in the keys themselves.

use std::collections::{BTreeMap, BTreeSet};
use std::slice;
use std::time::Duration;

use contract::Violations;
use domain::OnlineStatus;
use ports::{Delivery, GatewayId, PresenceTransitions, Route, RouteWriter, Routes};
use tidings_redis::RedisDelivery;

use crate::engine::command;
use crate::fixtures::{
    Delivered, EXPIRY, InboxListener, World, field, gateway, on_one_and_on_a_cluster, push, register, route, user,
};

on_one_and_on_a_cluster!(
    routing_ttl_bounded,
    zombie_prevention,
    conn_id_uniqueness,
    routing_denormalization_consistent,
    a_connection_that_is_written_down_as_another_users_is_in_no_answer_and_counted,
    presence_derives_from_connections,
    multi_device_delivery,
);

/// Every key has an expiry, and no answer includes a gateway after its heartbeat expired.
async fn routing_ttl_bounded(world: World) {
    let routes = world.routes();
    let registered: Vec<_> = (0..10).map(|n| route(user(), ["a", "b"][n % 2])).collect();
    register(&routes, &registered).await;
    routes.refresh(&registered[..5]).await.unwrap();
    routes.unregister(&registered[..2], Duration::from_secs(2)).await.unwrap();
    routes.settle(&routes.claim(3).await.unwrap()).await.unwrap();
    let mut keys = 0;
    for (engine, key) in world.keys("*") {
        let life_ms: i64 = command(engine, &format!("PTTL {key}"));
        let is_of_a_route =
            ["connection:", "user_", "server_connections:"].iter().any(|family| key.starts_with(family));
        let life_ms_max = if is_of_a_route { 300_000 } else { 3_600_000 };
        assert!((1..=life_ms_max).contains(&life_ms), "{key} lives {life_ms} ms");
        keys += 1;
    }
    assert!(keys > 30, "{keys} keys");

    let users: Vec<_> = registered.iter().map(|route| route.user_id).collect();
    world.clock.advance(EXPIRY);
    assert_eq!(routes.gateways(&users).await.unwrap(), BTreeMap::new());
    for user_id in users {
        assert_eq!(routes.routes(user_id).await.unwrap(), []);
    }
}

/// Routes of a crashed gateway are in no answer after 15 s, and in no key after a sweep.
async fn zombie_prevention(world: World) {
    let routes = world.routes();
    let user_id = user();
    let [zombie, alive] = [route(user_id, "crashed"), route(user_id, "b")];
    register(&routes, &[zombie.clone(), alive.clone(), route(user(), "crashed")]).await;
    world.clock.advance(EXPIRY);
    routes.heartbeat(&gateway("b")).await.unwrap();
    assert_eq!(routes.routes(user_id).await.unwrap(), slice::from_ref(&alive));
    routes.sweep(10).await.unwrap();

    let text = everything(&world);
    assert!(text.contains(&alive.connection_id.to_string()), "{text}");
    assert!(!text.contains(&zombie.connection_id.to_string()), "{text}");
    assert!(!text.contains("crashed"), "{text}");
}

/// A connection has one record, one user and one gateway, however often it is written.
async fn conn_id_uniqueness(world: World) {
    let routes = world.routes();
    let written = route(user(), "a");
    for _ in 0..3 {
        register(&routes, slice::from_ref(&written)).await;
        routes.refresh(slice::from_ref(&written)).await.unwrap();
    }
    let keys: Vec<String> = world.keys("connection:*").into_iter().map(|(_, key)| key).collect();
    assert_eq!(keys, [format!("connection:{{{}}}", written.connection_id)]);
    for pattern in ["user_connections:*", "server_connections:*"] {
        let sizes = world.keys(pattern).into_iter().map(|(engine, key)| command(engine, &format!("ZCARD {key}")));
        assert_eq!(sizes.collect::<Vec<usize>>(), [1], "{pattern}");
    }
    assert_eq!(field(&world, "connection:*", "user_id"), Some(written.user_id.to_string()));
    assert_eq!(field(&world, "connection:*", "device_id"), Some(written.device_id.to_string()));
    assert_eq!(field(&world, "connection:*", "server_id"), Some("a".to_owned()));
    assert_eq!(field(&world, "connection:*", "connected_at"), Some(written.connected_at.to_string()));
}

/// A user's set contains a gateway exactly while a connection of the user is on it, across registrations and removals.
async fn routing_denormalization_consistent(world: World) {
    let routes = world.routes();
    let user_id = user();
    let mut open: Vec<Route> = vec![];
    for n in 0..40 {
        match n % 4 {
            0 | 1 => {
                let new = route(user_id, ["a", "b", "c"][n % 3]);
                register(&routes, slice::from_ref(&new)).await;
                open.push(new);
            }
            2 => {
                let ended = open.swap_remove(n % open.len());
                routes.unregister(slice::from_ref(&ended), Duration::ZERO).await.unwrap();
            }
            _ => drop(routes.refresh(&open).await.unwrap()),
        }
        assert_eq!(servers(&world), connections(&world).into_values().collect(), "behind step {n}");
        assert_eq!(connections(&world).len(), open.len());
    }
    world.clock.advance(EXPIRY);
    routes.heartbeat(&gateway("b")).await.unwrap();
    routes.sweep(100).await.unwrap();
    assert_eq!(servers(&world), BTreeSet::from(["b".to_owned()]));
    assert_eq!(servers(&world), connections(&world).into_values().collect());
}

async fn a_connection_that_is_written_down_as_another_users_is_in_no_answer_and_counted(world: World) {
    let violations = Violations::default();
    let _watched = violations.watch();
    let routes = world.routes();
    let user_id = user();
    let [sound, damaged] = [route(user_id, "a"), route(user_id, "a")];
    register(&routes, &[sound.clone(), damaged.clone()]).await;
    for (engine, key) in world.keys(&format!("connection:{{{}}}", damaged.connection_id)) {
        command::<()>(engine, &format!("HSET {key} user_id {}", user()));
    }
    assert_eq!(routes.routes(user_id).await.unwrap(), [sound]);
    assert_eq!(violations.seen(), [("routing_denormalization_consistent".to_owned(), 1)]);
}

/// The members of the only `user_servers` key.
fn servers(world: &World) -> BTreeSet<String> {
    let members = |(engine, key)| command::<Vec<String>>(engine, &format!("ZRANGE {key} 0 -1"));
    world.keys("user_servers:*").into_iter().flat_map(members).collect()
}

/// The connections of the only `user_connections` key, each with the gateway of its record.
fn connections(world: &World) -> BTreeMap<String, String> {
    let members = |(engine, key)| command::<Vec<String>>(engine, &format!("ZRANGE {key} 0 -1"));
    let members = world.keys("user_connections:*").into_iter().flat_map(members);
    let with_server = |member: String| {
        let (connection_id, server) = member.split_once('@').unwrap();
        let recorded = field(world, &format!("connection:{{{connection_id}}}"), "server_id");
        assert_eq!(recorded.as_deref(), Some(server));
        (connection_id.to_owned(), server.to_owned())
    };
    members.map(with_server).collect()
}

/// A user is online exactly while a connection is known, and the record counts the connections.
async fn presence_derives_from_connections(world: World) {
    let routes = world.routes();
    let user_id = user();
    let [phone, laptop] = [route(user_id, "a"), route(user_id, "b")];
    let stands = |status: &str, count: &str| {
        assert_eq!(field(&world, "user_presence:*", "status").as_deref(), Some(status));
        assert_eq!(field(&world, "user_presence:*", "device_count").as_deref(), Some(count));
        assert_eq!(connections(&world).len().to_string(), count);
    };
    register(&routes, slice::from_ref(&phone)).await;
    stands("online", "1");
    register(&routes, slice::from_ref(&laptop)).await;
    stands("online", "2");
    world.clock.advance(EXPIRY);
    routes.heartbeat(&gateway("b")).await.unwrap();
    routes.sweep(10).await.unwrap();
    stands("online", "1");
    routes.unregister(slice::from_ref(&laptop), Duration::ZERO).await.unwrap();
    stands("offline", "0");
    let gone = routes.claim(10).await.unwrap();
    assert_eq!(gone[0].standing, OnlineStatus::Offline { last_seen: ports::Clock::now(&*world.clock) });
    routes.refresh(slice::from_ref(&laptop)).await.unwrap();
    stands("online", "1");
}

/// A message that is routed to a user reaches each of the user's devices, on every gateway.
async fn multi_device_delivery(world: World) {
    let (routes, delivery) = (world.routes(), RedisDelivery::new(world.redis.clone()));
    let user_id = user();
    let mut listeners = vec![];
    for name in ["a", "b", "c"] {
        register(&routes, &[route(user_id, name)]).await;
        listeners.push((gateway(name), InboxListener::start(&world.redis, name).await));
    }
    let found: Vec<GatewayId> = routes.gateways(&[user_id]).await.unwrap().into_keys().collect();
    assert_eq!(found, ["a", "b", "c"].map(gateway));
    let pushes = vec![push(vec![user_id], "hello")];
    for gateway in &found {
        delivery.deliver(gateway, &pushes).await.unwrap();
    }
    for (gateway, mut listener) in listeners {
        assert_eq!(listener.next().await, Delivered::Pushes(gateway, pushes.clone()));
    }
}

/// All keys with their contents.
fn everything(world: &World) -> String {
    let mut text = String::new();
    for (engine, key) in world.keys("*") {
        let read = match &*command::<String>(engine, &format!("TYPE {key}")) {
            "zset" => format!("ZRANGE {key} 0 -1"),
            "hash" => format!("HGETALL {key}"),
            other => panic!("{key} is a {other}"),
        };
        text += &format!("{key}: {}\n", command::<Vec<String>>(engine, &read).join(" "));
    }
    text
}
