use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufReader, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use domain::Timestamp;
use ports::{Clock, SystemClock, lock};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tracing::error;

use super::audit_chain::{ChainHash, ChainReader, SegmentLine, chained};

/// The name of the audit trail in a data directory.
pub const FILE: &str = "admin-audit.jsonl";
/// Bytes at the end of the file that are read to list the latest actions.
const TAIL_BYTES_MAX: u64 = 4 << 20;

/// The actions and reads of operators, in the file `admin-audit.jsonl` of a data directory.
///
/// An action has two lines: one written before it runs, one with its outcome. Each is synced to disk when
/// [`begin`](Self::begin) or [`end`](Self::end) returns. A crash between them leaves an action without an outcome. A
/// read has one line with its outcome, which is written when [`note`](Self::note) returns, and not synced: the crash of
/// the process loses none, a power cut may lose the reads after the last action.
///
/// The lines are chained (`audit_chain`). The first line of a process reads the whole file once, to continue its chain.
/// A line that a crash has cut short, and a file that was changed by another program, start a new segment. The file is
/// opened for each line, so that it can be rotated; the new file continues the chain.
#[derive(Clone)]
pub(crate) struct AuditTrail {
    path: Arc<Path>,
    /// Serializes writers, so that lines are never interleaved.
    chain: Arc<Mutex<ChainEnd>>,
}

/// The end of the chain, as this process has written it.
#[derive(Default)]
struct ChainEnd {
    last: Option<ChainHash>,
    /// The inode and the length of the file after the last line.
    file: Option<(u64, u64)>,
}

/// An action about to run, or a read.
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

/// The operator who made a request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct AdminActor {
    /// The name of the operator; absent in lines of releases that had only one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) operator: Option<String>,
    /// The first bytes of the digest of the presented token.
    pub(super) token: String,
    pub(super) address: Option<String>,
}

/// The outcome of an action or a read.
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
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct AuditEntry {
    #[serde(flatten)]
    pub(super) action: AdminAction,
    #[serde(flatten)]
    pub(super) outcome: Option<ActionOutcome>,
    /// Whether it is a read, or was refused for a missing role: one line that changed nothing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) read: bool,
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
    Entry(AuditEntry),
    End(ActionEnd),
}

/// Which entries to list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ListedEntries {
    Actions,
    ActionsAndReads,
}

/// Whether a line is on disk when it is written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Durability {
    Synced,
    Written,
}

impl AuditTrail {
    pub(crate) fn new(directory: &Path) -> Self {
        Self { path: directory.join(FILE).into(), chain: Arc::default() }
    }

    /// Records that an action is about to run. The caller must not run it if this fails. Returns the hash of the line.
    pub(super) async fn begin(&self, action: AdminAction) -> io::Result<ChainHash> {
        let entry = AuditEntry { action, outcome: None, read: false };
        self.append(serde_json::to_string(&entry)?, Durability::Synced).await
    }

    /// Records the outcome of an action. Returns the hash of the line.
    pub(super) async fn end(&self, id: String, outcome: ActionOutcome) -> io::Result<ChainHash> {
        self.append(serde_json::to_string(&ActionEnd { id, outcome })?, Durability::Synced).await
    }

    /// Records a read with its outcome. The caller must not send its answer if this fails.
    pub(super) async fn note(&self, entry: &AuditEntry) -> io::Result<()> {
        self.append(serde_json::to_string(entry)?, Durability::Written).await?;
        Ok(())
    }

    /// Up to `limit` entries, newest first, from the last [`TAIL_BYTES_MAX`] bytes of the file.
    pub(super) async fn newest(&self, listed: ListedEntries, limit: usize) -> io::Result<Vec<AuditEntry>> {
        let path = self.path.clone();
        let tail = tokio::task::spawn_blocking(move || tail(&path)).await.map_err(io::Error::other)??;
        Ok(entries(&tail, listed, limit))
    }

    async fn append(&self, body: String, durability: Durability) -> io::Result<ChainHash> {
        let Self { path, chain } = self.clone();
        let appending = move || {
            let mut chain = lock(&chain);
            // If a write fails, its extent is unknown, and the next line reads the file again.
            let end = std::mem::take(&mut *chain);
            *chain = append(&path, end, &body, durability)?;
            Ok(chain.last.expect("a line was written"))
        };
        tokio::task::spawn_blocking(appending).await.map_err(io::Error::other)?
    }
}

