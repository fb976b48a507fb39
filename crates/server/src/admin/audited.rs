use std::io;
use std::net::SocketAddr;

use axum::Json;
use axum::body::{Body, to_bytes};
use axum::extract::{ConnectInfo, Extension, MatchedPath, Query, Request, State};
use axum::middleware::Next;
use axum::response::Response;
use http::StatusCode;
use ports::{Clock, Ids, RandomIds, SecurityEvent, SecurityEventKind, SystemClock, error_chain};
use protocol::ErrorCode;
use serde::Deserialize;
use serde_json::{Value, json};
use tracing::{error, info};

use super::AdminState;
use super::access::{self, AuditRecording};
use super::audit_trail::{ActionOutcome, AdminAction, AdminActor, AuditEntry, ListedEntries, OutcomeKind};
use super::error::AdminError;
use super::operators::Operator;

/// Most bytes in the body of an action, which is recorded whole. Our own requests are far shorter.
const REQUEST_BYTES_MAX: usize = 4096;
/// Actions in a response, unless the request gives another limit.
const LIMIT: usize = 100;
const LIMIT_MAX: usize = 1000;

/// Added to a response by a handler: the request as the audit trail records it.
#[derive(Clone)]
pub(super) struct AuditedRequest(pub(super) Value);

/// Checks the role of the operator, and records the request as the table of [`access`] says.
///
/// An action is recorded before and after it runs, and is not run if it cannot be recorded. A read is recorded before
/// its answer is sent, and is not answered if it cannot be recorded. A refusal for a missing role is recorded like a
/// read.
pub(super) async fn audit(
    State(admin): State<AdminState>,
    Extension(operator): Extension<Operator>,
    request: Request,
    next: Next,
) -> Result<Response, AdminError> {
    let route = request.extensions().get::<MatchedPath>().map_or("", MatchedPath::as_str);
    let route = within_admin(route).to_owned();
    let address = request.extensions().get::<ConnectInfo<SocketAddr>>().map(|info| info.0.to_string());
    let by = AdminActor { operator: Some(operator.name.to_string()), token: operator.fingerprint.to_string(), address };
    let action = AdminAction {
        id: RandomIds.ulid().to_string(),
        at: SystemClock.now(),
        by,
        action: format!("{} {route}", request.method()),
        target: within_admin(request.uri().path()).to_owned(),
        request: Value::Null,
    };
    match access::rule(request.method(), &route) {
        Some(rule) if operator.role >= rule.role => match rule.recording {
            AuditRecording::Unrecorded => Ok(next.run(request).await),
            AuditRecording::Read => read(&admin, action, request, next).await,
            AuditRecording::Action => act(&admin, action, request, next).await,
        },
        rule => {
            let refusal = match rule {
                Some(rule) => AdminError::needs_role(rule.role, &operator),
                None => AdminError::new(ErrorCode::Forbidden, "no operator may do this: the route has no rule"),
            };
            let event = SecurityEvent::of(SecurityEventKind::OperatorRefused).failed("role");
            admin.security.record(event.with("action", &action.action).with("target", &action.target));
            note(&admin, action, StatusCode::FORBIDDEN).await?;
            Err(refusal)
        }
    }
}

async fn read(
    admin: &AdminState,
    mut action: AdminAction,
    request: Request,
    next: Next,
) -> Result<Response, AdminError> {
    let mut response = next.run(request).await;
    if let Some(AuditedRequest(request)) = response.extensions_mut().remove() {
        action.request = request;
    }
    note(admin, action, response.status()).await?;
    Ok(response)
}

/// Records a request that changes nothing.
async fn note(admin: &AdminState, action: AdminAction, status: StatusCode) -> Result<(), AdminError> {
    let entry = AuditEntry { action, outcome: Some(outcome(status)), read: true };
    admin.trail.note(&entry).await.map_err(unrecorded)
}

async fn act(
    admin: &AdminState,
    mut action: AdminAction,
    request: Request,
    next: Next,
) -> Result<Response, AdminError> {
    let (parts, body) = request.into_parts();
    let body = to_bytes(body, REQUEST_BYTES_MAX).await.map_err(|_| {
        let message = format!("the body of an action has at most {REQUEST_BYTES_MAX} bytes");
        AdminError::new(ErrorCode::MessageTooLarge, message)
    })?;
    // The handler rejects a body that is not JSON; the trail records `null` for it.
    action.request = without_phone_number(serde_json::from_slice(&body).unwrap_or(Value::Null));
    let begun = admin.trail.begin(action.clone()).await.map_err(unrecorded)?;

    let response = next.run(Request::from_parts(parts, Body::from(body))).await;
    let outcome = outcome(response.status());
    info!(
        action = action.action,
        target = action.target,
        operator = action.by.operator,
        token = action.by.token,
        address = action.by.address,
        status = outcome.status,
        audit_hash = begun.to_hex(),
        "operator action"
    );
    let event = SecurityEvent::of(SecurityEventKind::OperatorAction);
    let event = match outcome.outcome {
        OutcomeKind::Done => event,
        OutcomeKind::Refused => event.failed("refused"),
        OutcomeKind::Failed => event.failed("failed"),
    };
    let event = event.with("action", &action.action).with("target", &action.target);
    admin.security.record(event.with("status", outcome.status).with("audit_hash", begun.to_hex()));
    if let Err(failure) = admin.trail.end(action.id, outcome).await {
        // The action has run and its first line is on disk; only the outcome is missing there.
        error!(error = %error_chain(&failure), "could not record the outcome of an operator action");
    }
    Ok(response)
}

fn unrecorded(failure: io::Error) -> AdminError {
    error!(error = %error_chain(&failure), "could not record a request of an operator; it was refused");
    let message = "the request was refused, because `admin-audit.jsonl` in the data directory cannot be written";
    AdminError::new(ErrorCode::ServiceUnavailable, message)
}

fn outcome(status: StatusCode) -> ActionOutcome {
    ActionOutcome { ended_at: SystemClock.now(), outcome: outcome_of(status), status: status.as_u16() }
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

#[derive(Deserialize)]
pub(super) struct AuditQuery {
    limit: Option<usize>,
    /// Whether to list reads too.
    #[serde(default)]
    reads: bool,
}

/// Lists the actions of operators in this process, newest first.
pub(super) async fn list(
    State(admin): State<AdminState>,
    Query(AuditQuery { limit, reads }): Query<AuditQuery>,
) -> Result<Json<Value>, AdminError> {
    let limit = super::limit(limit, LIMIT, LIMIT_MAX)?;
    let listed = if reads { ListedEntries::ActionsAndReads } else { ListedEntries::Actions };
    let entries = admin.trail.newest(listed, limit).await.map_err(|failure| {
        error!(error = %error_chain(&failure), "could not read the audit trail");
        AdminError::new(ErrorCode::ServiceUnavailable, "`admin-audit.jsonl` cannot be read; the log says why")
    })?;
    Ok(Json(json!({ "actions": entries })))
}

#[cfg(test)]
mod tests {
    use super::*;

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
