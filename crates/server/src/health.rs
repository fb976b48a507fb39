use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::extract::State;
use axum::routing::get;
use axum::{Json, Router};
use gateway::Hub;
use http::StatusCode;
use ports::Health;
use serde_json::{Map, Value, json};

/// Says how something that the process stands on is doing.
pub(crate) type Probe = Arc<dyn Fn() -> Health + Send + Sync>;

/// What readiness is made of.
#[derive(Clone)]
pub(crate) struct Readiness {
    /// Everything that the process stands on, by name.
    dependencies: Arc<[(&'static str, Probe)]>,
    /// Whether the process is about to end.
    pub(crate) draining: Arc<AtomicBool>,
    /// The sockets of clients, where this process is a gateway: an operator may have them go elsewhere.
    hub: Option<Arc<Hub>>,
}

impl Readiness {
    pub(crate) fn of(dependencies: impl IntoIterator<Item = (&'static str, Probe)>, hub: Option<Arc<Hub>>) -> Self {
        Self { dependencies: dependencies.into_iter().collect(), draining: Arc::default(), hub }
    }
}

/// `/healthz`: the process is alive. `/readyz`: it can do its work, with each thing it stands on by name. While a gateway
/// drains it says whether the last client is gone, so that the process may be.
pub(crate) fn router(readiness: Readiness) -> Router {
    Router::new()
        .route("/healthz", get(|| async { Json(json!({ "status": "ok" })) }))
        .route("/readyz", get(ready))
        .with_state(readiness)
}

async fn ready(State(readiness): State<Readiness>) -> (StatusCode, Json<Value>) {
    let mut all_well = true;
    let mut dependencies = Map::new();
    for (name, probe) in &*readiness.dependencies {
        let said = match probe() {
            Health::Ok => json!({ "status": "ok" }),
            Health::Failing { since, reason } => {
                all_well = false;
                json!({ "status": "failing", "since": since, "reason": reason })
            }
        };
        dependencies.insert((*name).to_owned(), said);
    }
    let drained = readiness.hub.filter(|hub| hub.is_draining());
    let draining = readiness.draining.load(Ordering::Relaxed) || drained.is_some();
    let (status, code) = match (draining, all_well) {
        (true, _) => ("draining", StatusCode::SERVICE_UNAVAILABLE),
        (false, true) => ("ready", StatusCode::OK),
        (false, false) => ("unready", StatusCode::SERVICE_UNAVAILABLE),
    };
    let mut body = json!({ "status": status, "dependencies": dependencies });
    if let Some(hub) = drained {
        body["connections"] = hub.connections().into();
        body["safe_to_remove"] = (hub.connections() == 0).into();
    }
    (code, Json(body))
}
