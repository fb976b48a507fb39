use std::net::SocketAddr;

use aws_lc_rs::digest;
use axum::Json;
use axum::body::{Body, to_bytes};
use axum::extract::{ConnectInfo, MatchedPath, Query, Request, State};
use axum::middleware::Next;
use axum::response::Response;
use http::StatusCode;
use ports::{Clock, Ids, RandomIds, SystemClock, error_chain};
use protocol::ErrorCode;
use serde::Deserialize;
use serde_json::{Value, json};
use tracing::{error, info};

use super::audit_trail::{ActionOutcome, AdminAction, AdminActor, OutcomeKind};
use super::error::AdminError;
use super::{AdminState, reports};

/// Most bytes in the body of an action, which is recorded whole. Our own requests are far shorter.
const REQUEST_BYTES_MAX: usize = 4096;
/// Actions in a response, unless the request gives another limit.
const LIMIT: usize = 100;
const LIMIT_MAX: usize = 1000;

/// Records every action before and after it runs. An action that cannot be recorded is not run. Reading the contents of
/// a reported message counts as an action too.
pub(super) async fn audit(
    State(admin): State<AdminState>,
    request: Request,
    next: Next,
) -> Result<Response, AdminError> {
    let route = request.extensions().get::<MatchedPath>().map_or("", MatchedPath::as_str);
    if request.method().is_safe() && within_admin(route) != reports::SHOWN {
        return Ok(next.run(request).await);
    }
    let (parts, body) = request.into_parts();
    let body = to_bytes(body, REQUEST_BYTES_MAX).await.map_err(|_| {
        let message = format!("the body of an action has at most {REQUEST_BYTES_MAX} bytes");
        AdminError::new(ErrorCode::MessageTooLarge, message)
    })?;
    let route = parts.extensions.get::<MatchedPath>().map_or("", MatchedPath::as_str);
    let address = parts.extensions.get::<ConnectInfo<SocketAddr>>().map(|info| info.0.to_string());
    let action = AdminAction {
        id: RandomIds.ulid().to_string(),
        at: SystemClock.now(),
        by: AdminActor { token: fingerprint(admin.token.expose()), address },
        action: format!("{} {}", parts.method, within_admin(route)),
        target: within_admin(parts.uri.path()).to_owned(),
        // The handler rejects a body that is not JSON; the trail records `null` for it.
        request: without_phone_number(serde_json::from_slice(&body).unwrap_or(Value::Null)),
    };
    admin.trail.begin(action.clone()).await.map_err(|failure| {
        error!(
            error = %error_chain(&failure),
            "could not record an operator action; the action was refused"
        );
        let message = "the action was not done, because `admin-audit.jsonl` in the data directory cannot be written";
        AdminError::new(ErrorCode::ServiceUnavailable, message)
    })?;

    let response = next.run(Request::from_parts(parts, Body::from(body))).await;
    let status = response.status();
    let outcome = ActionOutcome { ended_at: SystemClock.now(), outcome: outcome_of(status), status: status.as_u16() };
    info!(
        action = action.action,
        target = action.target,
        token = action.by.token,
        address = action.by.address,
        status = outcome.status,
        "operator action"
    );
    if let Err(failure) = admin.trail.end(action.id, outcome).await {
        // The action has run and its first line is on disk; only the outcome is missing there.
        error!(error = %error_chain(&failure), "could not record the outcome of an operator action");
    }
    Ok(response)
}

/// Redacts a request for the audit trail, which is kept permanently: it contains no phone numbers.
fn without_phone_number(mut request: Value) -> Value {
    if let Some(phone_number) = request.get_mut("phone_number") {
        *phone_number = "left out".into();
    }
    request
}

fn outcome_of(status: StatusCode) -> OutcomeKind {
    if status.is_success() {
        OutcomeKind::Done
    } else if status.is_client_error() {
        OutcomeKind::Refused
    } else {
        OutcomeKind::Failed
    }
}

/// A path without the common prefix of the admin API.
fn within_admin(path: &str) -> &str {
    path.strip_prefix("/admin/v1").unwrap_or(path)
}

/// Identifies a token without revealing it.
fn fingerprint(token: &str) -> String {
    let digest = digest::digest(&digest::SHA256, token.as_bytes());
    let beginning: String = digest.as_ref()[..4].iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{beginning}")
}

#[derive(Deserialize)]
pub(super) struct AuditQuery {
    limit: Option<usize>,
}

/// Lists the actions of operators in this process, newest first.
pub(super) async fn list(
    State(admin): State<AdminState>,
    Query(AuditQuery { limit }): Query<AuditQuery>,
) -> Result<Json<Value>, AdminError> {
    let limit = super::limit(limit, LIMIT, LIMIT_MAX)?;
    let entries = admin.trail.newest(limit).await.map_err(|failure| {
        error!(error = %error_chain(&failure), "could not read the audit trail");
        AdminError::new(ErrorCode::ServiceUnavailable, "`admin-audit.jsonl` cannot be read; the log says why")
    })?;
    Ok(Json(json!({ "actions": entries })))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fingerprint_is_the_beginning_of_a_digest() {
        assert_eq!(fingerprint("abc"), "sha256:ba7816bf");
    }

    #[test]
    fn a_phone_number_is_not_written_down() {
        let request = json!({ "phone_number": "+14155550101", "display_name": "Ada" });
        let kept = json!({ "phone_number": "left out", "display_name": "Ada" });
        assert_eq!(without_phone_number(request), kept);
        assert_eq!(without_phone_number(Value::Null), Value::Null);
    }

    #[test]
    fn the_outcome_of_an_action_follows_from_its_status() {
        let outcomes = [200, 204, 404, 409, 500, 503].map(|status| outcome_of(StatusCode::from_u16(status).unwrap()));
        use OutcomeKind::{Done, Failed, Refused};
        assert_eq!(outcomes, [Done, Done, Refused, Refused, Failed, Failed]);
    }
}
