use axum::Json;
use axum::extract::{Path, Query, State};
use domain::{Report, ReportText, Resolution};
use ports::{ReportState, Resolved};
use protocol::ErrorCode;
use serde::Deserialize;
use serde_json::{Value, json};

use super::error::AdminError;
use super::{AdminState, parse};

/// Reports in a page.
const PAGE_LEN: usize = 100;

#[derive(Deserialize)]
pub(super) struct ReportsQuery {
    /// `open` unless given, or `resolved`.
    state: Option<String>,
    /// The last report of the previous page.
    after: Option<String>,
}

/// Lists reports, oldest first: reason and reported user, without any text that users wrote.
pub(super) async fn list(
    State(admin): State<AdminState>,
    Query(query): Query<ReportsQuery>,
) -> Result<Json<Value>, AdminError> {
    let records = admin.records()?;
    let state = match query.state.as_deref() {
        None | Some("open") => ReportState::Open,
        Some("resolved") => ReportState::Resolved,
        Some(other) => {
            let message = format!("`state` is `{other}`, and must be `open` or `resolved`");
            return Err(AdminError::new(ErrorCode::ValidationError, message));
        }
    };
    let after = query.after.as_deref().map(parse).transpose()?;
    let reports = records.reports.reports(state, after, PAGE_LEN, records.now()).await?;
    let next = (reports.len() == PAGE_LEN).then(|| reports.last().map(|report| report.report_id)).flatten();
    Ok(Json(json!({ "reports": reports.iter().map(summary).collect::<Vec<_>>(), "next": next })))
}

/// One report with all stored details.
pub(super) async fn show(State(admin): State<AdminState>, Path(id): Path<String>) -> Result<Json<Value>, AdminError> {
    let records = admin.records()?;
    let report = records.reports.report(parse(&id)?, records.now()).await?;
    Ok(Json(whole(&report.ok_or_else(|| not_found(&id))?)))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ResolveRequest {
    /// A note on the outcome.
    note: String,
}

/// Resolves a report. A resolved report is left unchanged.
pub(super) async fn resolve(
    State(admin): State<AdminState>,
    Path(id): Path<String>,
    Json(ResolveRequest { note }): Json<ResolveRequest>,
) -> Result<Json<Value>, AdminError> {
    let records = admin.records()?;
    let note = ReportText::try_from(note)
        .map_err(|error| AdminError::new(ErrorCode::ValidationError, format!("`note` {error}")))?;
    let resolution = Resolution { resolved_at: records.now(), note };
    match records.reports.resolve(parse(&id)?, resolution).await? {
        Resolved::Now(report) => Ok(Json(summary(&report))),
        Resolved::Before(_) => Err(AdminError::new(ErrorCode::InvalidOperation, format!("`{id}` is resolved already"))),
        Resolved::NotFound => Err(not_found(&id)),
    }
}

fn not_found(id: &str) -> AdminError {
    AdminError::new(ErrorCode::NotFound, format!("there is no report `{id}`"))
}

fn summary(report: &Report) -> Value {
    json!({
        "report_id": report.report_id,
        "state": if report.resolution.is_some() { "resolved" } else { "open" },
        "created_at": report.created_at,
        "resolved_at": report.resolution.as_ref().map(|resolution| resolution.resolved_at),
        "reason": report.reason,
        "reporter_id": report.reporter_id,
        "user_id": report.user_id,
        "chat_id": report.chat_id,
        "message_id": report.message_id,
    })
}

fn whole(report: &Report) -> Value {
    let mut body = summary(report);
    body["comment"] = json!(report.comment.as_ref().map(ReportText::as_str));
    body["note"] = json!(report.resolution.as_ref().map(|resolution| resolution.note.as_str()));
    body["evidence"] = json!(report.evidence.as_ref().map(|evidence| {
        json!({
            "sequence": evidence.sequence,
            "content": evidence.content.as_str(),
            "content_type": evidence.content_type,
            "sent_at": evidence.sent_at,
            "expires_at": evidence.expires_at,
        })
    }));
    body
}
