use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use rdkafka::config::FromClientConfigAndContext;
use rdkafka::error::KafkaError;
use rdkafka::message::{DeliveryResult, Header, OwnedHeaders};
use rdkafka::producer::{BaseRecord, NoCustomPartitioner, ProducerContext, ThreadedProducer};
use rdkafka::{ClientConfig, ClientContext};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::time;

use crate::client::{Monitor, OpenError, RECORD_BYTES_MAX, settings};
use crate::config::Config;
use crate::record::Outgoing;

/// The bytes of records under way, at the most. Beyond that, publishing waits.
const QUEUE_BYTES_MAX: usize = 16 << 20;

/// Gets records into topics, each key's in order.
///
/// The order holds through every failure because a line never leaves one record out and sends a later one: the brokers
/// take the records of a line in the order of their numbers only, a record does not time out by itself, and an error
/// that no try can cure ends the line. So what a line writes is always the beginning of what it was given. Whoever
/// starts again at the oldest record that is not known to be written has every record appear for the first time behind
/// those before it, even if an old line still writes beside the new one.
pub(crate) struct Publisher {
    settings: ClientConfig,
    timeout: Duration,
    monitor: Monitor,
    /// `None` at first, and after a failure.
    line: Mutex<Option<Arc<Line>>>,
}

