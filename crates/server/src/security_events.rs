//! The stream of security events: one JSON object per line, in a file of its own, in the log of the process, or both.
//!
//! A bounded queue separates requests from the disk. When it is full, or the file cannot be written, events are dropped
//! and counted. The stream is not synced: a crash of the process loses the queue, a power cut more. The audit log is the
//! durable record of operators.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::net::SocketAddr;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use axum::Router;
use axum::extract::{ConnectInfo, Request};
use axum::middleware::{Next, from_fn};
use metrics::counter;
use ports::{Clock, SecurityContext, SecurityEvent, SecurityEvents, SecurityOutcome, SystemClock, error_chain, lock};
use serde_json::{Map, Value, json};
use tokio::sync::{mpsc, oneshot};
use tracing::{error, info};

use crate::config::SecurityEventSettings;

/// Events that wait to be written. More are dropped.
const QUEUE_LEN_MAX: usize = 4096;
/// Longest wait for the last events at the end of the process.
const FLUSH_MAX: Duration = Duration::from_secs(1);
/// The counter of lost events.
const DROPPED: &str = "tidings_security_events_dropped_total";

/// The security events of this process.
pub(crate) struct SecurityStream {
    /// `None` without an output, and after the end.
    queue: Mutex<Option<mpsc::Sender<String>>>,
}

/// The thread that writes the events.
pub(crate) struct SecurityWriter {
    stream: Arc<SecurityStream>,
    /// Ends with the thread that writes.
    written: oneshot::Receiver<()>,
}

/// Opens the stream. Fails if the file cannot be opened. Blocks on the disk.
pub(crate) fn open(settings: &SecurityEventSettings) -> io::Result<SecurityWriter> {
    let file = match settings.file.as_str() {
        "" => None,
        path => Some(RotatedFile::open(path.into(), settings.file_mib_max << 20, settings.files_max)?),
    };
    let outputs = Outputs { file, log: settings.log };
    let (is_written, written) = oneshot::channel();
    let mut queue = None;
    if outputs.file.is_some() || outputs.log {
        let (sender, events) = mpsc::channel(QUEUE_LEN_MAX);
        // Its writes wait for the disk, so it is a thread and not a task. It ends with the channel.
        let writing = move || {
            outputs.run(events);
            drop(is_written);
        };
        thread::Builder::new().name("security-events".into()).spawn(writing)?;
        queue = Some(sender);
    }
    Ok(SecurityWriter { stream: Arc::new(SecurityStream { queue: Mutex::new(queue) }), written })
}

impl SecurityWriter {
    pub(crate) fn stream(&self) -> Arc<SecurityStream> {
        self.stream.clone()
    }

    /// Writes the queued events. Later ones are discarded.
    pub(crate) async fn finish(self) {
        lock(&self.stream.queue).take();
        // A disk that does not answer must not delay the end of the process.
        drop(tokio::time::timeout(FLUSH_MAX, self.written).await);
    }
}

impl SecurityEvents for SecurityStream {
    fn record(&self, event: SecurityEvent) {
        counter!("tidings_security_events_total", "kind" => event.kind.as_str()).increment(1);
        let queue = lock(&self.queue);
        let Some(queue) = &*queue else { return };
        let line = line(&event, &SecurityContext::current());
        if queue.try_send(line).is_err() {
            counter!(DROPPED, "reason" => "queue_full").increment(1);
        }
    }
}

/// An event as a JSON object. Absent values are left out.
fn line(event: &SecurityEvent, context: &SecurityContext) -> String {
    let SecurityEvent { kind, outcome, user_id, session_id, device_id, reason, details } = event;
    let outcome = match outcome {
        SecurityOutcome::Success => "success",
        SecurityOutcome::Failure => "failure",
    };
    let mut fields = Map::new();
    let mut set = |name: &str, value: Value| {
        if !value.is_null() {
            fields.insert(name.to_owned(), value);
        }
    };
    set("at", json!(SystemClock.now()));
    set("kind", kind.as_str().into());
    set("outcome", outcome.into());
    set("reason", json!(reason));
    set("user_id", json!(user_id));
    set("session_id", json!(session_id));
    set("device_id", json!(device_id));
    set("address", json!(context.address));
    set("operator", json!(context.operator.as_deref()));
    for (name, value) in details {
        set(name, json!(value));
    }
    Value::Object(fields).to_string()
}

/// Gives every request its origin, for the events that it causes.
pub(crate) fn attribute(app: Router) -> Router {
    app.layer(from_fn(|request: Request, next: Next| async move {
        let address = request.extensions().get::<ConnectInfo<SocketAddr>>().map(|info| info.0.ip());
        SecurityContext { address, operator: None }.scope(next.run(request)).await
    }))
}

struct Outputs {
    file: Option<RotatedFile>,
    log: bool,
}

impl Outputs {
    /// Writes events until the channel ends.
    fn run(mut self, mut events: mpsc::Receiver<String>) {
        while let Some(event) = events.blocking_recv() {
            if self.log {
                info!(target: "security", event);
            }
            if let Some(file) = &mut self.file
                && let Err(failure) = file.append(&event)
            {
                counter!(DROPPED, "reason" => "write_failed").increment(1);
                error!(error = %error_chain(&failure), "could not write a security event; it was dropped");
            }
        }
    }
}

