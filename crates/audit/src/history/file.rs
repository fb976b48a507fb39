use ports::lock;
use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::path::Path;
use std::sync::{Mutex, MutexGuard};
use std::time::Instant;

use super::entry::{Client, Entry, HistoryOp};

/// Most bytes of a line.
pub const LINE_BYTES_MAX: u64 = 1024 * 1024;

/// Reason that a history cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum HistoryReadError {
    /// The file cannot be read.
    #[error("line {line} cannot be read")]
    Io {
        line: u64,
        #[source]
        source: io::Error,
    },
    /// A line is longer than any entry.
    #[error("line {line} has more than {LINE_BYTES_MAX} bytes")]
    TooLong { line: u64 },
    /// A line is not an entry.
    #[error("line {line} is not an entry")]
    Malformed {
        line: u64,
        #[source]
        source: serde_json::Error,
    },
}

/// Iterates over the entries of a history, one line of JSON each, in constant memory. Stops at the first invalid line.
#[derive(Debug)]
pub struct Reader<R> {
    lines: R,
    line: u64,
    has_failed: bool,
}

impl<R: BufRead> Reader<R> {
    /// Reads a history from its beginning.
    pub fn new(lines: R) -> Self {
        Self { lines, line: 0, has_failed: false }
    }

    fn read(&mut self) -> Result<Option<Entry>, HistoryReadError> {
        self.line += 1;
        let line = self.line;
        let mut bytes = Vec::new();
        (&mut self.lines)
            .take(LINE_BYTES_MAX + 1)
            .read_until(b'\n', &mut bytes)
            .map_err(|source| HistoryReadError::Io { line, source })?;
        if bytes.is_empty() {
            return Ok(None);
        }
        if bytes.len() as u64 > LINE_BYTES_MAX {
            return Err(HistoryReadError::TooLong { line });
        }
        serde_json::from_slice(&bytes).map(Some).map_err(|source| HistoryReadError::Malformed { line, source })
    }
}

impl Reader<BufReader<File>> {
    /// Reads the history in a file.
    pub fn open(path: &Path) -> io::Result<Self> {
        Ok(Self::new(BufReader::new(File::open(path)?)))
    }
}

impl<R: BufRead> Iterator for Reader<R> {
    type Item = Result<Entry, HistoryReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.has_failed {
            return None;
        }
        let next = self.read().transpose();
        self.has_failed = matches!(next, Some(Err(_)));
        next
    }
}

/// Records the operations of all clients of one process, in the order of the calls.
///
/// The clients share it. The order of entries is correct if each client calls [`record`](Self::record) before it makes a
/// call and after it has a response.
#[derive(Debug)]
pub struct Recorder<W: Write> {
    start: Instant,
    written: Mutex<Written<W>>,
}

#[derive(Debug)]
struct Written<W: Write> {
    lines: BufWriter<W>,
    entries: u64,
    /// The first failure. Nothing is written after it, because a history with a gap is useless.
    failure: Option<io::Error>,
}

impl<W: Write> Recorder<W> {
    /// Writes entries to `lines`.
    pub fn new(lines: W) -> Self {
        let written = Written { lines: BufWriter::new(lines), entries: 0, failure: None };
        Self { start: Instant::now(), written: Mutex::new(written) }
    }

    /// Milliseconds since the start, as in [`Entry::at`].
    pub fn now(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Writes one entry. Write failures are returned by [`flush`](Self::flush), because clients cannot handle them.
    pub fn record(&self, client: Client, op: HistoryOp) {
        let mut written = self.lock();
        // Read the clock under the lock, so that times have the order of entries.
        let entry = Entry { at: self.now(), client, op };
        written.write(&entry);
    }

    /// Number of entries.
    pub fn entries(&self) -> u64 {
        self.lock().entries
    }

    /// Flushes the buffer and returns the first write failure.
    pub fn flush(&self) -> io::Result<()> {
        let mut written = self.lock();
        match written.failure.take() {
            Some(failure) => Err(failure),
            None => written.lines.flush(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Written<W>> {
        lock(&self.written)
    }
}

impl<W: Write> Written<W> {
    fn write(&mut self, entry: &Entry) {
        if self.failure.is_some() {
            return;
        }
        let result = serde_json::to_vec(entry).map_err(io::Error::other).and_then(|mut line| {
            line.push(b'\n');
            self.lines.write_all(&line)
        });
        self.failure = result.err();
        self.entries += 1;
    }
}

impl Recorder<File> {
    /// Writes entries to a new file.
    pub fn create(path: &Path) -> io::Result<Self> {
        Ok(Self::new(File::create(path)?))
    }
}

#[cfg(test)]
mod tests {
    use domain::{ChatId, ConnectionId, DeviceId, MessageId, Sequence, UserId};
    use proptest::prelude::*;

    use super::super::entry::{Page, Seen};
    use super::*;

    fn read(lines: &[u8]) -> Vec<Result<Entry, HistoryReadError>> {
        Reader::new(lines).collect()
    }

    #[test]
    fn recorded_entries_are_read_back_one_line_each() {
        let client = Client { user_id: UserId::from_bytes([1; 16]), device_id: DeviceId::from_bytes([2; 16]) };
        let chat_id = ChatId::from_bytes([3; 16]);
        let message = Seen {
            sequence: Sequence(1),
            message_id: MessageId::from_bytes([4; 16]),
            sender_id: client.user_id,
            client_message_id: None,
            content: u64::MAX,
        };
        let page = Page { after: Sequence::ZERO, through: Sequence(1), is_last: true, messages: vec![message] };
        let ops = [
            HistoryOp::Connected { connection: ConnectionId::from_bytes([5; 16]) },
            HistoryOp::Restarted { positions: vec![(chat_id, Sequence(7))] },
            HistoryOp::Stored { chat_id, began_at: 0, page },
            HistoryOp::Settled,
        ];
        let mut lines = Vec::new();
        let recorder = Recorder::new(&mut lines);
        ops.iter().for_each(|op| recorder.record(client, op.clone()));
        assert_eq!(recorder.entries(), 4);
        recorder.flush().unwrap();
        drop(recorder);
        assert_eq!(lines.iter().filter(|byte| **byte == b'\n').count(), 4);
        let entries: Vec<Entry> = read(&lines).into_iter().map(Result::unwrap).collect();
        assert!(entries.iter().map(|entry| (entry.client, &entry.op)).eq(ops.iter().map(|op| (client, op))));
    }

    #[test]
    fn a_line_that_is_no_entry_ends_it_and_is_named() {
        let errors: Vec<String> = [&b"\n"[..], b"{}\n{}\n", &[b'x'; LINE_BYTES_MAX as usize + 1]]
            .into_iter()
            .map(|lines| match &read(lines)[..] {
                [Err(error)] => error.to_string(),
                other => panic!("{other:?}"),
            })
            .collect();
        let malformed = "line 1 is not an entry";
        assert_eq!(errors, [malformed, malformed, "line 1 has more than 1048576 bytes"]);
    }

    #[test]
    fn write_failures_are_returned_by_flush() {
        let mut room = [0; 8];
        let recorder = Recorder::new(&mut room[..]);
        let client = Client { user_id: UserId::from_bytes([1; 16]), device_id: DeviceId::from_bytes([2; 16]) };
        recorder.record(client, HistoryOp::Settled);
        assert_eq!(recorder.flush().unwrap_err().kind(), io::ErrorKind::WriteZero);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused_without_a_panic(lines in prop::collection::vec(any::<u8>(), 0..200)) {
            drop(read(&lines));
        }
    }
}
