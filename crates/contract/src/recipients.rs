//! Tests of [`RecipientLookup`](ports::RecipientLookup).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use domain::UserId;

use super::fixtures::{WORKS, fresh};
use super::routes::{EXPIRY, gateway, new_route};
use super::{RecipientPorts, Timed};
use ports::{GatewayId, RecipientConnection, Recipients, Route};

/// A chat that is not in the cache has no cached recipients, whether its users are online or not.
pub async fn a_chat_that_is_not_cached_has_no_cached_recipients(ports: Timed<RecipientPorts>) {
    let route = new_route(fresh(), "a");
    register(&ports, &[&route]).await;
    for lookup in &ports.port.lookups {
        assert_eq!(lookup.cached(fresh(), &[route.user_id]).await.expect(WORKS), None);
    }
}

/// Members are found with their gateways, in the order of the list, by the first lookup and by later ones.
pub async fn cached_recipients_are_found_at_every_lookup(ports: Timed<RecipientPorts>) {
    let (chat_id, offline) = (fresh(), fresh());
    let [phone, tablet] = [new_route(fresh(), "a"), new_route(fresh(), "a")];
    let laptop = new_route(phone.user_id, "b");
    register(&ports, &[&phone, &tablet, &laptop]).await;
    let members: Arc<[UserId]> = [tablet.user_id, offline, phone.user_id].into();
    ports.port.cache.fill(chat_id, members.clone()).await.expect(WORKS);
    let expected = Recipients {
        members,
        gateways: [(gateway("a"), vec![tablet.user_id, phone.user_id]), (gateway("b"), vec![phone.user_id])].into(),
        connections: BTreeMap::new(),
    };
    for lookup in ports.port.lookups.iter().cycle().take(4) {
        assert_eq!(lookup.cached(chat_id, &[]).await.expect(WORKS), Some(expected.clone()));
    }
}

/// Every process uses the list that the cache has now, also after it has seen another one.
pub async fn a_changed_member_list_counts_at_once_in_every_process(ports: Timed<RecipientPorts>) {
    let chat_id = fresh();
    let [stays, leaves, joins] = [new_route(fresh(), "a"), new_route(fresh(), "b"), new_route(fresh(), "c")];
    register(&ports, &[&stays, &leaves, &joins]).await;
    for changes in [&leaves, &joins, &leaves] {
        let members: Arc<[UserId]> = [stays.user_id, changes.user_id].into();
        ports.port.cache.fill(chat_id, members.clone()).await.expect(WORKS);
        for lookup in ports.port.lookups.iter().cycle().take(4) {
            let recipients = lookup.cached(chat_id, &[]).await.expect(WORKS).expect("the chat is cached");
            assert_eq!(recipients.members, members);
            let expected = [&stays, changes].map(|route| (route.gateway.clone(), vec![route.user_id]));
            assert_eq!(recipients.gateways, BTreeMap::from(expected));
        }
    }
}

/// No process finds the recipients of an invalidated chat, though it has found them before.
pub async fn an_invalidated_chat_has_no_cached_recipients(ports: Timed<RecipientPorts>) {
    let (chat_id, route) = (fresh(), new_route(fresh(), "a"));
    register(&ports, &[&route]).await;
    ports.port.cache.fill(chat_id, [route.user_id].into()).await.expect(WORKS);
    for lookup in &ports.port.lookups {
        assert!(lookup.cached(chat_id, &[]).await.expect(WORKS).is_some());
    }
    ports.port.cache.invalidate(chat_id).await.expect(WORKS);
    for lookup in &ports.port.lookups {
        assert_eq!(lookup.cached(chat_id, &[]).await.expect(WORKS), None);
    }
}

