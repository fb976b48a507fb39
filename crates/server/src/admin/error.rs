use std::error::Error;
use std::fmt::Display;

use axum::Json;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use ports::StoreError;
use protocol::{ErrorBody, ErrorCode};
use serde_json::json;
use tracing::error;

/// Why an operator does not get what they ask for.
pub(super) struct AdminError(ErrorBody);

impl AdminError {
    pub(super) fn new(code: ErrorCode, message: impl Display) -> Self {
        Self(ErrorBody::new(code, message))
    }

    /// What the service stands on has failed.
    pub(super) fn failed(failure: impl Error + 'static) -> Self {
        error!(error = &failure as &dyn Error, "an operator was not answered");
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
