use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;
use domain::Event;
use metrics::{counter, histogram};
use ports::{Clock, EngineHealth, EventProducer, StoreError};

use crate::client::{KafkaOpenError, Monitor};
use crate::config::Config;
use crate::publisher::Publisher;
use crate::record::OutgoingRecord;
use crate::topics::Topic;

/// Publishes events: `messages.persisted`, `memberships.changed` and `chats.created`.
///
/// A call takes at most `Config::publish_timeout`. After an error the caller must restart at the oldest event without
/// confirmation; concurrent calls may fail with it.
pub struct KafkaProducer {
    config: Config,
    monitor: Monitor,
    publisher: Publisher,
}

impl KafkaProducer {
    /// Creates the producer without waiting for a connection.
    pub fn open(config: Config, clock: Arc<dyn Clock>) -> Result<Self, KafkaOpenError> {
        let monitor = Monitor::new(clock);
        let publisher = Publisher::new(&config, monitor.clone())?;
        // Reports invalid settings here instead of in the first call.
        publisher.producer()?;
        Ok(Self { config, monitor, publisher })
    }

    /// Health according to the last call.
    pub fn health(&self) -> EngineHealth {
        self.monitor.health.get()
    }
}

#[async_trait]
impl EventProducer for KafkaProducer {
    async fn publish(&self, events: &[Arc<Event>]) -> Result<(), StoreError> {
        let topic = |event: &Event| self.config.topic(Topic::of(event.body.kind()));
        let records: Vec<_> = events.iter().map(|event| OutgoingRecord::event(topic(event), event)).collect();
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
