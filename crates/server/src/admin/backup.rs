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
use ports::{StoreError, error_chain};
use protocol::ErrorCode;
use serde::Deserialize;
use tokio::sync::Semaphore;
use tracing::{error, info};

use super::AdminState;
use super::error::AdminError;
use crate::tools::backup::{BYTES_ABOUT, ByteRateLimit, RATE_MIB, RATE_MIB_MAX, begin};

/// The store and data directory of this process, for backups.
#[derive(Clone)]
pub(crate) struct Backups {
    store: EmbeddedStore,
    data_dir: PathBuf,
    /// One backup at a time: each holds a snapshot, which keeps the engine from dropping old versions.
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

/// Streams a backup of the store as it is now, while the service keeps running. The backup stops when the client
/// disconnects. After a failure the response is cut off, and a backup without its end is invalid.
pub(super) async fn backup(
    State(admin): State<AdminState>,
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
    // An open handle counts as a user of the store. Drop it, so that closing the store does not wait for this response.
    drop(store);

    let about = HeaderValue::from(backup.bytes_about());
    let taken_at = backup.taken_at();
    let state = (backup, ByteRateLimit::new(rate_mib), 0, turn);
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
                error!(error = %error_chain(&failure), "backup failed; its response was cut off");
                Err(failure)
            }
        }
    });
    let mut response = Response::new(Body::from_stream(body));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    response.headers_mut().insert(BYTES_ABOUT, about);
    Ok(response)
}
