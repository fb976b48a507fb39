use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use ports::lock;
use rdkafka::config::FromClientConfigAndContext;
use rdkafka::error::KafkaError;
use rdkafka::message::{DeliveryResult, Header, OwnedHeaders};
use rdkafka::producer::{BaseRecord, NoCustomPartitioner, ProducerContext, ThreadedProducer};
use rdkafka::{ClientConfig, ClientContext};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::time;

use crate::client::{KafkaOpenError, Monitor, RECORD_BYTES_MAX, settings};
use crate::config::Config;
use crate::record::OutgoingRecord;

/// Limit of bytes in flight. When it is reached, publishing waits.
const QUEUE_BYTES_MAX: usize = 16 << 20;

/// Writes records to topics, in order per key.
///
/// The order holds through every failure because a producer never skips a record and sends a later one. Brokers accept
/// its records only in order of their sequence numbers, records have no timeout of their own, and a permanent error
/// closes the producer. So a producer always writes a prefix of its input. After a failure the caller restarts at the
/// oldest record without confirmation. Each record then appears for the first time after its predecessors, even if an
/// abandoned producer still writes next to the new one.
pub(crate) struct Publisher {
    settings: ClientConfig,
    timeout: Duration,
    monitor: Monitor,
    /// `None` initially, and after a failure.
    producer: Mutex<Option<Arc<OrderedProducer>>>,
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
    Open(#[from] KafkaOpenError),
}

impl Publisher {
    /// Creates the publisher without connecting.
    pub(crate) fn new(config: &Config, monitor: Monitor) -> Result<Self, KafkaOpenError> {
        let mut settings = settings(config)?;
        settings
            .set("enable.idempotence", "true")
            .set("enable.gapless.guarantee", "true")
            .set("acks", "all")
            // Disabled: a timeout of a single record would leave a gap. The timeout of `publish` closes the whole
            // producer.
            .set("message.timeout.ms", "0")
            .set("message.max.bytes", (2 * RECORD_BYTES_MAX).to_string())
            // A batch is sent as one protocol message, and has the same size limit.
            .set("batch.size", (RECORD_BYTES_MAX / 2).to_string())
            .set("linger.ms", "2")
            .set("compression.type", "lz4")
            // The default partitioner of the Java client, so that other clients map a chat to the same partition.
            .set("partitioner", "murmur2_random");
        Ok(Self { settings, timeout: config.publish_timeout, monitor, producer: Mutex::default() })
    }

    /// Publishes records, and returns when the brokers have confirmed all of them. Dropping the future does not cancel
    /// records in flight.
    pub(crate) async fn publish(&self, records: &[OutgoingRecord]) -> Result<(), PublishError> {
        if let Some(long) = records.iter().find(|record| record.value.len() > RECORD_BYTES_MAX) {
            return Err(PublishError::TooLong(long.value.len()));
        }
        let producer = self.producer()?;
        let outcome = time::timeout(self.timeout, producer.send(records)).await;
        let outcome = outcome.unwrap_or(Err(PublishError::TooLate(self.timeout)));
        match &outcome {
            Ok(()) => self.monitor.health.set_ok(),
            Err(error) => {
                self.monitor.request_failed(&error.to_string());
                self.abandon(&producer);
            }
        }
        outcome
    }

    /// The current producer, created if there is none.
    pub(crate) fn producer(&self) -> Result<Arc<OrderedProducer>, KafkaOpenError> {
        let mut current = lock(&self.producer);
        if let Some(producer) = &*current {
            return Ok(producer.clone());
        }
        let producer = Arc::new(OrderedProducer::open(&self.settings, self.monitor.clone())?);
        *current = Some(producer.clone());
        Ok(producer)
    }

    /// Stops using a producer. Its queued records are still written, or dropped with it.
    fn abandon(&self, producer: &Arc<OrderedProducer>) {
        producer.close();
        lock(&self.producer).take_if(|current| Arc::ptr_eq(current, producer));
    }
}

/// One librdkafka producer, in use until its first failure.
pub(crate) struct OrderedProducer {
    /// `None` once closed. Enqueueing holds the lock, so no record enters after a close.
    producer: Mutex<Option<ThreadedProducer<DeliveryReports>>>,
    room: Arc<Semaphore>,
}

impl OrderedProducer {
    fn open(settings: &ClientConfig, monitor: Monitor) -> Result<Self, KafkaOpenError> {
        let producer = ThreadedProducer::from_config_and_context(settings, DeliveryReports(monitor))?;
        Ok(Self { producer: Mutex::new(Some(producer)), room: Arc::new(Semaphore::new(QUEUE_BYTES_MAX)) })
    }

    async fn send(&self, records: &[OutgoingRecord]) -> Result<(), PublishError> {
        let mut reports = vec![];
        for record in records {
            let bytes = record.bytes().min(QUEUE_BYTES_MAX) as u32;
            let room = match self.room.clone().try_acquire_many_owned(bytes) {
                Ok(room) => room,
                Err(_) => {
                    // The queue may be full of records from this very call, so wait for those first.
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
        record: &OutgoingRecord,
        room: OwnedSemaphorePermit,
    ) -> Result<oneshot::Receiver<Result<(), KafkaError>>, PublishError> {
        let (outcome, report) = oneshot::channel();
        let headers = record
            .headers
            .iter()
            .fold(OwnedHeaders::new(), |headers, (key, value)| headers.insert(Header { key, value: Some(value) }));
        let mut sent = BaseRecord::<[u8], [u8], _>::with_opaque_to(
            &record.topic,
            Box::new(DeliveryReport { outcome, _room: room }),
        )
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

    /// Closes the producer. Dropping the librdkafka handle blocks, so a separate thread does it.
    fn close(&self) {
        self.room.close();
        if let Some(producer) = lock(&self.producer).take() {
            thread::spawn(move || drop(producer));
        }
    }
}

impl Drop for OrderedProducer {
    fn drop(&mut self) {
        self.close();
    }
}

/// Waits for the delivery reports of all records, and clears the list.
async fn settle(reports: &mut Vec<oneshot::Receiver<Result<(), KafkaError>>>) -> Result<(), PublishError> {
    for report in reports.drain(..) {
        report.await.map_err(|_| PublishError::Closed)?.map_err(PublishError::Refused)?;
    }
    Ok(())
}

/// Receives the delivery outcome of a record, and releases its share of the queue.
struct DeliveryReport {
    outcome: oneshot::Sender<Result<(), KafkaError>>,
    _room: OwnedSemaphorePermit,
}

/// Receives the delivery reports of a producer, on librdkafka's thread.
struct DeliveryReports(Monitor);

impl ClientContext for DeliveryReports {
    fn log(&self, level: rdkafka::config::RDKafkaLogLevel, facility: &str, message: &str) {
        self.0.log(level, facility, message);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        self.0.error(error, reason);
    }
}

impl ProducerContext<NoCustomPartitioner> for DeliveryReports {
    type DeliveryOpaque = Box<DeliveryReport>;

    fn delivery(&self, result: &DeliveryResult<'_>, report: Box<DeliveryReport>) {
        let outcome = result.as_ref().map(drop).map_err(|(error, _)| error.clone());
        // The receiver is closed if the call was dropped or timed out.
        drop(report.outcome.send(outcome));
    }
}
