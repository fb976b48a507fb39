use serde_json::{Value, json};

use crate::{CloseReason, ErrorCode, Retry};

/// The table of error codes: description, HTTP status, and whether a client retries.
pub(super) fn error_codes() -> Value {
    let row = |code: ErrorCode| {
        json!({
            "code": code,
            "http_status": code.http_status(),
            "retry": retry(code.retry()),
            "description": code.meaning(),
        })
    };
    ErrorCode::ALL.into_iter().map(row).collect()
}

/// The table of close codes, with the `connection_closing` payload that precedes each.
pub(super) fn close_codes() -> Value {
    let row = |reason: CloseReason| {
        let closing = reason.closing_frame();
        json!({
            "code": reason.code(),
            "reason": closing.reason,
            "description": closing.message,
            "reconnect_delay_ms": closing.reconnect_delay_ms,
        })
    };
    CloseReason::ALL.into_iter().map(row).collect()
}

fn retry(retry: Retry) -> String {
    match retry {
        Retry::No => "no".to_owned(),
        Retry::AfterRefresh => "with a fresh token".to_owned(),
        Retry::AfterDelay => "after `retry_after_seconds`".to_owned(),
        Retry::Reconnect => "on a new connection".to_owned(),
        Retry::Backoff => "with exponential backoff".to_owned(),
        Retry::UpTo(times) => format!("up to {times} times"),
    }
}
