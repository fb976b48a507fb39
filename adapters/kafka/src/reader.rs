use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::thread;
use std::time::Duration;

use metrics::gauge;
use ports::{StoreError, error_chain, lock};
use rdkafka::config::FromClientConfigAndContext;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer, ConsumerContext, Rebalance};
use rdkafka::error::{KafkaError, KafkaResult};
use rdkafka::message::BorrowedMessage;
use rdkafka::{ClientConfig, ClientContext, Message, Statistics};
use tokio::sync::{Notify, Semaphore, watch};
use tokio::{task, time};
use tracing::{info, warn};

use crate::buffer::{Buffer, BufferedRecord, ENTRY_BYTES};
use crate::client::{CALL_TIMEOUT, KafkaOpenError, Monitor, group_settings, is_unavailable};
use crate::config::Config;
use crate::location::{Partition, RecordLocation};
use crate::names::TopicNames;
use crate::record::{damaged, read, remember_trace};

/// How long the reader polls for a record before it checks for shutdown, and while it is paused, for room in the
/// buffer.
const POLL: Duration = Duration::from_millis(100);
const POLL_WHILE_PAUSED: Duration = Duration::from_millis(10);
/// Interval at which a client reports its lag and its broker connections.
const STATISTICS_INTERVAL: Duration = Duration::from_secs(5);
/// After this time without heartbeats of a member, its partitions are reassigned.
const SESSION_TIMEOUT: Duration = Duration::from_secs(10);
/// Heartbeat interval of a member. Members learn of a rebalance through heartbeats, and a rebalance waits for the last
/// of them.
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(1);

/// A member of a consumer group: a thread that fetches records into a buffer.
///
/// The thread keeps the membership alive, however long the consumer requests no records. While the buffer is full it
/// pauses fetching. It stops shortly after the reader is dropped, and then leaves the group.
pub(crate) struct GroupReader {
    shared: Arc<ReaderState>,
    /// The thread owns the consumer, because dropping the last handle blocks until the group is left.
    consumer: Weak<BaseConsumer<MemberContext>>,
    /// Limits commits to one at a time. A commit blocks a thread, even after its caller was dropped.
    committing: Arc<Semaphore>,
    names: TopicNames,
    leaving: Leaving,
}

/// Counts the members of this process that are leaving their groups.
///
/// A new member waits for them: a leave and a join at the same time cause two slow rebalances.
#[derive(Clone)]
pub(crate) struct Leaving(Arc<watch::Sender<usize>>);

impl Leaving {
    pub(crate) fn new() -> Self {
        Self(Arc::new(watch::Sender::new(0)))
    }

    /// Waits until they have left, at most for the call timeout.
    pub(crate) async fn settled(&self) {
        let mut count = self.0.subscribe();
        // A timeout is harmless: the brokers complete the rebalance anyway.
        drop(time::timeout(CALL_TIMEOUT, count.wait_for(|count| *count == 0)).await);
    }
}

struct ReaderState {
    buffer: Mutex<Buffer>,
    /// The last error of the consumer, until the caller takes it.
    failure: Mutex<Option<StoreError>>,
    /// Signals that the buffer has records, or that there is a failure.
    filled: Notify,
    closed: AtomicBool,
}

impl GroupReader {
    pub(crate) fn start(
        config: &Config,
        group: &str,
        monitor: Monitor,
        leaving: Leaving,
    ) -> Result<Self, KafkaOpenError> {
        let shared = Arc::new(ReaderState {
            buffer: Mutex::new(Buffer::new(config.buffer_len_max, config.buffer_bytes_max)),
            failure: Mutex::new(None),
            filled: Notify::new(),
            closed: AtomicBool::new(false),
        });
        let names = TopicNames::new(config);
        let member = MemberContext { group: group.to_owned(), shared: shared.clone(), names: names.clone(), monitor };
        let consumer = BaseConsumer::from_config_and_context(&member_settings(config, group)?, member)?;
        consumer.subscribe(&names.all())?;
        let consumer = Arc::new(consumer);
        let weak = Arc::downgrade(&consumer);
        let thread = thread::Builder::new().name("kafka-reader".to_owned());
        let spawned = thread.spawn({
            let (shared, leaving) = (shared.clone(), leaving.clone());
            move || {
                run(&consumer, &shared);
                drop(consumer);
                leaving.0.send_modify(|count| *count -= 1);
            }
        });
        spawned.map_err(|error| KafkaOpenError::Client(format!("the consumer thread does not start: {error}")))?;
        Ok(Self { shared, consumer: weak, committing: Arc::new(Semaphore::new(1)), names, leaving })
    }

    pub(crate) fn buffer(&self) -> MutexGuard<'_, Buffer> {
        lock(&self.shared.buffer)
    }

    /// Takes the error that the consumer hit since the last call.
    pub(crate) fn failure(&self) -> Option<StoreError> {
        lock(&self.shared.failure).take()
    }

    /// Waits until the buffer may have records, or there is a failure.
    pub(crate) async fn filled(&self) {
        self.shared.filled.notified().await;
    }

    /// Commits offsets, and returns when the brokers have confirmed them.
    pub(crate) async fn commit(&self, offsets: &BTreeMap<Partition, i64>) -> KafkaResult<()> {
        let list = self.names.list(offsets)?;
        let consumer = self.consumer.clone();
        let turn = self.committing.clone().acquire_owned().await.map_err(|_| KafkaError::Canceled)?;
        // librdkafka does not report the outcome of an asynchronous commit.
        let committed = task::spawn_blocking(move || {
            let _turn = turn;
            consumer.upgrade().ok_or(KafkaError::Canceled)?.commit(&list, CommitMode::Sync)
        });
        committed.await.map_err(|_| KafkaError::Canceled)?
    }
}

