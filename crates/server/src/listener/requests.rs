use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{ConnectInfo, Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::{Json, Router};
use domain::limits::FRAME_BYTES_MAX;
use domain::network;
use gateway::HandshakeRefusal;
use http::header::RETRY_AFTER;
use http::{HeaderName, Method, StatusCode};
use hyper::body::Body;
use ports::{Ids, RandomIds};
use protocol::rest::{Failure, FailureBody};
use protocol::{ErrorBody, ErrorCode, whole_seconds};
use serde_json::json;

use super::admission::{Admission, Refusal, ReservedBytes};
use super::token_routes::{TokenRoutes, is_handshake};

/// Bytes that a request with a body reserves in addition to the body: its buffers and its task.
const REQUEST_BYTES: usize = 16 << 10;
/// When a client may retry a request that was refused because too many are in progress.
const BUSY_RETRY_AFTER: Duration = Duration::from_secs(1);
/// How long the answer to an invalid token is held back when its network exceeds the rate. Each verification costs CPU, and
/// so a connection causes one per second.
const INVALID_TOKEN_DELAY: Duration = Duration::from_secs(1);
/// The name of the rate of unauthenticated requests in `[limits]`.
const RATE: &str = "unauthenticated_per_ip";
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Applies the bounds of requests to these routes: the rate of unauthenticated ones, and the bytes of all in progress.
pub(crate) fn bounded(app: Router, admission: Arc<Admission>) -> Router {
    let token_routes = TokenRoutes::of(&chats::openapi());
    app.layer(from_fn_with_state(Arc::new(RequestBounds { admission, token_routes }), admit))
}

struct RequestBounds {
    admission: Arc<Admission>,
    token_routes: TokenRoutes,
}

/// Only the verification of a token shows whether a request is authenticated. So a request to an open route counts before
/// it is executed, and a request with an unverified token counts when its route has refused the token: clients of one
/// network share the rate, and those with a valid token are served while another one exceeds it.
async fn admit(
    State(bounds): State<Arc<RequestBounds>>,
    ConnectInfo(client): ConnectInfo<SocketAddr>,
    request: Request,
    next: Next,
) -> Response {
    let admission = &bounds.admission;
    let has_unverified_token = bounds.token_routes.will_verify(&request);
    let is_counted = has_unverified_token || is_preflight(&request);
    if !is_counted && let Some(refusal) = count(admission, client, is_handshake(&request)) {
        return refusal;
    }
    let Ok(reserved) = reserve(admission, client, &request) else {
        let body = ErrorBody::new(ErrorCode::ServerBusy, "too many requests are in progress");
        return refusal(body.with_retry_after(BUSY_RETRY_AFTER), BUSY_RETRY_AFTER);
    };
    let is_handshake = is_handshake(&request);
    let response = next.run(request).await;
    drop(reserved);
    if has_unverified_token
        && is_unauthenticated(response.status(), is_handshake)
        && let Some(refusal) = count(admission, client, is_handshake)
    {
        tokio::time::sleep(INVALID_TOKEN_DELAY).await;
        return refusal;
    }
    response
}

/// Counts a CORS preflight, which is answered before it reaches any route, and returns the answer if it is refused.
pub(super) fn refuse_preflight<B>(
    admission: &Admission,
    client: SocketAddr,
    request: &http::Request<B>,
) -> Option<Response> {
    if is_preflight(request) { count(admission, client, is_handshake(request)) } else { None }
}

fn is_preflight<B>(request: &http::Request<B>) -> bool {
    request.method() == Method::OPTIONS
}

/// Whether a route that verifies tokens has refused the one of a request. The gateway also refuses malformed handshakes
/// before it verifies the token.
fn is_unauthenticated(status: StatusCode, is_handshake: bool) -> bool {
    match status {
        StatusCode::UNAUTHORIZED => true,
        StatusCode::BAD_REQUEST | StatusCode::FORBIDDEN => is_handshake,
        _ => false,
    }
}

/// Counts an unauthenticated request. Beyond the rate it returns the answer.
fn count(admission: &Admission, client: SocketAddr, is_handshake: bool) -> Option<Response> {
    let network = network(client.ip());
    let retry_after = admission.count_unauthenticated(network).err()?;
    admission.count_refusal(Refusal::RequestRate, Some(network));
    if is_handshake {
        return Some(HandshakeRefusal::rate_limited(RATE, retry_after).into_response());
    }
    let details = json!({ "limit": RATE, "retry_after_seconds": whole_seconds(retry_after) });
    let body = ErrorBody::new(ErrorCode::RateLimited, format!("limit `{RATE}` is reached")).with_details(details);
    Some(refusal(body, retry_after))
}

/// All bytes of requests in progress are reserved, of a network or in total.
struct NoBytesLeft;

/// Reserves the bytes of a request with a body.
fn reserve(
    admission: &Arc<Admission>,
    client: SocketAddr,
    request: &Request,
) -> Result<Option<ReservedBytes>, NoBytesLeft> {
    if request.body().is_end_stream() {
        return Ok(None);
    }
    let body = request.body().size_hint().upper().and_then(|bytes| usize::try_from(bytes).ok());
    let bytes = REQUEST_BYTES + body.unwrap_or(usize::MAX).min(FRAME_BYTES_MAX);
    admission.reserve(Some(network(client.ip())), bytes).map(Some).ok_or(NoBytesLeft)
}

/// The error body of the API, for a request that does not reach it.
fn refusal(body: ErrorBody, retry_after: Duration) -> Response {
    let status = StatusCode::from_u16(body.code.http_status()).expect("the table has real statuses");
    let request_id = RandomIds.ulid().to_string();
    let headers = [(RETRY_AFTER, whole_seconds(retry_after).to_string()), (REQUEST_ID, request_id.clone())];
    (status, headers, Json(Failure { error: FailureBody { body, request_id } })).into_response()
}