/// A file of lines that is replaced when it is full: `events.jsonl` becomes `events.jsonl.1`, and so on. Only its owner
/// can read it. If another program moves it away, a new one is created.
struct RotatedFile {
    path: PathBuf,
    bytes_max: u64,
    files_max: u32,
    current: Option<(File, u64)>,
}

impl RotatedFile {
    fn open(path: PathBuf, bytes_max: u64, files_max: u32) -> io::Result<Self> {
        let mut file = Self { path, bytes_max, files_max, current: None };
        file.current()?;
        Ok(file)
    }

    fn append(&mut self, line: &str) -> io::Result<()> {
        let text = format!("{line}\n");
        if self.current()?.1 + text.len() as u64 > self.bytes_max {
            self.rotate()?;
        }
        // After a failure the length is unknown, and the file is opened again.
        let (mut file, len) = match self.current.take() {
            Some(current) => current,
            None => opened(&self.path)?,
        };
        file.write_all(text.as_bytes())?;
        self.current = Some((file, len + text.len() as u64));
        Ok(())
    }

    /// The file and its length.
    fn current(&mut self) -> io::Result<&(File, u64)> {
        let is_there = |(file, _): &(File, u64)| {
            let named = fs::metadata(&self.path).map(|metadata| metadata.ino());
            named.is_ok_and(|inode| file.metadata().is_ok_and(|metadata| metadata.ino() == inode))
        };
        let current = match self.current.take().filter(is_there) {
            Some(current) => current,
            None => opened(&self.path)?,
        };
        Ok(self.current.insert(current))
    }

    fn rotate(&mut self) -> io::Result<()> {
        self.current = None;
        for n in (1..self.files_max).rev() {
            let (from, to) = (numbered(&self.path, n - 1), numbered(&self.path, n));
            match fs::rename(from, to) {
                Err(failure) if failure.kind() != io::ErrorKind::NotFound => return Err(failure),
                _ => {}
            }
        }
        if self.files_max == 1 {
            fs::remove_file(&self.path)?;
        }
        Ok(())
    }
}

fn opened(path: &Path) -> io::Result<(File, u64)> {
    let file = OpenOptions::new().append(true).create(true).mode(0o600).open(path)?;
    let len = file.metadata()?.len();
    Ok((file, len))
}

/// The n-th file back in time; the current one is 0.
fn numbered(path: &Path, n: u32) -> PathBuf {
    if n == 0 {
        return path.to_owned();
    }
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{n}"));
    name.into()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use ports::SecurityEventKind;

    use super::*;

    #[test]
    fn a_full_file_is_replaced_and_the_oldest_is_deleted() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("events.jsonl");
        let mut file = RotatedFile::open(path.clone(), 10, 3).unwrap();
        for n in 1..=7 {
            file.append(&format!("{n:04}")).unwrap();
        }
        let text = |n| fs::read_to_string(numbered(&path, n)).unwrap();
        assert_eq!([text(0), text(1), text(2)], ["0007\n", "0005\n0006\n", "0003\n0004\n"]);
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 3);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn a_file_that_was_moved_away_is_created_again() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("events.jsonl");
        let mut file = RotatedFile::open(path.clone(), 1000, 1).unwrap();
        file.append("one").unwrap();
        fs::rename(&path, directory.path().join("moved")).unwrap();
        file.append("two").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "two\n");
    }

    #[tokio::test]
    async fn an_event_has_its_origin_and_leaves_absent_values_out() {
        let address = "192.0.2.1".parse().unwrap();
        let event = SecurityEvent::of(SecurityEventKind::SignInFailed).failed("wrong_code").with("role", "admin");
        let context = SecurityContext { address: Some(address), operator: Some("ann".into()) };
        let line = context.scope(async { line(&event, &SecurityContext::current()) }).await;
        let mut line: Value = serde_json::from_str(&line).unwrap();
        assert!(line["at"].take().is_string());
        let expected = json!({
            "at": null,
            "kind": "sign_in_failed",
            "outcome": "failure",
            "reason": "wrong_code",
            "address": "192.0.2.1",
            "operator": "ann",
            "role": "admin",
        });
        assert_eq!(line, expected);
    }

    #[test]
    fn the_metric_counts_every_kind() {
        let metric = tidings_metrics::all().find(|metric| metric.name == "tidings_security_events_total").unwrap();
        let tidings_metrics::LabelValues::Listed(kinds) = metric.labels[0].values else { panic!("{metric:?}") };
        assert_eq!(kinds, SecurityEventKind::ALL.iter().map(|kind| kind.as_str()).collect::<Vec<_>>());
    }

    #[tokio::test]
    async fn a_full_queue_drops_events_and_blocks_no_caller() {
        let recorder = metrics_exporter_prometheus::PrometheusBuilder::new().build_recorder();
        let (queue, _events) = mpsc::channel(1);
        let stream = SecurityStream { queue: Mutex::new(Some(queue)) };
        metrics::with_local_recorder(&recorder, || {
            for _ in 0..3 {
                stream.record(SecurityEvent::of(SecurityEventKind::SignIn));
            }
        });
        let told = recorder.handle().render();
        assert!(told.contains("tidings_security_events_dropped_total{reason=\"queue_full\"} 2"), "{told}");
        assert!(told.contains("tidings_security_events_total{kind=\"sign_in\"} 3"), "{told}");
    }
}
