//! An HTTP server that Tidings calls, such as a webhook: it records every call and returns configured statuses.

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

pub(crate) struct WebhookReceiver {
    address: SocketAddr,
    calls: mpsc::Receiver<ReceivedCall>,
    answers: Arc<Mutex<VecDeque<u16>>>,
    serving: AbortHandle,
}

/// One received call.
#[derive(Debug)]
pub(crate) struct ReceivedCall {
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl ReceivedCall {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }
}

#[derive(Clone)]
struct ReceiverState {
    calls: mpsc::Sender<ReceivedCall>,
    answers: Arc<Mutex<VecDeque<u16>>>,
}

impl WebhookReceiver {
    pub(crate) async fn start() -> Self {
        Self::start_on(TcpListener::bind("127.0.0.1:0").await.unwrap())
    }

    /// Starts at an address that may have been called already.
    pub(crate) fn start_on(listener: TcpListener) -> Self {
        let address = listener.local_addr().unwrap();
        let (sender, calls) = mpsc::channel(10_000);
        let answers = Arc::default();
        let shared = ReceiverState { calls: sender, answers: Arc::clone(&answers) };
        let app = Router::new().fallback(take).with_state(shared);
        let serving = tokio::spawn(async move { axum::serve(listener, app).await.unwrap() }).abort_handle();
        Self { address, calls, answers, serving }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/hook", self.address)
    }

    /// The statuses of the next responses; later calls succeed.
    pub(crate) fn answer(&self, statuses: &[u16]) {
        self.answers.lock().unwrap().extend(statuses);
    }

    pub(crate) async fn next(&mut self) -> ReceivedCall {
        timeout(PATIENCE, self.calls.recv()).await.expect("a call comes").expect("the receiver lives")
    }

    /// Recorded calls that were not read yet.
    pub(crate) fn rest(&mut self) -> Vec<ReceivedCall> {
        std::iter::from_fn(|| self.calls.try_recv().ok()).collect()
    }
}

impl Drop for WebhookReceiver {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn take(State(shared): State<ReceiverState>, headers: HeaderMap, body: Bytes) -> StatusCode {
    let status = shared.answers.lock().unwrap().pop_front().unwrap_or(204);
    shared.calls.send(ReceivedCall { headers, body }).await.unwrap();
    StatusCode::from_u16(status).unwrap()
}