/// Why records were not published, or may not have been.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PublishError {
    #[error("a record of {0} bytes is too long for kafka, {RECORD_BYTES_MAX} is the limit")]
    TooLong(usize),
    #[error("kafka did not confirm within {0:?}")]
    TooLate(Duration),
    #[error("kafka refused a record")]
    Refused(#[source] KafkaError),
    #[error("an earlier record has failed; this one was not sent")]
    Closed,
    #[error(transparent)]
    Open(#[from] OpenError),
}

impl Publisher {
    /// Prepares everything and connects to nothing yet.
    pub(crate) fn new(config: &Config, monitor: Monitor) -> Result<Self, OpenError> {
        let mut settings = settings(config)?;
        settings
            .set("enable.idempotence", "true")
            .set("enable.gapless.guarantee", "true")
            .set("acks", "all")
            // Never: a record that times out by itself leaves a gap. Our own timeout ends the whole line.
            .set("message.timeout.ms", "0")
            .set("message.max.bytes", (2 * RECORD_BYTES_MAX).to_string())
            // A batch is one message to the brokers, and bounded like one.
            .set("batch.size", (RECORD_BYTES_MAX / 2).to_string())
            .set("linger.ms", "2")
            .set("compression.type", "lz4")
            // The hash of other languages' clients, so that theirs find a chat in the same partition.
            .set("partitioner", "murmur2_random");
        Ok(Self { settings, timeout: config.publish_timeout, monitor, line: Mutex::default() })
    }

    /// Publishes records, and returns when the brokers have all of them. Dropping the future takes nothing back.
    pub(crate) async fn publish(&self, records: &[Outgoing]) -> Result<(), PublishError> {
        if let Some(long) = records.iter().find(|record| record.value.len() > RECORD_BYTES_MAX) {
            return Err(PublishError::TooLong(long.value.len()));
        }
        let line = self.line()?;
        let outcome = time::timeout(self.timeout, line.send(records)).await;
        let outcome = outcome.unwrap_or(Err(PublishError::TooLate(self.timeout)));
        match &outcome {
            Ok(()) => self.monitor.health.set_ok(),
            Err(error) => {
                self.monitor.failed(&error.to_string());
                self.abandon(&line);
            }
        }
        outcome
    }

    /// The line that records take now, a new one if there is none.
    pub(crate) fn line(&self) -> Result<Arc<Line>, OpenError> {
        let mut current = lock(&self.line);
        if let Some(line) = &*current {
            return Ok(line.clone());
        }
        let line = Arc::new(Line::open(&self.settings, self.monitor.clone())?);
        *current = Some(line.clone());
        Ok(line)
    }

    /// Has nobody use a line any more. What waits in it is still written, or goes with it.
    fn abandon(&self, line: &Arc<Line>) {
        line.close();
        lock(&self.line).take_if(|current| Arc::ptr_eq(current, line));
    }
}

/// One producer of the library, as long as nothing fails.
pub(crate) struct Line {
    /// `None` once it is closed. Whoever puts a record in holds the lock, so nothing gets in behind a close.
    producer: Mutex<Option<ThreadedProducer<Reports>>>,
    room: Arc<Semaphore>,
}

impl Line {
    fn open(settings: &ClientConfig, monitor: Monitor) -> Result<Self, OpenError> {
        let producer = ThreadedProducer::from_config_and_context(settings, Reports(monitor))?;
        Ok(Self { producer: Mutex::new(Some(producer)), room: Arc::new(Semaphore::new(QUEUE_BYTES_MAX)) })
    }

    async fn send(&self, records: &[Outgoing]) -> Result<(), PublishError> {
        let mut reports = vec![];
        for record in records {
            let bytes = record.bytes().min(QUEUE_BYTES_MAX) as u32;
            let room = match self.room.clone().try_acquire_many_owned(bytes) {
                Ok(room) => room,
                Err(_) => {
                    // What fills the queue may be records of this very call, so they are waited for first.
                    settle(&mut reports).await?;
                    self.room.clone().acquire_many_owned(bytes).await.map_err(|_| PublishError::Closed)?
                }
            };
            reports.push(self.enqueue(record, room)?);
        }
        settle(&mut reports).await
    }

    fn enqueue(
        &self,
        record: &Outgoing,
        room: OwnedSemaphorePermit,
    ) -> Result<oneshot::Receiver<Result<(), KafkaError>>, PublishError> {
        let (outcome, report) = oneshot::channel();
        let headers = record
            .headers
            .iter()
            .fold(OwnedHeaders::new(), |headers, (key, value)| headers.insert(Header { key, value: Some(value) }));
        let mut sent =
            BaseRecord::<[u8], [u8], _>::with_opaque_to(&record.topic, Box::new(Report { outcome, _room: room }))
                .payload(&record.value)
                .headers(headers);
        if let Some(key) = &record.key {
            sent = sent.key(key);
        }
        if let Some(time) = record.time {
            sent = sent.timestamp(time);
        }
        let producer = lock(&self.producer);
        let producer = producer.as_ref().ok_or(PublishError::Closed)?;
        producer.send(sent).map_err(|(error, _)| PublishError::Refused(error))?;
        Ok(report)
    }

    /// Ends the line. The library takes a while to end, and blocks, so that happens on a thread of its own.
    fn close(&self) {
        self.room.close();
        if let Some(producer) = lock(&self.producer).take() {
            thread::spawn(move || drop(producer));
        }
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.close();
    }
}

/// Waits until all records are reported, and forgets them.
async fn settle(reports: &mut Vec<oneshot::Receiver<Result<(), KafkaError>>>) -> Result<(), PublishError> {
    for report in reports.drain(..) {
        report.await.map_err(|_| PublishError::Closed)?.map_err(PublishError::Refused)?;
    }
    Ok(())
}

/// What is known of a record once the brokers have it, or not. The room it took is free with it.
struct Report {
    outcome: oneshot::Sender<Result<(), KafkaError>>,
    _room: OwnedSemaphorePermit,
}

/// Takes the reports of a line, on the library's thread.
struct Reports(Monitor);

impl ClientContext for Reports {
    fn log(&self, level: rdkafka::config::RDKafkaLogLevel, facility: &str, message: &str) {
        self.0.log(level, facility, message);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        self.0.error(error, reason);
    }
}

impl ProducerContext<NoCustomPartitioner> for Reports {
    type DeliveryOpaque = Box<Report>;

    fn delivery(&self, result: &DeliveryResult<'_>, report: Box<Report>) {
        let outcome = result.as_ref().map(drop).map_err(|(error, _)| error.clone());
        // Nobody waits any more if the call was dropped or is too late.
        drop(report.outcome.send(outcome));
    }
}

/// Nothing that runs under these locks can leave a value half changed.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
