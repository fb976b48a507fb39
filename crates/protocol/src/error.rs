use std::fmt;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Everything that can be wrong with a request, in one closed table. A retired code is never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum ErrorCode {
    /// A frame that cannot be taken.
    InvalidMessage,
    /// A REST request that cannot be taken.
    ValidationError,
    /// No valid token, or a wrong one-time code.
    Unauthorized,
    /// The caller's role does not allow it.
    Forbidden,
    /// The caller is not a member of the chat.
    NotAMember,
    /// There is no such thing.
    NotFound,
    /// It contradicts what is there.
    Conflict,
    /// The same idempotency key came with another request.
    IdempotencyKeyReused,
    /// The user is a member already.
    AlreadyAMember,
    /// The group has as many members as it can.
    ChatFull,
    /// It cannot be done to this kind of thing, or not in this state.
    InvalidOperation,
    /// The route does not take this method.
    MethodNotAllowed,
    /// Content or body above its limit.
    MessageTooLarge,
    /// A content type that is not carried.
    InvalidContentType,
    /// A sequence above the head of its chat.
    InvalidSequence,
    /// Too often.
    RateLimited,
    /// The client reads too slowly.
    SlowConsumer,
    /// Too much work is waiting.
    ServerBusy,
    /// Something the service stands on is away.
    ServiceUnavailable,
    /// The chat's counter is gone; an operator has to repair it.
    CounterMissing,
    /// A defect of the service.
    InternalError,
}

/// Whether and how a client tries again.
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
    /// With growing pauses.
    Backoff,
    /// A few times at the most.
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

    /// The code as it stands on the wire.
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

    /// What it means, in a sentence of the documents.
    pub fn meaning(self) -> &'static str {
        match self {
            Self::InvalidMessage => "The frame cannot be taken.",
            Self::ValidationError => "The request cannot be taken; `details.field_errors` says why.",
            Self::Unauthorized => "There is no valid token, or the one-time code is wrong.",
            Self::Forbidden => "The caller's role does not allow it.",
            Self::NotAMember => "The caller is not a member of the chat.",
            Self::NotFound => "There is no such thing.",
            Self::Conflict => "It contradicts what is there.",
            Self::IdempotencyKeyReused => "The same key came with another request.",
            Self::AlreadyAMember => "The user is a member already.",
            Self::ChatFull => "The group has as many members as it can.",
            Self::InvalidOperation => "It cannot be done to this kind of thing, or not in this state.",
            Self::MethodNotAllowed => "The route does not take this method.",
            Self::MessageTooLarge => "Content or body is above its limit.",
            Self::InvalidContentType => "The content type is not carried.",
            Self::InvalidSequence => "The sequence is above the head of its chat, `details.head_sequence`.",
            Self::RateLimited => "Too often; `details.limit` says what.",
            Self::SlowConsumer => "The client reads too slowly.",
            Self::ServerBusy => "Too much work is waiting.",
            Self::ServiceUnavailable => "Something the service stands on is away.",
            Self::CounterMissing => "The chat's counter is gone; an operator has to repair it.",
            Self::InternalError => "The service has a defect.",
        }
    }

    /// The status of a REST answer with this code.
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

    /// What a client does about it.
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

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// An error as a client sees it: the payload of an `error` frame, and the heart of a REST failure.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ErrorBody {
    /// Which one.
    pub code: ErrorCode,
    /// In words, for people. It names what was wrong with the request and nothing of the inside of the service.
    pub message: String,
    /// What a program may want to know, by code: `retry_after_seconds`, `head_sequence`, `field_errors`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<serde_json::Value>,
}

impl ErrorBody {
    /// An error without details.
    pub fn new(code: ErrorCode, message: impl fmt::Display) -> Self {
        Self { code, message: message.to_string(), details: None }
    }

    /// The same with details.
    pub fn with_details(self, details: serde_json::Value) -> Self {
        Self { details: Some(details), ..self }
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

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
