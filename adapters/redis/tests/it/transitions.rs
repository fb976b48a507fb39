use std::collections::BTreeSet;
use std::slice;
use std::time::Duration;

use contract::Routing;
use domain::{OnlineStatus, UserId};
use futures_util::future::join_all;
use memory::MemoryRoutes;
use ports::{Clock, PresenceTransition, PresenceTransitions, Route, RouteWriter, Routes, SweepResult};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use tidings_redis::RedisRoutes;
use tokio::runtime::Builder;

use crate::engine::command;
use crate::fixtures::{EXPIRY, World, field, gateway, on_one_and_on_a_cluster, register, route, user};

on_one_and_on_a_cluster!(
    the_presence_record_derives_from_the_connections,
    the_offline_time_of_a_user_is_kept_for_a_while,
    a_coming_that_could_not_be_queued_is_queued_by_a_retry,
    a_going_that_could_not_be_queued_is_queued_by_a_retry,
    a_disconnect_that_could_not_be_queued_is_found_by_a_sweep,
    a_change_that_is_not_queued_yet_is_found_by_the_settlement,
    late_announcements_are_re_checked,
    lost_presence_records_do_not_hide_later_transitions,
    an_invalid_queue_entry_blocks_no_other,
    a_gateway_that_comes_back_during_a_sweep_has_all_its_routes,
    a_gateway_with_a_heartbeat_during_a_sweep_stays_registered,
    unreadable_rows_are_purged_with_the_others,
    a_storm_of_ten_thousand_is_swept_step_by_step,
);

async fn the_presence_record_derives_from_the_connections(world: World) {
    let routes = world.routes();
    let user_id = user();
    let [phone, laptop] = [route(user_id, "a"), route(user_id, "b")];
    let record = || {
        let names = ["status", "last_seen", "device_count", "updated_at", "announced"];
        names.map(|name| field(&world, "user_presence:*", name))
    };
    let text = |text: &str| Some(text.to_owned());
    let now = || Some(world.clock.now().to_string());

    register(&routes, slice::from_ref(&phone)).await;
    assert_eq!(record(), [text("online"), None, text("1"), now(), None]);
    routes.settle(&routes.claim(10).await.unwrap()).await.unwrap();
    world.clock.advance(Duration::from_secs(1));
    register(&routes, slice::from_ref(&laptop)).await;
    assert_eq!(record(), [text("online"), None, text("2"), now(), text("online")]);
    world.clock.advance(Duration::from_secs(1));
    routes.unregister(slice::from_ref(&phone), Duration::ZERO).await.unwrap();
    assert_eq!(record(), [text("online"), None, text("1"), now(), text("online")]);
    world.clock.advance(Duration::from_secs(1));
    routes.unregister(slice::from_ref(&laptop), Duration::ZERO).await.unwrap();
    assert_eq!(record(), [text("offline"), now(), text("0"), now(), text("online")]);
    let gone_at = world.clock.now();
    world.clock.advance(Duration::from_secs(1));
    let gone = routes.claim(10).await.unwrap();
    assert_eq!(gone[0].standing, OnlineStatus::Offline { last_seen: gone_at });
    routes.settle(&gone).await.unwrap();
    assert_eq!(record()[4], text("offline"));
    register(&routes, slice::from_ref(&phone)).await;
    assert_eq!(record(), [text("online"), None, text("1"), now(), text("offline")]);
}

async fn the_offline_time_of_a_user_is_kept_for_a_while(world: World) {
    let routes = world.routes();
    let phone = route(user(), "a");
    let life_ms = || {
        let keys = world.keys("user_presence:*");
        command::<i64>(keys[0].0, &format!("PTTL {}", keys[0].1))
    };
    register(&routes, slice::from_ref(&phone)).await;
    assert!((250_000..=300_000).contains(&life_ms()));
    routes.unregister(slice::from_ref(&phone), Duration::ZERO).await.unwrap();
    routes.settle(&routes.claim(10).await.unwrap()).await.unwrap();
    assert!((250_000..=300_000).contains(&life_ms()));
}

/// Makes every attempt to queue a user fail.
fn block_queue(world: &World) {
    let (engine, key) = queue(world);
    command::<()>(engine, &format!("SET {key} blocked"));
}

fn unblock_queue(world: &World) {
    let (engine, key) = queue(world);
    command::<()>(engine, &format!("DEL {key}"));
}

/// The queue key, and the server with its slot; the other servers of a cluster refuse it.
fn queue(world: &World) -> (&engines::Redis, &'static str) {
    let key = "presence_due:{presence}";
    let client = |engine: &engines::Redis| redis::Client::open(engine.url()).unwrap().get_connection().unwrap();
    let has = |engine: &&engines::Redis| redis::cmd("TYPE").arg(key).query::<String>(&mut client(engine)).is_ok();
    (world.engines.iter().find(has).expect("a server has the slot"), key)
}

