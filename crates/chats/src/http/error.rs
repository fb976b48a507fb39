use std::fmt;
use std::time::Duration;

use auth::AuthError;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use domain::limits::PASSKEYS_MAX;
use domain::{ChatRefusal, IngestError, RateDecision, Sequence, UserId};
use metrics::counter;
use ports::{StoreError, error_chain};
use protocol::rest::FieldError;
use protocol::{BLOCKED_BY_YOU, ErrorBody, ErrorCode, NOT_REACHABLE, whole_seconds};
use serde_json::json;

/// Retry delay of requests that failed because a store failed.
const STORE_RETRY_AFTER: Duration = Duration::from_secs(1);

/// The failure of a request, and its response.
///
/// `into_response` sets the status only. [`envelope`](super::envelope) takes the rest from the response's extensions and
/// writes the body, because only there the request id is known.
#[derive(Clone, Debug)]
pub(crate) struct RestError(pub(super) Box<Failed>);

#[derive(Clone, Debug)]
pub(super) struct Failed {
    pub(super) body: ErrorBody,
    /// The `Retry-After` of the answer.
    pub(super) retry_after: Option<Duration>,
    /// The decision of the limiter, if it refused the request.
    pub(super) decision: Option<RateDecision>,
}

impl RestError {
    pub(crate) fn new(code: ErrorCode, message: impl fmt::Display) -> Self {
        ErrorBody::new(code, message).into()
    }

    /// An invalid field, parameter or header.
    pub(crate) fn field(field: impl Into<String>, message: impl fmt::Display) -> Self {
        let (field, message) = (field.into(), message.to_string());
        let words = format!("{field}: {message}");
        ErrorBody::new(ErrorCode::ValidationError, words)
            .with_details(FieldError { field, message }.into_details())
            .into()
    }

    /// A limit, by its name in `[limits]`, that is reached.
    pub(crate) fn rate_limited(limit: &'static str, retry_after: Duration, decision: Option<RateDecision>) -> Self {
        counter!("tidings_api_limited_total", "limit" => limit).increment(1);
        let details = json!({ "limit": limit, "retry_after_seconds": whole_seconds(retry_after) });
        let body = ErrorBody::new(ErrorCode::RateLimited, format!("limit `{limit}` is reached")).with_details(details);
        Self(Box::new(Failed { body, retry_after: Some(retry_after), decision }))
    }

    /// A limit, by its name in `[limits]`, on the number of things that a user has. Time alone does not help.
    pub(crate) fn maximum(limit: &'static str, maximum: usize, message: impl fmt::Display) -> Self {
        counter!("tidings_api_limited_total", "limit" => limit).increment(1);
        let details = json!({ "limit": limit, "maximum": maximum });
        ErrorBody::new(ErrorCode::InvalidOperation, message).with_details(details).into()
    }

    /// Users whom the caller cannot add. `details` names all of them, so that the caller can leave them out.
    pub(crate) fn not_reachable(user_ids: &[UserId]) -> Self {
        let names = user_ids.iter().map(|user_id| format!("`{user_id}`")).collect::<Vec<_>>().join(", ");
        let details = json!({ "reason": NOT_REACHABLE, "user_ids": user_ids });
        ErrorBody::new(ErrorCode::Forbidden, format!("you cannot add {names}; leave them out"))
            .with_details(details)
            .into()
    }

    /// A sequence that no message of the chat has yet.
    pub(crate) fn above_head(head: Sequence) -> Self {
        IngestError::AboveHead { head }.into()
    }

    /// A failure that a retry may resolve.
    pub(super) fn retry(code: ErrorCode, message: impl fmt::Display, retry_after: Duration) -> Self {
        let body = ErrorBody::new(code, message).with_retry_after(retry_after);
        Self(Box::new(Failed { body, retry_after: Some(retry_after), decision: None }))
    }
}

