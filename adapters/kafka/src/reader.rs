use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::Duration;

use metrics::gauge;
use ports::StoreError;
use rdkafka::config::FromClientConfigAndContext;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer, ConsumerContext, Rebalance};
use rdkafka::error::{KafkaError, KafkaResult};
use rdkafka::message::BorrowedMessage;
use rdkafka::{ClientConfig, ClientContext, Message, Statistics};
use tokio::sync::{Notify, Semaphore, watch};
use tokio::{task, time};
use tracing::{info, warn};

use crate::buffer::{Buffer, ENTRY_BYTES, Entry};
use crate::client::{CALL_TIMEOUT, Monitor, OpenError, group_settings, is_away};
use crate::config::Config;
use crate::names::Names;
use crate::place::{Partition, Place};
use crate::record::{damaged, read, remember_trace};

/// How long the reader waits for a record before it looks whether it is to end, and while it fetches none, whether
/// there is room again.
const POLL: Duration = Duration::from_millis(100);
const POLL_WHILE_PAUSED: Duration = Duration::from_millis(10);
/// How often a client says how far behind it is, and whether it has a broker.
const STATISTICS_INTERVAL: Duration = Duration::from_secs(5);
/// After this much silence of a member, its partitions are somebody else's.
const SESSION_TIMEOUT: Duration = Duration::from_secs(10);
/// How often a member shows that it lives, and hears that another one has come or gone. A group waits then for the last of
/// its members to hear of it.
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(1);

/// A member of a group: a thread that fetches records into a buffer.
///
/// The thread keeps the membership alive however long nobody asks for records. While the buffer is full it fetches
/// none. It ends some moments after the reader is dropped, and leaves the group then.
pub(crate) struct Reader {
    shared: Arc<Shared>,
    /// The thread owns it: whoever drops the last handle blocks until the group is left.
    consumer: Weak<BaseConsumer<Member>>,
    /// One commit at a time. It blocks a thread, also when nobody waits for it any more.
    committing: Arc<Semaphore>,
    names: Names,
    leaving: Leaving,
}

/// Counts the members of this process that are on their way out of their groups.
///
/// Whoever joins waits for them: a group that one leaves while another joins shares its partitions twice, and takes its
/// time for it.
#[derive(Clone)]
pub(crate) struct Leaving(Arc<watch::Sender<usize>>);

impl Leaving {
    pub(crate) fn new() -> Self {
        Self(Arc::new(watch::Sender::new(0)))
    }

    /// Waits until they have left, and not longer than a call may take.
    pub(crate) async fn settled(&self) {
        let mut count = self.0.subscribe();
        // Too late is no harm: the group gets there by itself.
        drop(time::timeout(CALL_TIMEOUT, count.wait_for(|count| *count == 0)).await);
    }
}

struct Shared {
    buffer: Mutex<Buffer>,
    /// What the consumer has met, until somebody asks.
    failure: Mutex<Option<StoreError>>,
    /// There is something to ask for.
    filled: Notify,
    closed: AtomicBool,
}

impl Reader {
    pub(crate) fn start(config: &Config, group: &str, monitor: Monitor, leaving: Leaving) -> Result<Self, OpenError> {
        let shared = Arc::new(Shared {
            buffer: Mutex::new(Buffer::new(config.buffer_len_max, config.buffer_bytes_max)),
            failure: Mutex::new(None),
            filled: Notify::new(),
            closed: AtomicBool::new(false),
        });
        let names = Names::new(config);
        let member = Member { group: group.to_owned(), shared: shared.clone(), names: names.clone(), monitor };
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
        spawned.map_err(|error| OpenError::Client(format!("its thread does not start: {error}")))?;
        Ok(Self { shared, consumer: weak, committing: Arc::new(Semaphore::new(1)), names, leaving })
    }

    pub(crate) fn buffer(&self) -> MutexGuard<'_, Buffer> {
        lock(&self.shared.buffer)
    }

    /// What the consumer has met since it was last asked.
    pub(crate) fn failure(&self) -> Option<StoreError> {
        lock(&self.shared.failure).take()
    }

    /// Waits until there may be something in the buffer, or a failure.
    pub(crate) async fn filled(&self) {
        self.shared.filled.notified().await;
    }

    /// Commits offsets, and returns when the brokers have them.
    pub(crate) async fn commit(&self, offsets: &BTreeMap<Partition, i64>) -> KafkaResult<()> {
        let list = self.names.list(offsets)?;
        let consumer = self.consumer.clone();
        let turn = self.committing.clone().acquire_owned().await.map_err(|_| KafkaError::Canceled)?;
        // The library does not report on a commit that does not block.
        let committed = task::spawn_blocking(move || {
            let _turn = turn;
            consumer.upgrade().ok_or(KafkaError::Canceled)?.commit(&list, CommitMode::Sync)
        });
        committed.await.map_err(|_| KafkaError::Canceled)?
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.leaving.0.send_modify(|count| *count += 1);
        self.shared.closed.store(true, Ordering::Relaxed);
    }
}

