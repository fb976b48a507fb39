//! Tests of [`Routes`](ports::Routes) and [`RouteWriter`](ports::RouteWriter).

use std::collections::BTreeMap;
use std::slice;
use std::time::Duration;

use domain::{Timestamp, UserId};
use uuid::Uuid;

use super::fixtures::{WORKS, fresh};
use super::{Routing, Timed};
use ports::{GatewayId, RefreshedRoute, Route};

/// The lifetime of a heartbeat.
pub(super) const EXPIRY: Duration = Duration::from_secs(15);
/// The lifetime of a route that is not refreshed.
const LIFE: Duration = Duration::from_secs(300);
pub(super) const MOMENT: Duration = Duration::from_millis(1);

/// A user's routes are found, on all gateways, and registering them again changes nothing.
pub async fn a_registered_route_is_found(routes: Timed<dyn Routing>) {
    let user_id = fresh();
    let [phone, laptop] = [new_route(user_id, "a"), new_route(user_id, "b")];
    let strangers = new_route(fresh(), "a");
    for _ in 0..2 {
        register(&routes, &[&phone, &laptop, &strangers]).await;
    }
    assert_eq!(routes_of(&routes, user_id).await, sorted(vec![phone, laptop]));
    assert_eq!(routes_of(&routes, strangers.user_id).await, [strangers]);
    assert_eq!(routes_of(&routes, fresh()).await, []);
}

/// Each gateway is returned with the requested users who have a route on it, each once.
pub async fn gateways_are_listed_with_the_users_on_them(routes: Timed<dyn Routing>) {
    let (one, other, offline, unasked) = (fresh(), fresh(), fresh(), fresh());
    let registered =
        [new_route(one, "a"), new_route(one, "a"), new_route(one, "b"), new_route(other, "a"), new_route(unasked, "c")];
    register(&routes, &registered.each_ref()).await;
    let mut gateways = routes.port.gateways(&[one, other, offline]).await.expect(WORKS);
    gateways.values_mut().for_each(|users| users.sort());
    let mut both = vec![one, other];
    both.sort();
    assert_eq!(gateways, BTreeMap::from([(gateway("a"), both), (gateway("b"), vec![one])]));
}

/// A user with one device on each of two gateways is found on both.
pub async fn multi_device_routing_delivers_to_all_servers(routes: Timed<dyn Routing>) {
    let user_id = fresh();
    let [phone, laptop] = [new_route(user_id, "a"), new_route(user_id, "b")];
    register(&routes, &[&phone, &laptop]).await;
    assert_eq!(gateways_of(&routes, user_id).await, ["a", "b"].map(gateway));
}

/// An unregistered route is gone; the user's other routes stay.
pub async fn an_unregistered_route_is_absent(routes: Timed<dyn Routing>) {
    let user_id = fresh();
    let [gone, kept] = [new_route(user_id, "a"), new_route(user_id, "b")];
    register(&routes, &[&gone, &kept]).await;
    for _ in 0..2 {
        unregister(&routes, &gone, Duration::ZERO).await;
        assert_eq!(routes_of(&routes, user_id).await, slice::from_ref(&kept));
        assert_eq!(gateways_of(&routes, user_id).await, [gateway("b")]);
        assert_eq!(on_gateway(&routes, "a").await, []);
    }
}

/// A gateway stays in the user's set until the user's last route on it is removed.
pub async fn a_gateway_stays_in_a_users_set_until_their_last_route_ends(routes: Timed<dyn Routing>) {
    let user_id = fresh();
    let [phone, laptop] = [new_route(user_id, "a"), new_route(user_id, "a")];
    register(&routes, &[&phone, &laptop]).await;
    unregister(&routes, &phone, Duration::ZERO).await;
    assert_eq!(gateways_of(&routes, user_id).await, [gateway("a")]);
    unregister(&routes, &laptop, Duration::ZERO).await;
    assert_eq!(gateways_of(&routes, user_id).await, []);
}

/// 15 s after its last heartbeat, the routes of a gateway are in no answer; other routes of the same users are.
pub async fn server_crash_causes_entries_to_expire_within_expiry_window(routes: Timed<dyn Routing>) {
    let user_id = fresh();
    let [silent, beating] = [new_route(user_id, "a"), new_route(user_id, "b")];
    register(&routes, &[&silent, &beating]).await;
    (routes.pass)(EXPIRY - MOMENT);
    assert_eq!(routes_of(&routes, user_id).await, sorted(vec![silent, beating.clone()]));
    assert_eq!(gateways_of(&routes, user_id).await, ["a", "b"].map(gateway));

    heartbeat(&routes, "b").await;
    (routes.pass)(MOMENT);
    assert_eq!(routes_of(&routes, user_id).await, [beating]);
    assert_eq!(gateways_of(&routes, user_id).await, [gateway("b")]);

    (routes.pass)(EXPIRY);
    assert_eq!(routes_of(&routes, user_id).await, []);
    assert_eq!(gateways_of(&routes, user_id).await, []);
}

