use std::path::{Path, PathBuf};
use std::sync::Arc;

use axum::Json;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::response::Response;
use embedded::EmbeddedStore;
use futures_util::stream;
use http::HeaderValue;
use http::header::CONTENT_TYPE;
use ports::StoreError;
use protocol::ErrorCode;
use serde::Deserialize;
use tokio::sync::Semaphore;
use tracing::{error, info};

use super::Admin;
use super::error::AdminError;
use crate::tools::backup::{BYTES_ABOUT, Pace, RATE_MIB, RATE_MIB_MAX, begin};

/// What this process can back up of itself.
#[derive(Clone)]
pub(crate) struct Backups {
    store: EmbeddedStore,
    data_dir: PathBuf,
    /// One backup at a time: each keeps the engine from forgetting anything.
    turn: Arc<Semaphore>,
}

impl Backups {
    pub(crate) fn new(store: EmbeddedStore, data_dir: &Path) -> Self {
        Self { store, data_dir: data_dir.to_owned(), turn: Arc::new(Semaphore::new(1)) }
    }
}

#[derive(Deserialize)]
pub(super) struct BackupRequest {
    rate_mib: Option<u32>,
}

/// Answers with a backup of the store as it is now, while the service goes on. It stops when nobody listens any more, and
/// an answer that failed is cut off: without its end it is no backup.
pub(super) async fn backup(
    State(admin): State<Admin>,
    Json(BackupRequest { rate_mib }): Json<BackupRequest>,
) -> Result<Response, AdminError> {
    let rate_mib = rate_mib.unwrap_or(RATE_MIB);
    if !(1..=RATE_MIB_MAX).contains(&rate_mib) {
        let message = format!("`rate_mib` is {rate_mib}, and must be from 1 to {RATE_MIB_MAX}");
        return Err(AdminError::new(ErrorCode::ValidationError, message));
    }
    let elsewhere = "a fleet's store is not in this process; DynamoDB keeps backups of its tables (docs/fleet.md)";
    let Backups { store, data_dir, turn } =
        admin.backups.ok_or_else(|| AdminError::new(ErrorCode::NotFound, elsewhere))?;
    let turn = turn.try_acquire_owned();
    let turn = turn.map_err(|_| AdminError::new(ErrorCode::ServerBusy, "a backup is under way already"))?;
    let backup = begin(&store, &data_dir).await.map_err(AdminError::failed)?;
    // Backups count as users of the store: whoever closes it must not wait for this answer.
    drop(store);

    let about = HeaderValue::from(backup.bytes_about());
    let taken_at = backup.taken_at();
    let state = (backup, Pace::new(rate_mib), 0, turn);
    let body = stream::try_unfold(state, move |(backup, mut pace, sent, turn)| async move {
        match backup.next().await {
            Ok(Some((backup, piece))) => {
                pace.passed(piece.len()).await;
                let sent = sent + piece.len();
                Ok::<_, StoreError>(Some((Bytes::from(piece), (backup, pace, sent, turn))))
            }
            Ok(None) => {
                info!(%taken_at, bytes = sent, "a backup was taken");
                Ok(None)
            }
            Err(failure) => {
                error!(error = &failure as &dyn std::error::Error, "a backup has failed");
                Err(failure)
            }
        }
    });
    let mut response = Response::new(Body::from_stream(body));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    response.headers_mut().insert(BYTES_ABOUT, about);
    Ok(response)
}