impl Drop for GroupReader {
    fn drop(&mut self) {
        self.leaving.0.send_modify(|count| *count += 1);
        self.shared.closed.store(true, Ordering::Relaxed);
    }
}

fn member_settings(config: &Config, group: &str) -> Result<ClientConfig, KafkaOpenError> {
    let mut settings = group_settings(config, group)?;
    settings
        // Range assignment gives the same partition numbers of all three topics to the same member. So every member has
        // a share of the messages, and all events of a chat are with one member. A sticky assignment guarantees
        // neither.
        .set("partition.assignment.strategy", "range")
        .set("session.timeout.ms", SESSION_TIMEOUT.as_millis().to_string())
        .set("heartbeat.interval.ms", HEARTBEAT_INTERVAL.as_millis().to_string())
        .set("statistics.interval.ms", STATISTICS_INTERVAL.as_millis().to_string())
        // Records wait in our buffer; librdkafka's queue only covers the round trip.
        .set("queued.min.messages", config.buffer_len_max.clamp(1, 100_000).to_string())
        .set("queued.max.messages.kbytes", (config.buffer_bytes_max / 1024).clamp(64, 1 << 20).to_string());
    Ok(settings)
}

/// Fetches until the reader is dropped. The caller then drops the consumer, which leaves the group.
fn run(consumer: &BaseConsumer<MemberContext>, shared: &ReaderState) {
    let member = consumer.context();
    let mut paused = false;
    while !shared.closed.load(Ordering::Relaxed) {
        match consumer.poll(if paused { POLL_WHILE_PAUSED } else { POLL }) {
            Some(Ok(message)) => {
                member.take(&message);
                // If fetching is already paused, this record belongs to a partition that was assigned meanwhile.
                if lock(&shared.buffer).is_full() {
                    paused = true;
                    member.note(pause(consumer));
                }
            }
            Some(Err(error)) => member.met(error),
            None => {}
        }
        if paused && lock(&shared.buffer).has_room() {
            paused = false;
            member.note(resume(consumer));
        }
    }
}

fn pause(consumer: &BaseConsumer<MemberContext>) -> KafkaResult<()> {
    consumer.pause(&consumer.assignment()?)
}

fn resume(consumer: &BaseConsumer<MemberContext>) -> KafkaResult<()> {
    consumer.resume(&consumer.assignment()?)
}

/// Handles librdkafka's callbacks for a member, on the polling thread.
struct MemberContext {
    group: String,
    shared: Arc<ReaderState>,
    names: TopicNames,
    monitor: Monitor,
}

impl MemberContext {
    fn take(&self, message: &BorrowedMessage<'_>) {
        self.monitor.health.set_ok();
        let Some(partition) = self.names.partition(message.topic(), message.partition()) else { return };
        let location = match RecordLocation::new(partition, message.offset()) {
            Ok(location) => location,
            Err(error) => return self.failed(StoreError::unavailable(error)),
        };
        let what = read(partition.kind, message.key(), message.payload()).map(Arc::new);
        if let Ok(event) = &what {
            remember_trace(event, message);
        }
        let what = what.map_err(|reason| Box::new(damaged(location, message, reason)));
        let bytes = ENTRY_BYTES + message.payload_len();
        lock(&self.shared.buffer).push(BufferedRecord { location, bytes, what });
        *lock(&self.shared.failure) = None;
        self.shared.filled.notify_one();
    }

    /// Records an error of the consumer. Unreachable brokers are not an error here, since the consumer reconnects
    /// automatically.
    fn met(&self, error: KafkaError) {
        if !is_unavailable(&error) {
            self.failed(StoreError::unavailable(error));
        }
    }

    fn note(&self, outcome: KafkaResult<()>) {
        if let Err(error) = outcome {
            self.failed(StoreError::unavailable(error));
        }
    }

    fn failed(&self, failure: StoreError) {
        warn!(group = self.group, error = %error_chain(&failure), "event log consumer failed; retrying");
        *lock(&self.shared.failure) = Some(failure);
        self.shared.filled.notify_one();
    }
}

impl ClientContext for MemberContext {
    fn log(&self, level: rdkafka::config::RDKafkaLogLevel, facility: &str, message: &str) {
        self.monitor.log(level, facility, message);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        self.monitor.error(error, reason);
    }

    fn stats(&self, statistics: Statistics) {
        let partitions = statistics.topics.values().flat_map(|topic| topic.partitions.values());
        let lag: i64 = partitions.map(|partition| partition.consumer_lag.max(0)).sum();
        gauge!("tidings_log_lag_events", "group" => self.group.clone()).set(lag as f64);
        self.monitor.stats(statistics);
    }
}

impl ConsumerContext for MemberContext {
    fn pre_rebalance(&self, _: &BaseConsumer<Self>, rebalance: &Rebalance<'_>) {
        match rebalance {
            Rebalance::Assign(list) => {
                info!(group = self.group, partitions = list.count(), "event log partitions assigned");
                let mut buffer = lock(&self.shared.buffer);
                self.names.partitions(list).into_iter().for_each(|partition| buffer.assign(partition));
            }
            Rebalance::Revoke(list) => {
                info!(group = self.group, partitions = list.count(), "event log partitions revoked");
                let mut buffer = lock(&self.shared.buffer);
                self.names.partitions(list).into_iter().for_each(|partition| buffer.revoke(partition));
            }
            Rebalance::Error(error) => self.failed(StoreError::unavailable(error.clone())),
        }
    }

    fn post_rebalance(&self, consumer: &BaseConsumer<Self>, rebalance: &Rebalance<'_>) {
        // A partition that was revoked while paused would still be paused after reassignment.
        if let Rebalance::Assign(list) = rebalance {
            self.note(consumer.resume(list));
        }
    }
}
