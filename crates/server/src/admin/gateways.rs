use axum::Json;
use axum::extract::{Path, State};
use domain::ConnectionId;
use gateway::Hub;
use ports::GatewayId;
use protocol::ErrorCode;
use serde_json::{Value, json};

use super::error::AdminError;
use super::{Admin, parse, routes};

/// Has the gateway of this process take no more connections, and its clients go elsewhere.
pub(super) async fn drain(State(admin): State<Admin>, Path(id): Path<String>) -> Result<Json<Value>, AdminError> {
    let hub = own(&admin, GatewayId(id.into())).await?;
    hub.begin_drain();
    Ok(Json(standing(hub)))
}

/// Has the gateway of this process take connections again.
pub(super) async fn resume(State(admin): State<Admin>, Path(id): Path<String>) -> Result<Json<Value>, AdminError> {
    let hub = own(&admin, GatewayId(id.into())).await?;
    hub.end_drain();
    Ok(Json(standing(hub)))
}

/// Closes one connection. Its client is told that the server goes away, so it reconnects after a second and syncs; a device
/// that is to stay out has its session revoked instead.
pub(super) async fn close(State(admin): State<Admin>, Path(id): Path<String>) -> Result<Json<Value>, AdminError> {
    let connection_id: ConnectionId = parse(&id)?;
    if admin.hub.as_ref().is_some_and(|hub| hub.close(connection_id)) {
        return Ok(Json(json!({ "connection_id": connection_id, "effect": "the client reconnects and syncs" })));
    }
    match routes::connection(&admin, connection_id).await? {
        Some(route) => Err(elsewhere(&admin, &route.gateway).await?),
        None => Err(AdminError::new(ErrorCode::NotFound, format!("there is no connection `{connection_id}`"))),
    }
}

/// The gateway of this process, if it is the one that is meant.
async fn own(admin: &Admin, gateway: GatewayId) -> Result<&Hub, AdminError> {
    match &admin.hub {
        Some(hub) if *hub.id() == gateway => Ok(hub),
        _ => Err(elsewhere(admin, &gateway).await?),
    }
}

/// Why nothing is done to a gateway that is not here. Each process answers to its own token only, so that whoever has that
/// of one machine does not rule the others.
async fn elsewhere(admin: &Admin, gateway: &GatewayId) -> Result<AdminError, AdminError> {
    let name = &*gateway.0;
    Ok(match admin.node.address_of(gateway).await? {
        Some(address) => AdminError::new(
            ErrorCode::InvalidOperation,
            format!(
                "gateway `{name}` is another process, which others call at {address}; ask the admin listener of that one"
            ),
        ),
        None => AdminError::new(ErrorCode::NotFound, format!("there is no gateway `{name}`")),
    })
}

fn standing(hub: &Hub) -> Value {
    let (draining, connections) = (hub.is_draining(), hub.connections());
    json!({
        "gateway": *hub.id().0,
        "draining": draining,
        "connections": connections,
        "safe_to_remove": draining && connections == 0,
    })
}
