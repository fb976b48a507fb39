use std::sync::{Arc, Mutex};
use std::time::Duration;

use aws_lc_rs::hmac;
use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

/// How long a test waits for an expected request. It elapses only if something is broken.
const PATIENCE: Duration = Duration::from_secs(20);

/// Timeout of a call: long enough for a busy machine, short enough to wait for.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(2);

/// A third-party server that records requests and responds as the test decides.
pub(crate) struct TestReceiver {
    pub(crate) origin: String,
    requests: mpsc::UnboundedReceiver<ReceivedRequest>,
    answer: Arc<Mutex<ResponseFn>>,
    server: JoinSet<()>,
}

type ResponseFn = Box<dyn FnMut(&ReceivedRequest) -> CannedResponse + Send>;

#[derive(Clone, Debug)]
pub(crate) struct ReceivedRequest {
    pub(crate) at: Instant,
    pub(crate) path: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    /// The response to the request.
    pub(crate) answer: Option<CannedResponse>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum CannedResponse {
    Status(u16),
    RetryAfter(u16, u64),
    /// No response.
    Hangs,
}

impl TestReceiver {
    /// Starts a server that accepts every request.
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let origin = format!("http://{}", listener.local_addr().unwrap());
        let (seen, requests) = mpsc::unbounded_channel();
        let answer: Arc<Mutex<ResponseFn>> = Arc::new(Mutex::new(Box::new(|_| CannedResponse::Status(204))));
        let router = Router::new().fallback(receive).with_state((answer.clone(), seen));
        let mut server = JoinSet::new();
        server.spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { origin, requests, answer, server }
    }

    /// Stops the server.
    pub(crate) async fn stop(&mut self) {
        self.server.shutdown().await;
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("{}{path}", self.origin)
    }

    /// Sets the responses from now on.
    pub(crate) fn answer(&self, answer: impl FnMut(&ReceivedRequest) -> CannedResponse + Send + 'static) {
        *self.answer.lock().unwrap() = Box::new(answer);
    }

    pub(crate) async fn next(&mut self) -> ReceivedRequest {
        timeout(PATIENCE, self.requests.recv()).await.expect("a request comes").unwrap()
    }

    /// The requests up to the one that `is_last` accepts.
    pub(crate) async fn until(&mut self, is_last: impl Fn(&ReceivedRequest) -> bool) -> Vec<ReceivedRequest> {
        let mut requests = vec![];
        while !requests.last().is_some_and(&is_last) {
            requests.push(self.next().await);
        }
        requests
    }

    /// The requests that were received but not read yet.
    pub(crate) fn rest(&mut self) -> Vec<ReceivedRequest> {
        std::iter::from_fn(|| self.requests.try_recv().ok()).collect()
    }
}

async fn receive(
    State((answer, seen)): State<(Arc<Mutex<ResponseFn>>, mpsc::UnboundedSender<ReceivedRequest>)>,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let mut request = ReceivedRequest { at: Instant::now(), path: uri.path().to_owned(), headers, body, answer: None };
    let answer = answer.lock().unwrap()(&request);
    request.answer = Some(answer);
    seen.send(request).unwrap();
    let text = "what a receiver says is not repeated";
    match answer {
        CannedResponse::Status(status) => (StatusCode::from_u16(status).unwrap(), text).into_response(),
        CannedResponse::RetryAfter(status, seconds) => {
            (StatusCode::from_u16(status).unwrap(), [("Retry-After", seconds.to_string())], text).into_response()
        }
        CannedResponse::Hangs => std::future::pending().await,
    }
}

impl ReceivedRequest {
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).expect(name).to_str().unwrap()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    pub(crate) fn was_taken(&self) -> bool {
        matches!(self.answer, Some(CannedResponse::Status(200..=299)))
    }

    /// Verifies the signature as documented for receivers and returns its time.
    pub(crate) fn verify(&self, secret: &str) -> u64 {
        let (at, signature) = self.header("tidings-signature").split_once(',').unwrap();
        let at = at.strip_prefix("t=").unwrap();
        let signature = signature.strip_prefix("v1=").unwrap();
        let signature: Vec<u8> = (0..signature.len())
            .step_by(2)
            .map(|digits| u8::from_str_radix(&signature[digits..digits + 2], 16).unwrap())
            .collect();
        let signed = [at.as_bytes(), b".", &self.body].concat();
        let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
        hmac::verify(&key, &signed, &signature).expect("the signature is right");
        at.parse().unwrap()
    }
}