/// A dead gateway is returned only until its last heartbeat expires, also to callers that query continuously.
pub async fn stale_routing_entry_ends_with_its_gateway(routes: Timed<dyn Routing>) {
    let route = new_route(fresh(), "a");
    register(&routes, &[&route]).await;
    for _ in 0..15 {
        assert_eq!(gateways_of(&routes, route.user_id).await, [gateway("a")]);
        assert_eq!(live_gateways(&routes).await, [gateway("a")]);
        (routes.pass)(Duration::from_secs(1));
    }
    assert_eq!(gateways_of(&routes, route.user_id).await, []);
    assert_eq!(live_gateways(&routes).await, []);
}

/// A user who reconnects to another gateway is found there only.
pub async fn reconnect_updates_mapping_idempotently(routes: Timed<dyn Routing>) {
    let user_id = fresh();
    let [before, after] = [new_route(user_id, "a"), new_route(user_id, "b")];
    register(&routes, &[&before]).await;
    (routes.pass)(EXPIRY);
    for _ in 0..2 {
        register(&routes, &[&after]).await;
        assert_eq!(gateways_of(&routes, user_id).await, [gateway("b")]);
        assert_eq!(routes_of(&routes, user_id).await, slice::from_ref(&after));
        assert_eq!(on_gateway(&routes, "b").await, slice::from_ref(&after));
    }
}

/// A device that reconnects before its earlier route has ended has two routes, each on its own gateway.
pub async fn split_brain_prevented_by_conn_id_uniqueness(routes: Timed<dyn Routing>) {
    let before = new_route(fresh(), "a");
    let after = Route { connection_id: fresh(), gateway: gateway("b"), ..before.clone() };
    register(&routes, &[&before, &after]).await;
    assert_eq!(on_gateway(&routes, "a").await, slice::from_ref(&before));
    assert_eq!(on_gateway(&routes, "b").await, slice::from_ref(&after));
    assert_eq!(routes_of(&routes, before.user_id).await, sorted(vec![before.clone(), after.clone()]));

    (routes.pass)(EXPIRY - MOMENT);
    heartbeat(&routes, "b").await;
    (routes.pass)(MOMENT);
    assert_eq!(routes_of(&routes, before.user_id).await, [after]);
}

/// A heartbeat returns whether the gateway was known: `false` at first and after an expired heartbeat.
pub async fn a_heartbeat_returns_whether_the_gateway_was_registered(routes: Timed<dyn Routing>) {
    assert!(!heartbeat(&routes, "a").await);
    assert!(heartbeat(&routes, "a").await);
    (routes.pass)(EXPIRY - MOMENT);
    assert!(!heartbeat(&routes, "b").await);
    assert!(heartbeat(&routes, "a").await);
    (routes.pass)(EXPIRY);
    assert!(!heartbeat(&routes, "a").await);
    assert!(heartbeat(&routes, "a").await);
}

/// A heartbeat after expiry makes the routes of the gateway live again.
pub async fn a_beat_revives_the_routes_of_its_gateway(routes: Timed<dyn Routing>) {
    let route = new_route(fresh(), "a");
    register(&routes, &[&route]).await;
    (routes.pass)(EXPIRY);
    assert_eq!(routes_of(&routes, route.user_id).await, []);
    heartbeat(&routes, "a").await;
    assert_eq!(routes_of(&routes, route.user_id).await, slice::from_ref(&route));
    assert_eq!(gateways_of(&routes, route.user_id).await, [gateway("a")]);
}

/// Gateways with a live heartbeat are listed by name, and no others.
pub async fn live_gateways_have_a_recent_heartbeat(routes: Timed<dyn Routing>) {
    assert_eq!(live_gateways(&routes).await, []);
    heartbeat(&routes, "b").await;
    (routes.pass)(EXPIRY - MOMENT);
    heartbeat(&routes, "c").await;
    heartbeat(&routes, "a").await;
    assert_eq!(live_gateways(&routes).await, ["a", "b", "c"].map(gateway));
    (routes.pass)(MOMENT);
    assert_eq!(live_gateways(&routes).await, ["a", "c"].map(gateway));
}

/// A route that is not refreshed expires after 300 s, although its gateway still sends heartbeats.
pub async fn a_route_that_is_not_refreshed_ends(routes: Timed<dyn Routing>) {
    let [expired, refreshed] = [new_route(fresh(), "a"), new_route(fresh(), "a")];
    register(&routes, &[&expired, &refreshed]).await;
    (routes.pass)(LIFE - MOMENT);
    heartbeat(&routes, "a").await;
    assert_eq!(routes_of(&routes, expired.user_id).await, slice::from_ref(&expired));
    refresh(&routes, &[&refreshed]).await;
    (routes.pass)(MOMENT);
    assert_eq!(routes_of(&routes, expired.user_id).await, []);
    assert_eq!(gateways_of(&routes, expired.user_id).await, []);
    assert_eq!(routes_of(&routes, refreshed.user_id).await, [refreshed]);

    let stood = refresh(&routes, &[&expired]).await;
    assert_eq!(stood, [RefreshedRoute { was_known: false, connections: 1 }]);
    assert_eq!(routes_of(&routes, expired.user_id).await, slice::from_ref(&expired));
}

