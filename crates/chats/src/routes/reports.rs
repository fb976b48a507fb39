use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use domain::{Message, Report, ReportText, UserId};
use metrics::counter;
use ports::FilingOutcome;
use protocol::ErrorCode;
use protocol::rest::{self, Data};

use super::RouteState;
use crate::Api;
use crate::http::{Caller, IdempotencyKey, Json, Reserved, RestError, once};

/// Reports a message, a user or a chat to the operators.
///
/// One of `message_id`, `user_id` and `chat_id` is needed; for a message, its sender and chat are added. A message that the
/// caller can read is copied into the report. Operators can read the copy until 90 days after they resolve the report, or
/// only until then if the message expires. The report is not announced to anyone else. Each caller can have 20 open
/// reports of a day.
#[utoipa::path(
    post,
    path = "/reports",
    tag = "reports",
    params((
        "Idempotency-Key" = Option<String>, Header, format = "uuid",
        description = "The client's name for the request; a repetition within 24 h gets the first answer."
    )),
    responses((status = 201, description = "The report is filed", body = Data<rest::Reported>))
)]
pub(crate) async fn report(
    State(api): RouteState,
    Caller(caller): Caller,
    key: IdempotencyKey,
    Json(body): Json<rest::FileReport>,
) -> Result<Response, RestError> {
    let comment = body.comment.clone().map(|text| ReportText::try_from(text.0));
    let comment = comment.transpose().map_err(|error| RestError::field("comment", error))?;
    let run = |reserved| file(&api, caller.user_id, &body, comment, reserved);
    once(&api, caller.user_id, key, "POST /reports", &body, run).await
}

async fn file(
    api: &Api,
    reporter_id: UserId,
    body: &rest::FileReport,
    comment: Option<ReportText>,
    reserved: Reserved,
) -> Result<(StatusCode, rest::Reported), RestError> {
    let rest::FileReport { message_id, user_id, chat_id, reason, .. } = *body;
    if message_id.is_none() && user_id.is_none() && chat_id.is_none() {
        return Err(RestError::field("message_id", "one of `message_id`, `user_id` and `chat_id` is needed"));
    }
    let message = reported_message(api, reporter_id, body).await?;
    if message.is_none() {
        if let Some(chat_id) = chat_id {
            api.membership(chat_id, reporter_id).await?;
        }
        if let Some(user_id) = user_id
            && api.user(user_id).await?.is_none()
        {
            return Err(RestError::field("user_id", format!("there is no user `{user_id}`")));
        }
    }
    let user_id = message.as_ref().map(|message| message.sender_id).or(user_id);
    if user_id == Some(reporter_id) {
        return Err(RestError::new(ErrorCode::InvalidOperation, "you cannot report yourself"));
    }
    let report = Report {
        report_id: reserved.ulid.into(),
        reporter_id,
        created_at: api.now(),
        reason,
        comment,
        user_id,
        chat_id: message.as_ref().map(|message| message.chat_id).or(chat_id),
        message_id,
        evidence: message.map(Into::into),
        resolution: None,
    };
    let report_id = report.report_id;
    match api.reports.file(report).await? {
        FilingOutcome::Kept { created_at } => {
            counter!("tidings_reports_total", "reason" => reason.as_str()).increment(1);
            Ok((StatusCode::CREATED, rest::Reported { report_id, created_at }))
        }
        FilingOutcome::TooMany { until } => Err(RestError::rate_limited("open_reports", until.since(api.now()), None)),
    }
}

/// The reported message, if the report names one. Fails if the reporter cannot read it.
async fn reported_message(
    api: &Api,
    reporter_id: UserId,
    body: &rest::FileReport,
) -> Result<Option<Message>, RestError> {
    let Some(message_id) = body.message_id else { return Ok(None) };
    let message = api.messages.by_id(message_id, api.now()).await?;
    let message = message.ok_or_else(|| RestError::new(ErrorCode::NotFound, "no such message"))?;
    api.membership(message.chat_id, reporter_id).await?;
    if body.chat_id.is_some_and(|chat_id| chat_id != message.chat_id) {
        return Err(RestError::field("chat_id", "is not the chat of the message"));
    }
    if body.user_id.is_some_and(|user_id| user_id != message.sender_id) {
        return Err(RestError::field("user_id", "is not the sender of the message"));
    }
    Ok(Some(message))
}
