use std::net::SocketAddr;

use aws_lc_rs::digest;
use axum::Json;
use axum::body::{Body, to_bytes};
use axum::extract::{ConnectInfo, MatchedPath, Query, Request, State};
use axum::middleware::Next;
use axum::response::Response;
use http::StatusCode;
use ports::{Clock, Ids, RandomIds, SystemClock};
use protocol::ErrorCode;
use serde::Deserialize;
use serde_json::{Value, json};
use tracing::{error, info};

use super::audit_trail::{Action, Actor, Outcome, OutcomeKind};
use super::error::AdminError;
use super::{Admin, reports};

/// Bytes of the body of an action, all of which is written down. None of ours is nearly as long.
const REQUEST_BYTES_MAX: usize = 4096;
/// Actions in an answer, unless another number is asked for.
const LIMIT: usize = 100;
const LIMIT_MAX: usize = 1000;

/// Writes down every action, before and after it is done. What cannot be written down is not done. Who looks at what
/// somebody wrote has acted, too.
pub(super) async fn audit(State(admin): State<Admin>, request: Request, next: Next) -> Result<Response, AdminError> {
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
    let action = Action {
        id: RandomIds.ulid().to_string(),
        at: SystemClock.now(),
        by: Actor { token: fingerprint(admin.token.expose()), address },
        action: format!("{} {}", parts.method, within_admin(route)),
        target: within_admin(parts.uri.path()).to_owned(),
        // What is no JSON is refused further in, and worth no more than that here.
        request: without_phone_number(serde_json::from_slice(&body).unwrap_or(Value::Null)),
    };
    admin.trail.begin(action.clone()).await.map_err(|failure| {
        error!(error = &failure as &dyn std::error::Error, "an action of an operator could not be written down");
        let message = "the action was not done, because `admin-audit.jsonl` in the data directory cannot be written";
        AdminError::new(ErrorCode::ServiceUnavailable, message)
    })?;

    let response = next.run(Request::from_parts(parts, Body::from(body))).await;
    let status = response.status();
    let outcome = Outcome { ended_at: SystemClock.now(), outcome: outcome_of(status), status: status.as_u16() };
    info!(
        action = action.action,
        target = action.target,
        token = action.by.token,
        address = action.by.address,
        status = outcome.status,
        "an operator has acted"
    );
    if let Err(failure) = admin.trail.end(action.id, outcome).await {
        // It is done, and the line before says so; only what came of it is missing there.
        error!(error = &failure as &dyn std::error::Error, "the outcome of an action could not be written down");
    }
    Ok(response)
}

/// A request as it is kept: phone numbers stay out of what is kept for good.
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

/// A path without what all of them begin with.
fn within_admin(path: &str) -> &str {
    path.strip_prefix("/admin/v1").unwrap_or(path)
}

/// What tells one token from another and helps nobody to guess it.
fn fingerprint(token: &str) -> String {
    let digest = digest::digest(&digest::SHA256, token.as_bytes());
    let beginning: String = digest.as_ref()[..4].iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{beginning}")
}

#[derive(Deserialize)]
pub(super) struct ListQuery {
    limit: Option<usize>,
}

/// What operators have had done in this process, the newest first.
pub(super) async fn list(
    State(admin): State<Admin>,
    Query(ListQuery { limit }): Query<ListQuery>,
) -> Result<Json<Value>, AdminError> {
    let limit = super::limit(limit, LIMIT, LIMIT_MAX)?;
    let entries = admin.trail.newest(limit).await.map_err(|failure| {
        error!(error = &failure as &dyn std::error::Error, "the audit trail cannot be read");
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
    fn what_came_of_an_action_follows_from_its_status() {
        let outcomes = [200, 204, 404, 409, 500, 503].map(|status| outcome_of(StatusCode::from_u16(status).unwrap()));
        use OutcomeKind::{Done, Failed, Refused};
        assert_eq!(outcomes, [Done, Done, Refused, Refused, Failed, Failed]);
    }
}
