use std::time::Duration;

use ports::{EventConsumer, EventLog, StoreError, error_chain};
use tracing::error;

/// Pause before a failed call to the log or the store is retried.
const RETRY_PAUSE: Duration = Duration::from_millis(200);

/// Logs a failure and waits before the caller retries: a delivery may be late, but is not lost.
pub(crate) async fn wait_out(failure: StoreError) {
    error!(error = %error_chain(&failure), "notify cannot read the log or the store; retrying");
    tokio::time::sleep(RETRY_PAUSE).await;
}

/// Opens a consumer of the log, with retries.
pub(crate) async fn consumer(log: &dyn EventLog, group: &str) -> Box<dyn EventConsumer> {
    loop {
        match log.consumer(group).await {
            Ok(consumer) => return consumer,
            Err(failure) => wait_out(failure).await,
        }
    }
}
