use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

use anyhow::{Context, ensure};
use async_trait::async_trait;
use audit::{AuditPacer, AuditProgress, Checkpoint};
use futures_util::future::BoxFuture;
use ports::lock;
use tokio::time::{Instant, sleep, sleep_until};
use tracing::warn;

use super::{Manner, RATE};

/// How long to wait before an apparent violation is checked again: longer than a healthy commit takes.
pub(crate) const MOMENT: Duration = Duration::from_millis(500);
/// How much of its delay an audit may catch up on after it was slowed down.
const CATCH_UP: Duration = Duration::from_secs(1);
/// Shortest interval between two checkpoints.
const SAVE_INTERVAL: Duration = Duration::from_secs(1);

/// Interval between two measurements of the load of a serving store.
const MEASURE_EVERY: Duration = Duration::from_millis(200);
/// Up to this delay of a commit, an audit reads faster.
const COMMIT_FAST: Duration = Duration::from_millis(25);
/// From this delay of a commit on, an audit reads more slowly.
const COMMIT_SLOW: Duration = Duration::from_millis(100);

/// Waits until the commits that a serving store has queued are done.
pub(crate) type CommitWait = Box<dyn Fn() -> BoxFuture<'static, ()> + Send + Sync>;

/// Limits an audit to a number of rows per second, and saves checkpoints to a file.
///
/// The audit of a serving store adapts: it begins at [`RATE`], reads faster while commits are fast, and more slowly while
/// they are not, but never slower than it began.
pub(crate) struct Paced<P> {
    /// Most rows per second.
    rate_max: u32,
    commits: Option<CommitWait>,
    moment: Duration,
    progress: P,
    file: Option<CheckpointFile>,
    state: Mutex<PaceState>,
}

struct PaceState {
    /// Rows read until the last call.
    read: u64,
    /// Rows per second.
    rate: f64,
    /// When the next rows may be read.
    next: Instant,
    /// When the load of the store was measured last.
    measured_at: Option<Instant>,
    saved_at: Option<Instant>,
}

/// The checkpoint file of an audit.
struct CheckpointFile {
    path: PathBuf,
    of: String,
}

impl<P: Fn(AuditProgress) + Send + Sync> Paced<P> {
    /// The pace of an audit of the deployment `of`, and the checkpoint to resume from. It waits for `moment` before a
    /// re-check. An existing checkpoint is only overwritten when the audit resumes from it, because it may hold hours
    /// of work.
    pub(crate) fn new(
        manner: &Manner,
        of: String,
        moment: Duration,
        progress: P,
    ) -> anyhow::Result<(Self, Option<Checkpoint>)> {
        let file = manner.checkpoint.clone().map(|path| CheckpointFile { path, of });
        let from = file.as_ref().map(|file| file.read(manner.resume)).transpose()?.flatten();
        let read = from.as_ref().map_or(0, |checkpoint| checkpoint.read);
        let rate_max = manner.rate.unwrap_or(RATE).max(1);
        let rate = f64::from(rate_max);
        let state = Mutex::new(PaceState { read, rate, next: Instant::now(), measured_at: None, saved_at: None });
        Ok((Self { rate_max, commits: None, moment, progress, file, state }, from))
    }

    /// The pace of an audit of a serving store, with this most rows per second.
    pub(crate) fn of_serving(rate_max: u32, commits: CommitWait, progress: P) -> Self {
        let rate = f64::from(rate_max.clamp(1, RATE));
        let state = PaceState { read: 0, rate, next: Instant::now(), measured_at: None, saved_at: None };
        let (commits, state) = (Some(commits), Mutex::new(state));
        Self { rate_max: rate_max.max(1), commits, moment: MOMENT, progress, file: None, state }
    }

