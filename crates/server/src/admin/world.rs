//! A minimal process with the admin API, for the tests of this module.

use std::sync::Arc;

use axum::Router;
use axum::body::{Body, to_bytes};
use http::{Method, Request};
use metrics_exporter_prometheus::PrometheusBuilder;
use ports::{Clock, NoSecurityEvents, ProcessRole, Routes, SystemClock};
use serde_json::Value;
use tempfile::TempDir;
use tower::ServiceExt;

use crate::health::Drain;

use super::{AdminState, AdminToken, AuditTrail, NodeInfo, Operators, Pulse, router};
use crate::telemetry::LogLevel;

/// A client of the admin API.
pub(super) struct World {
    token: AdminToken,
    app: Router,
    _directory: TempDir,
}

impl World {
    /// A process with these routes; `more` adjusts its state.
    pub(super) fn with(routes: Arc<dyn Routes>, more: impl FnOnce(&mut AdminState)) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let token = AdminToken::open(directory.path()).unwrap();
        let node = NodeInfo {
            id: "local".into(),
            roles: ProcessRole::ALL.to_vec(),
            started_at: SystemClock.now(),
            listeners: vec![],
            fleet: None,
        };
        let mut admin = AdminState {
            operators: Arc::new(Operators::open(directory.path(), "").unwrap()),
            security: Arc::new(NoSecurityEvents),
            trail: AuditTrail::new(directory.path()),
            node: Arc::new(node),
            pulse: Arc::new(Pulse::new(vec![])),
            routes,
            hub: None,
            drain: Arc::new(Drain::of(None, [])),
            records: None,
            outward: None,
            auditable: None,
            backups: None,
        };
        more(&mut admin);
        let level = LogLevel::new("info", false, |_| Ok(()));
        let app = router(admin, PrometheusBuilder::new().build_recorder().handle(), level);
        Self { token, app, _directory: directory }
    }

    pub(super) async fn get(&self, path: &str) -> (u16, Value) {
        self.call(Method::GET, path).await
    }

    pub(super) async fn call(&self, method: Method, path: &str) -> (u16, Value) {
        let request = Request::builder()
            .method(method)
            .uri(format!("/admin/v1{path}"))
            .header("authorization", format!("Bearer {}", self.token.expose()))
            .body(Body::empty());
        let answer = self.app.clone().oneshot(request.unwrap()).await.unwrap();
        let status = answer.status().as_u16();
        let body = to_bytes(answer.into_body(), 1 << 20).await.unwrap();
        (status, serde_json::from_slice(&body).unwrap())
    }
}