async fn a_coming_that_could_not_be_queued_is_queued_by_a_retry(world: World) {
    let routes = world.routes();
    let phone = route(user(), "a");
    routes.heartbeat(&gateway("a")).await.unwrap();
    block_queue(&world);
    routes.register(&phone).await.unwrap_err();
    unblock_queue(&world);
    assert_eq!(routes.claim(10).await.unwrap(), []);
    routes.register(&phone).await.unwrap();
    assert_eq!(standings(&routes.claim(10).await.unwrap()), [(phone.user_id, OnlineStatus::Online)]);
}

async fn a_going_that_could_not_be_queued_is_queued_by_a_retry(world: World) {
    let routes = world.routes();
    let phone = route(user(), "a");
    come(&routes, slice::from_ref(&phone)).await;
    let last_seen = world.clock.now();
    block_queue(&world);
    routes.unregister(slice::from_ref(&phone), Duration::ZERO).await.unwrap_err();
    unblock_queue(&world);
    world.clock.advance(Duration::from_secs(1));
    routes.unregister(slice::from_ref(&phone), Duration::ZERO).await.unwrap();
    let gone = routes.claim(10).await.unwrap();
    assert_eq!(standings(&gone), [(phone.user_id, OnlineStatus::Offline { last_seen })]);
    assert_eq!(routes.on_gateway(&gateway("a"), 10).await.unwrap(), []);
}

/// A gateway removes a connection and dies before it can queue its user.
async fn a_disconnect_that_could_not_be_queued_is_found_by_a_sweep(world: World) {
    let routes = world.routes();
    let phone = route(user(), "a");
    come(&routes, slice::from_ref(&phone)).await;
    world.clock.advance(Duration::from_secs(3));
    let last_seen = world.clock.now();
    block_queue(&world);
    routes.unregister(slice::from_ref(&phone), Duration::ZERO).await.unwrap_err();
    unblock_queue(&world);
    world.clock.advance(EXPIRY);
    assert_eq!(routes.claim(10).await.unwrap(), []);
    routes.sweep(10).await.unwrap();
    let gone = routes.claim(10).await.unwrap();
    assert_eq!(standings(&gone), [(phone.user_id, OnlineStatus::Offline { last_seen })]);
    assert_eq!(world.keys("connection:*").len(), 0);
}

/// A gateway has recorded that a user is offline but not queued it yet, while the user is announced as online.
async fn a_change_that_is_not_queued_yet_is_found_by_the_settlement(world: World) {
    let routes = world.routes();
    let phone = route(user(), "a");
    register(&routes, slice::from_ref(&phone)).await;
    let coming = routes.claim(10).await.unwrap();
    let last_seen = world.clock.now();
    for (engine, key) in world.keys("user_presence:*") {
        command::<()>(engine, &format!("HSET {key} status offline last_seen {last_seen}"));
    }
    routes.settle(&coming).await.unwrap();
    let gone = routes.claim(10).await.unwrap();
    assert_eq!(standings(&gone), [(phone.user_id, OnlineStatus::Offline { last_seen })]);
}

/// A worker that stalled beyond its claim announces an outdated status after another worker announced the current one.
/// So subscribers received the wrong status last.
async fn late_announcements_are_re_checked(world: World) {
    let routes = world.routes();
    let phone = route(user(), "a");
    register(&routes, slice::from_ref(&phone)).await;
    let late = routes.claim(10).await.unwrap();
    routes.unregister(slice::from_ref(&phone), Duration::ZERO).await.unwrap();
    world.clock.advance(Duration::from_secs(10));
    let gone = routes.claim(10).await.unwrap();
    routes.settle(&gone).await.unwrap();
    assert_eq!(routes.claim(10).await.unwrap(), []);

    routes.settle(&late).await.unwrap();
    let again = routes.claim(10).await.unwrap();
    assert_eq!(standings(&again), standings(&gone));
    routes.settle(&again).await.unwrap();
    assert_eq!(routes.claim(10).await.unwrap(), []);
}

/// Many users without a record are queued before a user who came online.
async fn lost_presence_records_do_not_hide_later_transitions(world: World) {
    let routes = world.routes();
    let lost: Vec<_> = (0..20).map(|_| route(user(), "a")).collect();
    register(&routes, &lost).await;
    for (engine, key) in world.keys("user_presence:*") {
        command::<()>(engine, &format!("DEL {key}"));
    }
    world.clock.advance(Duration::from_secs(2));
    let came = route(user(), "a");
    register(&routes, slice::from_ref(&came)).await;
    assert_eq!(standings(&routes.claim(3).await.unwrap()), [(came.user_id, OnlineStatus::Online)]);
}

