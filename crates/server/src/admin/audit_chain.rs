//! The hash chain of the audit trail.
//!
//! A chained line is a JSON object whose last field is `hash`: SHA-256 over the hash of the line before it (32 bytes) and
//! the line without that field. A changed, removed or inserted line breaks the chain at that line.
//!
//! A chain begins with a segment line, and so does every file. A segment line names the hash before it, if any, and
//! the bytes before it that are not chained: lines of a release without a chain, or a line that a crash has cut short.
//! So these bytes are sealed as well.
//!
//! The chain has no key: a key in the data directory would be readable to every process that can change the file. An
//! attacker with that access can cut off the end, or compute a whole new chain. Each hash is also in the log of the
//! process: [`AuditVerification`] takes one that was kept elsewhere, and fails if the file has lost it.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::Path;

use aws_lc_rs::digest::{Context, SHA256};
use domain::Timestamp;
use serde::{Deserialize, Serialize};

use super::operators::{from_hex, hex};

/// The end of a chained line, around the 64 digits of its hash.
const HASH_FIELD: &str = r#","hash":""#;
const HASH_END: &str = r#""}"#;
/// Most bytes of a line that are read at once. Ours are shorter; a longer one is not chained.
const LINE_BYTES_MAX: u64 = 64 << 10;

/// The hash of a chained line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ChainHash([u8; 32]);

impl ChainHash {
    /// The hash before the first line of a chain.
    const NONE: Self = Self([0; 32]);

    fn of(previous: Self, body: &str) -> Self {
        let mut context = Context::new(&SHA256);
        context.update(&previous.0);
        context.update(body.as_bytes());
        Self(context.finish().as_ref().try_into().expect("SHA-256 has 32 bytes"))
    }

    pub(super) fn to_hex(self) -> String {
        hex(&self.0)
    }
}

/// Chains a JSON object to the line before it. Returns the line, without its line break, and its hash.
pub(super) fn chained(previous: Option<ChainHash>, body: &str) -> (String, ChainHash) {
    let hash = ChainHash::of(previous.unwrap_or(ChainHash::NONE), body);
    let open = body.strip_suffix('}').expect("the body is a JSON object with a field");
    (format!("{open}{HASH_FIELD}{}{HASH_END}", hash.to_hex()), hash)
}

/// The parts of a chained line: the object without the hash, and the hash.
fn parts(line: &str) -> Option<(String, ChainHash)> {
    let (open, hash) = line.strip_suffix(HASH_END)?.rsplit_once(HASH_FIELD)?;
    Some((format!("{open}}}"), ChainHash(from_hex(hash)?)))
}

/// The first line of a chain, of a file, or after a gap.
#[derive(Serialize, Deserialize)]
pub(super) struct SegmentLine {
    /// When the segment began.
    pub(super) segment: Timestamp,
    /// The hash before it, here or at the end of an earlier file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) previous: Option<String>,
    /// The bytes directly before it that are not chained.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) unchained: Option<UnchainedBytes>,
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct UnchainedBytes {
    bytes: u64,
    sha256: String,
}

/// The result of reading an audit trail, one file or several in their order.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
pub struct AuditVerification {
    /// Lines in all files.
    pub lines: u64,
    /// Lines of earlier releases at the beginning, which had no chain.
    pub unchained_lines: u64,
    /// Lines that a crash has cut short, or truncation: the two cannot be told apart in these.
    pub cut_short: Vec<AuditLineNumber>,
    /// The hash of the last line.
    pub last_hash: Option<String>,
    /// The first line that does not fit.
    pub broken: Option<BrokenAuditLine>,
}

/// A line of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AuditLineNumber {
    pub file: String,
    pub line: u64,
}

/// A line that breaks the chain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BrokenAuditLine {
    #[serde(flatten)]
    pub at: AuditLineNumber,
    pub reason: &'static str,
}

/// Verifies the chain of audit trails in their order, oldest first. With `expected`, a hash that was kept elsewhere, one
/// of the lines must have it. Blocks on the disk.
pub fn verify_audit_files<P: AsRef<Path>>(files: &[P], expected: Option<&str>) -> io::Result<AuditVerification> {
    let mut reader = ChainReader { expected: expected.map(str::to_owned), ..ChainReader::default() };
    for file in files {
        let path = file.as_ref();
        let opened = File::open(path).map_err(|failure| {
            io::Error::new(failure.kind(), format!("cannot read `{}`: {failure}", path.display()))
        })?;
        reader.read(&path.display().to_string(), BufReader::new(opened))?;
    }
    Ok(reader.finish())
}

/// Reads chained lines and compares each with the one before it.
#[derive(Default)]
pub(super) struct ChainReader {
    seen: AuditVerification,
    file: String,
    /// The line within its file.
    line: u64,
    last: Option<ChainHash>,
    /// Bytes since the last chained line.
    run: UnchainedRun,
    /// A hash that a line must have.
    expected: Option<String>,
}

