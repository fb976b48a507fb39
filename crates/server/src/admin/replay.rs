use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use domain::{ChatId, Sequence, Timestamp};
use notify::{EventWebhook, Replay, ReplayError};
use ports::{Position, Start};
use protocol::ErrorCode;
use serde::Deserialize;
use serde_json::{Value, json};

use super::AdminState;
use super::error::AdminError;

/// The deliveries to replay: everything from a position of the log on, or the messages of one chat.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "snake_case")]
pub(super) enum ReplayRequest {
    Oldest {},
    Position(u64),
    Time(Timestamp),
    Chat(ChatMessages),
}

/// The messages of a chat from a sequence on.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ChatMessages {
    chat_id: ChatId,
    sequence: Sequence,
}

pub(super) async fn webhook_status(State(admin): State<AdminState>) -> Result<Json<Value>, AdminError> {
    let status = webhook(&admin)?.status().await?;
    Ok(Json(json!({
        "lag_events": status.lag,
        "failing_since": status.failing_since,
        "last_error": status.last_error,
        "delivered": status.delivered,
        "failed": status.failed,
    })))
}

pub(super) async fn replay_events(
    State(admin): State<AdminState>,
    Json(request): Json<ReplayRequest>,
) -> Result<Json<Value>, AdminError> {
    let replay = match request {
        ReplayRequest::Oldest {} => Replay::From(Start::Oldest),
        ReplayRequest::Position(position) => Replay::From(Start::At(Position(position))),
        ReplayRequest::Time(time) => Replay::From(Start::Time(time)),
        ReplayRequest::Chat(ChatMessages { chat_id, sequence }) => Replay::Chat { chat_id, from: sequence },
    };
    webhook(&admin)?.replay(replay).await.map_err(|error| match error {
        ReplayError::NotRunning | ReplayError::TooMany => AdminError::new(ErrorCode::ServerBusy, error),
        ReplayError::NoMessages => AdminError::new(ErrorCode::InvalidOperation, error),
        ReplayError::Store(failure) => failure.into(),
    })?;
    Ok(Json(json!({})))
}

pub(super) async fn replay_notifications(
    State(admin): State<AdminState>,
    Json(ChatMessages { chat_id, sequence }): Json<ChatMessages>,
) -> Result<Json<Value>, AdminError> {
    let owed = admin.outward()?.notifications.replay(chat_id, sequence).await?;
    Ok(Json(json!({ "owed": owed })))
}

fn webhook(admin: &AdminState) -> Result<&Arc<EventWebhook>, AdminError> {
    let webhook = admin.outward()?.webhook.as_ref();
    webhook.ok_or_else(|| AdminError::new(ErrorCode::NotFound, "this service has no `webhook.url`"))
}
