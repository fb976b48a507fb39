use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use domain::Timestamp;
use ports::{GatewayId, PeerProcess, PeerRegistry, ProcessRole};
use serde_json::{Value, json};
use ulid::Ulid;

use super::error::AdminError;
use super::{AdminState, routes};

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// This process, as the admin API describes it.
pub(crate) struct NodeInfo {
    /// Its id in the fleet, and that of its gateway.
    pub(crate) id: Arc<str>,
    pub(crate) roles: Vec<ProcessRole>,
    pub(crate) started_at: Timestamp,
    /// The addresses it listens on, by the keys of their settings.
    pub(crate) listeners: Vec<(&'static str, SocketAddr)>,
    /// The other processes, if it is part of a fleet.
    pub(crate) fleet: Option<FleetInfo>,
}

/// The fleet of a process.
pub(crate) struct FleetInfo {
    /// The address where peers call this process.
    pub(crate) address: Arc<str>,
    pub(crate) peers: Arc<dyn PeerRegistry>,
}

impl NodeInfo {
    /// The address where peers call the process of a gateway, if it is another process of the fleet.
    pub(super) async fn address_of(&self, gateway: &GatewayId) -> Result<Option<Arc<str>>, AdminError> {
        let Some(fleet) = &self.fleet else { return Ok(None) };
        let peers = fleet.peers.peers(ProcessRole::Gateway).await?;
        Ok(peers.into_iter().find(|peer| peer.id == gateway.0).map(|peer| peer.address))
    }
}

/// Lists the processes of the service: this one, then the others. For those only the facts that a fleet shares are
/// known.
pub(super) async fn list(State(admin): State<AdminState>) -> Result<Json<Value>, AdminError> {
    let mut nodes = vec![this(&admin)];
    if let Some(fleet) = &admin.node.fleet {
        let mut others: BTreeMap<PeerProcess, Vec<ProcessRole>> = BTreeMap::new();
        for role in ProcessRole::ALL {
            for peer in fleet.peers.peers(role).await? {
                others.entry(peer).or_default().push(role);
            }
        }
        for (peer, roles) in others.into_iter().filter(|(peer, _)| peer.id != admin.node.id) {
            nodes.push(other(&admin, &peer, &roles).await?);
        }
    }
    Ok(Json(json!({ "nodes": nodes })))
}

fn this(admin: &AdminState) -> Value {
    let AdminState { node, hub, .. } = admin;
    json!({
        "id": *node.id,
        "is_this": true,
        "roles": names(&node.roles),
        "address": node.fleet.as_ref().map(|fleet| &*fleet.address),
        "version": VERSION,
        "started_at": node.started_at,
        "listeners": node.listeners.iter().copied().collect::<BTreeMap<_, _>>(),
        "connections": hub.as_ref().map(|hub| hub.connections()),
        "has_more": false,
        "draining": hub.as_ref().map(|hub| hub.is_draining()),
        "safe_to_remove": hub.as_ref().map(|hub| hub.is_draining() && hub.connections() == 0),
    })
}

async fn other(admin: &AdminState, peer: &PeerProcess, roles: &[ProcessRole]) -> Result<Value, AdminError> {
    let counted = match roles.contains(&ProcessRole::Gateway) {
        true => Some(routes::listed(admin, &GatewayId(peer.id.clone()), routes::COUNTED_MAX).await?),
        false => None,
    };
    Ok(json!({
        "id": *peer.id,
        "is_this": false,
        "roles": names(roles),
        "address": *peer.address,
        "version": null,
        "started_at": started_at(&peer.id),
        "connections": counted.as_ref().map(|(routes, _)| routes.len()),
        "has_more": counted.is_some_and(|(_, has_more)| has_more),
        "draining": null,
        "safe_to_remove": null,
    }))
}

fn names(roles: &[ProcessRole]) -> Vec<&'static str> {
    roles.iter().map(|role| role.name()).collect()
}