struct UnchainedRun {
    bytes: u64,
    lines: u64,
    first_line: u64,
    digest: Context,
    ends_line: bool,
}

impl Default for UnchainedRun {
    fn default() -> Self {
        Self { bytes: 0, lines: 0, first_line: 0, digest: Context::new(&SHA256), ends_line: true }
    }
}

impl UnchainedRun {
    fn stated(&self) -> Option<UnchainedBytes> {
        let sha256 = || hex(self.digest.clone().finish().as_ref());
        (self.bytes > 0).then(|| UnchainedBytes { bytes: self.bytes, sha256: sha256() })
    }
}

impl ChainReader {
    /// Reads a whole file, which follows the one before it.
    pub(super) fn read(&mut self, name: &str, mut file: impl BufRead) -> io::Result<()> {
        self.close_file();
        (self.file, self.line) = (name.to_owned(), 0);
        let mut line = vec![];
        loop {
            line.clear();
            let read = io::Read::take(&mut file, LINE_BYTES_MAX).read_until(b'\n', &mut line)?;
            if read == 0 {
                return Ok(());
            }
            self.line += 1;
            self.seen.lines += 1;
            self.take(&line);
        }
    }

    fn take(&mut self, line: &[u8]) {
        let text = str::from_utf8(line).ok().map(|line| line.strip_suffix('\n').unwrap_or(line));
        let Some((body, hash)) = text.and_then(parts) else {
            if self.run.bytes == 0 {
                self.run.first_line = self.line;
            }
            self.run.bytes += line.len() as u64;
            self.run.lines += 1;
            self.run.digest.update(line);
            self.run.ends_line = line.ends_with(b"\n");
            return;
        };
        let previous = match serde_json::from_str::<SegmentLine>(&body) {
            Ok(segment) => self.begin_segment(&segment),
            Err(_) => {
                if self.run.bytes > 0 {
                    self.break_at(self.run.first_line, "it is not part of the chain");
                } else if self.last.is_none() {
                    self.break_at(self.line, "the beginning of the chain is missing before it");
                }
                self.last
            }
        };
        if ChainHash::of(previous.unwrap_or(ChainHash::NONE), &body) != hash {
            self.break_at(self.line, "it was changed, or lines before it were removed");
        }
        if self.expected.as_ref().is_some_and(|expected| *expected == hash.to_hex()) {
            self.expected = None;
        }
        // After a break the chain goes on from the stated hash, so that the end of the file is known in any case.
        self.last = Some(hash);
        self.run = UnchainedRun::default();
    }

    /// Compares a segment line with the lines before it. Returns the hash that it states.
    fn begin_segment(&mut self, segment: &SegmentLine) -> Option<ChainHash> {
        let previous = segment.previous.as_deref().and_then(from_hex).map(ChainHash);
        if segment.unchained != self.run.stated() {
            let line = if self.run.bytes > 0 { self.run.first_line } else { self.line };
            self.break_at(line, "it was changed, or lines after it were removed");
        } else if self.run.bytes > 0 {
            self.account_for_run();
        }
        if self.last.is_some() && previous != self.last {
            self.break_at(self.line, "lines before it were removed");
        }
        previous
    }

    /// Notes bytes without a chain that are as they were when they were sealed.
    fn account_for_run(&mut self) {
        if self.last.is_none() {
            self.seen.unchained_lines += self.run.lines;
        } else {
            let at = AuditLineNumber { file: self.file.clone(), line: self.run.first_line };
            self.seen.cut_short.push(at);
        }
    }

    /// Judges the bytes at the end of a file that no segment line has sealed.
    fn close_file(&mut self) {
        if self.run.bytes > 0 {
            if self.last.is_none() {
                // A file of a release without a chain.
                self.seen.unchained_lines += self.run.lines;
            } else if self.run.lines == 1 && !self.run.ends_line {
                self.account_for_run();
            } else {
                self.break_at(self.run.first_line, "it is not part of the chain");
            }
        }
        self.run = UnchainedRun::default();
    }

    fn break_at(&mut self, line: u64, reason: &'static str) {
        let at = AuditLineNumber { file: self.file.clone(), line };
        self.seen.broken.get_or_insert(BrokenAuditLine { at, reason });
    }

    /// The hash of the last chained line.
    pub(super) fn last(&self) -> Option<ChainHash> {
        self.last
    }

    /// The first line that does not fit.
    pub(super) fn broken(&self) -> Option<&BrokenAuditLine> {
        self.seen.broken.as_ref()
    }

    /// The bytes after the last chained line. `and` follows them, if they do not end a line.
    pub(super) fn unchained_end(mut self, and: &[u8]) -> Option<UnchainedBytes> {
        if self.run.bytes > 0 && !self.run.ends_line {
            self.run.bytes += and.len() as u64;
            self.run.digest.update(and);
        }
        self.run.stated()
    }

