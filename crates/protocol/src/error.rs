use std::fmt;
use std::time::Duration;

use domain::{IngestError, UpdateRefusal};
use serde::{Deserialize, Serialize};
use serde_json::json;
use utoipa::ToSchema;

/// The closed table of error codes. A retired code is never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum ErrorCode {
    /// The frame is invalid.
    InvalidMessage,
    /// The REST request is invalid.
    ValidationError,
    /// No valid token, or a wrong one-time code.
    Unauthorized,
    /// The caller's role does not allow it, or the account is suspended.
    Forbidden,
    /// The caller is not a member of the chat.
    NotAMember,
    /// The resource does not exist.
    NotFound,
    /// The request conflicts with the current state.
    Conflict,
    /// The idempotency key was used for a different request.
    IdempotencyKeyReused,
    /// The user is already a member.
    AlreadyAMember,
    /// The group has reached its member limit.
    ChatFull,
    /// The operation does not apply to this resource or its state.
    InvalidOperation,
    /// The route does not support this method.
    MethodNotAllowed,
    /// Content or body above its limit.
    MessageTooLarge,
    /// The content type is not supported.
    InvalidContentType,
    /// A sequence above the head of its chat.
    InvalidSequence,
    /// A rate limit is exceeded.
    RateLimited,
    /// The client reads too slowly.
    SlowConsumer,
    /// The server is saturated.
    ServerBusy,
    /// A dependency of the service is unavailable.
    ServiceUnavailable,
    /// The head sequence of the chat is missing; an operator has to repair it.
    CounterMissing,
    /// A defect of the service.
    InternalError,
}

/// Whether and how a client retries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// The same request would fail again.
    No,
    /// With a fresh token.
    AfterRefresh,
    /// After `retry_after_seconds`.
    AfterDelay,
    /// On a new connection.
    Reconnect,
    /// With exponential backoff.
    Backoff,
    /// At most this many times.
    UpTo(u32),
}

impl ErrorCode {
    /// Every code, in the order of the contract's table.
    pub const ALL: [Self; 21] = [
        Self::InvalidMessage,
        Self::ValidationError,
        Self::Unauthorized,
        Self::Forbidden,
        Self::NotAMember,
        Self::NotFound,
        Self::Conflict,
        Self::IdempotencyKeyReused,
        Self::AlreadyAMember,
        Self::ChatFull,
        Self::InvalidOperation,
        Self::MethodNotAllowed,
        Self::MessageTooLarge,
        Self::InvalidContentType,
        Self::InvalidSequence,
        Self::RateLimited,
        Self::SlowConsumer,
        Self::ServerBusy,
        Self::ServiceUnavailable,
        Self::CounterMissing,
        Self::InternalError,
    ];

