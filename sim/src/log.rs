use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use domain::{Event, EventBody, WatermarkKind};
use fanout::Fanout;
use futures_util::FutureExt;
use notify::{EventWebhook, Notifications};
use ports::{EventConsumer, EventLog, LogOrder, Position, Record, Start, StoreError, WatermarkStore};
use tokio::runtime::Handle;
use tokio::time::{Instant, sleep};

use crate::bugs::Bug;
use crate::plan::RunShape;
use crate::process::SimProcess;
use crate::shared::Memory;
use crate::store::SimStore;
use crate::world::{Dependency, World};

/// The log as seen by one process.
pub(crate) struct SimLog {
    pub(crate) world: Arc<World>,
    pub(crate) process: Arc<SimProcess>,
    pub(crate) memory: Arc<Memory>,
    /// The store as the consumer sees it.
    pub(crate) store: Arc<SimStore>,
    pub(crate) log: Arc<dyn EventLog>,
}

/// Longest time that a group takes to give the partitions of a new consumer to it, and those of a dead one to others.
const REBALANCE_MAX: Duration = Duration::from_secs(8);

#[async_trait]
impl EventLog for SimLog {
    async fn consumer(&self, group: &str) -> Result<Box<dyn EventConsumer>, StoreError> {
        self.process.runs().await;
        let mut consumer = self.log.consumer(group).await?;
        if self.world.has(Bug::TakeoverAtTheEnd) && group == Fanout::GROUP {
            while let Some(Ok(_)) = consumer.next().now_or_never() {}
            consumer.commit().await?;
        }
        if let Some(rebalancing) = rebalancing(&self.world) {
            sleep(rebalancing).await;
        }
        let (world, process, memory) = (self.world.clone(), self.process.clone(), self.memory.clone());
        Ok(Box::new(SimConsumer {
            group: group.to_owned(),
            world,
            process,
            memory,
            store: self.store.clone(),
            consumer: Some(consumer),
            read: vec![],
            in_hand: vec![],
            began: Instant::now(),
        }))
    }

    async fn seek(&self, group: &str, to: Start) -> Result<(), StoreError> {
        self.log.seek(group, to).await
    }

    async fn lag(&self, group: &str) -> Result<u64, StoreError> {
        self.log.lag(group).await
    }

    fn order(&self) -> LogOrder {
        if self.world.has(Bug::WebhookUnordered) { LogOrder::Commit } else { self.log.order() }
    }

    async fn event(&self, position: Position) -> Result<Option<Arc<Event>>, StoreError> {
        self.log.event(position).await
    }
}

/// How long a rebalance takes; `None` if it is immediate.
fn rebalancing(world: &World) -> Option<Duration> {
    let takes_time = world.plan.shape == RunShape::Fleet && world.injects_faults() && world.streams.log.chance(0.5);
    takes_time.then(|| world.streams.log.time(Duration::ZERO, REBALANCE_MAX))
}

struct SimConsumer {
    group: String,
    world: Arc<World>,
    process: Arc<SimProcess>,
    memory: Arc<Memory>,
    store: Arc<SimStore>,
    /// `None` only while it is dropped.
    consumer: Option<Box<dyn EventConsumer>>,
    /// Events that were read but not returned yet.
    read: Vec<Record>,
    /// Events that were returned but not committed yet.
    in_hand: Vec<Record>,
    began: Instant,
}

#[async_trait]
impl EventConsumer for SimConsumer {
    async fn next(&mut self) -> Result<Vec<Record>, StoreError> {
        self.process.runs().await;
        if self.world.is_unavailable(Dependency::Log) {
            sleep(Duration::from_millis(500)).await;
            return Err(StoreError::unavailable("the log does not answer"));
        }
        if self.read.is_empty() {
            self.read = self.consumer().next().await?;
        }
        // The caller may stop waiting here, and gets the records with its next call.
        self.process.runs().await;
        let records = std::mem::take(&mut self.read);
        let records: Vec<_> = records.into_iter().map(|record| crate::broken::replayed(&self.world, record)).collect();
        self.began = Instant::now();
        self.in_hand.extend(records.iter().cloned());
        let commits_early = match self.group.as_str() {
            Fanout::GROUP => self.world.has(Bug::OffsetBeforeProcessing),
            EventWebhook::GROUP => {
                self.world.webhook_reads(&records);
                self.world.has(Bug::WebhookCommitsFirst)
            }
            Notifications::GROUP if self.world.has(Bug::NoticesCommitFirst) => {
                self.world.look_at_noticed(self.began, &records);
                true
            }
            _ => false,
        };
        if commits_early {
            self.consumer().commit().await?;
        }
        if !records.is_empty() {
            self.world.consuming.notify_waiters();
        }
        Ok(records)
    }

    async fn commit(&mut self) -> Result<(), StoreError> {
        self.process.runs().await;
        let records = std::mem::take(&mut self.in_hand);
        match self.group.as_str() {
            Fanout::GROUP => {
                if self.world.has(Bug::FanoutWrites) {
                    mark_delivered(&self.store.clone(), &records).await;
                }
                self.world.commits_offset(&self.process.name);
                self.world.processed(&records);
                self.world.pushed(self.began, &records, &self.memory.routes);
            }
            Notifications::GROUP => self.world.look_at_noticed(self.began, &records),
            _ => {}
        }
        if self.world.is_unavailable(Dependency::Log) {
            return Err(StoreError::unavailable("the log does not answer"));
        }
        self.consumer().commit().await
    }
}

impl SimConsumer {
    fn consumer(&mut self) -> &mut dyn EventConsumer {
        self.consumer.as_deref_mut().expect("it is there until it is dropped")
    }
}

/// Writes to the store, which only a known bug does.
async fn mark_delivered(store: &SimStore, records: &[Record]) {
    for record in records {
        if let EventBody::MessagePersisted { message, .. } = &record.event.body {
            let (user_id, chat_id) = (message.sender_id, message.chat_id);
            drop(store.advance(user_id, chat_id, WatermarkKind::Delivered, message.sequence, message.created_at).await);
        }
    }
}

impl Drop for SimConsumer {
    /// The group notices the end of a killed consumer later.
    fn drop(&mut self) {
        let (Some(consumer), true) = (self.consumer.take(), self.process.is_dead()) else { return };
        if let (Some(rebalancing), Ok(runtime)) = (rebalancing(&self.world), Handle::try_current()) {
            runtime.spawn(async move {
                sleep(rebalancing).await;
                drop(consumer);
            });
        }
    }
}
