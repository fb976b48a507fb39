//! What [`Routes`] promises.

use std::collections::BTreeMap;
use std::slice;
use std::time::Duration;

use domain::UserId;
use uuid::Uuid;

use super::Timed;
use super::fixtures::{WORKS, fresh};
use crate::{GatewayId, Route, Routes};

const LIFE: Duration = Duration::from_secs(15);
const MOMENT: Duration = Duration::from_millis(1);

/// A user's routes are found, on whichever gateways they are, and registering them again changes nothing.
pub async fn a_registered_route_is_found(routes: Timed<dyn Routes>) {
    let user_id = fresh();
    let [phone, laptop] = [new_route(user_id, "a"), new_route(user_id, "b")];
    let strangers = new_route(fresh(), "a");
    for _ in 0..2 {
        routes.port.register(&[phone.clone(), laptop.clone(), strangers.clone()]).await.expect(WORKS);
    }
    assert_eq!(routes_of(&routes, user_id).await, sorted(vec![phone, laptop]));
    assert_eq!(routes_of(&routes, strangers.user_id).await, [strangers]);
    assert_eq!(routes_of(&routes, fresh()).await, []);
}

/// Who registers is told what was not known: at first, after it was forgotten, and when it has expired.
pub async fn a_route_that_was_not_known_is_told(routes: Timed<dyn Routes>) {
    let user_id = fresh();
    let [phone, laptop] = [new_route(user_id, "a"), new_route(user_id, "b")];
    let both = [phone.clone(), laptop.clone()];
    let register = async |registered: &[Route]| {
        let mut unknown = routes.port.register(registered).await.expect(WORKS);
        unknown.sort();
        unknown
    };
    let ids = |routes: &[&Route]| {
        let mut ids: Vec<_> = routes.iter().map(|route| route.connection_id).collect();
        ids.sort();
        ids
    };
    assert_eq!(register(&both).await, ids(&[&phone, &laptop]));
    assert_eq!(register(&both).await, []);
    routes.port.unregister(&phone).await.expect(WORKS);
    assert_eq!(register(&both).await, ids(&[&phone]));
    (routes.pass)(LIFE - MOMENT);
    assert_eq!(register(slice::from_ref(&laptop)).await, []);
    (routes.pass)(MOMENT);
    assert_eq!(register(&both).await, ids(&[&phone]));
}

/// Each gateway is named with the users asked for who have a route on it, each once.
pub async fn gateways_are_asked_once_for_each_user(routes: Timed<dyn Routes>) {
    let (one, other, offline, unasked) = (fresh(), fresh(), fresh(), fresh());
    let registered =
        [new_route(one, "a"), new_route(one, "a"), new_route(one, "b"), new_route(other, "a"), new_route(unasked, "c")];
    routes.port.register(&registered).await.expect(WORKS);
    let mut gateways = routes.port.gateways(&[one, other, offline]).await.expect(WORKS);
    gateways.values_mut().for_each(|users| users.sort());
    let mut both = vec![one, other];
    both.sort();
    assert_eq!(gateways, BTreeMap::from([(gateway("a"), both), (gateway("b"), vec![one])]));
}

/// A route that is forgotten is gone, and the user's others stay.
pub async fn an_unregistered_route_is_gone(routes: Timed<dyn Routes>) {
    let user_id = fresh();
    let [gone, kept] = [new_route(user_id, "a"), new_route(user_id, "b")];
    routes.port.register(&[gone.clone(), kept.clone()]).await.expect(WORKS);
    for _ in 0..2 {
        routes.port.unregister(&gone).await.expect(WORKS);
        assert_eq!(routes_of(&routes, user_id).await, slice::from_ref(&kept));
    }
    let gateways = routes.port.gateways(&[user_id]).await.expect(WORKS);
    assert_eq!(gateways, BTreeMap::from([(gateway("b"), vec![user_id])]));
}

/// A route that nobody refreshes is in no answer after 15 s, though others of its user are.
pub async fn a_route_expires_by_itself(routes: Timed<dyn Routes>) {
    let user_id = fresh();
    let [silent, beating] = [new_route(user_id, "a"), new_route(user_id, "b")];
    routes.port.register(&[silent.clone(), beating.clone()]).await.expect(WORKS);
    (routes.pass)(LIFE - MOMENT);
    assert_eq!(routes_of(&routes, user_id).await, sorted(vec![silent, beating.clone()]));

    routes.port.register(slice::from_ref(&beating)).await.expect(WORKS);
    (routes.pass)(MOMENT);
    assert_eq!(routes_of(&routes, user_id).await, [beating]);
    let gateways = routes.port.gateways(&[user_id]).await.expect(WORKS);
    assert_eq!(gateways, BTreeMap::from([(gateway("b"), vec![user_id])]));

    (routes.pass)(LIFE);
    assert_eq!(routes_of(&routes, user_id).await, []);
    assert_eq!(routes.port.gateways(&[user_id]).await.expect(WORKS), BTreeMap::new());
}

fn gateway(name: &str) -> GatewayId {
    GatewayId(name.into())
}

fn new_route(user_id: UserId, on: &str) -> Route {
    Route { connection_id: fresh(), user_id, device_id: Uuid::new_v4().into(), gateway: gateway(on) }
}

fn sorted(mut routes: Vec<Route>) -> Vec<Route> {
    routes.sort_by_key(|route| route.connection_id);
    routes
}

async fn routes_of(routes: &Timed<dyn Routes>, user_id: UserId) -> Vec<Route> {
    sorted(routes.port.routes(user_id).await.expect(WORKS))
}