    /// The code on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::InvalidMessage => "INVALID_MESSAGE",
            Self::ValidationError => "VALIDATION_ERROR",
            Self::Unauthorized => "UNAUTHORIZED",
            Self::Forbidden => "FORBIDDEN",
            Self::NotAMember => "NOT_A_MEMBER",
            Self::NotFound => "NOT_FOUND",
            Self::Conflict => "CONFLICT",
            Self::IdempotencyKeyReused => "IDEMPOTENCY_KEY_REUSED",
            Self::AlreadyAMember => "ALREADY_A_MEMBER",
            Self::ChatFull => "CHAT_FULL",
            Self::InvalidOperation => "INVALID_OPERATION",
            Self::MethodNotAllowed => "METHOD_NOT_ALLOWED",
            Self::MessageTooLarge => "MESSAGE_TOO_LARGE",
            Self::InvalidContentType => "INVALID_CONTENT_TYPE",
            Self::InvalidSequence => "INVALID_SEQUENCE",
            Self::RateLimited => "RATE_LIMITED",
            Self::SlowConsumer => "SLOW_CONSUMER",
            Self::ServerBusy => "SERVER_BUSY",
            Self::ServiceUnavailable => "SERVICE_UNAVAILABLE",
            Self::CounterMissing => "COUNTER_MISSING",
            Self::InternalError => "INTERNAL_ERROR",
        }
    }

    /// A description for the API documents.
    pub fn meaning(self) -> &'static str {
        match self {
            Self::InvalidMessage => "The frame is invalid.",
            Self::ValidationError => "The request is invalid; `details.field_errors` says why.",
            Self::Unauthorized => "There is no valid token, or the one-time code is wrong.",
            Self::Forbidden => "The caller's role does not allow it, or the account is suspended (`details.reason`).",
            Self::NotAMember => "The caller is not a member of the chat.",
            Self::NotFound => "The resource does not exist.",
            Self::Conflict => "The request conflicts with the current state.",
            Self::IdempotencyKeyReused => "The idempotency key was used for a different request.",
            Self::AlreadyAMember => "The user is already a member.",
            Self::ChatFull => "The group has reached its member limit.",
            Self::InvalidOperation => "The operation does not apply to this resource or its state.",
            Self::MethodNotAllowed => "The route does not support this method.",
            Self::MessageTooLarge => "Content or body is above its limit.",
            Self::InvalidContentType => "The content type is not supported.",
            Self::InvalidSequence => "The sequence is above the head of its chat, `details.head_sequence`.",
            Self::RateLimited => "A rate limit is exceeded; `details.limit` names it.",
            Self::SlowConsumer => "The client reads too slowly.",
            Self::ServerBusy => "The server is saturated.",
            Self::ServiceUnavailable => "A dependency of the service is unavailable.",
            Self::CounterMissing => "The head sequence of the chat is missing; an operator has to repair it.",
            Self::InternalError => "The service has a defect.",
        }
    }

    /// The HTTP status of a REST response with this code.
    pub fn http_status(self) -> u16 {
        match self {
            Self::InvalidMessage | Self::ValidationError | Self::ChatFull | Self::InvalidOperation => 400,
            Self::Unauthorized => 401,
            Self::Forbidden | Self::NotAMember => 403,
            Self::NotFound => 404,
            Self::MethodNotAllowed => 405,
            Self::Conflict | Self::IdempotencyKeyReused | Self::AlreadyAMember => 409,
            Self::MessageTooLarge => 413,
            Self::InvalidContentType => 415,
            Self::InvalidSequence => 422,
            Self::RateLimited | Self::SlowConsumer => 429,
            Self::InternalError => 500,
            Self::ServerBusy | Self::ServiceUnavailable | Self::CounterMissing => 503,
        }
    }

    /// How a client retries a request with this code.
    pub fn retry(self) -> Retry {
        match self {
            Self::InvalidMessage
            | Self::ValidationError
            | Self::Forbidden
            | Self::NotAMember
            | Self::NotFound
            | Self::Conflict
            | Self::IdempotencyKeyReused
            | Self::AlreadyAMember
            | Self::ChatFull
            | Self::InvalidOperation
            | Self::MethodNotAllowed
            | Self::MessageTooLarge
            | Self::InvalidContentType
            | Self::InvalidSequence
            | Self::CounterMissing => Retry::No,
            Self::Unauthorized => Retry::AfterRefresh,
            Self::RateLimited => Retry::AfterDelay,
            Self::SlowConsumer => Retry::Reconnect,
            Self::ServerBusy | Self::ServiceUnavailable => Retry::Backoff,
            Self::InternalError => Retry::UpTo(3),
        }
    }
}

impl From<&IngestError> for ErrorCode {
    fn from(error: &IngestError) -> Self {
        match error {
            IngestError::ChatNotFound => Self::NotFound,
            IngestError::NotAMember => Self::NotAMember,
            IngestError::IdempotencyKeyReused => Self::IdempotencyKeyReused,
            IngestError::Blocked | IngestError::Suspended => Self::Forbidden,
            IngestError::Blocking => Self::InvalidOperation,
            IngestError::CounterMissing => Self::CounterMissing,
            IngestError::Unreadable => Self::InternalError,
            IngestError::Update(refusal) => refusal.into(),
            IngestError::AboveHead { .. } => Self::InvalidSequence,
            IngestError::Busy => Self::ServerBusy,
            IngestError::StorageFull(_) | IngestError::Unavailable { .. } => Self::ServiceUnavailable,
        }
    }
}

