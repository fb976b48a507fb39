use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::rejection::JsonRejection;
use axum::extract::{Path, State};
use domain::Secret;
use http::StatusCode;
use ports::{Clock, SystemClock};
use protocol::ErrorCode;
use serde::Deserialize;
use serde_json::{Value, json};

use super::AdminState;
use super::access::OperatorRole;
use super::error::AdminError;
use super::operators::{Operators, ROOT};
use super::operators_file::{OperatorsError, OperatorsFile, StoredOperator, StoredToken};

/// Lists all operators of this process, `root` first.
pub(super) async fn list(State(admin): State<AdminState>) -> Json<Value> {
    let token = |token: &StoredToken| json!({ "created_at": token.created_at, "expires_at": token.expires_at });
    let body = |operator: &StoredOperator| {
        json!({
            "name": operator.name,
            "role": operator.role,
            "created_at": operator.created_at,
            "tokens": operator.tokens.iter().map(token).collect::<Vec<_>>(),
        })
    };
    let root = json!({ "name": ROOT, "role": OperatorRole::Admin });
    let named = admin.operators.named();
    let operators: Vec<_> = std::iter::once(root).chain(named.operators.iter().map(body)).collect();
    Json(json!({ "operators": operators }))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NewOperator {
    name: String,
    role: OperatorRole,
}

/// Adds an operator. The response has the token, which is shown only here.
pub(super) async fn add(
    State(admin): State<AdminState>,
    body: Result<Json<NewOperator>, JsonRejection>,
) -> Result<(StatusCode, Json<Value>), AdminError> {
    let Json(NewOperator { name, role }) = body.map_err(invalid)?;
    let added = name.clone();
    let token = change(&admin.operators, move |file| file.add(&added, role, SystemClock.now())).await?;
    Ok((StatusCode::CREATED, Json(json!({ "name": name, "role": role, "token": token.expose() }))))
}

/// Removes an operator. Their tokens are invalid at once.
pub(super) async fn remove(
    State(admin): State<AdminState>,
    Path(name): Path<String>,
) -> Result<Json<Value>, AdminError> {
    if name == ROOT {
        return Err(AdminError::new(ErrorCode::InvalidOperation, "`root` cannot be removed; rotate its token"));
    }
    let removed = name.clone();
    change(&admin.operators, move |file| file.remove(&removed)).await?;
    Ok(Json(json!({ "name": name })))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Rotate {
    /// How long the old token stays valid.
    #[serde(default)]
    overlap_seconds: u64,
}

/// Gives an operator a new token. The response has the token, except that of `root`: it is in `admin.json`, so that no
/// other operator can take it.
pub(super) async fn rotate(
    State(admin): State<AdminState>,
    Path(name): Path<String>,
    body: Result<Json<Rotate>, JsonRejection>,
) -> Result<Json<Value>, AdminError> {
    let Json(Rotate { overlap_seconds }) = body.map_err(invalid)?;
    let overlap = Duration::from_secs(overlap_seconds);
    let now = SystemClock.now();
    if name == ROOT {
        blocking(&admin.operators, move |operators| operators.rotate_root(overlap, now)).await?;
        return Ok(Json(json!({ "name": name, "token_file": "admin.json" })));
    }
    let rotated = name.clone();
    let token: Secret = change(&admin.operators, move |file| file.rotate(&rotated, overlap, now)).await?;
    Ok(Json(json!({ "name": name, "token": token.expose() })))
}

async fn change<T: Send + 'static>(
    operators: &Arc<Operators>,
    change: impl FnOnce(&mut OperatorsFile) -> Result<T, OperatorsError> + Send + 'static,
) -> Result<T, AdminError> {
    if operators.is_configured() {
        let message = "the operators of this process are in `admin.operators_file`; change that file with \
                       `tidings admin operator ... --file FILE`";
        return Err(AdminError::new(ErrorCode::InvalidOperation, message));
    }
    blocking(operators, move |operators| operators.change(change)).await
}

async fn blocking<T: Send + 'static>(
    operators: &Arc<Operators>,
    work: impl FnOnce(&Operators) -> Result<T, OperatorsError> + Send + 'static,
) -> Result<T, AdminError> {
    let operators = operators.clone();
    let done = tokio::task::spawn_blocking(move || work(&operators)).await.map_err(AdminError::failed)?;
    done.map_err(|refusal| match refusal {
        OperatorsError::Unknown { .. } => AdminError::new(ErrorCode::NotFound, refusal),
        OperatorsError::Name { .. } | OperatorsError::Overlap => AdminError::new(ErrorCode::ValidationError, refusal),
        OperatorsError::Exists { .. } | OperatorsError::Full => AdminError::new(ErrorCode::InvalidOperation, refusal),
        OperatorsError::Unreadable { .. } | OperatorsError::File(_) => AdminError::failed(refusal),
    })
}

fn invalid(rejection: JsonRejection) -> AdminError {
    AdminError::new(ErrorCode::ValidationError, rejection.body_text())
}