/// Recipients of given members are found without the cache, and are not cached.
pub async fn recipients_of_given_members_need_no_cache(ports: Timed<RecipientPorts>) {
    let [one, other] = [new_route(fresh(), "a"), new_route(fresh(), "b")];
    register(&ports, &[&one, &other]).await;
    let members: Arc<[UserId]> = [one.user_id, other.user_id].into();
    for lookup in &ports.port.lookups {
        let recipients = lookup.of(members.clone(), &[]).await.expect(WORKS);
        assert_eq!(recipients.members, members);
        let expected = [&one, &other].map(|route| (route.gateway.clone(), vec![route.user_id]));
        assert_eq!(recipients.gateways, BTreeMap::from(expected));
    }
}

/// Named users are found with each of their connections, members or not. A user without a connection is left out.
pub async fn named_users_are_found_with_their_connections(ports: Timed<RecipientPorts>) {
    let (chat_id, offline) = (fresh(), fresh());
    let [phone, former] = [new_route(fresh(), "a"), new_route(fresh(), "c")];
    let laptop = new_route(phone.user_id, "b");
    register(&ports, &[&phone, &laptop, &former]).await;
    let members: Arc<[UserId]> = [phone.user_id, offline].into();
    ports.port.cache.fill(chat_id, members.clone()).await.expect(WORKS);
    let named = [former.user_id, offline, phone.user_id];
    let expected =
        BTreeMap::from([(phone.user_id, sorted(vec![&phone, &laptop])), (former.user_id, sorted(vec![&former]))]);
    for lookup in &ports.port.lookups {
        let cached = lookup.cached(chat_id, &named).await.expect(WORKS).expect("the chat is cached");
        let given = lookup.of(members.clone(), &named).await.expect(WORKS);
        for mut recipients in [cached, given] {
            assert!(!recipients.gateways.contains_key(&gateway("c")), "a former member is no member");
            recipients.connections.values_mut().for_each(|connections| connections.sort_by_key(by_connection));
            assert_eq!(recipients.connections, expected);
        }
    }
}

/// A removed route, and the routes of a gateway without a heartbeat, are in no later lookup.
pub async fn recipients_end_with_their_routes_and_gateways(ports: Timed<RecipientPorts>) {
    let chat_id = fresh();
    let [closed, dies] = [new_route(fresh(), "a"), new_route(fresh(), "b")];
    register(&ports, &[&closed, &dies]).await;
    let named = [closed.user_id, dies.user_id];
    ports.port.cache.fill(chat_id, named.into()).await.expect(WORKS);
    let online = async || {
        let mut online = vec![];
        for lookup in &ports.port.lookups {
            let recipients = lookup.cached(chat_id, &named).await.expect(WORKS).expect("the chat is cached");
            online.push((
                recipients.gateways.into_keys().collect::<Vec<GatewayId>>(),
                recipients.connections.into_keys().collect::<Vec<UserId>>(),
            ));
        }
        online
    };
    let mut both = named.to_vec();
    both.sort();
    assert_eq!(
        online().await,
        [(vec![gateway("a"), gateway("b")], both.clone()), (vec![gateway("a"), gateway("b")], both)]
    );
    ports.port.routes.unregister(&[closed], Duration::ZERO).await.expect(WORKS);
    let alone = (vec![gateway("b")], vec![dies.user_id]);
    assert_eq!(online().await, [alone.clone(), alone]);
    (ports.pass)(EXPIRY);
    assert_eq!(online().await, [(vec![], vec![]), (vec![], vec![])]);
}

async fn register(ports: &Timed<RecipientPorts>, routes: &[&Route]) {
    for route in routes {
        ports.port.routes.heartbeat(&route.gateway).await.expect(WORKS);
        ports.port.routes.register(route).await.expect(WORKS);
    }
}

fn sorted(routes: Vec<&Route>) -> Vec<RecipientConnection> {
    let connection = |route: &Route| RecipientConnection {
        gateway: route.gateway.clone(),
        connection_id: Some(route.connection_id),
    };
    let mut connections: Vec<_> = routes.into_iter().map(connection).collect();
    connections.sort_by_key(by_connection);
    connections
}

fn by_connection(connection: &RecipientConnection) -> Option<domain::ConnectionId> {
    connection.connection_id
}
