use std::ops::Bound;

use async_trait::async_trait;
use ports::{DeadLetter, DeadLetterId, DeadLetterStore, StoreError};

use super::MemoryStore;

#[async_trait]
impl DeadLetterStore for MemoryStore {
    async fn add_dead_letter(&self, letter: DeadLetter) -> Result<(), StoreError> {
        self.transaction(|state| {
            state.dead_letters.entry(letter.id).or_insert(letter);
        });
        Ok(())
    }

    async fn dead_letters(&self, after: Option<DeadLetterId>, count: usize) -> Result<Vec<DeadLetter>, StoreError> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        Ok(self.transaction(|state| {
            state.dead_letters.range((from, Bound::Unbounded)).take(count).map(|(_, letter)| letter.clone()).collect()
        }))
    }

    async fn dead_letter(&self, id: DeadLetterId) -> Result<Option<DeadLetter>, StoreError> {
        Ok(self.transaction(|state| state.dead_letters.get(&id).cloned()))
    }

    async fn remove_dead_letter(&self, id: DeadLetterId) -> Result<bool, StoreError> {
        Ok(self.transaction(|state| state.dead_letters.remove(&id).is_some()))
    }
}
