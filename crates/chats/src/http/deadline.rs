use std::time::Duration;

use axum::extract::Request;
use axum::middleware::Next;
use axum::response::Response;
use protocol::ErrorCode;

use super::ApiError;

/// How long a request may take, from its head to its answer. The longest that work is a one-time code whose webhook
/// answers at the third try.
const DEADLINE: Duration = Duration::from_secs(20);

/// Ends a request that waits for a slow body or for a store that neither answers nor fails.
pub(crate) async fn deadline(request: Request, next: Next) -> Result<Response, ApiError> {
    tokio::time::timeout(DEADLINE, next.run(request)).await.map_err(|_| {
        tracing::error!("a request was given up at its deadline");
        ApiError::retry(ErrorCode::ServiceUnavailable, "the service did not do this in time", Duration::from_secs(1))
    })
}
