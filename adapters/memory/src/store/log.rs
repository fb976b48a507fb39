use std::sync::Arc;

use async_trait::async_trait;
use domain::Event;
use ports::{EventConsumer, EventLog, StoreError};
use tokio::sync::watch;

use super::MemoryStore;

/// Events that one call of `next` returns, at the most.
const BATCH_LEN_MAX: usize = 256;

#[async_trait]
impl EventLog for MemoryStore {
    async fn consumer(&self, group: &str) -> Result<Box<dyn EventConsumer>, StoreError> {
        let position = self.transaction(|state| state.consumed.get(group).copied().unwrap_or_default());
        let log_len = self.shared.log_len.subscribe();
        Ok(Box::new(MemoryConsumer { store: self.clone(), group: group.to_owned(), position, log_len }))
    }
}

struct MemoryConsumer {
    store: MemoryStore,
    group: String,
    /// How much of the log has been returned.
    position: usize,
    log_len: watch::Receiver<usize>,
}

#[async_trait]
impl EventConsumer for MemoryConsumer {
    async fn next(&mut self) -> Result<Vec<Arc<Event>>, StoreError> {
        let position = self.position;
        self.log_len.wait_for(|len| *len > position).await.expect("the consumer keeps the store alive");
        // Nothing awaits from here on, so a dropped future has moved nothing.
        let events = self.store.transaction(|state| {
            let end = state.log.len().min(position + BATCH_LEN_MAX);
            state.log[position..end].to_vec()
        });
        self.position += events.len();
        Ok(events)
    }

    async fn commit(&mut self) -> Result<(), StoreError> {
        let (group, position) = (self.group.clone(), self.position);
        self.store.transaction(|state| state.consumed.insert(group, position));
        Ok(())
    }
}
