use axum::Json;
use axum::extract::{Path, Query, State};
use domain::{ConnectionId, UserId};
use ports::{GatewayId, Route};
use protocol::ErrorCode;
use serde::Deserialize;
use serde_json::{Value, json};

use super::AdminState;
use super::error::AdminError;

/// Most connections of a gateway that are counted. Beyond that, `has_more` is true.
pub(super) const COUNTED_MAX: usize = 10_000;
/// Connections of a gateway in a response, unless the request gives another limit.
const LIMIT: usize = 100;
const LIMIT_MAX: usize = 1000;

#[derive(Deserialize)]
pub(super) struct ConnectionsQuery {
    limit: Option<usize>,
}

/// The live connections of a user. It does not check whether the user exists.
pub(super) async fn of_user(
    State(admin): State<AdminState>,
    Path(user_id): Path<String>,
) -> Result<Json<Value>, AdminError> {
    let user_id: UserId = super::parse(&user_id)?;
    let routes = admin.routes.routes(user_id).await?;
    Ok(Json(json!({ "user_id": user_id, "connections": bodies(&routes) })))
}

/// The gateways with a live heartbeat, and the number of connections of each.
pub(super) async fn gateways(State(admin): State<AdminState>) -> Result<Json<Value>, AdminError> {
    let mut gateways = vec![];
    for gateway in admin.routes.live_gateways().await? {
        let (routes, has_more) = listed(&admin, &gateway, COUNTED_MAX).await?;
        gateways.push(json!({ "gateway": *gateway.0, "connections": routes.len(), "has_more": has_more }));
    }
    Ok(Json(json!({ "gateways": gateways })))
}

/// The connections of a gateway. A dead gateway still has connections until its routes are purged.
pub(super) async fn of_gateway(
    State(admin): State<AdminState>,
    Path(id): Path<String>,
    Query(ConnectionsQuery { limit }): Query<ConnectionsQuery>,
) -> Result<Json<Value>, AdminError> {
    let limit = super::limit(limit, LIMIT, LIMIT_MAX)?;
    let gateway = GatewayId(id.into());
    let is_live = admin.routes.live_gateways().await?.contains(&gateway);
    let (routes, has_more) = listed(&admin, &gateway, limit).await?;
    if !is_live && routes.is_empty() {
        return Err(AdminError::new(ErrorCode::NotFound, format!("there is no gateway `{}`", gateway.0)));
    }
    let connections = bodies(&routes);
    let gateway = &*gateway.0;
    Ok(Json(json!({ "gateway": gateway, "is_live": is_live, "connections": connections, "has_more": has_more })))
}

/// Up to `limit` routes of a gateway, and whether there are more.
pub(super) async fn listed(
    admin: &AdminState,
    gateway: &GatewayId,
    limit: usize,
) -> Result<(Vec<Route>, bool), AdminError> {
    let mut routes = admin.routes.on_gateway(gateway, limit + 1).await?;
    let has_more = routes.len() > limit;
    routes.truncate(limit);
    Ok((routes, has_more))
}

/// The route of a connection. It scans the first [`COUNTED_MAX`] connections of each gateway, because routes are
/// indexed by user and nothing else needs this lookup.
pub(super) async fn connection(admin: &AdminState, connection_id: ConnectionId) -> Result<Option<Route>, AdminError> {
    for gateway in admin.routes.live_gateways().await? {
        let (routes, _) = listed(admin, &gateway, COUNTED_MAX).await?;
        if let Some(route) = routes.into_iter().find(|route| route.connection_id == connection_id) {
            return Ok(Some(route));
        }
    }
    Ok(None)
}

