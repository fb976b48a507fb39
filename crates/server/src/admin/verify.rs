use std::convert::Infallible;
use std::sync::Arc;

use audit::{Options, Progress, Report, audit};
use axum::body::{Body, Bytes};
use axum::extract::{Query, State};
use axum::response::Response;
use futures_util::stream;
use http::header::CONTENT_TYPE;
use ports::{AuditLog, AuditSource, SystemClock};
use protocol::ErrorCode;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;
use tracing::error;

use super::Admin;
use super::error::AdminError;
use crate::tools::verify::{MOMENT, Manner, Paced, RATE};

/// Lines on their way to whoever asks. When it is full, progress is not told.
const LINES_MAX: usize = 16;
const RATE_MAX: u32 = 1_000_000;

/// What this process can check of itself.
#[derive(Clone)]
pub(crate) struct Auditable {
    store: Arc<dyn AuditSource>,
    log: Arc<dyn AuditLog>,
    /// One audit at a time: each is as much reading as users are to bear.
    turn: Arc<Semaphore>,
}

impl Auditable {
    pub(crate) fn new(store: Arc<dyn AuditSource>, log: Arc<dyn AuditLog>) -> Self {
        Self { store, log, turn: Arc::new(Semaphore::new(1)) }
    }
}

#[derive(Deserialize)]
pub(super) struct VerifyQuery {
    rate: Option<u32>,
}

/// Checks the store while it serves, and answers line by line: how far it is, and in the end what was found. It stops when
/// nobody listens any more.
pub(super) async fn verify(
    State(admin): State<Admin>,
    Query(VerifyQuery { rate }): Query<VerifyQuery>,
) -> Result<Response, AdminError> {
    let rate = rate.unwrap_or(RATE);
    if !(1..=RATE_MAX).contains(&rate) {
        let message = format!("`rate` is {rate}, and must be from 1 to {RATE_MAX}");
        return Err(AdminError::new(ErrorCode::ValidationError, message));
    }
    let elsewhere = "the store of a fleet is not in this process; run `tidings verify` with its settings instead";
    let Auditable { store, log, turn } =
        admin.auditable.ok_or_else(|| AdminError::new(ErrorCode::NotFound, elsewhere))?;
    let turn = turn.try_acquire_owned();
    let turn = turn.map_err(|_| AdminError::new(ErrorCode::ServerBusy, "an audit is under way already"))?;

    let (lines, told) = mpsc::channel(LINES_MAX);
    let mut task = JoinSet::new();
    task.spawn(async move {
        let _turn = turn;
        let progress = |Progress { stage, read, all }| {
            // Whoever reads slowly hears less of it.
            drop(lines.try_send(json!({ "progress": { "stage": stage, "read": read, "all": all } })));
        };
        let manner = Manner { rate, ..Manner::default() };
        let line = match Paced::new(&manner, String::new(), MOMENT, progress) {
            Ok((pace, _)) => {
                let options = Options::new(Arc::new(SystemClock));
                match audit(&*store, Some(&*log), &options, &pace, None).await {
                    Ok(findings) => json!({ "report": Report::from(&findings) }),
                    Err(failure) => failed(&failure),
                }
            }
            Err(failure) => failed(&*failure),
        };
        // Nobody listens any more.
        drop(lines.send(line).await);
    });
    // The task ends with the answer: a set aborts what is in it when it is dropped.
    let body = stream::unfold((told, task), |(mut told, task)| async move {
        let line: Value = told.recv().await?;
        Some((Ok::<_, Infallible>(Bytes::from(format!("{line}\n"))), (told, task)))
    });
    let mut response = Response::new(Body::from_stream(body));
    response.headers_mut().insert(CONTENT_TYPE, http::HeaderValue::from_static("application/x-ndjson"));
    Ok(response)
}

fn failed(failure: &(dyn std::error::Error + 'static)) -> Value {
    error!(error = failure, "an audit has failed");
    json!({ "error": "the store could not be read to its end; the log of the service says why" })
}
