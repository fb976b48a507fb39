use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::extract::State;
use axum::routing::get;
use axum::{Json, Router};
use embedded::{EmbeddedStore, Health};
use http::StatusCode;
use serde_json::{Value, json};

/// What readiness is made of.
#[derive(Clone)]
pub(crate) struct Readiness {
    pub(crate) store: EmbeddedStore,
    pub(crate) draining: Arc<AtomicBool>,
}

/// `/healthz`: the process is alive. `/readyz`: it can do its work, with each thing it stands on by name.
pub(crate) fn router(readiness: Readiness) -> Router {
    Router::new()
        .route("/healthz", get(|| async { Json(json!({ "status": "ok" })) }))
        .route("/readyz", get(ready))
        .with_state(readiness)
}

async fn ready(State(readiness): State<Readiness>) -> (StatusCode, Json<Value>) {
    let store = match readiness.store.health() {
        Health::Ok => json!({ "status": "ok" }),
        Health::Failing { since, reason } => json!({ "status": "failing", "since": since, "reason": reason }),
    };
    let draining = readiness.draining.load(Ordering::Relaxed);
    let ready = !draining && store["status"] == "ok";
    let status = match (draining, ready) {
        (true, _) => "draining",
        (false, true) => "ready",
        (false, false) => "unready",
    };
    let code = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (code, Json(json!({ "status": status, "dependencies": { "store": store } })))
}
