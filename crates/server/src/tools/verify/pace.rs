use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, ensure};
use async_trait::async_trait;
use audit::{Checkpoint, Pace, Progress};
use tokio::time::{Instant, sleep, sleep_until};
use tracing::warn;

use super::Manner;

/// How long to wait for others before something that looks wrong is looked at again: longer than any commit takes that is
/// well.
pub(crate) const MOMENT: Duration = Duration::from_millis(500);
/// How much of its pace an audit may make up for when it was held up.
const CATCH_UP: Duration = Duration::from_secs(1);
/// How often it is written down how far it is, at the most.
const SAVE_INTERVAL: Duration = Duration::from_secs(1);

/// Has an audit read so many rows in a second, and keeps in a file how far it is.
pub(crate) struct Paced<P> {
    rate: u32,
    moment: Duration,
    progress: P,
    file: Option<File>,
    state: Mutex<State>,
}

struct State {
    /// Rows that were read by the last look.
    read: u64,
    /// When the next ones may be.
    next: Instant,
    saved_at: Option<Instant>,
}

/// Where it is kept how far an audit of a deployment is.
struct File {
    path: PathBuf,
    of: String,
}

impl<P: Fn(Progress) + Send + Sync> Paced<P> {
    /// The pace of an audit of the deployment `of` that name, and where it is to begin. It waits for `moment` before it
    /// looks again. A file that is there is not written over unless it is gone on from: hours of reading may be in it.
    pub(crate) fn new(
        manner: &Manner,
        of: String,
        moment: Duration,
        progress: P,
    ) -> anyhow::Result<(Self, Option<Checkpoint>)> {
        let file = manner.checkpoint.clone().map(|path| File { path, of });
        let from = file.as_ref().map(|file| file.read(manner.resume)).transpose()?.flatten();
        let read = from.as_ref().map_or(0, |checkpoint| checkpoint.read);
        let state = Mutex::new(State { read, next: Instant::now(), saved_at: None });
        Ok((Self { rate: manner.rate.max(1), moment, progress, file, state }, from))
    }

    /// Forgets how far it was, because it is done.
    pub(crate) fn finish(&self) -> anyhow::Result<()> {
        let Some(File { path, .. }) = &self.file else { return Ok(()) };
        match fs::remove_file(path) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(error).with_context(|| format!("cannot delete `{}`", path.display()))
            }
            _ => Ok(()),
        }
    }
}

#[async_trait]
impl<P: Fn(Progress) + Send + Sync> Pace for Paced<P> {
    async fn read(&self, progress: Progress) {
        (self.progress)(progress);
        let wake = {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            let rows = progress.read.saturating_sub(state.read);
            state.read = progress.read;
            let earliest = Instant::now().checked_sub(CATCH_UP).unwrap_or(state.next);
            state.next = state.next.max(earliest) + Duration::from_secs(1).mul_f64(rows as f64 / f64::from(self.rate));
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
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            if state.saved_at.is_some_and(|at| at.elapsed() < SAVE_INTERVAL) {
                return;
            }
            state.saved_at = Some(Instant::now());
        }
        // What cannot be kept has to be read again; that is no reason to stop.
        if let Err(error) = file.write(checkpoint) {
            warn!(error = &*error as &dyn std::error::Error, "how far the audit is cannot be kept");
        }
    }
}

impl File {
    fn read(&self, resume: bool) -> anyhow::Result<Option<Checkpoint>> {
        let path = self.path.display();
        let text = match fs::read_to_string(&self.path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            text => text.with_context(|| format!("cannot read `{path}`"))?,
        };
        ensure!(resume, "`{path}` is there, from an audit that was interrupted; go on with --resume, or delete it");
        let (of, checkpoint) = text.split_once('\n').unwrap_or_default();
        ensure!(of == self.of, "`{path}` is of another deployment: `{of}`, and this is `{}`", self.of);
        let checkpoint = Checkpoint::parse(checkpoint).with_context(|| format!("`{path}` cannot be gone on from"))?;
        Ok(Some(checkpoint))
    }

    /// Writes it beside, then in its place: a crash leaves the one or the other.
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

    fn progress(read: u64) -> Progress {
        Progress { stage: "chats", read, all: 10_000 }
    }

    type Unheard = fn(Progress);

    fn of(manner: &Manner, of: &str) -> anyhow::Result<(Paced<Unheard>, Option<Checkpoint>)> {
        Paced::new(manner, of.to_owned(), MOMENT, |_| {})
    }

    #[tokio::test(start_paused = true)]
    async fn rows_are_read_at_the_rate_and_a_pause_is_not_made_up_for() {
        let (pace, _) = of(&Manner { rate: 100, ..Manner::default() }, "test").unwrap();
        let started = Instant::now();
        for read in [100, 200, 300] {
            pace.read(progress(read)).await;
        }
        assert_eq!(started.elapsed(), Duration::from_secs(3));
        sleep(Duration::from_secs(3600)).await;
        let started = Instant::now();
        pace.read(progress(1300)).await;
        assert_eq!(started.elapsed(), Duration::from_secs(9), "but for a second of it");
    }

    #[tokio::test]
    async fn an_audit_goes_on_from_its_file_if_that_is_meant() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("checkpoint");
        let mut manner = Manner { checkpoint: Some(path.clone()), ..Manner::default() };
        let (pace, from) = of(&manner, "test").unwrap();
        assert_eq!(from, None);
        let reached = Checkpoint { stage: Stage::Pairs, read: 7, ..Checkpoint::default() };
        pace.reached(&reached).await;

        let refusal = of(&manner, "test").err().unwrap().to_string();
        assert!(refusal.contains("go on with --resume, or delete it"), "{refusal}");
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
        assert!(format!("{refusal:#}").contains("cannot be gone on from: it is not a checkpoint"), "{refusal:#}");
    }
}
