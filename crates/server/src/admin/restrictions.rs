use std::time::Duration;

use auth::token_id;
use axum::Json;
use axum::extract::{Path, State};
use domain::{RestrictionChange, Restrictions, SuspensionReason};
use ports::{SecurityEvent, SecurityEventKind};
use protocol::ErrorCode;
use serde::Deserialize;
use serde_json::{Value, json};

use super::error::AdminError;
use super::users::known;
use super::{AdminState, parse};

/// How long a token is denied, unless the request says when it expires.
const TOKEN_LIFETIME: Duration = Duration::from_secs(24 * 3600);
const TOKEN_LIFETIME_MAX: Duration = Duration::from_secs(366 * 24 * 3600);
/// Most bytes of the id of a token.
const TOKEN_ID_BYTES_MAX: usize = 255;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Suspend {
    reason: Option<String>,
}

/// Suspends a user: all tokens and sends are refused, and sockets close within a second.
pub(super) async fn suspend(
    State(admin): State<AdminState>,
    Path(id): Path<String>,
    Json(Suspend { reason }): Json<Suspend>,
) -> Result<Json<Value>, AdminError> {
    let reason = reason.map(SuspensionReason::try_from).transpose().map_err(|_| {
        let message = "`reason` has 1 to 200 characters, and no control characters";
        AdminError::new(ErrorCode::ValidationError, message)
    })?;
    restrict(&admin, &id, RestrictionChange::Suspend { reason }).await
}

/// Ends the suspension of a user. Their sessions are valid again.
pub(super) async fn resume(State(admin): State<AdminState>, Path(id): Path<String>) -> Result<Json<Value>, AdminError> {
    restrict(&admin, &id, RestrictionChange::Resume).await
}

/// Invalidates all sessions and tokens of a user up to now, those of an external identity provider included.
pub(super) async fn sign_out(
    State(admin): State<AdminState>,
    Path(id): Path<String>,
) -> Result<Json<Value>, AdminError> {
    restrict(&admin, &id, RestrictionChange::SignOut).await
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RevokeToken {
    token_id: String,
    lifetime_seconds: Option<u64>,
}

/// Invalidates one token of a user until it expires.
pub(super) async fn revoke_token(
    State(admin): State<AdminState>,
    Path(id): Path<String>,
    Json(RevokeToken { token_id: jti, lifetime_seconds }): Json<RevokeToken>,
) -> Result<Json<Value>, AdminError> {
    if !(1..=TOKEN_ID_BYTES_MAX).contains(&jti.len()) {
        let message = format!("`token_id`, the claim `jti` of the token, has 1 to {TOKEN_ID_BYTES_MAX} bytes");
        return Err(AdminError::new(ErrorCode::ValidationError, message));
    }
    let lifetime = lifetime_seconds.map_or(TOKEN_LIFETIME, Duration::from_secs);
    if lifetime.is_zero() || lifetime > TOKEN_LIFETIME_MAX {
        let message = format!("`lifetime_seconds` is from 1 to {}", TOKEN_LIFETIME_MAX.as_secs());
        return Err(AdminError::new(ErrorCode::ValidationError, message));
    }
    restrict(&admin, &id, RestrictionChange::DenyToken { token_id: token_id(&jti), lifetime }).await
}

async fn restrict(admin: &AdminState, id: &str, change: RestrictionChange) -> Result<Json<Value>, AdminError> {
    let (records, user_id) = (admin.records()?, parse(id)?);
    if known(records, user_id).await?.deleted_at.is_some() {
        let message = format!("the account of `{user_id}` is deleted");
        return Err(AdminError::new(ErrorCode::InvalidOperation, message));
    }
    let kind = match change {
        RestrictionChange::Suspend { .. } => SecurityEventKind::UserSuspended,
        RestrictionChange::Resume => SecurityEventKind::UserResumed,
        RestrictionChange::SignOut => SecurityEventKind::UserSignedOut,
        RestrictionChange::DenyToken { .. } => SecurityEventKind::TokenRevoked,
    };
    let restricted = records.auth.restrict(user_id, change).await.map_err(AdminError::failed)?;
    let restrictions = restricted.map_err(|refusal| AdminError::new(ErrorCode::InvalidOperation, refusal))?;
    admin.security.record(SecurityEvent::of(kind).user(user_id));
    let mut answer = body(&restrictions);
    answer["user_id"] = json!(user_id);
    Ok(Json(answer))
}

/// The restrictions of a user. A deleted account keeps its own, which are of no interest.
pub(super) fn body(restrictions: &Restrictions) -> Value {
    let suspension = restrictions.suspension.as_ref();
    json!({
        "suspended_since": suspension.map(|suspension| suspension.since),
        "suspension_reason": suspension.and_then(|suspension| suspension.reason.as_ref()).map(SuspensionReason::as_str),
        "tokens_valid_from": restrictions.not_before,
        "revoked_tokens": restrictions.denied.len(),
    })
}
