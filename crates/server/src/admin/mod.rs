//! What operators see and do, on a listener of their own: `/metrics` for everybody who reaches it, and under `/admin/v1`,
//! with the admin token, what `tidings webhook`, `notifications`, `dead-letters`, `routes` and `verify` ask for.

mod dead_letters;
mod error;
mod metrics;
mod replay;
mod routes;
mod token;
mod verify;

use std::sync::Arc;

use axum::Router;
use axum::middleware::from_fn_with_state;
use axum::routing::{delete, get, post};
use metrics_exporter_prometheus::PrometheusHandle;
use ports::Routes;
use protocol::ErrorCode;

pub(crate) use metrics::install_metrics;
pub use token::AdminToken;
pub(crate) use verify::Auditable;

use self::error::AdminError;
use crate::outward::Outward;

/// What operators can have done.
#[derive(Clone)]
pub(crate) struct Admin {
    pub(crate) token: Arc<AdminToken>,
    /// Who is connected where, over all gateways.
    pub(crate) routes: Arc<dyn Routes>,
    /// What runs for the world outside, where this process has the role `api`.
    pub(crate) outward: Option<Outward>,
    /// The store, where it is in this process.
    pub(crate) auditable: Option<Auditable>,
}

impl Admin {
    fn outward(&self) -> Result<&Outward, AdminError> {
        let elsewhere = "this process does not have the role `api`; ask one that has";
        self.outward.as_ref().ok_or_else(|| AdminError::new(ErrorCode::NotFound, elsewhere))
    }
}

pub(crate) fn router(admin: Admin, metrics: PrometheusHandle) -> Router {
    let guarded = Router::new()
        .route("/webhook", get(replay::webhook_status))
        .route("/webhook/replay", post(replay::replay_events))
        .route("/notifications/replay", post(replay::replay_notifications))
        .route("/dead-letters", get(dead_letters::list))
        .route("/dead-letters/{id}/redeliver", post(dead_letters::redeliver))
        .route("/dead-letters/{id}", delete(dead_letters::forget))
        .route("/users/{user_id}/connections", get(routes::of_user))
        .route("/gateways", get(routes::gateways))
        .route("/gateways/{id}/connections", get(routes::of_gateway))
        .route("/verify", get(verify::verify))
        .route_layer(from_fn_with_state(admin.clone(), token::require))
        .with_state(admin);
    Router::new().route("/metrics", get(move || metrics::page(metrics.clone()))).nest("/admin/v1", guarded)
}
