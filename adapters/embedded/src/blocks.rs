use std::ops::Bound;

use async_trait::async_trait;
use domain::limits::BLOCKS_MAX;
use domain::{ChatId, DirectPair, UserId};
use ports::{BlockStore, SendRefusal, StoreError};

use crate::EmbeddedStore;
use crate::error::unreadable;
use crate::keys;
use crate::records::BlockedBy;
use crate::tables::Table;
use crate::tx::Tx;

#[async_trait]
impl BlockStore for EmbeddedStore {
    async fn block(&self, user_id: UserId, blocked_id: UserId) -> Result<bool, StoreError> {
        self.write(move |tx| {
            let key = keys::block(user_id, blocked_id);
            if tx.get_bytes(Table::Blocks, &key)?.is_some() {
                return Ok(true);
            }
            if tx.keys(Table::Blocks, &keys::user(user_id))?.len() >= BLOCKS_MAX {
                return Ok(false);
            }
            put(tx, user_id, blocked_id)?;
            Ok(true)
        })
        .await
    }

    async fn unblock(&self, user_id: UserId, blocked_id: UserId) -> Result<(), StoreError> {
        self.write(move |tx| {
            tx.delete(Table::Blocks, &keys::block(user_id, blocked_id));
            mark(tx, user_id, blocked_id, |BlockedBy(users)| users.retain(|blocker| *blocker != user_id))
        })
        .await
    }

    async fn blocks(&self, user_id: UserId, after: Option<UserId>, limit: usize) -> Result<Vec<UserId>, StoreError> {
        let key = |blocked_id| keys::block(user_id, blocked_id);
        let first = Bound::Included(key(UserId::from_bytes([0; 16])));
        let last = Bound::Included(key(UserId::from_bytes([0xff; 16])));
        let from = after.map_or(first, |after| Bound::Excluded(key(after)));
        self.read(move |tables| {
            let view = tables.view();
            let rows = view.range(Table::Blocks, (from, last)).take(limit);
            rows.map(|row| keys::parse_contact(&row?.0).map_err(|error| unreadable(Table::Blocks, error))).collect()
        })
        .await
    }

    async fn blocked(&self, pairs: &[(UserId, UserId)]) -> Result<Vec<bool>, StoreError> {
        let keys: Vec<_> = pairs.iter().map(|(user_id, blocked_id)| keys::block(*user_id, *blocked_id)).collect();
        self.read(move |tables| {
            let view = tables.view();
            keys.iter().map(|key| Ok(view.get_bytes(Table::Blocks, key)?.is_some())).collect()
        })
        .await
    }
}

/// Writes a new block, and the row of the direct chat that sends are checked against.
pub(crate) fn put(tx: &mut Tx<'_>, user_id: UserId, blocked_id: UserId) -> Result<(), StoreError> {
    tx.put(Table::Blocks, &keys::block(user_id, blocked_id), &());
    mark(tx, user_id, blocked_id, |BlockedBy(users)| users.push(user_id))
}

/// Updates the row that tells a commit who has blocked whom in the direct chat of two users, if they have one.
fn mark(
    tx: &mut Tx<'_>,
    user_id: UserId,
    blocked_id: UserId,
    change: impl FnOnce(&mut BlockedBy),
) -> Result<(), StoreError> {
    let Some(pair) = DirectPair::new(user_id, blocked_id) else { return Ok(()) };
    let Some(chat_id) = tx.get::<ChatId>(Table::DirectChats, &keys::direct(pair))? else { return Ok(()) };
    let key = keys::chat(chat_id);
    let mut blocked_by: BlockedBy = tx.get(Table::BlockedChats, &key)?.unwrap_or_default();
    change(&mut blocked_by);
    if blocked_by.0.is_empty() {
        tx.delete(Table::BlockedChats, &key);
    } else {
        tx.put(Table::BlockedChats, &key, &blocked_by);
    }
    Ok(())
}

pub(crate) fn has_blocked(tx: &Tx<'_>, user_id: UserId, blocked_id: UserId) -> Result<bool, StoreError> {
    Ok(tx.get_bytes(Table::Blocks, &keys::block(user_id, blocked_id))?.is_some())
}

/// The block that keeps a member of a direct chat from sending, if any.
pub(crate) fn between(tx: &Tx<'_>, chat_id: ChatId, sender_id: UserId) -> Result<Option<SendRefusal>, StoreError> {
    let blocked_by: Option<BlockedBy> = tx.get(Table::BlockedChats, &keys::chat(chat_id))?;
    // If both have blocked each other, each gets the refusal that they can lift themselves.
    Ok(blocked_by.map(|BlockedBy(users)| match users.contains(&sender_id) {
        true => SendRefusal::Blocking,
        false => SendRefusal::Blocked,
    }))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use ports::{RandomIds, SystemClock};

    use super::*;
    use crate::Config;

    #[tokio::test]
    async fn a_user_blocks_as_many_as_the_bound_and_no_more() {
        let directory = tempfile::tempdir().unwrap();
        let store =
            EmbeddedStore::open(directory.path(), Config::default(), Arc::new(SystemClock), Arc::new(RandomIds));
        let store = store.unwrap();
        let user = |n: usize| UserId::from_bytes(((n + 1) as u128).to_be_bytes());
        let nearly_all = store.write(move |tx| {
            for n in 1..BLOCKS_MAX {
                tx.put(Table::Blocks, &keys::block(user(0), user(n)), &());
            }
            Ok(())
        });
        nearly_all.await.unwrap();
        assert!(store.block(user(0), user(BLOCKS_MAX)).await.unwrap());
        assert!(!store.block(user(0), user(BLOCKS_MAX + 1)).await.unwrap());
        assert!(store.block(user(0), user(7)).await.unwrap(), "one who is blocked stays so");
        store.unblock(user(0), user(7)).await.unwrap();
        assert!(store.block(user(0), user(BLOCKS_MAX + 1)).await.unwrap());
        assert_eq!(store.blocks(user(0), None, usize::MAX).await.unwrap().len(), BLOCKS_MAX);
    }
}
