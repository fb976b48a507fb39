use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{ConnectInfo, Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::{Json, Router};
use domain::limits::FRAME_BYTES_MAX;
use domain::network;
use http::header::{AUTHORIZATION, RETRY_AFTER};
use http::{HeaderName, StatusCode};
use hyper::body::Body as _;
use ports::{Ids, RandomIds};
use protocol::rest::{Failure, FailureBody};
use protocol::{ErrorBody, ErrorCode, whole_seconds};
use serde_json::json;

use super::admission::{Admission, Refusal};

/// Bytes that a request with a body reserves in addition to the body: its buffers and its task.
const REQUEST_BYTES: usize = 16 << 10;
/// When a client may retry a request that was refused because too many are in progress.
const BUSY_RETRY_AFTER: Duration = Duration::from_secs(1);
/// The path of WebSocket handshakes. Their token may be in the query.
const WEBSOCKET: &str = "/v1/ws";
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Applies the bounds of requests to these routes: the rate of unauthenticated ones, and the bytes of all in progress.
pub(crate) fn bounded(app: Router, admission: Arc<Admission>) -> Router {
    app.layer(from_fn_with_state(admission, admit))
}

async fn admit(
    State(admission): State<Arc<Admission>>,
    ConnectInfo(client): ConnectInfo<SocketAddr>,
    request: Request,
    next: Next,
) -> Response {
    let network = network(client.ip());
    // Clients of one network share its rate, so a request with credentials passes until they turn out to be invalid.
    let has_credentials = request.headers().contains_key(AUTHORIZATION) || request.uri().path() == WEBSOCKET;
    if !has_credentials && let Err(retry_after) = admission.count_unauthenticated(network) {
        admission.count_refusal(Refusal::RequestRate, Some(network));
        let details = json!({ "limit": "unauthenticated_per_ip", "retry_after_seconds": whole_seconds(retry_after) });
        let body = ErrorBody::new(ErrorCode::RateLimited, "limit `unauthenticated_per_ip` is reached");
        return refusal(body.with_details(details), retry_after);
    }
    let reserved = match request.body().is_end_stream() {
        true => None,
        false => {
            let body = request.body().size_hint().upper().and_then(|bytes| usize::try_from(bytes).ok());
            let bytes = REQUEST_BYTES + body.unwrap_or(usize::MAX).min(FRAME_BYTES_MAX);
            let Some(reserved) = admission.reserve(Some(network), bytes) else {
                let body = ErrorBody::new(ErrorCode::ServerBusy, "too many requests are in progress");
                return refusal(body.with_retry_after(BUSY_RETRY_AFTER), BUSY_RETRY_AFTER);
            };
            Some(reserved)
        }
    };
    let response = next.run(request).await;
    drop(reserved);
    if has_credentials && response.status() == StatusCode::UNAUTHORIZED {
        // It is answered already; it counts against later requests.
        let _ = admission.count_unauthenticated(network);
    }
    response
}

/// The error body of the API, for a request that does not reach it.
fn refusal(body: ErrorBody, retry_after: Duration) -> Response {
    let status = StatusCode::from_u16(body.code.http_status()).expect("the table has real statuses");
    let request_id = RandomIds.ulid().to_string();
    let headers = [(RETRY_AFTER, whole_seconds(retry_after).to_string()), (REQUEST_ID, request_id.clone())];
    (status, headers, Json(Failure { error: FailureBody { body, request_id } })).into_response()
}