impl From<&UpdateRefusal> for ErrorCode {
    fn from(refusal: &UpdateRefusal) -> Self {
        match refusal {
            UpdateRefusal::MessageNotFound | UpdateRefusal::NotReacted => Self::NotFound,
            UpdateRefusal::NotTheAuthor | UpdateRefusal::MayNotDelete => Self::Forbidden,
            UpdateRefusal::AlreadyReacted => Self::Conflict,
            UpdateRefusal::TooOld(_) | UpdateRefusal::TooManyKinds | UpdateRefusal::TooManyReactions => {
                Self::InvalidOperation
            }
        }
    }
}

/// `details.reason` of a refused update.
fn reason(refusal: UpdateRefusal) -> &'static str {
    match refusal {
        UpdateRefusal::MessageNotFound => "message_not_found",
        UpdateRefusal::NotTheAuthor => "not_the_author",
        UpdateRefusal::MayNotDelete => "may_not_delete",
        UpdateRefusal::TooOld(_) => "too_old",
        UpdateRefusal::AlreadyReacted => "already_reacted",
        UpdateRefusal::NotReacted => "not_reacted",
        UpdateRefusal::TooManyKinds => "too_many_kinds",
        UpdateRefusal::TooManyReactions => "too_many_reactions",
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// `details.reason` if another user does not let the caller reach them. It does not say that this is a block.
pub const NOT_REACHABLE: &str = "not_reachable";
/// `details.reason` if the caller has blocked the other user, and can unblock them.
pub const BLOCKED_BY_YOU: &str = "blocked_by_you";

/// An error as a client sees it: the payload of an `error` frame, and the body of a REST failure.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ErrorBody {
    /// The error code.
    pub code: ErrorCode,
    /// A text for people. It names the fault of the request and no internals of the service.
    pub message: String,
    /// Details for programs, by code: `retry_after_seconds`, `head_sequence`, `field_errors`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<serde_json::Value>,
}

impl ErrorBody {
    /// An error without details.
    pub fn new(code: ErrorCode, message: impl fmt::Display) -> Self {
        Self { code, message: message.to_string(), details: None }
    }

    /// The answer to a request beyond a limit, with the delay before the next attempt.
    pub fn rate_limited(limit: &str, retry_after: Duration) -> Self {
        let error = Self::new(ErrorCode::RateLimited, format_args!("limit `{limit}` is reached"));
        error.with_details(json!({ "limit": limit, "retry_after_seconds": whole_seconds(retry_after) }))
    }

    /// The same with details.
    pub fn with_details(self, details: serde_json::Value) -> Self {
        Self { details: Some(details), ..self }
    }

    /// The same with the delay before the next attempt.
    pub fn with_retry_after(self, retry_after: Duration) -> Self {
        self.with_details(json!({ "retry_after_seconds": whole_seconds(retry_after) }))
    }
}

impl From<IngestError> for ErrorBody {
    fn from(error: IngestError) -> Self {
        let body = Self::new(ErrorCode::from(&error), &error);
        match (&error, error.retry_after()) {
            (IngestError::AboveHead { head }, _) => body.with_details(json!({ "head_sequence": head })),
            // Distinguishes it from a missing right, which has the same code.
            (IngestError::Suspended, _) => body.with_details(json!({ "reason": "account_suspended" })),
            (IngestError::Blocked, _) => body.with_details(json!({ "reason": NOT_REACHABLE })),
            (IngestError::Blocking, _) => body.with_details(json!({ "reason": BLOCKED_BY_YOU })),
            (IngestError::Update(refusal), _) => body.with_details(json!({ "reason": reason(*refusal) })),
            (IngestError::StorageFull(limit), Some(retry_after)) => {
                let seconds = whole_seconds(retry_after);
                body.with_details(json!({ "limit": limit.setting(), "retry_after_seconds": seconds }))
            }
            (_, Some(retry_after)) => body.with_retry_after(retry_after),
            (_, None) => body,
        }
    }
}

/// A delay in whole seconds, rounded up, so that a client that waits this long is not refused again.
pub fn whole_seconds(delay: Duration) -> u64 {
    delay.as_millis().div_ceil(1000).max(1) as u64
}

#[cfg(test)]
mod tests {
    use domain::{Sequence, StorageLimit};
    use expect_test::expect;

    use super::*;

