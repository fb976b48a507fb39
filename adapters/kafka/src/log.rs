use std::sync::Arc;
use std::thread;

use async_trait::async_trait;
use domain::Event;
use ports::{
    BoxError, Clock, DeadLetterStore, EngineHealth, EventConsumer, EventLog, LogOrder, Position, Start, StoreError,
};
use tokio::task;

use crate::burial::{Burial, Graveyard};
use crate::client::{KafkaOpenError, Monitor};
use crate::config::Config;
use crate::consumer::KafkaConsumer;
use crate::location::RecordLocation;
use crate::names::TopicNames;
use crate::offsets::Offsets;
use crate::publisher::Publisher;
use crate::reader::{GroupReader, Leaving};
use crate::topics::Topic;

/// Group id for reads of single records. The group has no members and commits no offsets.
const LOOKUP_GROUP: &str = "lookup";

/// Reads the event topics.
///
/// Events of one chat and kind are in order; between kinds there is no order. Consumers of a group share the
/// partitions, and a consumer that ends releases its partitions to the others. A group can be moved only while it has
/// no active consumers: otherwise [`EventLog::seek`] fails with [`GroupActive`](ports::GroupActive).
pub struct KafkaLog {
    config: Config,
    monitor: Monitor,
    burial: Arc<Burial>,
    leaving: Leaving,
}

impl KafkaLog {
    /// Opens the log without write access: an unreadable record is logged, counted and skipped. A process with write
    /// access that reads the same log buries the record.
    pub fn reading(config: Config, clock: Arc<dyn Clock>) -> Result<Self, KafkaOpenError> {
        Self::open(config, Monitor::new(clock), Burial::None)
    }

    /// Opens the log with write access: an unreadable record is copied to the topic `dead_letters` and added to the
    /// dead-letter store before it is skipped.
    pub fn burying(
        config: Config,
        clock: Arc<dyn Clock>,
        dead_letters: Arc<dyn DeadLetterStore>,
    ) -> Result<Self, KafkaOpenError> {
        let monitor = Monitor::new(clock);
        let publisher = Publisher::new(&config, monitor.clone())?;
        let topic = config.topic(Topic::DeadLetters);
        Self::open(config, monitor, Burial::Both(Box::new(Graveyard { dead_letters, publisher, topic })))
    }

    fn open(config: Config, monitor: Monitor, burial: Burial) -> Result<Self, KafkaOpenError> {
        // Reports invalid settings here instead of in the first call. Dropping a client blocks, so a thread does it.
        let client = Offsets::open(&config, LOOKUP_GROUP, monitor.clone())?;
        thread::spawn(move || drop(client));
        Ok(Self { config, monitor, burial: Arc::new(burial), leaving: Leaving::new() })
    }

    /// Whether the consumers are connected to a broker.
    pub fn health(&self) -> EngineHealth {
        self.monitor.health.get()
    }

    /// Waits until the dropped consumers have left their groups, at most for the call timeout. If the process ends
    /// earlier, their partitions stay unassigned until the session timeout.
    pub async fn left(&self) {
        self.leaving.settled().await;
    }

    /// Runs a blocking broker request on a blocking thread.
    pub(crate) async fn call<T: Send + 'static>(
        &self,
        group: &str,
        question: impl FnOnce(&Offsets) -> Result<T, BoxError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (config, group, monitor) = (self.config.clone(), group.to_owned(), self.monitor.clone());
        let answer = task::spawn_blocking(move || question(&Offsets::open(&config, &group, monitor)?));
        let outcome = answer.await.map_err(StoreError::unavailable)?;
        match &outcome {
            Ok(_) => self.monitor.health.set_ok(),
            Err(error) => self.monitor.request_failed(&error.to_string()),
        }
        outcome.map_err(StoreError::Unavailable)
    }
}

#[async_trait]
impl EventLog for KafkaLog {
    async fn consumer(&self, group: &str) -> Result<Box<dyn EventConsumer>, StoreError> {
        self.leaving.settled().await;
        let reader = GroupReader::start(&self.config, group, self.monitor.clone(), self.leaving.clone())?;
        let (burial, names) = (self.burial.clone(), TopicNames::new(&self.config));
        Ok(Box::new(KafkaConsumer { reader, burial, names, clock: self.monitor.clock.clone() }))
    }

    async fn seek(&self, group: &str, to: Start) -> Result<(), StoreError> {
        self.leaving.settled().await;
        self.call(group, move |offsets| offsets.seek(to)).await?.map_err(StoreError::unavailable)
    }

    async fn lag(&self, group: &str) -> Result<u64, StoreError> {
        self.call(group, Offsets::lag).await
    }

    fn order(&self) -> LogOrder {
        LogOrder::PerKind
    }

    async fn event(&self, position: Position) -> Result<Option<Arc<Event>>, StoreError> {
        let Some(location) = RecordLocation::of(position) else { return Ok(None) };
        match self.call(LOOKUP_GROUP, move |offsets| offsets.event(location)).await? {
            None => Ok(None),
            // An expired message is absent from every read, including this one (G11).
            Some(Ok(event)) => Ok(Arc::new(event).read_at(self.monitor.clock.now())),
            Some(Err(reason)) => {
                let table = Topic::of(location.partition.kind).name();
                Err(StoreError::Corrupt { table, source: reason.into() })
            }
        }
    }
}
