use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use domain::Timestamp;
use ports::lock;
use serde::{Deserialize, Serialize};
use serde_json::Value;

const FILE: &str = "admin-audit.jsonl";
/// Bytes at the end of the file that are read to list the latest actions.
const TAIL_BYTES_MAX: u64 = 1 << 20;

/// The actions of operators, in the file `admin-audit.jsonl` of a data directory.
///
/// Each action has two lines: one written before it runs, one with its outcome. Each line is synced to disk when
/// [`begin`](Self::begin) or [`end`](Self::end) returns. A crash between them leaves an action without an outcome. A
/// crash during a write leaves a partial line, which readers skip. The file is opened for each line, so that it can be
/// rotated.
#[derive(Clone)]
pub(crate) struct AuditTrail {
    path: Arc<Path>,
    /// Serializes writers, so that lines are never interleaved.
    turn: Arc<Mutex<()>>,
}

/// An action about to run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct AdminAction {
    pub(super) id: String,
    pub(super) at: Timestamp,
    pub(super) by: AdminActor,
    /// The HTTP method and the route.
    pub(super) action: String,
    /// The request path, which names the target.
    pub(super) target: String,
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub(super) request: Value,
}

/// The operator who requested an action.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct AdminActor {
    /// The first bytes of the digest of the presented token.
    pub(super) token: String,
    pub(super) address: Option<String>,
}

/// The outcome of an action.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct ActionOutcome {
    pub(super) ended_at: Timestamp,
    pub(super) outcome: OutcomeKind,
    pub(super) status: u16,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum OutcomeKind {
    Done,
    /// The request was invalid, and nothing was done.
    Refused,
    /// The action may or may not have taken effect.
    Failed,
}

/// An action and its outcome; without one if the process ended during the action.
#[derive(Debug, PartialEq, Serialize)]
pub(super) struct AuditEntry {
    #[serde(flatten)]
    pub(super) action: AdminAction,
    #[serde(flatten)]
    pub(super) outcome: Option<ActionOutcome>,
}

#[derive(Serialize, Deserialize)]
struct ActionEnd {
    id: String,
    #[serde(flatten)]
    outcome: ActionOutcome,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum AuditLine {
    Begin(AdminAction),
    End(ActionEnd),
}

impl AuditTrail {
    pub(crate) fn new(directory: &Path) -> Self {
        Self { path: directory.join(FILE).into(), turn: Arc::default() }
    }

    /// Records that an action is about to run. The caller must not run it if this fails.
    pub(super) async fn begin(&self, action: AdminAction) -> io::Result<()> {
        self.append(serde_json::to_string(&action)?).await
    }

    pub(super) async fn end(&self, id: String, outcome: ActionOutcome) -> io::Result<()> {
        self.append(serde_json::to_string(&ActionEnd { id, outcome })?).await
    }

    /// Up to `limit` actions, newest first, from the last [`TAIL_BYTES_MAX`] bytes of the file.
    pub(super) async fn newest(&self, limit: usize) -> io::Result<Vec<AuditEntry>> {
        let path = self.path.clone();
        let tail = tokio::task::spawn_blocking(move || tail(&path)).await.map_err(io::Error::other)??;
        Ok(entries(&tail, limit))
    }

    async fn append(&self, line: String) -> io::Result<()> {
        let Self { path, turn } = self.clone();
        let appending = move || {
            // The mutex guards no data, only the order of writes.
            let _turn = lock(&turn);
            append(&path, line)
        };
        tokio::task::spawn_blocking(appending).await.map_err(io::Error::other)?
    }
}

fn append(path: &Path, mut line: String) -> io::Result<()> {
    let is_new = !path.exists();
    let mut file = OpenOptions::new().read(true).append(true).create(true).mode(0o600).open(path)?;
    if !ends_a_line(&mut file)? {
        // A crash has cut the last line short. Start a new line after it.
        line.insert(0, '\n');
    }
    line.push('\n');
    file.write_all(line.as_bytes())?;
    file.sync_data()?;
    if is_new {
        let directory: PathBuf = path.parent().map(Path::to_owned).unwrap_or_default();
        File::open(directory)?.sync_all()?;
    }
    Ok(())
}

fn ends_a_line(file: &mut File) -> io::Result<bool> {
    if file.metadata()?.len() == 0 {
        return Ok(true);
    }
    file.seek(SeekFrom::End(-1))?;
    let mut last = [0];
    file.read_exact(&mut last)?;
    Ok(last == *b"\n")
}

/// The end of the file, starting at the beginning of a line.
fn tail(path: &Path) -> io::Result<String> {
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(failure) if failure.kind() == io::ErrorKind::NotFound => return Ok(String::new()),
        Err(failure) => return Err(failure),
    };
    let len = fs::metadata(path)?.len();
    let from = len.saturating_sub(TAIL_BYTES_MAX);
    file.seek(SeekFrom::Start(from))?;
    let mut bytes = vec![];
    file.take(TAIL_BYTES_MAX).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    Ok(match text.split_once('\n') {
        Some((_, whole)) if from > 0 => whole.to_owned(),
        _ => text.into_owned(),
    })
}

