use auth::parse_phone;
use axum::Json;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use domain::DisplayName;
use http::{StatusCode, header};
use ports::{MessageDisposition, UserKey, UserUpdate};
use protocol::ErrorCode;
use serde::Deserialize;
use serde_json::{Value, json};

use super::error::AdminError;
use super::users::known;
use super::{AdminState, parse};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Create {
    phone_number: String,
    display_name: String,
}

/// Creates the user of a phone number before their first sign-in. An existing user is left unchanged.
pub(super) async fn create(
    State(admin): State<AdminState>,
    Json(Create { phone_number, display_name }): Json<Create>,
) -> Result<(StatusCode, Json<Value>), AdminError> {
    let records = admin.records()?;
    let phone_number =
        parse_phone(&phone_number).map_err(|error| AdminError::new(ErrorCode::ValidationError, error))?;
    let new = records.auth.new_user(Some(name(display_name)?), records.now());
    let (user, is_new) = records.user_writer.find_or_create(UserKey::Phone(phone_number), new).await?;
    let status = if is_new { StatusCode::CREATED } else { StatusCode::OK };
    let body = json!({
        "user_id": user.user_id,
        "display_name": user.display_name.as_str(),
        "created_at": user.created_at,
        "is_new": is_new,
    });
    Ok((status, Json(body)))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Rename {
    display_name: String,
}

/// Changes the display name of a user.
pub(super) async fn rename(
    State(admin): State<AdminState>,
    Path(id): Path<String>,
    Json(Rename { display_name }): Json<Rename>,
) -> Result<Json<Value>, AdminError> {
    let (records, user_id) = (admin.records()?, parse(&id)?);
    if known(records, user_id).await?.deleted_at.is_some() {
        let message = format!("the account of `{user_id}` is deleted");
        return Err(AdminError::new(ErrorCode::InvalidOperation, message));
    }
    let name = name(display_name)?;
    records
        .user_writer
        .update(user_id, UserUpdate { display_name: Some(name.clone()), ..UserUpdate::default() }, records.now())
        .await?;
    Ok(Json(json!({ "user_id": user_id, "display_name": name.as_str() })))
}

/// Exports all data of a user, at the user's request to the operator. It reveals message contents, so it counts as an
/// action and is recorded in the audit trail.
pub(super) async fn export(State(admin): State<AdminState>, Path(id): Path<String>) -> Result<Response, AdminError> {
    let (records, user_id) = (admin.records()?, parse(&id)?);
    let user = known(records, user_id).await?;
    let document = Body::from_stream(records.accounts.clone().export(user));
    Ok(([(header::CONTENT_TYPE, "application/json")], document).into_response())
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Delete {
    #[serde(default)]
    erase_messages: bool,
}

/// Starts the deletion of an account.
pub(super) async fn delete(
    State(admin): State<AdminState>,
    Path(id): Path<String>,
    Json(Delete { erase_messages }): Json<Delete>,
) -> Result<(StatusCode, Json<Value>), AdminError> {
    let (records, user_id) = (admin.records()?, parse(&id)?);
    let messages = if erase_messages { MessageDisposition::Erase } else { MessageDisposition::Keep };
    let deletion = records.accounts.delete(user_id, messages).await?;
    let no_user = || AdminError::new(ErrorCode::NotFound, format!("there is no user `{user_id}`"));
    let deletion = deletion.ok_or_else(no_user)?;
    let body = json!({ "user_id": user_id, "begun_at": deletion.begun_at, "erase_messages": erase_messages });
    Ok((StatusCode::ACCEPTED, Json(body)))
}

fn name(text: String) -> Result<DisplayName, AdminError> {
    text.try_into().map_err(|error| AdminError::new(ErrorCode::ValidationError, format!("`display_name`: {error}")))
}
