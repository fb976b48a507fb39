use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;
use domain::Event;
use metrics::{counter, histogram};
use ports::{Clock, EventProducer, Health, StoreError};

use crate::client::{Monitor, OpenError};
use crate::config::Config;
use crate::publisher::Publisher;
use crate::record::Outgoing;
use crate::topics::Topic;

/// Publishes events: `messages.persisted`, `memberships.changed` and `chats.created`.
///
/// A call takes as long as `Config::publish_timeout` at the most. After an error whoever publishes starts again at the
/// oldest event that is not known to be in the log; records that were under way with others may fail with it.
pub struct KafkaProducer {
    config: Config,
    monitor: Monitor,
    publisher: Publisher,
}

impl KafkaProducer {
    /// Prepares everything, and waits for nobody.
    pub fn open(config: Config, clock: Arc<dyn Clock>) -> Result<Self, OpenError> {
        let monitor = Monitor::new(clock);
        let publisher = Publisher::new(&config, monitor.clone())?;
        // Settings that cannot work are found here and not by the first call.
        publisher.line()?;
        Ok(Self { config, monitor, publisher })
    }

    /// What the last call has met.
    pub fn health(&self) -> Health {
        self.monitor.health.get()
    }
}

#[async_trait]
impl EventProducer for KafkaProducer {
    async fn publish(&self, events: &[Arc<Event>]) -> Result<(), StoreError> {
        let topic = |event: &Event| self.config.topic(Topic::of(event.body.kind()));
        let records: Vec<_> = events.iter().map(|event| Outgoing::event(topic(event), event)).collect();
        let began = Instant::now();
        let outcome = self.publisher.publish(&records).await;
        histogram!("tidings_kafka_publish_seconds").record(began.elapsed().as_secs_f64());
        let count = events.len() as u64;
        match outcome {
            Ok(()) => counter!("tidings_kafka_published_total").increment(count),
            Err(_) => counter!("tidings_kafka_publish_failures_total").increment(count),
        }
        outcome.map_err(StoreError::unavailable)
    }
}
