use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use tokio::time::sleep_until;

use super::measure::MeasurementWindow;
use super::report::{CommitFigures, ServerFigures};
use super::target::LoadTarget;

/// A server under load, with its progress display and counters.
pub(super) struct Bench {
    target: LoadTarget,
    warmup: Duration,
    time: Duration,
    /// The reference of the send times in messages.
    pub(super) epoch: Instant,
    /// Drawn on a terminal only.
    pub(super) progress: ProgressBar,
    done: Arc<AtomicU64>,
}

/// Observations of a window from outside.
pub(super) struct Observed {
    pub(super) server: Option<ServerFigures>,
    /// Operations completed in each second.
    pub(super) timeline: Vec<u64>,
}

impl Bench {
    const SAMPLE: Duration = Duration::from_secs(1);

    pub(super) fn new(target: LoadTarget, warmup: Duration, time: Duration) -> Self {
        let progress = ProgressBar::new_spinner().with_style(
            ProgressStyle::with_template("{spinner} {msg} {pos} ({elapsed})").expect("the template is valid"),
        );
        Self { target, warmup, time, epoch: Instant::now(), progress, done: Arc::default() }
    }

    pub(super) fn base_url(&self) -> &str {
        self.target.base_url()
    }

    pub(super) fn target(&self) -> &LoadTarget {
        &self.target
    }

    /// The server, for a restart between two windows.
    pub(super) fn target_mut(&mut self) -> &mut LoadTarget {
        &mut self.target
    }

    pub(super) fn into_target(self) -> LoadTarget {
        self.progress.finish_and_clear();
        self.target
    }

    /// A counter of completed operations, for the timeline.
    pub(super) fn counter(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.done)
    }

    /// Length of the measurement.
    pub(super) fn time(&self) -> Duration {
        self.time
    }

    /// The window that starts now, after its warm-up.
    pub(super) fn window(&self) -> MeasurementWindow {
        let from = Instant::now() + self.warmup;
        MeasurementWindow { from, until: from + self.time }
    }

    /// Samples the server and the counter until the window is over.
    pub(super) async fn observe(&self, window: MeasurementWindow) -> anyhow::Result<Observed> {
        self.progress.set_message("warming up");
        sleep_until(window.from.into()).await;
        self.progress.set_message("measuring");
        // Reading the commit latencies of a busy server takes time, and that time is part of the window.
        let cpu_before = self.target.cpu_seconds();
        let commits_before = self.target.commits().await?;
        let mut timeline = Vec::new();
        let mut done = self.done.load(Ordering::Relaxed);
        let mut at = window.from;
        while at < window.until {
            at = (at + Self::SAMPLE).min(window.until);
            sleep_until(at.into()).await;
            let now = self.done.load(Ordering::Relaxed);
            timeline.push(now - done);
            done = now;
            self.progress.set_position(done);
        }
        let mut server = self.server_since(cpu_before);
        if let (Some(server), Some(before), Some(now)) = (&mut server, commits_before, self.target.commits().await?) {
            server.commits = CommitFigures::of(&now.since(&before));
        }
        self.progress.set_message("checking");
        Ok(Observed { server, timeline })
    }

    /// Resources that the server has used since `cpu_before`.
    pub(super) fn server_since(&self, cpu_before: Option<f64>) -> Option<ServerFigures> {
        Some(ServerFigures {
            cpu_seconds: self.target.cpu_seconds()? - cpu_before?,
            memory_kib: self.target.memory_kib()?,
            commits: None,
        })
    }
}
