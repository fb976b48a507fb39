use std::time::Duration;

use ports::{EventConsumer, EventLog, StoreError};
use tracing::error;

/// How long to wait before the log or the store is asked again after a failure.
const RETRY_PAUSE: Duration = Duration::from_millis(200);

/// Waits before the store is asked again: what has to be told is told late rather than never.
pub(crate) async fn wait_out(failure: StoreError) {
    error!(error = &failure as &dyn std::error::Error, "notify waits for what it needs");
    tokio::time::sleep(RETRY_PAUSE).await;
}

/// A consumer of the log, however long it takes to get one.
pub(crate) async fn consumer(log: &dyn EventLog, group: &str) -> Box<dyn EventConsumer> {
    loop {
        match log.consumer(group).await {
            Ok(consumer) => return consumer,
            Err(failure) => wait_out(failure).await,
        }
    }
}
