use std::sync::Arc;
use std::time::Instant;

use axum::body::Body;
use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::Response;
use domain::limits::REQUEST_ID_CHARS_MAX;
use domain::{RateDecision, Timestamp, TraceContext};
use metrics::{counter, histogram};
use ports::trace::TARGET;
use protocol::rest::{Failure, FailureBody};
use protocol::{ErrorCode, whole_seconds};
use tracing::Instrument;
use tracing::field::{self, Empty};

use super::RestError;
use super::error::Failed;
use crate::Api;

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Assigns the request id and completes the response: id, limit headers, and the body of a failure.
pub(crate) async fn envelope(State(api): State<Arc<Api>>, request: Request, next: Next) -> Response {
    let request_id = request_id(request.headers()).unwrap_or_else(|| api.ids.ulid().to_string());
    // The route template, because the path contains ids and the query may contain secrets.
    let route = request.extensions().get::<MatchedPath>().cloned();
    let shown = route.as_ref().map_or("", MatchedPath::as_str);
    let inbound = request.headers().get(TraceContext::HEADER).and_then(|header| header.to_str().ok()?.parse().ok());
    let span = tracing::info_span!(
        target: TARGET, "request", otel.kind = "server", request_id, method = %request.method(), route = shown,
        traceparent = inbound.map(field::display::<TraceContext>), status = Empty, error = Empty,
    );
    let method = method(request.method());
    let begun = Instant::now();

    let mut response = next.run(request).instrument(span.clone()).await;
    measure(method, route, response.status(), begun);
    span.record("status", i64::from(response.status().as_u16()));
    if response.status().is_server_error() {
        span.record("error", response.status().as_str());
    }
    if let Some(error) = response.extensions_mut().remove::<RestError>() {
        write_failure(&mut response, error, request_id.clone());
    }
    if let Some(decision) = response.extensions_mut().remove::<RateDecision>() {
        write_limit(response.headers_mut(), decision, api.now());
    }
    let request_id = HeaderValue::from_str(&request_id).expect("a ulid and visible ASCII are header values");
    response.headers_mut().insert(REQUEST_ID, request_id);
    // Responses are for one user, and some contain tokens.
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// Records a request by its route template, which bounds the values of the label.
fn measure(method: &'static str, route: Option<MatchedPath>, status: StatusCode, begun: Instant) {
    let route: Arc<str> = route.as_ref().map_or("none", MatchedPath::as_str).into();
    let status = match status.as_u16() / 100 {
        1 => "1xx",
        2 => "2xx",
        3 => "3xx",
        4 => "4xx",
        _ => "5xx",
    };
    histogram!("tidings_api_request_seconds", "route" => route.clone()).record(begun.elapsed());
    counter!("tidings_api_requests_total", "method" => method, "route" => route, "status" => status).increment(1);
}

/// The metric label of a method. Unknown methods share a value, because clients may send any.
fn method(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::PATCH => "PATCH",
        Method::DELETE => "DELETE",
        Method::HEAD => "HEAD",
        Method::OPTIONS => "OPTIONS",
        _ => "other",
    }
}

/// The client's request id, if it is safe to repeat in a response header and in logs.
fn request_id(headers: &HeaderMap) -> Option<String> {
    let text = headers.get(REQUEST_ID)?.to_str().ok()?;
    let fits = (1..=REQUEST_ID_CHARS_MAX).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic());
    fits.then(|| text.to_owned())
}

fn write_failure(response: &mut Response, RestError(failed): RestError, request_id: String) {
    let Failed { body, retry_after, decision } = *failed;
    counter!("tidings_api_errors_total", "code" => body.code.as_str()).increment(1);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if body.code == ErrorCode::Unauthorized {
        headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    if let Some(retry_after) = retry_after {
        headers.insert(header::RETRY_AFTER, whole_seconds(retry_after).into());
    }
    if let Some(decision) = decision {
        response.extensions_mut().insert(decision);
    }
    let failure = Failure { error: FailureBody { body, request_id } };
    *response.body_mut() = Body::from(serde_json::to_vec(&failure).expect("strings and details always serialize"));
}

fn write_limit(headers: &mut HeaderMap, decision: RateDecision, now: Timestamp) {
    let reset_at = (now + decision.reset_after).as_millis().div_ceil(1000);
    headers.insert("x-ratelimit-limit", decision.limit.into());
    headers.insert("x-ratelimit-remaining", decision.remaining.into());
    headers.insert("x-ratelimit-reset", reset_at.into());
}