impl From<ErrorBody> for RestError {
    fn from(body: ErrorBody) -> Self {
        Self(Box::new(Failed { body, retry_after: None, decision: None }))
    }
}

impl From<StoreError> for RestError {
    fn from(error: StoreError) -> Self {
        tracing::error!(error = %error_chain(&error), "store call failed");
        match error {
            StoreError::Unavailable(_) => {
                Self::retry(ErrorCode::ServiceUnavailable, "the service cannot do this now", STORE_RETRY_AFTER)
            }
            StoreError::Corrupt { .. } => Self::new(ErrorCode::InternalError, "the service has a defect"),
        }
    }
}

impl From<IngestError> for RestError {
    fn from(error: IngestError) -> Self {
        let retry_after = error.retry_after();
        Self(Box::new(Failed { body: error.into(), retry_after, decision: None }))
    }
}

impl From<ChatRefusal> for RestError {
    fn from(refusal: ChatRefusal) -> Self {
        let code = match refusal {
            ChatRefusal::ChatNotFound | ChatRefusal::TargetNotAMember | ChatRefusal::NotInvited => ErrorCode::NotFound,
            ChatRefusal::NotAMember => ErrorCode::NotAMember,
            ChatRefusal::Forbidden | ChatRefusal::Blocked => ErrorCode::Forbidden,
            ChatRefusal::AlreadyAMember => ErrorCode::AlreadyAMember,
            ChatRefusal::ChatFull | ChatRefusal::TooManyInvitations => ErrorCode::ChatFull,
            ChatRefusal::DirectIsImmutable | ChatRefusal::OwnerMustHandOver | ChatRefusal::Blocking => {
                ErrorCode::InvalidOperation
            }
            ChatRefusal::OwnerIsNotAdded => return Self::field("role", refusal),
        };
        let body = ErrorBody::new(code, refusal);
        match refusal {
            ChatRefusal::Blocked => body.with_details(json!({ "reason": NOT_REACHABLE })),
            ChatRefusal::Blocking => body.with_details(json!({ "reason": BLOCKED_BY_YOU })),
            _ => body,
        }
        .into()
    }
}

impl From<AuthError> for RestError {
    fn from(error: AuthError) -> Self {
        match error {
            AuthError::InvalidToken(_)
            | AuthError::TokenRevoked
            | AuthError::WrongCode
            | AuthError::PasskeyRefused(_) => Self::new(ErrorCode::Unauthorized, error),
            AuthError::Suspended => IngestError::Suspended.into(),
            AuthError::Locked { retry_after } => Self::rate_limited("otp_verify", retry_after, None),
            AuthError::RateLimited { limit, decision } => {
                Self::rate_limited(limit, decision.retry_after, Some(decision))
            }
            AuthError::PhoneSignInOff | AuthError::PasskeysOff | AuthError::PasskeyWithoutSession => {
                Self::new(ErrorCode::InvalidOperation, error)
            }
            AuthError::PasskeyNotRegistered(refusal) => Self::field("credential", refusal),
            AuthError::PasskeyTaken => Self::new(ErrorCode::Conflict, error),
            AuthError::TooManyPasskeys => Self::maximum("passkeys", PASSKEYS_MAX, error),
            AuthError::InvalidPhoneNumber | AuthError::PhoneNumberRefused => Self::field("phone_number", error),
            AuthError::NotDelivered => Self::retry(ErrorCode::ServiceUnavailable, error, STORE_RETRY_AFTER),
            AuthError::Unavailable(store) => store.into(),
        }
    }
}

impl IntoResponse for RestError {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.0.body.code.http_status()).expect("the table has real statuses");
        let mut response = status.into_response();
        response.extensions_mut().insert(self);
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_queue_asks_for_the_same_delay_in_header_and_body() {
        let RestError(failed) = IngestError::Busy.into();
        assert_eq!(failed.body, ErrorBody::from(IngestError::Busy));
        assert_eq!(failed.retry_after, Some(Duration::from_secs(1)));
    }
}