pub(super) fn bodies(routes: &[Route]) -> Vec<Value> {
    let body = |route: &Route| {
        json!({
            "connection_id": route.connection_id,
            "user_id": route.user_id,
            "device_id": route.device_id,
            "gateway": *route.gateway.0,
            "connected_at": route.connected_at,
        })
    };
    routes.iter().map(body).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use domain::DeviceId;
    use memory::MemoryRoutes;
    use ports::{Clock, Ids, RandomIds, RouteWriter, SystemClock};

    use super::*;
    use crate::admin::world::World;

    /// The admin API over gateways, each with a number of connections and with or without a heartbeat.
    async fn world(gateways: &[(&str, usize, bool)]) -> World {
        let routes = MemoryRoutes::new(Arc::new(SystemClock), Duration::from_secs(15));
        for (name, count, beats) in gateways {
            let gateway = GatewayId((*name).into());
            for _ in 0..*count {
                let route = Route {
                    connection_id: ConnectionId::from(RandomIds.ulid()),
                    user_id: UserId::from(RandomIds.ulid()),
                    device_id: DeviceId::from_bytes(rand::random()),
                    gateway: gateway.clone(),
                    connected_at: SystemClock.now(),
                };
                routes.register(&route).await.unwrap();
            }
            if *beats {
                routes.heartbeat(&gateway).await.unwrap();
            }
        }
        World::with(Arc::new(routes), |_| {})
    }

    #[tokio::test]
    async fn gateways_that_beat_are_listed_and_their_connections_counted_up_to_a_bound() {
        let world = world(&[("dead", 1, false), ("empty", 0, true), ("full", 10_001, true)]).await;
        let expected = json!({ "gateways": [
            { "gateway": "empty", "connections": 0, "has_more": false },
            { "gateway": "full", "connections": 10_000, "has_more": true },
        ] });
        assert_eq!(world.get("/gateways").await, (200, expected));
    }

    #[tokio::test]
    async fn a_dead_gateway_is_known_while_it_has_routes() {
        let world = world(&[("dead", 1, false), ("empty", 0, true)]).await;
        let (status, mut dead) = world.get("/gateways/dead/connections").await;
        assert_eq!((status, dead["connections"].as_array().unwrap().len()), (200, 1));
        let user_id = dead["connections"][0]["user_id"].as_str().unwrap().to_owned();
        dead["connections"].take();
        assert_eq!(dead, json!({ "gateway": "dead", "is_live": false, "connections": null, "has_more": false }));
        let nothing_live = json!({ "user_id": user_id, "connections": [] });
        assert_eq!(world.get(&format!("/users/{user_id}/connections")).await, (200, nothing_live));

        let empty = json!({ "gateway": "empty", "is_live": true, "connections": [], "has_more": false });
        assert_eq!(world.get("/gateways/empty/connections").await, (200, empty));
        let (status, unknown) = world.get("/gateways/nowhere/connections").await;
        assert_eq!((status, &unknown["error"]["message"]), (404, &json!("there is no gateway `nowhere`")));
    }

    #[tokio::test]
    async fn a_response_has_a_hundred_connections_unless_the_request_gives_a_limit() {
        let world = world(&[("local", 1001, true)]).await;
        for (query, count) in [("", 100), ("?limit=1", 1), ("?limit=1000", 1000)] {
            let (status, answer) = world.get(&format!("/gateways/local/connections{query}")).await;
            let listed = answer["connections"].as_array().unwrap().len();
            assert_eq!((status, listed, &answer["has_more"]), (200, count, &json!(true)), "{query:?}");
        }
    }

    #[tokio::test]
    async fn an_invalid_request_is_refused_with_the_invalid_value() {
        let world = world(&[("local", 1, true)]).await;
        for limit in [0, 1001] {
            let (status, answer) = world.get(&format!("/gateways/local/connections?limit={limit}")).await;
            let message = format!("`limit` is {limit}, and must be from 1 to 1000");
            assert_eq!((status, &answer["error"]["message"]), (400, &json!(message)));
        }
        let (status, answer) = world.get("/users/nobody/connections").await;
        let message = "`nobody` is not an id of the form user_<ulid>";
        assert_eq!((status, &answer["error"]["message"]), (400, &json!(message)));
    }
}
