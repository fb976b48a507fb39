use std::error::Error;
use std::sync::Arc;

use axum::extract::{MatchedPath, Request, State};
use axum::http::Method;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use domain::{Decision, Quota};
use ports::LimitKey;

use super::{ApiError, Caller};
use crate::Api;

/// Counts the requests of each user, reads and writes apart. The answer says what is left.
///
/// A send is no such write: it has limits of its own, the same over REST as over a socket, and they are its route's. So has
/// an export, which is no such read. A question about presence is a read, though its users are in a body.
pub(crate) async fn limit_requests(
    State(api): State<Arc<Api>>,
    Caller(caller): Caller,
    request: Request,
    next: Next,
) -> Result<Response, ApiError> {
    let decision = match kind(&request) {
        Kind::LimitedByItsRoute => None,
        Kind::Read => take(&api, "rest_read", LimitKey::RestRead(caller.user_id), api.limits.rest_read).await?,
        Kind::Write => take(&api, "rest_write", LimitKey::RestWrite(caller.user_id), api.limits.rest_write).await?,
    };
    Ok(Limited(decision, next.run(request).await).into_response())
}

/// What a request is to the limits.
enum Kind {
    LimitedByItsRoute,
    Read,
    Write,
}

fn kind(request: &Request) -> Kind {
    let path = request.extensions().get().map_or("", MatchedPath::as_str);
    match *request.method() {
        Method::GET if path.ends_with("/me/export") => Kind::LimitedByItsRoute,
        Method::GET | Method::HEAD => Kind::Read,
        Method::POST if path.ends_with("/messages") => Kind::LimitedByItsRoute,
        Method::POST if path.ends_with("/presence/query") => Kind::Read,
        _ => Kind::Write,
    }
}

/// An answer that says what is left of a limit, unless the limit is off.
pub(crate) struct Limited<R>(pub(crate) Option<Decision>, pub(crate) R);

impl<R: IntoResponse> IntoResponse for Limited<R> {
    fn into_response(self) -> Response {
        let Self(decision, response) = self;
        let mut response = response.into_response();
        if let Some(decision) = decision {
            response.extensions_mut().insert(decision);
        }
        response
    }
}

/// Takes one from a bucket, unless its limit is off.
pub(crate) async fn take(
    api: &Api,
    limit: &'static str,
    key: LimitKey,
    quota: Option<Quota>,
) -> Result<Option<Decision>, ApiError> {
    let Some(quota) = quota else { return Ok(None) };
    match api.limiter.take(key, quota).await {
        Ok(decision) if decision.allowed => Ok(Some(decision)),
        Ok(decision) => Err(ApiError::rate_limited(limit, decision.retry_after, Some(decision))),
        // Counting is best effort. A limiter that is away must not take with it what works without it.
        Err(error) => {
            tracing::warn!(error = &error as &dyn Error, limit, "the limiter did not answer, the request goes on");
            Ok(None)
        }
    }
}
