use std::time::Duration;

use axum::Json;
use axum::extract::Extension;
use axum::extract::rejection::JsonRejection;
use protocol::ErrorCode;
use serde::Deserialize;
use serde_json::{Value, json};

use super::error::AdminError;
use crate::telemetry::{LevelError, LogLevel, LogLevelStatus};

/// The longest time that a temporary level may last.
const SECONDS_MAX: u64 = 24 * 3600;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LogLevelRequest {
    level: String,
    /// The configured level returns after this time.
    for_seconds: Option<u64>,
}

/// Shows the current log level.
pub(super) async fn show(Extension(level): Extension<LogLevel>) -> Json<Value> {
    Json(shown(level.standing()))
}

/// Changes the log level of this process.
pub(super) async fn change(
    Extension(level): Extension<LogLevel>,
    body: Result<Json<LogLevelRequest>, JsonRejection>,
) -> Result<Json<Value>, AdminError> {
    let Json(LogLevelRequest { level: to, for_seconds }) =
        body.map_err(|rejection| AdminError::new(ErrorCode::ValidationError, rejection.body_text()))?;
    if let Some(seconds) = for_seconds.filter(|seconds| !(1..=SECONDS_MAX).contains(seconds)) {
        let message = format!("`for_seconds` is {seconds}, and must be from 1 to {SECONDS_MAX}");
        return Err(AdminError::new(ErrorCode::ValidationError, message));
    }
    level.set(&to, for_seconds.map(Duration::from_secs)).map_err(|error| match error {
        LevelError::NoLevel(_) => AdminError::new(ErrorCode::ValidationError, error),
        LevelError::Directives { ref source, .. } => {
            AdminError::new(ErrorCode::ValidationError, format_args!("{error}: {source}"))
        }
        LevelError::Gone(_) => AdminError::failed(error),
    })?;
    Ok(Json(shown(level.standing())))
}

fn shown(LogLevelStatus { level, configured, left }: LogLevelStatus) -> Value {
    json!({ "level": level, "configured": configured, "for_seconds": left.map(|left| left.as_secs_f64().ceil() as u64) })
}