    #[test]
    fn the_errors_of_ingest_as_clients_see_them() {
        let errors = [
            IngestError::ChatNotFound,
            IngestError::NotAMember,
            IngestError::IdempotencyKeyReused,
            IngestError::Blocked,
            IngestError::Blocking,
            IngestError::Suspended,
            IngestError::CounterMissing,
            IngestError::Unreadable,
            IngestError::Update(UpdateRefusal::MessageNotFound),
            IngestError::Update(UpdateRefusal::NotTheAuthor),
            IngestError::Update(UpdateRefusal::MayNotDelete),
            IngestError::Update(UpdateRefusal::TooOld(60)),
            IngestError::Update(UpdateRefusal::AlreadyReacted),
            IngestError::Update(UpdateRefusal::NotReacted),
            IngestError::Update(UpdateRefusal::TooManyKinds),
            IngestError::Update(UpdateRefusal::TooManyReactions),
            IngestError::AboveHead { head: Sequence(4) },
            IngestError::StorageFull(StorageLimit::MaxGib),
            IngestError::StorageFull(StorageLimit::MinFreeMib),
            IngestError::Busy,
            IngestError::Unavailable { retry_after: Duration::from_millis(1001) },
        ];
        let table: String = errors
            .into_iter()
            .map(|error| {
                let ErrorBody { code, details, .. } = ErrorBody::from(error);
                let details = details.map(|details| format!(" {details}")).unwrap_or_default();
                format!("{code}{details}\n")
            })
            .collect();
        expect![[r#"
            NOT_FOUND
            NOT_A_MEMBER
            IDEMPOTENCY_KEY_REUSED
            FORBIDDEN {"reason":"not_reachable"}
            INVALID_OPERATION {"reason":"blocked_by_you"}
            FORBIDDEN {"reason":"account_suspended"}
            COUNTER_MISSING
            INTERNAL_ERROR
            NOT_FOUND {"reason":"message_not_found"}
            FORBIDDEN {"reason":"not_the_author"}
            FORBIDDEN {"reason":"may_not_delete"}
            INVALID_OPERATION {"reason":"too_old"}
            CONFLICT {"reason":"already_reacted"}
            NOT_FOUND {"reason":"not_reacted"}
            INVALID_OPERATION {"reason":"too_many_kinds"}
            INVALID_OPERATION {"reason":"too_many_reactions"}
            INVALID_SEQUENCE {"head_sequence":4}
            SERVICE_UNAVAILABLE {"limit":"store.max_gib","retry_after_seconds":30}
            SERVICE_UNAVAILABLE {"limit":"store.min_free_mib","retry_after_seconds":30}
            SERVER_BUSY {"retry_after_seconds":1}
            SERVICE_UNAVAILABLE {"retry_after_seconds":2}
        "#]]
        .assert_eq(&table);
    }

    #[test]
    fn delays_are_rounded_up_to_whole_seconds() {
        assert_eq!([0, 1, 1000, 1001].map(|millis| whole_seconds(Duration::from_millis(millis))), [1, 1, 1, 2]);
    }

    #[test]
    fn the_table_of_the_contract() {
        let table: String = ErrorCode::ALL
            .iter()
            .map(|code| {
                assert_eq!(serde_json::to_value(code).unwrap(), code.as_str());
                format!("{code} {} {:?}\n", code.http_status(), code.retry())
            })
            .collect();
        expect![[r#"
            INVALID_MESSAGE 400 No
            VALIDATION_ERROR 400 No
            UNAUTHORIZED 401 AfterRefresh
            FORBIDDEN 403 No
            NOT_A_MEMBER 403 No
            NOT_FOUND 404 No
            CONFLICT 409 No
            IDEMPOTENCY_KEY_REUSED 409 No
            ALREADY_A_MEMBER 409 No
            CHAT_FULL 400 No
            INVALID_OPERATION 400 No
            METHOD_NOT_ALLOWED 405 No
            MESSAGE_TOO_LARGE 413 No
            INVALID_CONTENT_TYPE 415 No
            INVALID_SEQUENCE 422 No
            RATE_LIMITED 429 AfterDelay
            SLOW_CONSUMER 429 Reconnect
            SERVER_BUSY 503 Backoff
            SERVICE_UNAVAILABLE 503 Backoff
            COUNTER_MISSING 503 No
            INTERNAL_ERROR 500 UpTo(3)
        "#]]
        .assert_eq(&table);
    }
}
