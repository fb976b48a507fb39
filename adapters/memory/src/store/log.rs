use std::sync::Arc;

use async_trait::async_trait;
use domain::Event;
use ports::{EventConsumer, EventLog, Position, Record, Start, StoreError};
use tokio::sync::watch;

use super::{MemoryStore, State};

/// Events that one call of `next` returns, at the most.
const BATCH_LEN_MAX: usize = 256;

#[async_trait]
impl EventLog for MemoryStore {
    async fn consumer(&self, group: &str) -> Result<Box<dyn EventConsumer>, StoreError> {
        let next = self.transaction(|state| state.consumed(group));
        let log_end = self.shared.log_end.subscribe();
        Ok(Box::new(MemoryConsumer { store: self.clone(), group: group.to_owned(), next, log_end }))
    }

    async fn seek(&self, group: &str, to: Start) -> Result<(), StoreError> {
        self.transaction(|state| {
            let next = match to {
                Start::Oldest => Position(0),
                Start::Time(time) => {
                    let first = state.log.iter().find(|(_, event)| event.event_time >= time);
                    first.map_or(state.log_end, |(position, _)| *position)
                }
                // A place that is not written yet is not skipped to.
                Start::At(position) => position.min(state.log_end),
            };
            state.consumed.insert(group.to_owned(), next);
        });
        Ok(())
    }

    async fn lag(&self, group: &str) -> Result<u64, StoreError> {
        Ok(self.transaction(|state| state.log_end.0 - state.consumed(group).0))
    }

    async fn event(&self, position: Position) -> Result<Option<Arc<Event>>, StoreError> {
        Ok(self.transaction(|state| state.log.get(&position).cloned()))
    }
}

struct MemoryConsumer {
    store: MemoryStore,
    group: String,
    /// The place of the next event to return.
    next: Position,
    log_end: watch::Receiver<Position>,
}

#[async_trait]
impl EventConsumer for MemoryConsumer {
    async fn next(&mut self) -> Result<Vec<Record>, StoreError> {
        loop {
            let next = self.next;
            let end = *self.log_end.wait_for(|end| *end > next).await.expect("the consumer keeps the store alive");
            // Nothing awaits from here on, so a dropped future has moved nothing.
            let records = self.store.transaction(|state| state.records(next));
            // Where everything was purged, it goes on behind it.
            self.next = records.last().map_or(end, |last| Position(last.position.0 + 1));
            if !records.is_empty() {
                return Ok(records);
            }
        }
    }

    async fn commit(&mut self) -> Result<(), StoreError> {
        let (group, next) = (self.group.clone(), self.next);
        self.store.transaction(|state| state.consumed.insert(group, next));
        Ok(())
    }
}

impl State {
    fn consumed(&self, group: &str) -> Position {
        self.consumed.get(group).copied().unwrap_or(Position(0))
    }

    fn records(&self, from: Position) -> Vec<Record> {
        let record = |(position, event): (&Position, &Arc<Event>)| Record { position: *position, event: event.clone() };
        self.log.range(from..).take(BATCH_LEN_MAX).map(record).collect()
    }
}
