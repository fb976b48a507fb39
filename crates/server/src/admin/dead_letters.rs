use axum::Json;
use axum::extract::{Path, Query, State};
use http::StatusCode;
use notify::Redelivery;
use ports::{DeadLetter, DeadLetterId, UndeliveredItem};
use protocol::ErrorCode;
use serde::Deserialize;
use serde_json::{Value, json};

use super::AdminState;
use super::error::AdminError;

/// Dead letters in a page.
const PAGE_LEN: usize = 100;

#[derive(Deserialize)]
pub(super) struct DeadLettersQuery {
    /// The last dead letter of the previous page.
    after: Option<String>,
}

pub(super) async fn list(
    State(admin): State<AdminState>,
    Query(query): Query<DeadLettersQuery>,
) -> Result<Json<Value>, AdminError> {
    let after = query.after.as_deref().map(parse).transpose()?;
    let letters = admin.outward()?.dead_letters.store.dead_letters(after, PAGE_LEN).await?;
    let next = (letters.len() == PAGE_LEN).then(|| letters.last().map(|letter| letter.id.to_string())).flatten();
    Ok(Json(json!({ "dead_letters": letters.iter().map(body).collect::<Vec<_>>(), "next": next })))
}

pub(super) async fn redeliver(
    State(admin): State<AdminState>,
    Path(id): Path<String>,
) -> Result<Json<Value>, AdminError> {
    match admin.outward()?.dead_letters.redeliver(parse(&id)?).await? {
        Redelivery::Done => Ok(Json(json!({}))),
        Redelivery::NotFound => Err(not_found()),
        Redelivery::Failed(reason) => Err(AdminError::new(ErrorCode::ServiceUnavailable, reason)),
        Redelivery::NoLongerKept => Err(AdminError::new(
            ErrorCode::InvalidOperation,
            "what was to be delivered has expired, is no longer kept or cannot be read",
        )),
        Redelivery::Off => {
            Err(AdminError::new(ErrorCode::InvalidOperation, "this service has no `webhook.url` to deliver it to"))
        }
    }
}

pub(super) async fn forget(State(admin): State<AdminState>, Path(id): Path<String>) -> Result<StatusCode, AdminError> {
    match admin.outward()?.dead_letters.store.remove_dead_letter(parse(&id)?).await? {
        true => Ok(StatusCode::NO_CONTENT),
        false => Err(not_found()),
    }
}

fn parse(id: &str) -> Result<DeadLetterId, AdminError> {
    DeadLetterId::from_string(id).map_err(|_| not_found())
}

fn not_found() -> AdminError {
    AdminError::new(ErrorCode::NotFound, "there is no such dead letter")
}

fn body(letter: &DeadLetter) -> Value {
    let mut body = match &letter.what {
        UndeliveredItem::Event { position, event_id, chat_id } => {
            json!({ "kind": "event", "chat_id": chat_id, "event_id": event_id, "position": position.0 })
        }
        UndeliveredItem::Unreadable { position } => json!({ "kind": "unreadable", "position": position.0 }),
        UndeliveredItem::Notification { user_id, device_id, chat_id, from } => json!({
            "kind": "notification", "chat_id": chat_id, "user_id": user_id, "device_id": device_id, "sequence": from,
        }),
    };
    body["id"] = letter.id.to_string().into();
    body["attempts"] = letter.attempts.into();
    body["reason"] = letter.reason.clone().into();
    body["dead_at"] = json!(letter.dead_at);
    body
}
