use std::error::Error;
use std::fmt::Display;

use axum::Json;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use ports::{StoreError, error_chain};
use protocol::{ErrorBody, ErrorCode};
use serde_json::json;
use tracing::error;

/// The error response of the admin API.
pub(super) struct AdminError(ErrorBody);

impl AdminError {
    pub(super) fn new(code: ErrorCode, message: impl Display) -> Self {
        Self(ErrorBody::new(code, message))
    }

    /// The error for a failed dependency. Logs the failure.
    pub(super) fn failed(failure: impl Error + 'static) -> Self {
        error!(error = %error_chain(&failure), "an admin request failed");
        Self::new(ErrorCode::ServiceUnavailable, "the service cannot do this now; the log says why")
    }
}

impl From<StoreError> for AdminError {
    fn from(failure: StoreError) -> Self {
        Self::failed(failure)
    }
}

impl IntoResponse for AdminError {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.0.code.http_status()).expect("the table has real statuses");
        (status, Json(json!({ "error": self.0 }))).into_response()
    }
}