async fn an_invalid_queue_entry_blocks_no_other(world: World) {
    let routes = world.routes();
    let (engine, key) = queue(&world);
    command::<()>(engine, &format!("ZADD {key} 1 rubbish 2 {}", user()));
    let came = route(user(), "a");
    register(&routes, slice::from_ref(&came)).await;
    assert_eq!(standings(&routes.claim(1).await.unwrap()), [(came.user_id, OnlineStatus::Online)]);
}

async fn a_gateway_that_comes_back_during_a_sweep_has_all_its_routes(world: World) {
    let routes = world.routes();
    let back: Vec<_> = (0..300).map(|_| route(user(), "a")).collect();
    routes.heartbeat(&gateway("a")).await.unwrap();
    routes.refresh(&back).await.unwrap();
    for _ in 0..10 {
        world.clock.advance(EXPIRY);
        let sweeps = join_all((0..4).map(|_| routes.sweep(1000)));
        let comes_back = async {
            // By now the sweeps have found it dead.
            world.redis.ping().await.unwrap();
            routes.heartbeat(&gateway("a")).await.unwrap();
            routes.refresh(&back).await.unwrap();
        };
        let (swept, ()) = tokio::join!(sweeps, comes_back);
        assert!(swept.iter().all(Result::is_ok), "{swept:?}");
        let users: Vec<UserId> = back.iter().map(|route| route.user_id).collect();
        let found = routes.gateways(&users).await.unwrap();
        assert_eq!(found.get(&gateway("a")).map(Vec::len), Some(300));
        let listed = routes.on_gateway(&gateway("a"), 1000).await.unwrap();
        assert_eq!(listed.len(), 300, "with all there is to know of them");
        assert_eq!(routes.live_gateways().await.unwrap(), [gateway("a")]);
        let told = routes.claim(1000).await.unwrap();
        routes.settle(&told).await.unwrap();
        assert!(told.iter().all(|transition| transition.standing == OnlineStatus::Online), "all of them are there");
    }
}

async fn a_gateway_with_a_heartbeat_during_a_sweep_stays_registered(world: World) {
    let routes = world.routes();
    let name = gateway("a");
    routes.heartbeat(&name).await.unwrap();
    for _ in 0..20 {
        world.clock.advance(EXPIRY);
        // The sweep finds it dead and then reads its routes; meanwhile it sends a heartbeat.
        let (swept, was_known) = tokio::join!(biased; routes.sweep(10), routes.heartbeat(&name));
        assert_eq!(swept.unwrap(), SweepResult::default());
        assert!(!was_known.unwrap());
        assert!(routes.heartbeat(&name).await.unwrap());
    }
}

async fn unreadable_rows_are_purged_with_the_others(world: World) {
    let routes = world.routes();
    come(&routes, &[route(user(), "a")]).await;
    for (engine, key) in world.keys("connection:*") {
        command::<()>(engine, &format!("DEL {key}"));
    }
    let readable = route(user(), "a");
    come(&routes, slice::from_ref(&readable)).await;
    for (engine, key) in world.keys("server_connections:*") {
        command::<()>(engine, &format!("ZADD {key} {} rubbish", world.clock.now().as_millis() + 1));
    }
    world.clock.advance(EXPIRY);
    assert_eq!(routes.sweep(10).await.unwrap(), SweepResult { deleted: 3, remaining: 0 });
    assert_eq!(world.keys("server*").len(), 0);
    let gone = routes.claim(10).await.unwrap();
    assert!(matches!(standings(&gone)[..], [(user_id, OnlineStatus::Offline { .. })] if user_id == readable.user_id));
}

async fn a_storm_of_ten_thousand_is_swept_step_by_step(world: World) {
    let routes = world.routes();
    let dying: Vec<_> = (0..10_000).map(|_| route(user(), "a")).collect();
    routes.heartbeat(&gateway("a")).await.unwrap();
    routes.refresh(&dying).await.unwrap();
    world.clock.advance(EXPIRY);
    let mut gone = BTreeSet::new();
    for step in 1..=10 {
        assert_eq!(routes.sweep(1000).await.unwrap(), SweepResult { deleted: 1000, remaining: 10_000 - 1000 * step });
        let claimed = routes.claim(1000).await.unwrap();
        assert_eq!(claimed.len(), 1000);
        routes.settle(&claimed).await.unwrap();
        gone.extend(claimed.into_iter().map(|transition| transition.user_id));
    }
    assert_eq!(gone, dying.iter().map(|route| route.user_id).collect());
    assert_eq!(routes.claim(1000).await.unwrap(), []);
}