fn entries(tail: &str, limit: usize) -> Vec<AuditEntry> {
    let mut outcomes = BTreeMap::new();
    let mut newest = vec![];
    for line in tail.lines().rev() {
        match serde_json::from_str(line) {
            Ok(AuditLine::End(ActionEnd { id, outcome })) => {
                outcomes.insert(id, outcome);
            }
            Ok(AuditLine::Begin(action)) => {
                let outcome = outcomes.remove(&action.id);
                newest.push(AuditEntry { action, outcome });
                if newest.len() == limit {
                    break;
                }
            }
            // A partial line from a crash.
            Err(_) => {}
        }
    }
    newest
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn action(n: u64) -> AdminAction {
        AdminAction {
            id: n.to_string(),
            at: Timestamp::from_millis(n),
            by: AdminActor { token: "sha256:00112233".into(), address: Some("127.0.0.1:50000".into()) },
            action: "POST /gateways/{id}/drain".into(),
            target: format!("/gateways/g{n}/drain"),
            request: Value::Null,
        }
    }

    fn done(n: u64) -> ActionOutcome {
        ActionOutcome { ended_at: Timestamp::from_millis(n + 1), outcome: OutcomeKind::Done, status: 200 }
    }

    #[tokio::test]
    async fn actions_are_listed_newest_first_with_their_outcomes() {
        let directory = tempfile::tempdir().unwrap();
        let trail = AuditTrail::new(directory.path());
        assert_eq!(trail.newest(10).await.unwrap(), [], "there is no file yet");
        for n in 1..=3 {
            trail.begin(action(n)).await.unwrap();
        }
        trail.end(action(1).id, done(1)).await.unwrap();
        trail.end(action(2).id, done(2)).await.unwrap();
        let entry = |n, outcome| AuditEntry { action: action(n), outcome };
        let all = [entry(3, None), entry(2, Some(done(2))), entry(1, Some(done(1)))];
        assert_eq!(trail.newest(10).await.unwrap(), all);
        assert_eq!(trail.newest(2).await.unwrap(), all[..2]);
        let mode = fs::metadata(directory.path().join(FILE)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[tokio::test]
    async fn a_partial_line_from_a_crash_affects_no_other_line() {
        let directory = tempfile::tempdir().unwrap();
        let trail = AuditTrail::new(directory.path());
        trail.begin(action(1)).await.unwrap();
        let path = directory.path().join(FILE);
        let whole = fs::read(&path).unwrap();
        fs::write(&path, [&whole[..], &whole[..20]].concat()).unwrap();
        trail.begin(action(2)).await.unwrap();
        let found: Vec<_> = trail.newest(10).await.unwrap().into_iter().map(|entry| entry.action).collect();
        assert_eq!(found, [action(2), action(1)]);
    }

    #[tokio::test]
    async fn a_failed_write_is_an_error() {
        let directory = tempfile::tempdir().unwrap();
        let trail = AuditTrail::new(&directory.path().join("gone"));
        assert_eq!(trail.begin(action(1)).await.unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[tokio::test]
    async fn a_long_file_is_read_from_its_end() {
        let directory = tempfile::tempdir().unwrap();
        let trail = AuditTrail::new(directory.path());
        let line = serde_json::to_string(&action(1)).unwrap() + "\n";
        fs::write(directory.path().join(FILE), line.repeat(TAIL_BYTES_MAX as usize / line.len() + 2)).unwrap();
        trail.begin(action(2)).await.unwrap();
        let found = trail.newest(usize::MAX).await.unwrap();
        assert_eq!(found[0].action, action(2));
        assert!(found[1..].iter().all(|entry| entry.action == action(1)));
        assert!((found.len() * line.len()) as u64 <= TAIL_BYTES_MAX);
    }
}