/// The start time of a process: its id is a ULID created at its start.
fn started_at(id: &str) -> Option<Timestamp> {
    Ulid::from_string(id).ok().map(|ulid| Timestamp::from_millis(ulid.timestamp_ms()))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use domain::{ConnectionId, DeviceId, UserId};
    use gateway::Hub;
    use http::Method;
    use memory::{MemoryPeers, MemoryRoutes};
    use ports::{Clock, Ids, RandomIds, Route, RouteWriter, SystemClock};

    use super::*;
    use crate::admin::world::World;

    /// Another process of the fleet; its id encodes its start time.
    const OTHER: &str = "01ARZ3NDEKTSV4RRFFQ69G5FAV";

    /// This process with a gateway, and another gateway with one connection.
    async fn fleet() -> (World, Route) {
        let clock = Arc::new(SystemClock);
        let routes = Arc::new(MemoryRoutes::new(clock.clone(), Duration::from_secs(15)));
        let route = Route {
            connection_id: ConnectionId::from(RandomIds.ulid()),
            user_id: UserId::from(RandomIds.ulid()),
            device_id: DeviceId::from_bytes([1; 16]),
            gateway: GatewayId(OTHER.into()),
            connected_at: SystemClock.now(),
        };
        routes.register(&route).await.unwrap();
        routes.heartbeat(&route.gateway).await.unwrap();
        let peers: Arc<dyn PeerRegistry> = Arc::new(MemoryPeers::new(clock));
        let other = PeerProcess { id: OTHER.into(), address: "10.0.0.5:7070".into() };
        peers.announce(&other, &[ProcessRole::Gateway]).await.unwrap();
        let me = PeerProcess { id: "local".into(), address: "10.0.0.4:7070".into() };
        peers.announce(&me, &ProcessRole::ALL).await.unwrap();
        let world = World::with(routes, |admin| {
            admin.hub = Some(Arc::new(Hub::new(GatewayId("local".into()), 10)));
            let node = Arc::get_mut(&mut admin.node).unwrap();
            node.fleet = Some(FleetInfo { address: me.address, peers });
        });
        (world, route)
    }

    #[tokio::test]
    async fn peers_are_listed_with_the_facts_that_a_fleet_shares() {
        let (world, _) = fleet().await;
        let (status, answer) = world.get("/nodes").await;
        let nodes = answer["nodes"].as_array().unwrap();
        assert_eq!((status, nodes.len()), (200, 2));
        assert_eq!((&nodes[0]["id"], &nodes[0]["connections"]), (&json!("local"), &json!(0)));
        let other = json!({
            "id": OTHER,
            "is_this": false,
            "roles": ["gateway"],
            "address": "10.0.0.5:7070",
            "version": null,
            "started_at": "2016-07-30T23:54:10.259Z",
            "connections": 1,
            "has_more": false,
            "draining": null,
            "safe_to_remove": null,
        });
        assert_eq!(nodes[1], other);
    }

    #[tokio::test]
    async fn an_action_on_the_gateway_of_another_process_is_refused_and_names_it() {
        let (world, route) = fleet().await;
        let paths = [
            (Method::POST, format!("/gateways/{OTHER}/drain")),
            (Method::POST, format!("/gateways/{OTHER}/resume")),
            (Method::DELETE, format!("/connections/{}", route.connection_id)),
        ];
        for (method, path) in paths {
            let (status, answer) = world.call(method, &path).await;
            let message = answer["error"]["message"].as_str().unwrap();
            assert_eq!((status, &answer["error"]["code"]), (400, &json!("INVALID_OPERATION")), "{path}");
            assert!(message.contains(OTHER) && message.contains("10.0.0.5:7070"), "{message}");
        }
        let (status, drained) = world.call(Method::POST, "/gateways/local/drain").await;
        assert_eq!((status, &drained["safe_to_remove"]), (200, &json!(true)));
        let (status, _) = world.call(Method::POST, "/gateways/nowhere/drain").await;
        assert_eq!(status, 404);
    }

    #[tokio::test]
    async fn a_process_without_the_role_api_says_which_one_to_ask() {
        let (world, _) = fleet().await;
        for path in ["/search?q=x", "/users/x", "/chats/x", "/chats/x/timeline", "/messages/x"] {
            let (status, answer) = world.get(path).await;
            let message = "this process does not have the role `api`; ask one that has";
            assert_eq!((status, &answer["error"]["message"]), (404, &json!(message)), "{path}");
        }
    }
}
