use std::time::Duration;

use axum::extract::Request;
use axum::middleware::Next;
use axum::response::Response;
use protocol::ErrorCode;

use super::RestError;

/// Timeout of a request, from its head to its response. The slowest valid request sends a one-time code through a webhook
/// that responds at the third attempt.
const DEADLINE: Duration = Duration::from_secs(20);

/// Ends a request that waits for a slow body or for a store that neither answers nor fails.
pub(crate) async fn deadline(request: Request, next: Next) -> Result<Response, RestError> {
    tokio::time::timeout(DEADLINE, next.run(request)).await.map_err(|_| {
        tracing::error!("request timed out");
        RestError::retry(ErrorCode::ServiceUnavailable, "the service did not do this in time", Duration::from_secs(1))
    })
}