fn member_settings(config: &Config, group: &str) -> Result<ClientConfig, OpenError> {
    let mut settings = group_settings(config, group)?;
    settings
        // Each topic by itself, and the same numbers of all three to the same member: so all of them have their share
        // of the messages, and the events of a chat are all with one. A sticky assignment keeps neither.
        .set("partition.assignment.strategy", "range")
        .set("session.timeout.ms", SESSION_TIMEOUT.as_millis().to_string())
        .set("heartbeat.interval.ms", HEARTBEAT_INTERVAL.as_millis().to_string())
        .set("statistics.interval.ms", STATISTICS_INTERVAL.as_millis().to_string())
        // What is fetched waits in our buffer. The library's own is for the round trip.
        .set("queued.min.messages", config.buffer_len_max.clamp(1, 100_000).to_string())
        .set("queued.max.messages.kbytes", (config.buffer_bytes_max / 1024).clamp(64, 1 << 20).to_string());
    Ok(settings)
}

/// Fetches until the reader is dropped. Whoever drops the consumer then leaves the group.
fn run(consumer: &BaseConsumer<Member>, shared: &Shared) {
    let member = consumer.context();
    let mut paused = false;
    while !shared.closed.load(Ordering::Relaxed) {
        match consumer.poll(if paused { POLL_WHILE_PAUSED } else { POLL }) {
            Some(Ok(message)) => {
                member.take(&message);
                // Where it is paused already, this is the first record of a partition that was assigned meanwhile.
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

fn pause(consumer: &BaseConsumer<Member>) -> KafkaResult<()> {
    consumer.pause(&consumer.assignment()?)
}

fn resume(consumer: &BaseConsumer<Member>) -> KafkaResult<()> {
    consumer.resume(&consumer.assignment()?)
}

/// What the library tells a member, on the thread that polls.
struct Member {
    group: String,
    shared: Arc<Shared>,
    names: Names,
    monitor: Monitor,
}

impl Member {
    fn take(&self, message: &BorrowedMessage<'_>) {
        self.monitor.health.set_ok();
        let Some(partition) = self.names.partition(message.topic(), message.partition()) else { return };
        let place = match Place::new(partition, message.offset()) {
            Ok(place) => place,
            Err(error) => return self.failed(StoreError::unavailable(error)),
        };
        let what = read(partition.kind, message.key(), message.payload()).map(Arc::new);
        if let Ok(event) = &what {
            remember_trace(event, message);
        }
        let what = what.map_err(|reason| Box::new(damaged(place, message, reason)));
        let bytes = ENTRY_BYTES + message.payload_len();
        lock(&self.shared.buffer).push(Entry { place, bytes, what });
        *lock(&self.shared.failure) = None;
        self.shared.filled.notify_one();
    }

    /// Notes an error of the consumer. While brokers are away there is nothing to do but wait, which it does by itself.
    fn met(&self, error: KafkaError) {
        if !is_away(&error) {
            self.failed(StoreError::unavailable(error));
        }
    }

    fn note(&self, outcome: KafkaResult<()>) {
        if let Err(error) = outcome {
            self.failed(StoreError::unavailable(error));
        }
    }

    fn failed(&self, failure: StoreError) {
        warn!(group = self.group, error = &failure as &dyn std::error::Error, "a consumer of the log has met an error");
        *lock(&self.shared.failure) = Some(failure);
        self.shared.filled.notify_one();
    }
}

impl ClientContext for Member {
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

impl ConsumerContext for Member {
    fn pre_rebalance(&self, _: &BaseConsumer<Self>, rebalance: &Rebalance<'_>) {
        match rebalance {
            Rebalance::Assign(list) => {
                info!(group = self.group, partitions = list.count(), "partitions of the log are assigned");
                let mut buffer = lock(&self.shared.buffer);
                self.names.partitions(list).into_iter().for_each(|partition| buffer.assign(partition));
            }
            Rebalance::Revoke(list) => {
                info!(group = self.group, partitions = list.count(), "partitions of the log are revoked");
                let mut buffer = lock(&self.shared.buffer);
                self.names.partitions(list).into_iter().for_each(|partition| buffer.revoke(partition));
            }
            Rebalance::Error(error) => self.failed(StoreError::unavailable(error.clone())),
        }
    }

    fn post_rebalance(&self, consumer: &BaseConsumer<Self>, rebalance: &Rebalance<'_>) {
        // One that was revoked while it was paused would come back paused.
        if let Rebalance::Assign(list) = rebalance {
            self.note(consumer.resume(list));
        }
    }
}

/// Nothing that runs under these locks can leave a value half changed.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
