use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use domain::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

const FILE: &str = "admin-audit.jsonl";
/// How much of the end of the file is read to answer what was done last.
const TAIL_BYTES_MAX: u64 = 1 << 20;

/// What operators have had done, in the file `admin-audit.jsonl` of a data directory.
///
/// Each action is two lines: one before it is done, one that says what came of it. Each is on the disk when
/// [`begin`](Self::begin) or [`end`](Self::end) returns. A crash between them leaves an action without an outcome; a crash in
/// the middle of a line leaves a line that is passed over. The file is opened for each line, so that it may be moved away.
#[derive(Clone)]
pub(crate) struct AuditTrail {
    path: Arc<Path>,
    /// Whose turn it is to write: lines are never mixed.
    turn: Arc<Mutex<()>>,
}

/// An action that is about to be done.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Action {
    pub(super) id: String,
    pub(super) at: Timestamp,
    pub(super) by: Actor,
    /// The method and the route.
    pub(super) action: String,
    /// The path: on whom.
    pub(super) target: String,
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub(super) request: Value,
}

/// Who has an action done.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Actor {
    /// The beginning of the digest of the token that was shown.
    pub(super) token: String,
    pub(super) address: Option<String>,
}

/// What came of an action.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Outcome {
    pub(super) ended_at: Timestamp,
    pub(super) outcome: OutcomeKind,
    pub(super) status: u16,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum OutcomeKind {
    Done,
    /// Nothing was done, because the request could not be.
    Refused,
    /// It may have been done or not.
    Failed,
}

/// An action and, unless the process has ended during it, what came of it.
#[derive(Debug, PartialEq, Serialize)]
pub(super) struct Entry {
    #[serde(flatten)]
    pub(super) action: Action,
    #[serde(flatten)]
    pub(super) outcome: Option<Outcome>,
}

#[derive(Serialize, Deserialize)]
struct End {
    id: String,
    #[serde(flatten)]
    outcome: Outcome,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Line {
    Begin(Action),
    End(End),
}

impl AuditTrail {
    pub(crate) fn new(directory: &Path) -> Self {
        Self { path: directory.join(FILE).into(), turn: Arc::default() }
    }

    /// Writes down that an action is about to be done. It is not to be done if this fails.
    pub(super) async fn begin(&self, action: Action) -> io::Result<()> {
        self.append(serde_json::to_string(&action)?).await
    }

    pub(super) async fn end(&self, id: String, outcome: Outcome) -> io::Result<()> {
        self.append(serde_json::to_string(&End { id, outcome })?).await
    }

    /// Up to `limit` actions, the newest first, as far back as the end of the file tells.
    pub(super) async fn newest(&self, limit: usize) -> io::Result<Vec<Entry>> {
        let path = self.path.clone();
        let tail = tokio::task::spawn_blocking(move || tail(&path)).await.map_err(io::Error::other)??;
        Ok(entries(&tail, limit))
    }

    async fn append(&self, line: String) -> io::Result<()> {
        let Self { path, turn } = self.clone();
        let appending = move || {
            // Nothing is guarded but the order of writes.
            let _turn = turn.lock().unwrap_or_else(PoisonError::into_inner);
            append(&path, line)
        };
        tokio::task::spawn_blocking(appending).await.map_err(io::Error::other)?
    }
}

fn append(path: &Path, mut line: String) -> io::Result<()> {
    let is_new = !path.exists();
    let mut file = OpenOptions::new().read(true).append(true).create(true).mode(0o600).open(path)?;
    if !ends_a_line(&mut file)? {
        // A crash has cut the last line short. This one is not to continue it.
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

/// The end of the file, from the beginning of a line on.
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

fn entries(tail: &str, limit: usize) -> Vec<Entry> {
    let mut outcomes = BTreeMap::new();
    let mut newest = vec![];
    for line in tail.lines().rev() {
        match serde_json::from_str(line) {
            Ok(Line::End(End { id, outcome })) => {
                outcomes.insert(id, outcome);
            }
            Ok(Line::Begin(action)) => {
                let outcome = outcomes.remove(&action.id);
                newest.push(Entry { action, outcome });
                if newest.len() == limit {
                    break;
                }
            }
            // The line of a crash.
            Err(_) => {}
        }
    }
    newest
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn action(n: u64) -> Action {
        Action {
            id: n.to_string(),
            at: Timestamp::from_millis(n),
            by: Actor { token: "sha256:00112233".into(), address: Some("127.0.0.1:50000".into()) },
            action: "POST /gateways/{id}/drain".into(),
            target: format!("/gateways/g{n}/drain"),
            request: Value::Null,
        }
    }

    fn done(n: u64) -> Outcome {
        Outcome { ended_at: Timestamp::from_millis(n + 1), outcome: OutcomeKind::Done, status: 200 }
    }

    #[tokio::test]
    async fn actions_come_back_newest_first_with_what_came_of_them() {
        let directory = tempfile::tempdir().unwrap();
        let trail = AuditTrail::new(directory.path());
        assert_eq!(trail.newest(10).await.unwrap(), [], "there is no file yet");
        for n in 1..=3 {
            trail.begin(action(n)).await.unwrap();
        }
        trail.end(action(1).id, done(1)).await.unwrap();
        trail.end(action(2).id, done(2)).await.unwrap();
        let entry = |n, outcome| Entry { action: action(n), outcome };
        let all = [entry(3, None), entry(2, Some(done(2))), entry(1, Some(done(1)))];
        assert_eq!(trail.newest(10).await.unwrap(), all);
        assert_eq!(trail.newest(2).await.unwrap(), all[..2]);
        let mode = fs::metadata(directory.path().join(FILE)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[tokio::test]
    async fn a_line_that_a_crash_cut_short_costs_no_other() {
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
    async fn what_cannot_be_written_is_an_error() {
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
