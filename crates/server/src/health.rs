//! `/healthz`: whether only a restart would help. `/readyz`: whether the process can do its work, with the status of
//! each dependency, and during a drain the remaining work.

mod drain;
mod liveness;
mod requests;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use http::{StatusCode, header};
use metrics::gauge;
use ports::EngineHealth;
use serde_json::{Map, Value, json};

pub(crate) use drain::{Drain, RemainingWork};
pub(crate) use liveness::Liveness;
pub(crate) use requests::Requests;

/// Interval at which the metrics are updated.
const MEASURE_INTERVAL: Duration = Duration::from_secs(2);

/// Reports the health of a dependency.
pub(crate) type Probe = Arc<dyn Fn() -> EngineHealth + Send + Sync>;

/// The `Retry-After` of a response that is not ready, in seconds.
const RETRY_AFTER: &str = "1";

/// The inputs of the health endpoints.
#[derive(Clone)]
pub(crate) struct HealthState {
    /// The dependencies of the process, by name.
    pub(crate) dependencies: Arc<[(&'static str, Probe)]>,
    pub(crate) drain: Arc<Drain>,
    pub(crate) liveness: Liveness,
}

pub(crate) fn router(standing: HealthState) -> Router {
    Router::new().route("/healthz", get(alive)).route("/readyz", get(ready)).with_state(standing)
}

async fn alive(State(standing): State<HealthState>) -> Response {
    match standing.liveness.stuck() {
        None => Json(json!({ "status": "ok" })).into_response(),
        Some(stuck) => {
            let body = json!({
                "status": "stuck",
                "what": stuck.what,
                "for_seconds": stuck.since.as_secs(),
                "reason": stuck.to_string(),
            });
            (StatusCode::SERVICE_UNAVAILABLE, Json(body)).into_response()
        }
    }
}

/// Exposes the facts of `/readyz` as metrics, until it is stopped.
pub(crate) async fn measure(standing: HealthState) {
    loop {
        let mut up = BTreeMap::new();
        for (name, probe) in &*standing.dependencies {
            // If several dependencies share a name, all of them have to be healthy.
            *up.entry(*name).or_insert(true) &= probe() == EngineHealth::Ok;
        }
        for (name, is_up) in up {
            gauge!("tidings_dependency_up", "dependency" => name).set(f64::from(u8::from(is_up)));
        }
        gauge!("tidings_process_draining").set(f64::from(u8::from(standing.drain.is_draining())));
        tokio::time::sleep(MEASURE_INTERVAL).await;
    }
}

async fn ready(State(standing): State<HealthState>) -> Response {
    let mut all_well = true;
    let mut dependencies = Map::new();
    for (name, probe) in &*standing.dependencies {
        let said = match probe() {
            EngineHealth::Ok => json!({ "status": "ok" }),
            EngineHealth::Failing { since, reason } => {
                all_well = false;
                json!({ "status": "failing", "since": since, "reason": reason })
            }
        };
        dependencies.insert((*name).to_owned(), said);
    }
    let draining = standing.drain.is_draining();
    let status = match (draining, all_well) {
        (true, _) => "draining",
        (false, true) => "ready",
        (false, false) => "unready",
    };
    let mut body = json!({ "status": status, "dependencies": dependencies });
    if draining && let Value::Object(body) = &mut body {
        body.append(&mut standing.drain.standing());
    }
    if status == "ready" {
        return Json(body).into_response();
    }
    (StatusCode::SERVICE_UNAVAILABLE, [(header::RETRY_AFTER, RETRY_AFTER)], Json(body)).into_response()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use axum::body::{Body, to_bytes};
    use domain::Timestamp;
    use http::Request;
    use tower::ServiceExt;

    use super::*;

    /// A process that depends on a store and has `left` open requests.
    fn process(store: EngineHealth, left: &Arc<AtomicUsize>) -> HealthState {
        let (probe, left) = (Arc::new(move || store.clone()) as Probe, left.clone());
        let left: RemainingWork = ("requests", Arc::new(move || left.load(Ordering::Relaxed)));
        HealthState {
            dependencies: [("store", probe)].into(),
            drain: Arc::new(Drain::of(None, [left])),
            liveness: Liveness::new("the committer", Duration::from_secs(30)),
        }
    }

    async fn ask(standing: &HealthState, path: &str) -> (u16, Option<String>, Value) {
        let request = Request::get(path).body(Body::empty()).unwrap();
        let answer = router(standing.clone()).oneshot(request).await.unwrap();
        let after = answer.headers().get(header::RETRY_AFTER).map(|value| value.to_str().unwrap().to_owned());
        let status = answer.status().as_u16();
        let body = to_bytes(answer.into_body(), 1 << 16).await.unwrap();
        (status, after, serde_json::from_slice(&body).unwrap())
    }

    #[tokio::test]
    async fn a_process_whose_store_fails_is_alive_and_not_ready() {
        let failing = EngineHealth::Failing { since: Timestamp::from_millis(0), reason: "no space".to_owned() };
        let standing = process(failing, &Arc::default());
        assert_eq!(ask(&standing, "/healthz").await.0, 200);
        let (status, after, body) = ask(&standing, "/readyz").await;
        assert_eq!((status, after.as_deref(), &body["status"]), (503, Some("1"), &json!("unready")));
        assert_eq!(body["dependencies"]["store"]["reason"], "no space");
        assert!(body.get("safe_to_remove").is_none(), "{body}");
    }

    #[tokio::test]
    async fn a_drain_is_safe_when_no_work_is_left_and_can_be_cancelled() {
        let left = Arc::new(AtomicUsize::new(2));
        let standing = process(EngineHealth::Ok, &left);
        assert_eq!(
            ask(&standing, "/readyz").await,
            (200, None, json!({ "status": "ready", "dependencies": { "store": { "status": "ok" } } }))
        );
        standing.drain.begin();
        let (status, after, body) = ask(&standing, "/readyz").await;
        assert_eq!((status, after.as_deref(), &body["status"]), (503, Some("1"), &json!("draining")));
        assert_eq!((&body["requests"], &body["safe_to_remove"]), (&json!(2), &json!(false)));
        left.store(0, Ordering::Relaxed);
        assert_eq!(ask(&standing, "/readyz").await.2["safe_to_remove"], true);
        standing.drain.end();
        assert_eq!(ask(&standing, "/readyz").await.0, 200);
        // A shutdown cannot be cancelled.
        standing.drain.end_of_process();
        standing.drain.end();
        assert_eq!(ask(&standing, "/readyz").await.0, 503);
    }

    #[tokio::test(start_paused = true)]
    async fn an_unanswered_heartbeat_names_the_stuck_component() {
        let standing = process(EngineHealth::Ok, &Arc::default());
        tokio::time::sleep(Duration::from_secs(31)).await;
        let (status, _, body) = ask(&standing, "/healthz").await;
        assert_eq!((status, &body["status"], &body["what"]), (503, &json!("stuck"), &json!("the committer")));
        assert_eq!(body["reason"], "the committer has not answered for 31 s; restart the process");
    }
}
