use std::sync::Arc;

use auth::Principal;
use axum::extract::{FromRequestParts, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, header};
use axum::middleware::Next;
use axum::response::Response;
use protocol::ErrorCode;

use super::RestError;
use crate::Api;

/// Authenticates a request by its bearer token and attaches the [`Caller`].
pub(crate) async fn authenticate(
    State(api): State<Arc<Api>>,
    mut request: Request,
    next: Next,
) -> Result<Response, RestError> {
    let token = bearer(request.headers())
        .ok_or_else(|| RestError::new(ErrorCode::Unauthorized, "the request has no `Authorization: Bearer` header"))?;
    let principal = api.auth.authenticate(token).await?;
    request.extensions_mut().insert(Caller(principal));
    Ok(next.run(request).await)
}

/// The scheme is compared without regard to case, as RFC 9110 has it.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(header::AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// The authenticated principal of a request, on routes with the [`authenticate`] layer.
#[derive(Clone)]
pub(crate) struct Caller(pub(crate) Principal);

impl<S: Sync> FromRequestParts<S> for Caller {
    type Rejection = RestError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, RestError> {
        // Fails closed: a route that needs its caller but lacks `authenticate` refuses all requests.
        parts
            .extensions
            .get()
            .cloned()
            .ok_or_else(|| RestError::new(ErrorCode::Unauthorized, "the request is not authenticated"))
    }
}
