use std::sync::Arc;

use async_trait::async_trait;
use domain::Event;
use ports::{EventConsumer, EventLog, LogOrder, Position, Record, Start, StoreError};

use super::{MemoryStore, MemoryStoreState};

/// Maximum number of events that one call of `next` returns.
const BATCH_LEN_MAX: usize = 256;

#[async_trait]
impl EventLog for MemoryStore {
    async fn consumer(&self, group: &str) -> Result<Box<dyn EventConsumer>, StoreError> {
        let next = self.transaction(|state| state.consumed(group));
        Ok(Box::new(StoreConsumer { store: self.clone(), group: group.to_owned(), next }))
    }

    async fn seek(&self, group: &str, to: Start) -> Result<(), StoreError> {
        self.transaction(|state| {
            let next = match to {
                Start::Oldest => Position(0),
                Start::Time(time) => {
                    let first = state.log.iter().find(|(_, event)| event.event_time >= time);
                    first.map_or(state.log_end, |(position, _)| *position)
                }
                // A position past the end is clamped to the end.
                Start::At(position) => position.min(state.log_end),
            };
            state.consumed.insert(group.to_owned(), next);
        });
        Ok(())
    }

    async fn lag(&self, group: &str) -> Result<u64, StoreError> {
        Ok(self.transaction(|state| state.log_end.0 - state.consumed(group).0))
    }

    fn order(&self) -> LogOrder {
        LogOrder::Commit
    }

    async fn event(&self, position: Position) -> Result<Option<Arc<Event>>, StoreError> {
        Ok(self.transaction(|state| {
            state.log.get(&position).filter(|_| !state.expired_updates.contains(&position)).cloned()
        }))
    }
}

struct StoreConsumer {
    store: MemoryStore,
    group: String,
    /// The position of the next event to return.
    next: Position,
}

#[async_trait]
impl EventConsumer for StoreConsumer {
    async fn next(&mut self) -> Result<Vec<Record>, StoreError> {
        loop {
            // Register for notifications before reading, so that no event is missed in between.
            let grew = self.store.shared.log_grew.notified();
            // If everything in the range was purged, continue after it.
            let (records, end) = self.store.transaction(|state| (state.records(self.next), state.log_end));
            self.next = records.last().map_or(end, |last| Position(last.position.0 + 1));
            // There is no await between advancing and returning, so a dropped future has lost nothing.
            if !records.is_empty() {
                return Ok(records);
            }
            grew.await;
        }
    }

    async fn commit(&mut self) -> Result<(), StoreError> {
        let (group, next) = (self.group.clone(), self.next);
        self.store.transaction(|state| state.consumed.insert(group, next));
        Ok(())
    }
}

impl MemoryStoreState {
    fn consumed(&self, group: &str) -> Position {
        self.consumed.get(group).copied().unwrap_or(Position(0))
    }

    fn records(&self, from: Position) -> Vec<Record> {
        let record = |(position, event): (&Position, &Arc<Event>)| Record { position: *position, event: event.clone() };
        let left = self.log.range(from..).filter(|(position, _)| !self.expired_updates.contains(position));
        left.take(BATCH_LEN_MAX).map(record).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SequentialIds;
    use crate::waking::{Woken, poll};

    #[tokio::test]
    async fn consumers_are_woken_in_the_order_they_waited() {
        let store = MemoryStore::new(Arc::new(SequentialIds::default()));
        let mut consumers = vec![];
        for n in 0..20 {
            consumers.push(store.consumer(&format!("group {n}")).await.unwrap());
        }
        let woken = Woken::default();
        let mut waiting: Vec<_> = consumers.iter_mut().map(|consumer| consumer.next()).collect();
        for (n, next) in waiting.iter_mut().enumerate() {
            assert!(poll(next, &woken, n).is_pending());
        }
        let sequences = vec![domain::Sequence(1)];
        let body = domain::EventBody::MessagesExpired { chat_id: domain::ChatId::from_bytes([1; 16]), sequences };
        store.transaction(|state| state.record(domain::Timestamp::default(), body));
        assert_eq!(woken.take(), (0..20).collect::<Vec<_>>());
    }
}