    pub(super) fn finish(mut self) -> AuditVerification {
        self.close_file();
        if self.expected.is_some() {
            self.break_at(self.line, "the expected hash is in no line up to this one, which is the last");
        }
        self.seen.last_hash = self.last.map(ChainHash::to_hex);
        self.seen
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A chain with a segment line and `n` more.
    fn chain(n: usize) -> Vec<String> {
        let segment = SegmentLine { segment: Timestamp::from_millis(0), previous: None, unchained: None };
        let (mut lines, mut last) = (vec![], None);
        let bodies = (1..=n).map(|n| format!(r#"{{"id":"{n}"}}"#));
        for body in std::iter::once(serde_json::to_string(&segment).unwrap()).chain(bodies) {
            let (line, hash) = chained(last, &body);
            (last, lines) = (Some(hash), [lines, vec![line]].concat());
        }
        lines
    }

    fn verified(text: &str, expected: Option<&str>) -> AuditVerification {
        let mut reader = ChainReader { expected: expected.map(str::to_owned), ..ChainReader::default() };
        reader.read("audit", text.as_bytes()).unwrap();
        reader.finish()
    }

    fn broken(lines: &[String]) -> Option<u64> {
        verified(&(lines.join("\n") + "\n"), None).broken.map(|broken| broken.at.line)
    }

    #[test]
    fn every_change_is_found_at_its_line() {
        let whole = chain(5);
        assert_eq!(broken(&whole), None);
        for at in 0..whole.len() {
            let with = |change: &dyn Fn(&mut Vec<String>)| {
                let mut lines = whole.clone();
                change(&mut lines);
                broken(&lines)
            };
            let line = Some(at as u64 + 1);
            let changed = |lines: &mut Vec<String>| lines[at] = lines[at].replacen(['1', '2', '3', '4', '5'], "9", 1);
            assert_eq!(with(&changed), line, "a changed line {at}");
            assert_eq!(with(&|lines| lines.insert(at, "{}".to_owned())), line, "an inserted line at {at}");
            assert_eq!(with(&|lines| lines.insert(at + 1, lines[at].clone())), Some(at as u64 + 2), "a line twice");
            let removed = with(&|lines| drop(lines.remove(at)));
            // The end can be cut off unseen: only a hash that is kept elsewhere shows it.
            assert_eq!(removed, line.filter(|_| at < whole.len() - 1), "a removed line {at}");
        }
    }

    #[test]
    fn a_hash_that_was_kept_elsewhere_shows_a_lost_end() {
        let lines = chain(3);
        let text = lines.join("\n") + "\n";
        let last = verified(&text, None).last_hash.unwrap();
        assert_eq!(verified(&text, Some(&last)).broken, None);
        let cut = lines[..3].join("\n") + "\n";
        assert_eq!(verified(&cut, None).broken, None);
        assert_eq!(verified(&cut, Some(&last)).broken.unwrap().at.line, 3);
    }

    #[test]
    fn a_line_cut_short_at_the_end_is_a_crash_and_one_in_the_middle_is_not() {
        let mut lines = chain(3);
        let whole = lines.join("\n") + "\n";
        let cut = verified(&whole[..whole.len() - 10], None);
        assert_eq!((cut.broken, cut.cut_short.len()), (None, 1));
        lines[2].truncate(10);
        assert_eq!(broken(&lines), Some(3));
    }

    #[test]
    fn files_follow_each_other() {
        let first = chain(2);
        let last = verified(&first.join("\n"), None).last_hash;
        let second = |previous: Option<String>| {
            let from = previous.as_deref().and_then(from_hex).map(ChainHash);
            let segment = SegmentLine { segment: Timestamp::from_millis(1), previous, unchained: None };
            chained(from, &serde_json::to_string(&segment).unwrap()).0 + "\n"
        };
        let both = |second: &str| {
            let mut reader = ChainReader::default();
            reader.read("first", (first.join("\n") + "\n").as_bytes()).unwrap();
            reader.read("second", second.as_bytes()).unwrap();
            reader.finish().broken.map(|broken| (broken.at.file, broken.at.line))
        };
        assert_eq!(both(&second(last.clone())), None);
        assert_eq!(verified(&second(last), None).broken, None, "each file is whole on its own");
        let begun_again = Some(("second".to_owned(), 1));
        assert_eq!(both(&second(None)), begun_again);
        assert_eq!(both(&second(Some("0".repeat(64)))), begun_again);
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_read_without_a_panic(bytes in proptest::prelude::any::<Vec<u8>>()) {
            let mut reader = ChainReader::default();
            reader.read("any", &bytes[..]).unwrap();
            reader.finish();
        }
    }
}