/// A refresh returns for each route, in order, whether it existed and how many connections its user has.
pub async fn a_refresh_returns_the_earlier_state(routes: Timed<dyn Routing>) {
    let (one, other) = (fresh(), fresh());
    let [phone, laptop, tablet] = [new_route(one, "a"), new_route(one, "b"), new_route(one, "a")];
    let others = new_route(other, "a");
    register(&routes, &[&phone, &laptop, &others]).await;
    let stood = |was_known, connections| RefreshedRoute { was_known, connections };
    assert_eq!(refresh(&routes, &[&phone, &others]).await, [stood(true, 2), stood(true, 1)]);
    assert_eq!(refresh(&routes, &[&tablet, &others]).await, [stood(false, 3), stood(true, 1)]);
    assert_eq!(refresh(&routes, &[&tablet]).await, [stood(true, 3)]);
    unregister(&routes, &phone, Duration::ZERO).await;
    assert_eq!(refresh(&routes, &[&laptop, &tablet]).await, [stood(true, 2), stood(true, 2)]);
    assert_eq!(refresh(&routes, &[]).await, []);
}

/// A refresh restores a lost route completely.
pub async fn a_refresh_restores_a_lost_route(routes: Timed<dyn Routing>) {
    let route = new_route(fresh(), "a");
    heartbeat(&routes, "a").await;
    refresh(&routes, &[&route]).await;
    assert_eq!(routes_of(&routes, route.user_id).await, slice::from_ref(&route));
    assert_eq!(gateways_of(&routes, route.user_id).await, [gateway("a")]);
    assert_eq!(on_gateway(&routes, "a").await, [route]);
}

/// The routes of a gateway are listed whether it is live or not, at most `limit`.
pub async fn the_routes_of_a_gateway_are_listed_live_or_not(routes: Timed<dyn Routing>) {
    let on_a: Vec<_> = (0..5).map(|_| new_route(fresh(), "a")).collect();
    let on_b = new_route(fresh(), "b");
    register(&routes, &on_a.iter().chain([&on_b]).collect::<Vec<_>>()).await;
    (routes.pass)(EXPIRY);
    assert_eq!(on_gateway(&routes, "a").await, sorted(on_a.clone()));
    assert_eq!(on_gateway(&routes, "b").await, [on_b]);
    assert_eq!(on_gateway(&routes, "c").await, []);
    let some = routes.port.on_gateway(&gateway("a"), 3).await.expect(WORKS);
    assert_eq!(some.len(), 3);
    assert!(some.iter().all(|route| on_a.contains(route)), "{some:?}");
}

pub(super) fn gateway(name: &str) -> GatewayId {
    GatewayId(name.into())
}

pub(super) fn new_route(user_id: UserId, on: &str) -> Route {
    Route {
        connection_id: fresh(),
        user_id,
        device_id: Uuid::new_v4().into(),
        gateway: gateway(on),
        connected_at: Timestamp::from_millis(1_700_000_000_123),
    }
}

pub(super) async fn heartbeat(routes: &Timed<dyn Routing>, name: &str) -> bool {
    routes.port.heartbeat(&gateway(name)).await.expect(WORKS)
}

/// Registers routes on gateways with a live heartbeat.
pub(super) async fn register(routes: &Timed<dyn Routing>, registered: &[&Route]) {
    for route in registered {
        routes.port.heartbeat(&route.gateway).await.expect(WORKS);
        routes.port.register(route).await.expect(WORKS);
    }
}

pub(super) async fn refresh(routes: &Timed<dyn Routing>, refreshed: &[&Route]) -> Vec<RefreshedRoute> {
    let refreshed: Vec<Route> = refreshed.iter().copied().cloned().collect();
    routes.port.refresh(&refreshed).await.expect(WORKS)
}

pub(super) async fn unregister(routes: &Timed<dyn Routing>, route: &Route, back_within: Duration) {
    routes.port.unregister(slice::from_ref(route), back_within).await.expect(WORKS);
}

pub(super) async fn routes_of(routes: &Timed<dyn Routing>, user_id: UserId) -> Vec<Route> {
    sorted(routes.port.routes(user_id).await.expect(WORKS))
}

pub(super) async fn on_gateway(routes: &Timed<dyn Routing>, name: &str) -> Vec<Route> {
    sorted(routes.port.on_gateway(&gateway(name), 1000).await.expect(WORKS))
}

async fn gateways_of(routes: &Timed<dyn Routing>, user_id: UserId) -> Vec<GatewayId> {
    let gateways = routes.port.gateways(&[user_id]).await.expect(WORKS);
    assert!(gateways.values().all(|users| *users == [user_id]), "{gateways:?}");
    gateways.into_keys().collect()
}

async fn live_gateways(routes: &Timed<dyn Routing>) -> Vec<GatewayId> {
    routes.port.live_gateways().await.expect(WORKS)
}

pub(super) fn sorted(mut routes: Vec<Route>) -> Vec<Route> {
    routes.sort_by_key(|route| route.connection_id);
    routes
}
