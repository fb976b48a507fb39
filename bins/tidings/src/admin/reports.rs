use std::process::ExitCode;

use clap::{Subcommand, ValueEnum};
use domain::ReportId;
use reqwest::Method;
use serde_json::{Value, json};

use super::{AdminArgs, AdminConnection};

#[derive(Subcommand)]
pub(crate) enum ReportCommand {
    /// Lists reports by users, oldest first.
    List {
        /// Reports that wait for an operator, or resolved ones.
        #[arg(long, value_enum, default_value_t = ReportStateFilter::Open)]
        state: ReportStateFilter,
        #[command(flatten)]
        admin: AdminArgs,
    },
    /// Shows a report with the reported message. The access is recorded in the audit trail.
    Show {
        id: ReportId,
        #[command(flatten)]
        admin: AdminArgs,
    },
    /// Resolves a report, with a note on the outcome.
    ///
    /// If the reported message was to expire, its copy is deleted from the report at once. The rest is deleted 90 days
    /// later.
    Resolve {
        id: ReportId,
        /// The outcome, for later readers of the report.
        #[arg(long, value_name = "TEXT")]
        note: String,
        #[command(flatten)]
        admin: AdminArgs,
    },
}

#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum ReportStateFilter {
    Open,
    Resolved,
}

pub(crate) async fn run(command: ReportCommand) -> anyhow::Result<ExitCode> {
    match command {
        ReportCommand::List { state, admin } => list(admin.connect()?, state).await,
        ReportCommand::Show { id, admin } => {
            let admin = admin.connect()?;
            let report = admin.call(Method::GET, &format!("/reports/{id}"), None).await?;
            admin.print(&report, || show(&report))
        }
        ReportCommand::Resolve { id, note, admin } => {
            let admin = admin.connect()?;
            let path = format!("/reports/{id}/resolve");
            let report = admin.call(Method::POST, &path, Some(&json!({ "note": note }))).await?;
            admin.print(&report, || outln!("`{id}` is resolved"))
        }
    }
}

async fn list(admin: AdminConnection, state: ReportStateFilter) -> anyhow::Result<ExitCode> {
    let state = match state {
        ReportStateFilter::Open => "open",
        ReportStateFilter::Resolved => "resolved",
    };
    let mut reports = vec![];
    let mut path = format!("/reports?state={state}");
    loop {
        let mut page = admin.call(Method::GET, &path, None).await?;
        if let Value::Array(found) = page["reports"].take() {
            reports.extend(found);
        }
        let Some(next) = page["next"].as_str() else { break };
        path = format!("/reports?state={state}&after={next}");
    }
    let reports = Value::Array(reports);
    admin.print(&reports, || {
        for report in reports.as_array().into_iter().flatten() {
            let [id, at, reason, by] =
                ["report_id", "created_at", "reason", "reporter_id"].map(|key| text(report, key));
            outln!("{id}  {at}  {reason:<7}  {}  by {by}", subject(report));
        }
        if reports.as_array().is_none_or(Vec::is_empty) {
            outln!("no report is {state}");
        }
    })
}

/// The most specific subject that a report names.
fn subject(report: &Value) -> &str {
    let named = ["message_id", "user_id", "chat_id"].into_iter().find_map(|key| report[key].as_str());
    named.unwrap_or("-")
}

fn show(report: &Value) {
    for key in ["report_id", "state", "created_at", "reason", "reporter_id", "user_id", "chat_id", "message_id"] {
        outln!("{key:<12} {}", text(report, key));
    }
    for key in ["comment", "resolved_at", "note"] {
        if let Some(value) = report[key].as_str() {
            outln!("{key:<12} {}", printable(value));
        }
    }
    let evidence = &report["evidence"];
    if let Some(content) = evidence["content"].as_str() {
        outln!("sent_at      {}", text(evidence, "sent_at"));
        outln!("content      {}", printable(content));
    }
}

/// Text by a user, with control characters replaced so that a terminal does not interpret them.
fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() && c != '\n' { '\u{fffd}' } else { c }).collect()
}

fn text<'a>(report: &'a Value, key: &str) -> &'a str {
    report[key].as_str().unwrap_or("-")
}
