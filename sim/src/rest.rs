use std::sync::Arc;

use axum::body::{Body, to_bytes};
use http::{Method, Request};
use ports::ProcessRole;
use serde_json::Value;
use tokio::sync::oneshot;
use tokio::time::{Duration, sleep};
use tower::ServiceExt;

use crate::world::World;

/// Answer of the REST API: a status and a body, or none.
pub(crate) type RestAnswer = Option<(u16, Value)>;

/// A call of the REST API.
pub(crate) struct RestCall {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) token: Option<String>,
    pub(crate) body: Option<Value>,
}

/// Client timeout for an answer.
const PATIENCE: Duration = Duration::from_secs(10);

impl World {
    /// Calls the REST API of a random process with that role. A missing answer may hide a success.
    pub(crate) async fn rest(self: &Arc<Self>, call: RestCall) -> RestAnswer {
        self.travel().await;
        let candidates = self.directory.of(ProcessRole::Api);
        let index = self.streams.network.index(candidates.len().max(1));
        let Some(running) = candidates.into_iter().nth(index) else {
            sleep(Duration::from_secs(1)).await;
            return None;
        };
        let is_lost = || self.streams.network.chance(self.rates().calls_lost);
        if is_lost() {
            sleep(PATIENCE).await;
            return None;
        }
        let app = running.services.app.clone()?;
        let (answer, answered) = oneshot::channel();
        running.process.spawn(async move {
            let Ok(response) = app.oneshot(call.request()).await;
            let status = response.status().as_u16();
            let body = to_bytes(response.into_body(), 1 << 22).await.unwrap_or_default();
            // The caller may have stopped waiting.
            drop(answer.send((status, serde_json::from_slice(&body).unwrap_or(Value::Null))));
        });
        let answer = tokio::select! {
            biased;
            answer = answered => answer.ok()?,
            () = running.process.died() => return None,
            () = sleep(PATIENCE) => return None,
        };
        self.travel().await;
        if is_lost() {
            sleep(PATIENCE).await;
            return None;
        }
        Some(answer)
    }
}

impl RestCall {
    pub(crate) fn get(token: &str, path: impl Into<String>) -> Self {
        Self { method: Method::GET, path: path.into(), token: Some(token.to_owned()), body: None }
    }

    pub(crate) fn with(method: Method, token: &str, path: impl Into<String>, body: Option<Value>) -> Self {
        Self { method, path: path.into(), token: Some(token.to_owned()), body }
    }

    /// A call without a token.
    pub(crate) fn open(path: &str, body: Value) -> Self {
        Self { method: Method::POST, path: path.to_owned(), token: None, body: Some(body) }
    }

    fn request(self) -> Request<Body> {
        let mut request = Request::builder().method(self.method).uri(format!("/api/v1{}", self.path));
        if let Some(token) = self.token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        let body = match self.body {
            Some(body) => {
                request = request.header("content-type", "application/json");
                Body::from(body.to_string())
            }
            None => Body::empty(),
        };
        request.body(body).expect("every path and token here fits into a request")
    }
}
