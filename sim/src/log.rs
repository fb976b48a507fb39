use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use domain::Event;
use ports::{EventConsumer, EventLog, Position, Record, Start, StoreError};
use tokio::time::{Instant, sleep};

use crate::bugs::Bug;
use crate::process::SimProcess;
use crate::shared::Memory;
use crate::world::{Dependency, World};

/// The log as seen by one process.
pub(crate) struct SimLog {
    pub(crate) world: Arc<World>,
    pub(crate) process: Arc<SimProcess>,
    pub(crate) memory: Arc<Memory>,
    pub(crate) log: Arc<dyn EventLog>,
}

#[async_trait]
impl EventLog for SimLog {
    async fn consumer(&self, group: &str) -> Result<Box<dyn EventConsumer>, StoreError> {
        self.process.runs().await;
        let consumer = self.log.consumer(group).await?;
        let (world, process, memory) = (self.world.clone(), self.process.clone(), self.memory.clone());
        Ok(Box::new(SimConsumer { world, process, memory, consumer, in_hand: vec![], began: Instant::now() }))
    }

    async fn seek(&self, group: &str, to: Start) -> Result<(), StoreError> {
        self.log.seek(group, to).await
    }

    async fn lag(&self, group: &str) -> Result<u64, StoreError> {
        self.log.lag(group).await
    }

    async fn event(&self, position: Position) -> Result<Option<Arc<Event>>, StoreError> {
        self.log.event(position).await
    }
}

struct SimConsumer {
    world: Arc<World>,
    process: Arc<SimProcess>,
    memory: Arc<Memory>,
    consumer: Box<dyn EventConsumer>,
    /// Events that were returned but not committed yet.
    in_hand: Vec<Record>,
    began: Instant,
}

#[async_trait]
impl EventConsumer for SimConsumer {
    async fn next(&mut self) -> Result<Vec<Record>, StoreError> {
        self.process.runs().await;
        if self.world.is_away(Dependency::Log) {
            sleep(Duration::from_millis(500)).await;
            return Err(StoreError::unavailable("the log does not answer"));
        }
        let records = self.consumer.next().await?;
        self.process.runs().await;
        self.world.handed(&records);
        self.began = Instant::now();
        self.in_hand.extend(records.iter().cloned());
        if self.world.has(Bug::OffsetBeforeProcessing) {
            self.consumer.commit().await?;
        }
        Ok(records)
    }

    async fn commit(&mut self) -> Result<(), StoreError> {
        self.process.runs().await;
        let records = std::mem::take(&mut self.in_hand);
        self.world.processed(&records);
        self.world.pushed(self.began, &records, &self.memory.routes);
        if self.world.is_away(Dependency::Log) {
            return Err(StoreError::unavailable("the log does not answer"));
        }
        self.consumer.commit().await
    }
}
