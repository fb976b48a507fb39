//! `/healthz`: whether only a restart would help. `/readyz`: whether the process can do its part now, with the status of
//! each dependency, and during a drain the remaining work.
//!
//! ```text
//!             an engine fails that it can do without
//!   ready ◄──────────────────────────────────────────► degraded     both 200
//!     ▲ ▲                                                  ▲
//!     │ └──────── a needed engine fails ─► unready ◄───────┘        503
//!     └────────── drain, resume ─────────► draining                 503
//! ```

mod dependency;
mod drain;
mod liveness;
mod needs;
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
use tracing::info;

pub(crate) use dependency::Dependency;
pub(crate) use drain::{Drain, RemainingWork};
pub(crate) use liveness::Liveness;
#[cfg(feature = "fleet")]
pub(crate) use needs::need;
pub(crate) use requests::Requests;

/// Interval at which the metrics are updated.
const MEASURE_INTERVAL: Duration = Duration::from_secs(2);

/// The `Retry-After` of a response that is not ready, in seconds.
const RETRY_AFTER: &str = "1";

/// The inputs of the health endpoints.
#[derive(Clone)]
pub(crate) struct HealthState {
    pub(crate) dependencies: Arc<[Dependency]>,
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

/// Whether the process can do its part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Readiness {
    Ready,
    /// It can, without an engine that it usually has.
    Degraded,
    Unready,
    Draining,
}

impl Readiness {
    fn name(self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::Degraded => "degraded",
            Self::Unready => "unready",
            Self::Draining => "draining",
        }
    }

    /// Whether balancers route to the process.
    fn is_ready(self) -> bool {
        matches!(self, Self::Ready | Self::Degraded)
    }
}

impl HealthState {
    /// The readiness, and the health of each dependency.
    fn readiness(&self) -> (Readiness, Vec<(&Dependency, EngineHealth)>) {
        let engines: Vec<_> = self.dependencies.iter().map(|each| (each, each.health())).collect();
        let mut failing = engines.iter().filter(|(_, health)| *health != EngineHealth::Ok).peekable();
        let readiness = if self.drain.is_draining() {
            Readiness::Draining
        } else if failing.peek().is_none() {
            Readiness::Ready
        } else if failing.any(|(dependency, _)| dependency.is_needed()) {
            Readiness::Unready
        } else {
            Readiness::Degraded
        };
        (readiness, engines)
    }
}

/// Exposes the facts of `/readyz` as metrics and logs its changes, until it is stopped.
pub(crate) async fn measure(standing: HealthState) {
    let mut before = Readiness::Ready;
    loop {
        let (readiness, engines) = standing.readiness();
        let mut up = BTreeMap::new();
        for (dependency, health) in &engines {
            // If several dependencies share a name, all of them have to be healthy.
            *up.entry(dependency.name).or_insert(true) &= *health == EngineHealth::Ok;
        }
        if readiness != before {
            let failing: Vec<_> = up.iter().filter(|(_, is_up)| !**is_up).map(|(name, _)| *name).collect();
            info!(from = before.name(), to = readiness.name(), failing = failing.join(", "), "readiness changed");
            before = readiness;
        }
        for (name, is_up) in up {
            gauge!("tidings_dependency_up", "dependency" => name).set(f64::from(u8::from(is_up)));
        }
        gauge!("tidings_process_ready").set(f64::from(u8::from(readiness.is_ready())));
        gauge!("tidings_process_draining").set(f64::from(u8::from(standing.drain.is_draining())));
        tokio::time::sleep(MEASURE_INTERVAL).await;
    }
}

