use axum::extract::path::ErrorKind;
use axum::extract::rejection::PathRejection;
use axum::extract::{FromRequestParts, Path as AxumPath};
use axum::http::request::Parts;
use protocol::ErrorCode;
use serde::de::DeserializeOwned;

use super::RestError;

/// The variable parts of a path.
///
/// An id that does not parse names nothing, so it is `NOT_FOUND` like any other id that names nothing. A number that
/// does not parse is a `VALIDATION_ERROR`.
pub(crate) struct Path<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned + Send> FromRequestParts<S> for Path<T> {
    type Rejection = RestError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, RestError> {
        match AxumPath::from_request_parts(parts, state).await {
            Ok(AxumPath(value)) => Ok(Self(value)),
            Err(PathRejection::FailedToDeserializePathParams(error)) => Err(match error.kind() {
                ErrorKind::ParseErrorAtKey { key, .. } => RestError::field(key, "is not a sequence"),
                _ => RestError::new(ErrorCode::NotFound, "the path names nothing"),
            }),
            Err(_) => Err(RestError::new(ErrorCode::InternalError, "the service has a defect")),
        }
    }
}