/// Appends a line to the chain, and before it a segment line where the file does not end with the last line.
fn append(path: &Path, end: ChainEnd, body: &str, durability: Durability) -> io::Result<ChainEnd> {
    let is_new = !path.exists();
    let mut file = OpenOptions::new().read(true).append(true).create(true).mode(0o600).open(path)?;
    let metadata = file.metadata()?;
    let (inode, len) = (metadata.ino(), metadata.len());
    let (mut last, mut text) = (end.last, String::new());
    if end.file != Some((inode, len)) {
        if !ends_a_line(&mut file)? {
            // A crash has cut the last line short. Start a new line after it.
            text.push('\n');
        }
        file.seek(SeekFrom::Start(0))?;
        let mut found = ChainReader::default();
        found.read(FILE, BufReader::new(&mut file))?;
        if let Some(broken) = found.broken() {
            error!(line = broken.at.line, reason = broken.reason, "the audit log does not fit its chain");
        }
        let in_file = found.last();
        if last.is_some() && in_file.is_some() && last != in_file {
            error!("the audit log does not end with the last line of this process; lines were removed or added");
        }
        last = last.or(in_file);
        let unchained = found.unchained_end(b"\n");
        if in_file.is_none() || in_file != last || unchained.is_some() {
            let previous = last.map(ChainHash::to_hex);
            let segment = SegmentLine { segment: SystemClock.now(), previous, unchained };
            let (line, hash) = chained(last, &serde_json::to_string(&segment)?);
            text += &line;
            text.push('\n');
            last = Some(hash);
        }
    }
    let (line, hash) = chained(last, body);
    text += &line;
    text.push('\n');
    file.write_all(text.as_bytes())?;
    if durability == Durability::Synced {
        file.sync_data()?;
    }
    if is_new {
        let directory: PathBuf = path.parent().map(Path::to_owned).unwrap_or_default();
        File::open(directory)?.sync_all()?;
    }
    Ok(ChainEnd { last: Some(hash), file: Some((inode, len + text.len() as u64)) })
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

fn entries(tail: &str, listed: ListedEntries, limit: usize) -> Vec<AuditEntry> {
    let mut outcomes = BTreeMap::new();
    let mut newest = vec![];
    for line in tail.lines().rev() {
        match serde_json::from_str(line) {
            Ok(AuditLine::End(ActionEnd { id, outcome })) => {
                outcomes.insert(id, outcome);
            }
            Ok(AuditLine::Entry(entry)) if entry.read && listed == ListedEntries::Actions => {}
            Ok(AuditLine::Entry(mut entry)) => {
                entry.outcome = entry.outcome.or_else(|| outcomes.remove(&entry.action.id));
                newest.push(entry);
                if newest.len() == limit {
                    break;
                }
            }
            // A segment line, or a partial line from a crash.
            Err(_) => {}
        }
    }
    newest
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::admin::audit_chain::{AuditVerification, verify_audit_files};

    fn action(n: u64) -> AdminAction {
        AdminAction {
            id: n.to_string(),
            at: Timestamp::from_millis(n),
            by: AdminActor {
                operator: Some("ann".into()),
                token: "sha256:00112233".into(),
                address: Some("127.0.0.1:50000".into()),
            },
            action: "POST /gateways/{id}/drain".into(),
            target: format!("/gateways/g{n}/drain"),
            request: Value::Null,
        }
    }

    fn done(n: u64) -> ActionOutcome {
        ActionOutcome { ended_at: Timestamp::from_millis(n + 1), outcome: OutcomeKind::Done, status: 200 }
    }

    fn entry(n: u64, outcome: Option<ActionOutcome>) -> AuditEntry {
        AuditEntry { action: action(n), outcome, read: false }
    }

    async fn newest(trail: &AuditTrail, limit: usize) -> Vec<AuditEntry> {
        trail.newest(ListedEntries::Actions, limit).await.unwrap()
    }

    fn verified(directory: &Path) -> AuditVerification {
        verify_audit_files(&[directory.join(FILE)], None).unwrap()
    }

    #[tokio::test]
    async fn actions_are_listed_newest_first_with_their_outcomes() {
        let directory = tempfile::tempdir().unwrap();
        let trail = AuditTrail::new(directory.path());
        assert_eq!(newest(&trail, 10).await, [], "there is no file yet");
        for n in 1..=3 {
            trail.begin(action(n)).await.unwrap();
        }
        trail.end(action(1).id, done(1)).await.unwrap();
        trail.end(action(2).id, done(2)).await.unwrap();
        let read = AuditEntry { read: true, ..entry(4, Some(done(4))) };
        trail.note(&read).await.unwrap();
        let all = [entry(3, None), entry(2, Some(done(2))), entry(1, Some(done(1)))];
        assert_eq!(newest(&trail, 10).await, all);
        assert_eq!(newest(&trail, 2).await, all[..2]);
        assert_eq!(trail.newest(ListedEntries::ActionsAndReads, 2).await.unwrap(), [read, entry(3, None)]);
        let mode = fs::metadata(directory.path().join(FILE)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let AuditVerification { lines, broken, cut_short, .. } = verified(directory.path());
        assert_eq!((lines, broken, cut_short), (7, None, vec![]), "with the line that begins the chain");
    }

    #[tokio::test]
    async fn a_partial_line_from_a_crash_affects_no_other_line() {
        let directory = tempfile::tempdir().unwrap();
        AuditTrail::new(directory.path()).begin(action(1)).await.unwrap();
        let path = directory.path().join(FILE);
        let whole = fs::read(&path).unwrap();
        fs::write(&path, [&whole[..], &whole[..20]].concat()).unwrap();
        // The next process.
        let trail = AuditTrail::new(directory.path());
        trail.begin(action(2)).await.unwrap();
        assert_eq!(newest(&trail, 10).await, [entry(2, None), entry(1, None)]);
        let AuditVerification { broken, cut_short, .. } = verified(directory.path());
        assert_eq!((broken, cut_short.len()), (None, 1));
        // The rest of the partial line is sealed too.
        let mut text = fs::read_to_string(&path).unwrap();
        let end = text.rfind("\n{\"segment\"").unwrap();
        text.insert(end, '?');
        fs::write(&path, text).unwrap();
        assert_eq!(verified(directory.path()).broken.unwrap().at.line, 3);
    }

    #[tokio::test]
    async fn a_chain_goes_on_after_a_restart_a_rotation_and_lines_without_a_chain() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(FILE);
        let old = serde_json::to_string(&entry(1, None)).unwrap() + "\n";
        fs::write(&path, old.repeat(2)).unwrap();
        AuditTrail::new(directory.path()).begin(action(2)).await.unwrap();
        let trail = AuditTrail::new(directory.path());
        trail.begin(action(3)).await.unwrap();
        let found = verified(directory.path());
        assert_eq!((found.lines, found.unchained_lines, found.broken), (5, 2, None));
        let moved = directory.path().join("moved");
        fs::rename(&path, &moved).unwrap();
        trail.begin(action(4)).await.unwrap();
        let both = verify_audit_files(&[&moved, &path], None).unwrap();
        assert_eq!((both.lines, both.broken), (7, None));
        assert_eq!(verify_audit_files(&[&path], None).unwrap().broken, None, "each is whole on its own");

        // The lines of the earlier release are sealed from now on.
        let text = fs::read_to_string(&moved).unwrap();
        fs::write(&moved, text.replacen("/gateways/g1", "/gateways/g9", 1)).unwrap();
        assert_eq!(verify_audit_files(&[&moved], None).unwrap().broken.unwrap().at.line, 1);
    }

    #[tokio::test]
    async fn lines_removed_while_the_process_runs_break_the_chain() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(FILE);
        let trail = AuditTrail::new(directory.path());
        for n in 1..=3 {
            trail.begin(action(n)).await.unwrap();
        }
        let text = fs::read_to_string(&path).unwrap();
        let kept: Vec<_> = text.lines().take(3).collect();
        fs::write(&path, kept.join("\n") + "\n").unwrap();
        trail.begin(action(4)).await.unwrap();
        assert_eq!(verified(directory.path()).broken.unwrap().at.line, 4);
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
        let line = serde_json::to_string(&entry(1, None)).unwrap() + "\n";
        fs::write(directory.path().join(FILE), line.repeat(TAIL_BYTES_MAX as usize / line.len() + 2)).unwrap();
        trail.begin(action(2)).await.unwrap();
        let found = newest(&trail, usize::MAX).await;
        assert_eq!(found[0].action, action(2));
        assert!(found[1..].iter().all(|entry| entry.action == action(1)));
        assert!((found.len() * line.len()) as u64 <= TAIL_BYTES_MAX);
    }
}