    /// Adapts the rate to the load of a serving store.
    async fn adapt(&self, commits: &CommitWait) {
        let began = Instant::now();
        {
            let mut state = lock(&self.state);
            if state.measured_at.is_some_and(|at| began.duration_since(at) < MEASURE_EVERY) {
                return;
            }
            state.measured_at = Some(began);
        }
        commits().await;
        let delay = began.elapsed();
        let mut state = lock(&self.state);
        state.rate = adapted(state.rate, delay, self.rate_max);
    }

    /// Deletes the checkpoint of a completed audit.
    pub(crate) fn finish(&self) -> anyhow::Result<()> {
        let Some(CheckpointFile { path, .. }) = &self.file else { return Ok(()) };
        match fs::remove_file(path) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(error).with_context(|| format!("cannot delete `{}`", path.display()))
            }
            _ => Ok(()),
        }
    }
}

/// The next rate, after a commit had this delay.
fn adapted(rate: f64, delay: Duration, max: u32) -> f64 {
    let rate = match delay {
        _ if delay <= COMMIT_FAST => rate * 1.5,
        _ if delay >= COMMIT_SLOW => rate / 2.0,
        _ => rate,
    };
    rate.clamp(f64::from(max.min(RATE)), f64::from(max))
}

#[async_trait]
impl<P: Fn(AuditProgress) + Send + Sync> AuditPacer for Paced<P> {
    async fn read(&self, progress: AuditProgress) {
        (self.progress)(progress);
        if let Some(commits) = &self.commits {
            self.adapt(commits).await;
        }
        let wake = {
            let mut state = lock(&self.state);
            let rows = progress.read.saturating_sub(state.read);
            state.read = progress.read;
            let earliest = Instant::now().checked_sub(CATCH_UP).unwrap_or(state.next);
            state.next = state.next.max(earliest) + Duration::from_secs(1).mul_f64(rows as f64 / state.rate);
            state.next
        };
        sleep_until(wake).await;
    }

    async fn moment(&self) {
        sleep(self.moment).await;
    }

    async fn reached(&self, checkpoint: &Checkpoint) {
        let Some(file) = &self.file else { return };
        {
            let mut state = lock(&self.state);
            if state.saved_at.is_some_and(|at| at.elapsed() < SAVE_INTERVAL) {
                return;
            }
            state.saved_at = Some(Instant::now());
        }
        // Without the checkpoint a later run has to read these rows again, which is no reason to stop.
        if let Err(error) = file.write(checkpoint) {
            warn!(
                error = &*error as &dyn std::error::Error,
                "could not save the checkpoint of the audit; continuing without it"
            );
        }
    }
}

impl CheckpointFile {
    fn read(&self, resume: bool) -> anyhow::Result<Option<Checkpoint>> {
        let path = self.path.display();
        let text = match fs::read_to_string(&self.path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            text => text.with_context(|| format!("cannot read `{path}`"))?,
        };
        ensure!(resume, "`{path}` is the checkpoint of an interrupted audit; continue with --resume, or delete it");
        let (of, checkpoint) = text.split_once('\n').unwrap_or_default();
        ensure!(of == self.of, "`{path}` is of another deployment: `{of}`, and this is `{}`", self.of);
        let checkpoint = Checkpoint::parse(checkpoint).with_context(|| format!("`{path}` cannot be resumed from"))?;
        Ok(Some(checkpoint))
    }

    /// Writes a new file and renames it: a crash leaves either the old or the new one.
    fn write(&self, checkpoint: &Checkpoint) -> anyhow::Result<()> {
        let beside = beside(&self.path);
        fs::write(&beside, format!("{}\n{}", self.of, checkpoint.encode()))?;
        Ok(fs::rename(&beside, &self.path)?)
    }
}

fn beside(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".new");
    name.into()
}

#[cfg(test)]
mod tests {
    use audit::Stage;

    use super::*;

    fn progress(read: u64) -> AuditProgress {
        AuditProgress { stage: "chats", read, all: 10_000 }
    }

    type NoProgress = fn(AuditProgress);

    fn of(manner: &Manner, of: &str) -> anyhow::Result<(Paced<NoProgress>, Option<Checkpoint>)> {
        Paced::new(manner, of.to_owned(), MOMENT, |_| {})
    }