async fn ready(State(standing): State<HealthState>) -> Response {
    let (readiness, engines) = standing.readiness();
    let mut dependencies = Map::new();
    for (dependency, health) in engines {
        let said = match health {
            EngineHealth::Ok => json!({ "status": "ok" }),
            EngineHealth::Failing { since, reason } => json!({
                "status": "failing",
                "since": since,
                "reason": reason,
                "needed": dependency.is_needed(),
                "meanwhile": dependency.meanwhile(),
            }),
        };
        dependencies.insert(dependency.name.to_owned(), said);
    }
    let mut body = json!({ "status": readiness.name(), "dependencies": dependencies });
    if readiness == Readiness::Draining
        && let Value::Object(body) = &mut body
    {
        body.append(&mut standing.drain.standing());
    }
    if readiness.is_ready() {
        return Json(body).into_response();
    }
    (StatusCode::SERVICE_UNAVAILABLE, [(header::RETRY_AFTER, RETRY_AFTER)], Json(body)).into_response()
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use axum::body::{Body, to_bytes};
    use domain::Timestamp;
    use http::Request;
    use ports::ProcessRole;
    use tower::ServiceExt;

    use super::*;

    type SharedHealth = Arc<Mutex<EngineHealth>>;

    fn engine() -> SharedHealth {
        Arc::new(Mutex::new(EngineHealth::Ok))
    }

    fn fail(engine: &SharedHealth) {
        let since = Timestamp::from_millis(0);
        *engine.lock().unwrap() = EngineHealth::Failing { since, reason: "no space".to_owned() };
    }

    /// A process with these roles that depends on one engine and has `left` open requests.
    fn process(
        name: &'static str,
        roles: &[ProcessRole],
        engine: &SharedHealth,
        left: &Arc<AtomicUsize>,
    ) -> HealthState {
        let (engine, left) = (engine.clone(), left.clone());
        let left: RemainingWork = ("requests", Arc::new(move || left.load(Ordering::Relaxed)));
        HealthState {
            dependencies: [Dependency::new(name, roles, move || engine.lock().unwrap().clone())].into(),
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
    async fn a_process_without_a_needed_engine_is_alive_and_not_ready() {
        let dynamodb = engine();
        let standing = process("dynamodb", &[ProcessRole::Ingest], &dynamodb, &Arc::default());
        assert_eq!(ask(&standing, "/readyz").await.0, 200);
        fail(&dynamodb);
        assert_eq!(ask(&standing, "/healthz").await.0, 200);
        let (status, after, body) = ask(&standing, "/readyz").await;
        assert_eq!((status, after.as_deref(), &body["status"]), (503, Some("1"), &json!("unready")));
        let said = &body["dependencies"]["dynamodb"];
        assert_eq!((&said["reason"], &said["needed"]), (&json!("no space"), &json!(true)));
        assert!(body.get("safe_to_remove").is_none(), "{body}");
    }

    #[tokio::test]
    async fn a_process_without_an_engine_that_it_can_do_without_is_degraded_and_ready() {
        for (name, roles) in [("kafka", &[ProcessRole::Api][..]), ("store", &ProcessRole::ALL)] {
            let failing = engine();
            fail(&failing);
            let (status, after, body) = ask(&process(name, roles, &failing, &Arc::default()), "/readyz").await;
            assert_eq!((status, after, &body["status"]), (200, None, &json!("degraded")));
            let said = &body["dependencies"][name];
            assert_eq!((&said["status"], &said["needed"]), (&json!("failing"), &json!(false)));
            assert!(said["meanwhile"].is_string(), "{said}");
        }
    }

    #[tokio::test]
    async fn an_engine_that_a_start_needs_has_to_answer_once() {
        let redis = engine();
        fail(&redis);
        let standing = process("redis", &[ProcessRole::Gateway], &redis, &Arc::default());
        let (status, _, body) = ask(&standing, "/readyz").await;
        assert_eq!((status, &body["status"]), (503, &json!("unready")));
        *redis.lock().unwrap() = EngineHealth::Ok;
        assert_eq!(ask(&standing, "/readyz").await.2["status"], "ready");
        fail(&redis);
        let (status, _, body) = ask(&standing, "/readyz").await;
        assert_eq!((status, &body["status"]), (200, &json!("degraded")));
    }

    #[tokio::test]
    async fn a_drain_is_safe_when_no_work_is_left_and_can_be_cancelled() {
        let left = Arc::new(AtomicUsize::new(2));
        let standing = process("store", &ProcessRole::ALL, &engine(), &left);
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
        let standing = process("store", &ProcessRole::ALL, &engine(), &Arc::default());
        tokio::time::sleep(Duration::from_secs(31)).await;
        let (status, _, body) = ask(&standing, "/healthz").await;
        assert_eq!((status, &body["status"], &body["what"]), (503, &json!("stuck"), &json!("the committer")));
        assert_eq!(body["reason"], "the committer has not answered for 31 s; restart the process");
    }
}
