use std::ops::Bound;

use async_trait::async_trait;
use domain::limits::RETENTION;
use ports::{DeadLetter, DeadLetterId, DeadLetterStore, StoreError};

use crate::EmbeddedStore;
use crate::error::unreadable;
use crate::keys::Expiring;
use crate::records::Stored;
use crate::tables::Table;
use crate::tx::Tx;

#[async_trait]
impl DeadLetterStore for EmbeddedStore {
    async fn add_dead_letter(&self, letter: DeadLetter) -> Result<(), StoreError> {
        self.write(move |tx| add_dead_letter(tx, &letter)).await
    }

    async fn dead_letters(&self, after: Option<DeadLetterId>, count: usize) -> Result<Vec<DeadLetter>, StoreError> {
        let from = after.map_or(Bound::Unbounded, |after| Bound::Excluded(after.to_bytes()));
        self.read(move |tables| {
            let view = tables.view();
            let rows = view.range(Table::DeadLetters, (from, Bound::Unbounded)).take(count);
            rows.map(|row| DeadLetter::decode(&row?.1).map_err(|error| unreadable(Table::DeadLetters, error))).collect()
        })
        .await
    }

    async fn dead_letter(&self, id: DeadLetterId) -> Result<Option<DeadLetter>, StoreError> {
        self.tables().await?.get(Table::DeadLetters, &id.to_bytes())
    }

    async fn remove_dead_letter(&self, id: DeadLetterId) -> Result<bool, StoreError> {
        self.write(move |tx| {
            let known = tx.get_bytes(Table::DeadLetters, &id.to_bytes())?.is_some();
            if known {
                tx.delete(Table::DeadLetters, &id.to_bytes());
            }
            Ok(known)
        })
        .await
    }
}

/// Stores a dead letter unless it exists, and schedules its expiry.
pub(crate) fn add_dead_letter(tx: &mut Tx<'_>, letter: &DeadLetter) -> Result<(), StoreError> {
    let key = letter.id.to_bytes();
    if tx.get_bytes(Table::DeadLetters, &key)?.is_none() {
        tx.put(Table::DeadLetters, &key, letter);
        tx.expire(letter.dead_at + RETENTION, Expiring::DeadLetter(letter.id));
    }
    Ok(())
}