    #[tokio::test(start_paused = true)]
    async fn rows_are_read_at_the_rate_and_a_long_pause_is_not_caught_up() {
        let (pace, _) = of(&Manner { rate: Some(100), ..Manner::default() }, "test").unwrap();
        let started = Instant::now();
        for read in [100, 200, 300] {
            pace.read(progress(read)).await;
        }
        assert_eq!(started.elapsed(), Duration::from_secs(3));
        sleep(Duration::from_secs(3600)).await;
        let started = Instant::now();
        pace.read(progress(1300)).await;
        assert_eq!(started.elapsed(), Duration::from_secs(9), "except for one second of it");
    }

    #[test]
    fn the_rate_follows_the_delay_of_commits_within_its_bounds() {
        let millis = Duration::from_millis;
        for (rate, delay, max, expected) in [
            (2000.0, millis(0), 1_000_000, 3000.0),
            (2000.0, millis(25), 1_000_000, 3000.0),
            (3000.0, millis(26), 1_000_000, 3000.0),
            (3000.0, millis(99), 1_000_000, 3000.0),
            (8000.0, millis(100), 1_000_000, 4000.0),
            (3000.0, millis(5000), 1_000_000, 2000.0),
            (900_000.0, millis(0), 1_000_000, 1_000_000.0),
            (100.0, millis(0), 100, 100.0),
            (100.0, millis(5000), 100, 100.0),
        ] {
            assert_eq!(adapted(rate, delay, max), expected, "{rate} after {delay:?}, at most {max}");
        }
    }

    /// The time in which a serving store with this delay of commits is read.
    async fn time_to_read(rows: u64, rate_max: u32, delay: Duration) -> Duration {
        let commits: CommitWait = Box::new(move || Box::pin(sleep(delay)));
        let pace = Paced::of_serving(rate_max, commits, |_: AuditProgress| {});
        let started = Instant::now();
        for read in (0..=rows).step_by(500) {
            pace.read(progress(read)).await;
        }
        started.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn an_idle_store_is_read_fast_and_a_busy_one_at_the_usual_rate() {
        let (rows, max) = (273_000, 1_000_000);
        let idle = time_to_read(rows, max, Duration::from_millis(1)).await;
        assert!(idle < Duration::from_secs(20), "{idle:?}");
        let busy = time_to_read(rows, max, Duration::from_millis(150)).await;
        assert!((100..200).contains(&busy.as_secs()), "{busy:?}");
        let bounded = time_to_read(10_000, 100, Duration::from_millis(1)).await;
        assert!(bounded >= Duration::from_secs(100), "--rate stays the maximum: {bounded:?}");
    }

    #[tokio::test]
    async fn an_audit_resumes_from_its_checkpoint_if_requested() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("checkpoint");
        let mut manner = Manner { checkpoint: Some(path.clone()), ..Manner::default() };
        let (pace, from) = of(&manner, "test").unwrap();
        assert_eq!(from, None);
        let reached = Checkpoint { stage: Stage::Pairs, read: 7, ..Checkpoint::default() };
        pace.reached(&reached).await;

        let refusal = of(&manner, "test").err().unwrap().to_string();
        assert!(refusal.contains("continue with --resume, or delete it"), "{refusal}");
        manner.resume = true;
        let refusal = of(&manner, "other").err().unwrap().to_string();
        assert!(refusal.contains("is of another deployment: `test`"), "{refusal}");
        let (pace, from) = of(&manner, "test").unwrap();
        assert_eq!(from, Some(reached));
        pace.finish().unwrap();
        assert!(!path.exists());
        pace.finish().unwrap();
        fs::write(&path, "test\nnonsense").unwrap();
        let refusal = of(&manner, "test").err().unwrap();
        assert!(format!("{refusal:#}").contains("cannot be resumed from: it is not a checkpoint"), "{refusal:#}");
    }
}
