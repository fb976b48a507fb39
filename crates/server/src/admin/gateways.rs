use axum::Json;
use axum::extract::{Path, State};
use domain::ConnectionId;
use gateway::Hub;
use ports::GatewayId;
use protocol::ErrorCode;
use serde_json::{Value, json};

use super::error::AdminError;
use super::{AdminState, parse, routes};

/// Drains the gateway of this process: it accepts no new connections, and its clients reconnect elsewhere.
pub(super) async fn drain(State(admin): State<AdminState>, Path(id): Path<String>) -> Result<Json<Value>, AdminError> {
    let hub = own(&admin, GatewayId(id.into())).await?;
    hub.begin_drain();
    Ok(Json(standing(hub)))
}

/// Makes the gateway of this process accept connections again.
pub(super) async fn resume(State(admin): State<AdminState>, Path(id): Path<String>) -> Result<Json<Value>, AdminError> {
    let hub = own(&admin, GatewayId(id.into())).await?;
    hub.end_drain();
    Ok(Json(standing(hub)))
}

/// Closes one connection with the reason `server_shutdown`, so its client reconnects after a second and syncs. To keep
/// a device out, revoke its session instead.
pub(super) async fn close(State(admin): State<AdminState>, Path(id): Path<String>) -> Result<Json<Value>, AdminError> {
    let connection_id: ConnectionId = parse(&id)?;
    if admin.hub.as_ref().is_some_and(|hub| hub.close(connection_id)) {
        return Ok(Json(json!({ "connection_id": connection_id, "effect": "the client reconnects and syncs" })));
    }
    match routes::connection(&admin, connection_id).await? {
        Some(route) => Err(elsewhere(&admin, &route.gateway).await?),
        None => Err(AdminError::new(ErrorCode::NotFound, format!("there is no connection `{connection_id}`"))),
    }
}

/// The gateway of this process, if it has the given id.
async fn own(admin: &AdminState, gateway: GatewayId) -> Result<&Hub, AdminError> {
    match &admin.hub {
        Some(hub) if *hub.id() == gateway => Ok(hub),
        _ => Err(elsewhere(admin, &gateway).await?),
    }
}

/// The error for a gateway that is not in this process. Each process accepts only its own admin token, so that the
/// token of one machine gives no control over the others.
async fn elsewhere(admin: &AdminState, gateway: &GatewayId) -> Result<AdminError, AdminError> {
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
