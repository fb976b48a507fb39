use std::convert::Infallible;
use std::sync::Arc;

use audit::{AuditOptions, AuditProgress, Report, audit};
use axum::body::{Body, Bytes};
use axum::extract::{Query, State};
use axum::response::Response;
use embedded::EmbeddedStore;
use futures_util::stream;
use http::header::CONTENT_TYPE;
use ports::{SystemClock, error_chain};
use protocol::ErrorCode;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;
use tracing::error;

use super::AdminState;
use super::error::AdminError;
use crate::scrub::scrub_serving;
use crate::tools::backup::RATE_MIB_MAX;
use crate::tools::verify::{CommitWait, Paced, RATE_MAX, RATE_MIB, ScrubbedFiles, Verified};

/// Capacity of the queue of response lines. When it is full, progress lines are dropped.
const LINES_MAX: usize = 16;

/// The store of this process, for audits.
#[derive(Clone)]
pub(crate) struct Auditable {
    store: EmbeddedStore,
    /// One audit at a time, which limits the extra read load on users.
    turn: Arc<Semaphore>,
}

impl Auditable {
    pub(crate) fn new(store: EmbeddedStore) -> Self {
        Self { store, turn: Arc::new(Semaphore::new(1)) }
    }
}

#[derive(Deserialize)]
pub(super) struct VerifyQuery {
    rate: Option<u32>,
    /// Whether to verify the checksums of all files first.
    #[serde(default)]
    deep: bool,
    /// Rate at which files are read, in MiB per second.
    rate_mib: Option<u32>,
}

/// Audits the store while it serves, and streams JSON lines: progress, and the report at the end. The audit stops when
/// the client disconnects. If files are damaged, rows are not read.
pub(super) async fn verify(
    State(admin): State<AdminState>,
    Query(VerifyQuery { rate, deep, rate_mib }): Query<VerifyQuery>,
) -> Result<Response, AdminError> {
    let (rate, rate_mib) = (rate.unwrap_or(RATE_MAX), rate_mib.unwrap_or(RATE_MIB));
    for (name, rate, max) in [("rate", rate, RATE_MAX), ("rate_mib", rate_mib, RATE_MIB_MAX)] {
        if !(1..=max).contains(&rate) {
            let message = format!("`{name}` is {rate}, and must be from 1 to {max}");
            return Err(AdminError::new(ErrorCode::ValidationError, message));
        }
    }
    let elsewhere = "the store of a fleet is not in this process; run `tidings store verify` with its settings instead";
    let Auditable { store, turn } = admin.auditable.ok_or_else(|| AdminError::new(ErrorCode::NotFound, elsewhere))?;
    let turn = turn.try_acquire_owned();
    let turn = turn.map_err(|_| AdminError::new(ErrorCode::ServerBusy, "an audit is under way already"))?;

    let (lines, told) = mpsc::channel(LINES_MAX);
    let mut task = JoinSet::new();
    task.spawn(async move {
        let _turn = turn;
        let progress = |AuditProgress { stage, read, all }| {
            // A slow client receives fewer progress lines.
            drop(lines.try_send(json!({ "progress": { "stage": stage, "read": read, "all": all } })));
        };
        let line = match look(&store, rate, deep.then_some(rate_mib), progress).await {
            Ok(verified) => json!({ "report": verified }),
            Err(failure) => failed(&*failure),
        };
        // Fails if the client has disconnected.
        drop(lines.send(line).await);
    });
    // The task ends with the response: dropping the `JoinSet` aborts it.
    let body = stream::unfold((told, task), |(mut told, task)| async move {
        let line: Value = told.recv().await?;
        Some((Ok::<_, Infallible>(Bytes::from(format!("{line}\n"))), (told, task)))
    });
    let mut response = Response::new(Body::from_stream(body));
    response.headers_mut().insert(CONTENT_TYPE, http::HeaderValue::from_static("application/x-ndjson"));
    Ok(response)
}

/// Scrubs the files if a rate is given, then audits all rows.
async fn look(
    store: &EmbeddedStore,
    rate: u32,
    rate_mib: Option<u32>,
    progress: impl Fn(AuditProgress) + Send + Sync,
) -> anyhow::Result<Verified> {
    let files = match rate_mib {
        Some(rate_mib) => Some(ScrubbedFiles::from(scrub_serving(store, rate_mib, &progress).await?)),
        None => None,
    };
    if files.as_ref().is_some_and(|files| !files.damaged.is_empty()) {
        return Ok(Verified { report: Report::default(), files });
    }
    let serving = store.clone();
    let commits: CommitWait = Box::new(move || {
        let store = serving.clone();
        Box::pin(async move { store.beat().await })
    });
    let pace = Paced::of_serving(rate, commits, progress);
    let findings = audit(store, Some(store), &AuditOptions::new(Arc::new(SystemClock)), &pace, None).await?;
    Ok(Verified { report: Report::from(&findings), files })
}

fn failed(failure: &dyn std::error::Error) -> Value {
    error!(error = %error_chain(failure), "audit failed");
    json!({ "error": "the store could not be read to its end; the log of the service says why" })
}
