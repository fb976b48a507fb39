//! Somebody's server that Tidings calls: it keeps every call for the test and answers as it is told.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use http::{HeaderMap, StatusCode};
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use tokio::time::timeout;

use crate::server::PATIENCE;

pub(crate) struct Receiver {
    address: SocketAddr,
    calls: mpsc::Receiver<Call>,
    answers: Arc<Mutex<VecDeque<u16>>>,
    serving: AbortHandle,
}

/// One call of the server.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Call {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }
}

#[derive(Clone)]
struct Shared {
    calls: mpsc::Sender<Call>,
    answers: Arc<Mutex<VecDeque<u16>>>,
}

impl Receiver {
    pub(crate) async fn start() -> Self {
        Self::start_at(SocketAddr::from(([127, 0, 0, 1], 0))).await
    }

    /// Starts where it may have been called already.
    pub(crate) async fn start_at(address: SocketAddr) -> Self {
        let listener = TcpListener::bind(address).await.unwrap();
        let address = listener.local_addr().unwrap();
        let (sender, calls) = mpsc::channel(10_000);
        let answers = Arc::default();
        let shared = Shared { calls: sender, answers: Arc::clone(&answers) };
        let app = Router::new().fallback(take).with_state(shared);
        let serving = tokio::spawn(async move { axum::serve(listener, app).await.unwrap() }).abort_handle();
        Self { address, calls, answers, serving }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/hook", self.address)
    }

    /// The statuses of the next answers; after them everything is taken.
    pub(crate) fn answer(&self, statuses: &[u16]) {
        self.answers.lock().unwrap().extend(statuses);
    }

    pub(crate) async fn next(&mut self) -> Call {
        timeout(PATIENCE, self.calls.recv()).await.expect("a call comes").expect("the receiver lives")
    }

    /// What came so far and was not looked at.
    pub(crate) fn rest(&mut self) -> Vec<Call> {
        std::iter::from_fn(|| self.calls.try_recv().ok()).collect()
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn take(State(shared): State<Shared>, headers: HeaderMap, body: Bytes) -> StatusCode {
    let status = shared.answers.lock().unwrap().pop_front().unwrap_or(204);
    shared.calls.send(Call { headers, body }).await.unwrap();
    StatusCode::from_u16(status).unwrap()
}
