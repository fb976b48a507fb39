use std::sync::Arc;
use std::thread;

use async_trait::async_trait;
use domain::{Event, EventBody};
use ports::{BoxError, Clock, DeadLetterStore, EventConsumer, EventLog, Health, Position, Start, StoreError};
use tokio::task;

use crate::burial::{Burial, Graveyard};
use crate::client::{Monitor, OpenError};
use crate::config::Config;
use crate::consumer::KafkaConsumer;
use crate::names::Names;
use crate::offsets::Offsets;
use crate::place::Place;
use crate::publisher::Publisher;
use crate::reader::{Leaving, Reader};
use crate::topics::Topic;

/// The group that looks at single records. It has no members and commits nothing.
const LOOKUP_GROUP: &str = "lookup";

/// Reads the topics of events.
///
/// Events of one chat and kind are in order; between kinds there is no order. Consumers of a group share the
/// partitions, and one that ends hands its own over. A group is moved only while nobody consumes as it: otherwise
/// [`EventLog::seek`] fails with [`GroupActive`](crate::GroupActive).
pub struct KafkaLog {
    config: Config,
    monitor: Monitor,
    burial: Arc<Burial>,
    leaving: Leaving,
}

impl KafkaLog {
    /// For those who may write nothing: a record that cannot be read is logged, counted and passed over. Somebody else
    /// who reads the same log buries it.
    pub fn reading(config: Config, clock: Arc<dyn Clock>) -> Result<Self, OpenError> {
        Self::open(config, Monitor::new(clock), Burial::None)
    }

    /// For those who may write: a record that cannot be read is copied to the topic `dead_letters`, and named to the
    /// store of dead letters, before it is passed over.
    pub fn burying(
        config: Config,
        clock: Arc<dyn Clock>,
        dead_letters: Arc<dyn DeadLetterStore>,
    ) -> Result<Self, OpenError> {
        let monitor = Monitor::new(clock);
        let publisher = Publisher::new(&config, monitor.clone())?;
        let topic = config.topic(Topic::DeadLetters);
        Self::open(config, monitor, Burial::Both(Box::new(Graveyard { dead_letters, publisher, topic })))
    }

    fn open(config: Config, monitor: Monitor, burial: Burial) -> Result<Self, OpenError> {
        // Settings that cannot work are found here and not by the first call. Ending a client blocks.
        let client = Offsets::open(&config, LOOKUP_GROUP, monitor.clone())?;
        thread::spawn(move || drop(client));
        Ok(Self { config, monitor, burial: Arc::new(burial), leaving: Leaving::new() })
    }

    /// Whether the consumers have a broker to speak to.
    pub fn health(&self) -> Health {
        self.monitor.health.get()
    }

    /// Waits until the consumers that were dropped have left their groups, as long as a call may take. A process that ends
    /// before leaves their part of the log to nobody until the brokers miss them.
    pub async fn left(&self) {
        self.leaving.settled().await;
    }

    /// Asks the brokers something, on a thread that may block.
    pub(crate) async fn ask<T: Send + 'static>(
        &self,
        group: &str,
        question: impl FnOnce(&Offsets) -> Result<T, BoxError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (config, group, monitor) = (self.config.clone(), group.to_owned(), self.monitor.clone());
        let answer = task::spawn_blocking(move || question(&Offsets::open(&config, &group, monitor)?));
        let outcome = answer.await.map_err(StoreError::unavailable)?;
        match &outcome {
            Ok(_) => self.monitor.health.set_ok(),
            Err(error) => self.monitor.failed(&error.to_string()),
        }
        outcome.map_err(StoreError::Unavailable)
    }
}

#[async_trait]
impl EventLog for KafkaLog {
    async fn consumer(&self, group: &str) -> Result<Box<dyn EventConsumer>, StoreError> {
        self.leaving.settled().await;
        let reader = Reader::start(&self.config, group, self.monitor.clone(), self.leaving.clone())?;
        let (burial, names) = (self.burial.clone(), Names::new(&self.config));
        Ok(Box::new(KafkaConsumer { reader, burial, names, clock: self.monitor.clock.clone() }))
    }

    async fn seek(&self, group: &str, to: Start) -> Result<(), StoreError> {
        self.leaving.settled().await;
        self.ask(group, move |offsets| offsets.seek(to)).await?.map_err(StoreError::unavailable)
    }

    async fn lag(&self, group: &str) -> Result<u64, StoreError> {
        self.ask(group, Offsets::lag).await
    }

    async fn event(&self, position: Position) -> Result<Option<Arc<Event>>, StoreError> {
        let Some(place) = Place::of(position) else { return Ok(None) };
        match self.ask(LOOKUP_GROUP, move |offsets| offsets.event(place)).await? {
            None => Ok(None),
            // It is gone from every read, this one included (G11).
            Some(Ok(Event { body: EventBody::MessagePersisted { message, .. }, .. }))
                if message.is_expired(self.monitor.clock.now()) =>
            {
                Ok(None)
            }
            Some(Ok(event)) => Ok(Some(Arc::new(event))),
            Some(Err(reason)) => {
                let table = Topic::of(place.partition.kind).name();
                Err(StoreError::Corrupt { table, source: reason.into() })
            }
        }
    }
}
