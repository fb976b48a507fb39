use std::error::Error;
use std::fmt;
use std::time::Duration;

use auth::AuthError;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use domain::{ChatRefusal, Decision, Sequence};
use ports::{IngestError, StoreError};
use protocol::rest::FieldError;
use protocol::{ErrorBody, ErrorCode};
use serde_json::json;

/// When to try again what failed because a store did.
const STORE_RETRY_AFTER: Duration = Duration::from_secs(1);

/// A request that fails, and how it is answered.
///
/// As a response it is a status alone: [`envelope`](super::envelope) finds the rest in the response's extensions and
/// writes it, because only there the id of the request is known.
#[derive(Clone, Debug)]
pub(crate) struct ApiError(pub(super) Box<Failed>);

#[derive(Clone, Debug)]
pub(super) struct Failed {
    pub(super) body: ErrorBody,
    /// The `Retry-After` of the answer.
    pub(super) retry_after: Option<Duration>,
    /// What the limiter said, if it was the limiter who refused.
    pub(super) decision: Option<Decision>,
}

impl ApiError {
    pub(crate) fn new(code: ErrorCode, message: impl fmt::Display) -> Self {
        ErrorBody::new(code, message).into()
    }

    /// A field, parameter or header that cannot be taken.
    pub(crate) fn field(field: impl Into<String>, message: impl fmt::Display) -> Self {
        let (field, message) = (field.into(), message.to_string());
        let words = format!("{field}: {message}");
        ErrorBody::new(ErrorCode::ValidationError, words)
            .with_details(FieldError { field, message }.into_details())
            .into()
    }

    /// A limit, by its name in `[limits]`, that is reached.
    pub(crate) fn rate_limited(limit: &'static str, retry_after: Duration, decision: Option<Decision>) -> Self {
        let details = json!({ "limit": limit, "retry_after_seconds": whole_seconds(retry_after) });
        let body = ErrorBody::new(ErrorCode::RateLimited, format!("limit `{limit}` is reached")).with_details(details);
        Self(Box::new(Failed { body, retry_after: Some(retry_after), decision }))
    }

    /// A sequence that no message of the chat has yet.
    pub(crate) fn above_head(head: Sequence) -> Self {
        let message = format!("sequence is above the head of the chat, {head}");
        ErrorBody::new(ErrorCode::InvalidSequence, message).with_details(json!({ "head_sequence": head })).into()
    }

    /// A failure that may be none the next time.
    pub(super) fn retry(code: ErrorCode, message: impl fmt::Display, retry_after: Duration) -> Self {
        let details = json!({ "retry_after_seconds": whole_seconds(retry_after) });
        let body = ErrorBody::new(code, message).with_details(details);
        Self(Box::new(Failed { body, retry_after: Some(retry_after), decision: None }))
    }
}

/// A wait in whole seconds, rounded up: whoever waits that long has waited long enough.
pub(super) fn whole_seconds(wait: Duration) -> u64 {
    wait.as_millis().div_ceil(1000).max(1) as u64
}

impl From<ErrorBody> for ApiError {
    fn from(body: ErrorBody) -> Self {
        Self(Box::new(Failed { body, retry_after: None, decision: None }))
    }
}

impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> Self {
        tracing::error!(error = &error as &dyn Error, "a store did not answer");
        match error {
            StoreError::Unavailable(_) => {
                Self::retry(ErrorCode::ServiceUnavailable, "the service cannot do this now", STORE_RETRY_AFTER)
            }
            StoreError::Corrupt { .. } => Self::new(ErrorCode::InternalError, "the service has a defect"),
        }
    }
}

impl From<IngestError> for ApiError {
    fn from(error: IngestError) -> Self {
        match error {
            IngestError::ChatNotFound => Self::new(ErrorCode::NotFound, error),
            IngestError::NotAMember => Self::new(ErrorCode::NotAMember, error),
            IngestError::IdempotencyKeyReused => Self::new(ErrorCode::IdempotencyKeyReused, error),
            IngestError::Blocked => Self::new(ErrorCode::Forbidden, error),
            IngestError::Blocking => Self::new(ErrorCode::InvalidOperation, error),
            IngestError::CounterMissing => Self::new(ErrorCode::CounterMissing, error),
            IngestError::Unreadable => Self::new(ErrorCode::InternalError, error),
            IngestError::AboveHead { head } => Self::above_head(head),
            IngestError::Busy => Self::retry(ErrorCode::ServerBusy, error, STORE_RETRY_AFTER),
            IngestError::Unavailable { retry_after } => Self::retry(ErrorCode::ServiceUnavailable, error, retry_after),
        }
    }
}

impl From<ChatRefusal> for ApiError {
    fn from(refusal: ChatRefusal) -> Self {
        let code = match refusal {
            ChatRefusal::ChatNotFound | ChatRefusal::TargetNotAMember => ErrorCode::NotFound,
            ChatRefusal::NotAMember => ErrorCode::NotAMember,
            ChatRefusal::Forbidden | ChatRefusal::Blocked => ErrorCode::Forbidden,
            ChatRefusal::AlreadyAMember => ErrorCode::AlreadyAMember,
            ChatRefusal::ChatFull => ErrorCode::ChatFull,
            ChatRefusal::DirectIsImmutable | ChatRefusal::OwnerMustHandOver | ChatRefusal::Blocking => {
                ErrorCode::InvalidOperation
            }
            ChatRefusal::OwnerIsNotAdded => return Self::field("role", refusal),
        };
        Self::new(code, refusal)
    }
}

impl From<AuthError> for ApiError {
    fn from(error: AuthError) -> Self {
        match error {
            AuthError::InvalidToken(_) | AuthError::TokenRevoked | AuthError::WrongCode => {
                Self::new(ErrorCode::Unauthorized, error)
            }
            AuthError::Locked { retry_after } => Self::rate_limited("otp_verify", retry_after, None),
            AuthError::RateLimited { limit, decision } => {
                Self::rate_limited(limit, decision.retry_after, Some(decision))
            }
            AuthError::InvalidPhoneNumber => Self::field("phone_number", error),
            AuthError::NotDelivered => Self::retry(ErrorCode::ServiceUnavailable, error, STORE_RETRY_AFTER),
            AuthError::Unavailable(store) => store.into(),
        }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.0.body.code.http_status()).expect("the table has real statuses");
        let mut response = status.into_response();
        response.extensions_mut().insert(self);
        response
    }
}
