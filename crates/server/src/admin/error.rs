use std::error::Error;
use std::fmt::Display;

use axum::Json;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use ports::{StoreError, error_chain};
use protocol::{ErrorBody, ErrorCode};
use serde_json::json;
use tracing::error;

use super::access::OperatorRole;
use super::operators::Operator;

/// The error response of the admin API.
pub(super) struct AdminError(ErrorBody);

impl AdminError {
    pub(super) fn new(code: ErrorCode, message: impl Display) -> Self {
        Self(ErrorBody::new(code, message))
    }

    /// The error for an operator without the needed role.
    pub(super) fn needs_role(needed: OperatorRole, operator: &Operator) -> Self {
        let Operator { name, role, .. } = operator;
        let message = format!("it needs the role `{needed}`, and `{name}` has the role `{role}`");
        Self(ErrorBody::new(ErrorCode::Forbidden, message).with_details(json!({ "needed_role": needed })))
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
