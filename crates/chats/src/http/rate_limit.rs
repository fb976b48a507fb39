use std::sync::Arc;

use axum::extract::{MatchedPath, Request, State};
use axum::http::{Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use domain::{Quota, RateDecision};
use ports::{LimitKey, error_chain};

use super::{Caller, RestError};
use crate::Api;

/// Counts the requests of each user, reads and writes separately. The response headers show the remaining quota.
///
/// Sends, updates of messages and exports do not count here: their routes apply separate limits, which for sends and
/// updates are the same over a socket. Only a refused one counts as a write: it may have been refused before its route
/// charged it. A presence query counts as a read, although it is a POST.
pub(crate) async fn limit_requests(
    State(api): State<Arc<Api>>,
    Caller(caller): Caller,
    request: Request,
    next: Next,
) -> Result<Response, RestError> {
    let user_id = caller.user_id;
    let take_write = || take(&api, "rest_write", LimitKey::RestWrite(user_id), api.limits.rest_write);
    match kind(&request) {
        RequestClass::LimitedByItsRoute => {
            let response = next.run(request).await;
            let status = response.status();
            if status.is_client_error() && status != StatusCode::TOO_MANY_REQUESTS {
                return Ok(Limited(take_write().await?, response).into_response());
            }
            Ok(response)
        }
        RequestClass::Read => {
            let decision = take(&api, "rest_read", LimitKey::RestRead(user_id), api.limits.rest_read).await?;
            Ok(Limited(decision, next.run(request).await).into_response())
        }
        RequestClass::Write => Ok(Limited(take_write().await?, next.run(request).await).into_response()),
    }
}

/// The limit that a request counts against.
enum RequestClass {
    LimitedByItsRoute,
    Read,
    Write,
}

fn kind(request: &Request) -> RequestClass {
    let path = request.extensions().get().map_or("", MatchedPath::as_str);
    match *request.method() {
        Method::GET if path.ends_with("/me/export") => RequestClass::LimitedByItsRoute,
        Method::GET | Method::HEAD => RequestClass::Read,
        Method::POST if path.ends_with("/messages") => RequestClass::LimitedByItsRoute,
        Method::PATCH | Method::PUT | Method::DELETE if path.contains("/messages/") => RequestClass::LimitedByItsRoute,
        Method::POST if path.ends_with("/presence/query") => RequestClass::Read,
        _ => RequestClass::Write,
    }
}

/// A response with the limiter's decision, which becomes headers; `None` if the limit is off. A later decision of the
/// route wins.
pub(crate) struct Limited<R>(pub(crate) Option<RateDecision>, pub(crate) R);

impl<R: IntoResponse> IntoResponse for Limited<R> {
    fn into_response(self) -> Response {
        let Self(decision, response) = self;
        let mut response = response.into_response();
        if let Some(decision) = decision {
            response.extensions_mut().get_or_insert(decision);
        }
        response
    }
}

/// Charges a request to a bucket, unless its limit is off.
pub(crate) async fn take(
    api: &Api,
    limit: &'static str,
    key: LimitKey,
    quota: Option<Quota>,
) -> Result<Option<RateDecision>, RestError> {
    let [decision] = take_all(api, [(limit, key, quota)]).await?;
    Ok(decision)
}

/// Charges a request to all buckets whose limit is on, or to none if one of them refuses.
pub(crate) async fn take_all<const N: usize>(
    api: &Api,
    limits: [(&'static str, LimitKey, Option<Quota>); N],
) -> Result<[Option<RateDecision>; N], RestError> {
    let takes: Vec<_> = limits.iter().filter_map(|(_, key, quota)| Some((*key, (*quota)?))).collect();
    if takes.is_empty() {
        return Ok([None; N]);
    }
    let decisions = match api.limiter.take_all(&takes).await {
        Ok(decisions) => decisions,
        // Limits fail open: an unavailable limiter must not fail requests that work without it.
        Err(error) => {
            let limit = limits.map(|(name, ..)| name).join(", ");
            tracing::warn!(error = %error_chain(&error), limit, "rate limiter unavailable; request allowed");
            return Ok([None; N]);
        }
    };
    let mut decisions = decisions.into_iter();
    let decided = limits.map(|(name, _, quota)| (name, quota.and_then(|_| decisions.next())));
    // Of several limits that refuse, the client waits for the last.
    let refused = decided.iter().filter_map(|(name, decision)| Some((*name, decision.filter(|one| !one.allowed)?)));
    match refused.max_by_key(|(_, decision)| decision.retry_after) {
        Some((limit, decision)) => Err(RestError::rate_limited(limit, decision.retry_after, Some(decision))),
        None => Ok(decided.map(|(_, decision)| decision)),
    }
}