/// An operation on three users and three gateways.
#[derive(Clone, Debug)]
enum RoutingOperation {
    Beat(usize),
    Connect(usize, usize),
    /// The gateway refreshes its routes.
    Refresh(usize),
    /// One of the open connections ends, with this grace period.
    Disconnect(usize, u64),
    Pass(u64),
    Sweep,
}

fn steps() -> impl Strategy<Value = Vec<RoutingOperation>> {
    let step = prop_oneof![
        2 => (0usize..3).prop_map(RoutingOperation::Beat),
        3 => (0usize..3, 0usize..3).prop_map(|(user, gateway)| RoutingOperation::Connect(user, gateway)),
        1 => (0usize..3).prop_map(RoutingOperation::Refresh),
        2 => (any::<usize>(), prop_oneof![Just(0), Just(2000)]).prop_map(|(n, grace)| RoutingOperation::Disconnect(n, grace)),
        3 => prop_oneof![Just(1), Just(1999), Just(5000)].prop_map(RoutingOperation::Pass),
        1 => Just(RoutingOperation::Sweep),
    ];
    proptest::collection::vec(step, 1..40)
}

#[test]
fn redis_routes_like_memory() {
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let world = runtime.block_on(World::one());
    let config = ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() };
    let compared = TestRunner::new(config).run(&steps(), |steps| {
        runtime.block_on(async {
            world.flush();
            let memory = MemoryRoutes::new(world.clock.clone(), EXPIRY);
            compare(&world, [&memory, &world.routes()], steps).await
        })
    });
    compared.unwrap();
}

/// Applies the same steps to both, and compares everything after each.
async fn compare(world: &World, both: [&dyn Routing; 2], steps: Vec<RoutingOperation>) -> Result<(), TestCaseError> {
    let (users, names) = ([user(), user(), user()], ["a", "b", "c"]);
    let mut open: Vec<Route> = vec![];
    for step in steps {
        let new = match step {
            RoutingOperation::Connect(n, on) => Some(route(users[n], names[on])),
            _ => None,
        };
        let ended = match step {
            RoutingOperation::Disconnect(n, _) if !open.is_empty() => Some(open.swap_remove(n % open.len())),
            _ => None,
        };
        if let RoutingOperation::Pass(ms) = step {
            world.clock.advance(Duration::from_millis(ms));
        }
        let mut seen = vec![];
        for routes in both {
            let outcome = match &step {
                RoutingOperation::Beat(n) => format!("{:?}", routes.heartbeat(&gateway(names[*n])).await.unwrap()),
                RoutingOperation::Connect(..) => {
                    let new = new.as_ref().unwrap();
                    let was_live = routes.heartbeat(&new.gateway).await.unwrap();
                    routes.register(new).await.unwrap();
                    format!("{was_live}")
                }
                RoutingOperation::Refresh(n) => {
                    let held: Vec<_> =
                        open.iter().filter(|route| route.gateway == gateway(names[*n])).cloned().collect();
                    format!("{:?}", routes.refresh(&held).await.unwrap())
                }
                RoutingOperation::Disconnect(_, grace) => {
                    routes.unregister(ended.as_slice(), Duration::from_millis(*grace)).await.unwrap();
                    String::new()
                }
                RoutingOperation::Pass(_) => String::new(),
                RoutingOperation::Sweep => format!("{:?}", routes.sweep(1000).await.unwrap()),
            };
            let mut told = routes.claim(1000).await.unwrap();
            routes.settle(&told).await.unwrap();
            told.sort_by_key(|transition| transition.user_id);
            let mut found = vec![];
            for user_id in users {
                found.extend(sorted(routes.routes(user_id).await.unwrap()));
            }
            for name in names {
                found.extend(sorted(routes.on_gateway(&gateway(name), 1000).await.unwrap()));
            }
            let gateways = (routes.gateways(&users).await.unwrap(), routes.live_gateways().await.unwrap());
            seen.push((outcome, standings(&told), found, gateways));
        }
        prop_assert_eq!(&seen[0], &seen[1], "behind {:?}", step);
        open.extend(new);
        if matches!(step, RoutingOperation::Sweep) {
            // Routes of dead gateways have ended.
            let live = both[0].live_gateways().await.unwrap();
            open.retain(|route| live.contains(&route.gateway));
        }
    }
    Ok(())
}

/// Brings users online and settles the announcements.
async fn come(routes: &RedisRoutes, coming: &[Route]) {
    register(routes, coming).await;
    routes.settle(&routes.claim(1000).await.unwrap()).await.unwrap();
}

fn standings(transitions: &[PresenceTransition]) -> Vec<(UserId, OnlineStatus)> {
    transitions.iter().map(|transition| (transition.user_id, transition.standing)).collect()
}

fn sorted(mut routes: Vec<Route>) -> Vec<Route> {
    routes.sort_by_key(|route| route.connection_id);
    routes
}
