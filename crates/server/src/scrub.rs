//! Scrubs of the embedded store: at a pace, with metrics and log lines, once or on a schedule.

use std::time::Duration;

use audit::AuditProgress;
use embedded::{EmbeddedStore, Scrub, Scrubbed};
use metrics::{counter, gauge};
use ports::{StoreError, error_chain};
use tokio::time::{Instant, MissedTickBehavior, interval};
use tracing::{error, info};

use crate::tools::backup::ByteRateLimit;

/// MiB per second that a scrub reads by default: a fraction of the throughput of a small disk, so that users do not
/// notice.
pub(crate) const RATE_MIB: u32 = 16;

/// Publishes 0 damaged files. Without the gauge, an alert could not tell that the first scrub is still running.
pub(crate) fn begin_metrics() {
    gauge!("tidings_store_damaged_files").set(0.0);
}

/// Scrubs a store that serves, now and at every interval. A scrub that takes longer than the interval delays the next one.
pub(crate) async fn on_schedule(store: EmbeddedStore, every: Duration, rate_mib: u32) {
    let mut due = interval(every);
    due.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        due.tick().await;
        // A failure is counted and logged, and the next scrub runs anyway.
        drop(scrub_serving(&store, rate_mib, |_| {}).await);
    }
}

/// Scrubs a store that serves. Metrics and the log show the outcome.
pub(crate) async fn scrub_serving(
    store: &EmbeddedStore,
    rate_mib: u32,
    progress: impl Fn(AuditProgress),
) -> Result<Scrubbed, StoreError> {
    let started = Instant::now();
    let outcome = async {
        let scrub = store.scrub().await?;
        info!(bytes = scrub.bytes_about(), rate_mib, "scrub started");
        read_all(scrub, rate_mib, progress).await
    };
    let outcome = outcome.await;
    let label = match &outcome {
        Ok(scrubbed) => {
            gauge!("tidings_store_damaged_files").set(scrubbed.damaged.len() as f64);
            for file in &scrubbed.damaged {
                error!(
                    file = %file.path.display(),
                    table = file.table.as_deref(),
                    reason = file.reason,
                    "a file of the store is damaged; restore a backup with `tidings store restore`, or copy the \
                     readable data into a new directory with `tidings store repair`"
                );
            }
            let (files, bytes, damaged) = (scrubbed.files, scrubbed.bytes, scrubbed.damaged.len());
            info!(files, bytes, damaged, seconds = started.elapsed().as_secs(), "scrub finished");
            if scrubbed.damaged.is_empty() { "clean" } else { "damaged" }
        }
        Err(failure) => {
            error!(error = %error_chain(failure), "scrub failed");
            "failed"
        }
    };
    counter!("tidings_store_scrubs_total", "outcome" => label).increment(1);
    outcome
}

/// Runs a scrub to its end at the given rate.
pub(crate) async fn read_all(
    mut scrub: Scrub,
    rate_mib: u32,
    progress: impl Fn(AuditProgress),
) -> Result<Scrubbed, StoreError> {
    let (mut pace, mut counted) = (ByteRateLimit::new(rate_mib), 0);
    loop {
        let (next, read) = scrub.next().await?;
        scrub = next;
        let bytes = scrub.scrubbed().bytes;
        counter!("tidings_store_scrubbed_bytes_total").increment(bytes - counted);
        counted = bytes;
        progress(AuditProgress { stage: "files", read: bytes, all: scrub.bytes_about().max(bytes) });
        match read {
            Some(read) => pace.passed(usize::try_from(read).unwrap_or(usize::MAX)).await,
            None => return Ok(scrub.scrubbed().clone()),
        }
    }
}
