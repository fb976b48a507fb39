//! Pending notices, and an index of them by the time of their next check. That is the due time or, after the device was
//! notified, the end of its quiet period.

use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use domain::Timestamp;
use fjall::Slice;
use ports::{Notice, NoticeStore, Settled, StoreError, error_chain};
use tracing::error;

use crate::EmbeddedStore;
use crate::error::unreadable;
use crate::keys::{self, NoticeKey};
use crate::records::StoredNotice;
use crate::tables::Table;
use crate::tx::Tx;

/// Maximum number of index rows per call: the call is a transaction, and other jobs wait for it.
const LOOKED_AT_MAX: usize = 500;

/// Lower bound for the times in the index, in milliseconds.
///
/// Notify reads the index about once per second. Without this bound, each scan would skip all tombstones at the start
/// of the index until the engine merges its files. Only jobs of the committer change it, one after the other.
#[derive(Default)]
pub(crate) struct DueFrom(AtomicU64);

impl DueFrom {
    fn get(&self) -> Timestamp {
        Timestamp::from_millis(self.0.load(Ordering::Relaxed))
    }

    fn raise(&self, to: Timestamp) {
        self.0.fetch_max(to.as_millis(), Ordering::Relaxed);
    }

    fn lower(&self, to: Timestamp) {
        self.0.fetch_min(to.as_millis(), Ordering::Relaxed);
    }
}

#[async_trait]
impl NoticeStore for EmbeddedStore {
    async fn add_notices(&self, notices: Vec<Notice>) -> Result<(), StoreError> {
        let due_from = self.link().due_from.clone();
        self.write(move |tx| {
            let mut table = Notices { tx, due_from: &due_from };
            for notice in notices {
                table.add(&notice)?;
            }
            Ok(())
        })
        .await
    }

    async fn take_due(&self, now: Timestamp, again_at: Timestamp, count: usize) -> Result<Vec<Notice>, StoreError> {
        let due_from = self.link().due_from.clone();
        self.write(move |tx| Notices { tx, due_from: &due_from }.take_due(now, again_at, count)).await
    }

    async fn settle(&self, notice: &Notice, settled: Settled) -> Result<(), StoreError> {
        let (due_from, notice) = (self.link().due_from.clone(), notice.clone());
        self.write(move |tx| Notices { tx, due_from: &due_from }.settle(&notice, settled)).await
    }
}

/// Both tables, inside a transaction.
struct Notices<'a, 'tx> {
    tx: &'a mut Tx<'tx>,
    due_from: &'a DueFrom,
}

impl Notices<'_, '_> {
    fn add(&mut self, notice: &Notice) -> Result<(), StoreError> {
        let key = key(notice);
        let known = self.tx.get(Table::Notices, &keys::notice(key))?;
        let stays = match known {
            Some(StoredNotice::Pending { .. }) => true,
            // A quiet period that ends before the notice is due does not suppress it, even if no scan has removed it
            // yet.
            Some(StoredNotice::Told { silent_until }) => notice.due_at < silent_until,
            None => false,
        };
        if !stays {
            let Notice { from, due_at, attempts, .. } = *notice;
            self.replace(key, known, Some(StoredNotice::Pending { from, due_at, attempts }));
        }
        Ok(())
    }

    fn take_due(&mut self, now: Timestamp, again_at: Timestamp, count: usize) -> Result<Vec<Notice>, StoreError> {
        let mut taken = vec![];
        for index in self.due(now)? {
            if taken.len() == count {
                break;
            }
            let (moment, key) = parse(&index)?;
            let known = match self.tx.get::<StoredNotice>(Table::Notices, &keys::notice(key)) {
                Err(failure @ StoreError::Corrupt { .. }) => {
                    // The content of a damaged notice is lost, and the other notices must not wait for it.
                    error!(error = %error_chain(&failure), "dropping a damaged notice");
                    self.tx.delete(Table::Notices, &keys::notice(key));
                    None
                }
                known => known?,
            };
            match known.filter(|known| known.moment() == moment) {
                Some(known @ StoredNotice::Pending { from, due_at, attempts }) => {
                    self.replace(key, Some(known), Some(StoredNotice::Pending { from, due_at: again_at, attempts }));
                    let NoticeKey { user_id, chat_id, device_id } = key;
                    taken.push(Notice { user_id, chat_id, device_id, from, due_at, attempts });
                }
                Some(known @ StoredNotice::Told { .. }) => self.replace(key, Some(known), None),
                // An earlier job of this commit has moved the notice, or it was dropped just now.
                None => self.tx.delete(Table::NoticesDue, &index),
            }
        }
        Ok(taken)
    }

    /// The first index rows that are due.
    fn due(&self, now: Timestamp) -> Result<Vec<Slice>, StoreError> {
        let range = keys::moment(self.due_from.get()).to_vec()..keys::just_after(now).to_vec();
        if range.is_empty() {
            return Ok(vec![]);
        }
        let view = self.tx.committed();
        let rows = view.range(Table::NoticesDue, range).take(LOOKED_AT_MAX);
        let due = rows.map(|row| Ok(row?.0)).collect::<Result<Vec<_>, StoreError>>()?;
        // No view contains the writes of this commit yet, and they may come before the committed rows.
        if !self.tx.touches(Table::NoticesDue) {
            let first = due.first().map(|index| parse(index)).transpose()?;
            self.due_from.raise(first.map_or(now, |(moment, _)| moment));
        }
        Ok(due)
    }

    fn settle(&mut self, notice: &Notice, settled: Settled) -> Result<(), StoreError> {
        let key = key(notice);
        let known = self.tx.get(Table::Notices, &keys::notice(key))?;
        let Some(StoredNotice::Pending { from, attempts, .. }) = known else { return Ok(()) };
        // A notice that starts at another message was added after this one had been settled elsewhere.
        if from == notice.from {
            let state = match settled {
                Settled::Notified { silent_until } => Some(StoredNotice::Told { silent_until }),
                Settled::Again { at } => {
                    Some(StoredNotice::Pending { from, due_at: at, attempts: attempts.saturating_add(1) })
                }
                Settled::Dropped => None,
            };
            self.replace(key, known, state);
        }
        Ok(())
    }

    /// Writes a notice and moves its index row.
    fn replace(&mut self, key: NoticeKey, known: Option<StoredNotice>, state: Option<StoredNotice>) {
        if let Some(known) = known {
            self.tx.delete(Table::NoticesDue, &keys::notice_due(known.moment(), key));
        }
        match state {
            Some(state) => {
                self.tx.put(Table::Notices, &keys::notice(key), &state);
                self.tx.put(Table::NoticesDue, &keys::notice_due(state.moment(), key), &());
                self.due_from.lower(state.moment());
            }
            None => self.tx.delete(Table::Notices, &keys::notice(key)),
        }
    }
}

impl StoredNotice {
    /// The time of the next check.
    fn moment(self) -> Timestamp {
        match self {
            Self::Pending { due_at, .. } => due_at,
            Self::Told { silent_until } => silent_until,
        }
    }
}

fn parse(index: &[u8]) -> Result<(Timestamp, NoticeKey), StoreError> {
    keys::parse_notice_due(index).map_err(|error| unreadable(Table::NoticesDue, error))
}

fn key(notice: &Notice) -> NoticeKey {
    NoticeKey { user_id: notice.user_id, chat_id: notice.chat_id, device_id: notice.device_id }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use domain::{ChatId, DeviceId, Sequence, UserId};
    use ports::{RandomIds, SystemClock};
    use tempfile::TempDir;

    use super::*;
    use crate::Config;

    fn open(directory: &TempDir) -> EmbeddedStore {
        EmbeddedStore::open(directory.path(), Config::default(), Arc::new(SystemClock), Arc::new(RandomIds)).unwrap()
    }

    fn at(millis: u64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    /// A pending notice of the n-th user.
    fn notice(n: u128, due_at: u64) -> Notice {
        Notice {
            user_id: UserId::from_bytes(n.to_be_bytes()),
            chat_id: ChatId::from_bytes([1; 16]),
            device_id: DeviceId::from_bytes([2; 16]),
            from: Sequence(1),
            due_at: at(due_at),
            attempts: 0,
        }
    }

    async fn take(store: &EmbeddedStore, now: u64) -> Vec<Notice> {
        store.take_due(at(now), at(1_000_000), 10).await.unwrap()
    }

    async fn indexed(store: &EmbeddedStore) -> usize {
        store.read(|tables| Ok(tables.view().range::<&[u8]>(Table::NoticesDue, ..).count())).await.unwrap()
    }

    #[tokio::test]
    async fn the_search_begins_where_the_index_does_and_further_back_when_something_is_written_there() {
        let directory = tempfile::tempdir().unwrap();
        let store = open(&directory);
        let begins = |store: &EmbeddedStore| store.link().due_from.get();
        store.add_notices(vec![notice(1, 100), notice(2, 200)]).await.unwrap();
        assert_eq!(begins(&store), at(0));
        assert_eq!(take(&store, 150).await, [notice(1, 100)]);
        assert_eq!(begins(&store), at(100), "what was taken was still there when it was looked for");
        assert_eq!(take(&store, 150).await, []);
        assert_eq!(begins(&store), at(150));
        assert_eq!(take(&store, 120).await, [], "a clock that stepped back");
        store.add_notices(vec![notice(3, 50)]).await.unwrap();
        assert_eq!(begins(&store), at(50));
        assert_eq!(take(&store, 200).await, [notice(3, 50), notice(2, 200)]);
        store.close().await;

        let store = open(&directory);
        assert_eq!(begins(&store), at(0));
        assert_eq!(take(&store, 2_000_000).await.len(), 3, "a restart begins with everything");
        store.close().await;
    }

    #[tokio::test]
    async fn a_notice_of_the_same_commit_is_not_skipped() {
        let directory = tempfile::tempdir().unwrap();
        let store = open(&directory);
        store.add_notices(vec![notice(1, 200)]).await.unwrap();
        let due_from = store.link().due_from.clone();
        let taken = store.write(move |tx| {
            let mut notices = Notices { tx, due_from: &due_from };
            notices.add(&notice(2, 100))?;
            notices.take_due(at(300), at(1_000_000), 10)
        });
        assert_eq!(taken.await.unwrap(), [notice(1, 200)]);
        assert_eq!(take(&store, 300).await, [notice(2, 100)]);
        store.close().await;
    }

    #[tokio::test]
    async fn one_call_ends_a_bounded_number_of_silences() {
        let directory = tempfile::tempdir().unwrap();
        let store = open(&directory);
        let told: Vec<_> = (0..LOOKED_AT_MAX as u128 + 1).map(|n| notice(n, 100)).collect();
        store.add_notices(told.clone()).await.unwrap();
        let due_from = store.link().due_from.clone();
        let settle = store.write(move |tx| {
            let mut notices = Notices { tx, due_from: &due_from };
            told.iter().try_for_each(|notice| notices.settle(notice, Settled::Notified { silent_until: at(200) }))
        });
        settle.await.unwrap();
        let behind = notice(9999, 300);
        store.add_notices(vec![behind.clone()]).await.unwrap();

        assert_eq!(take(&store, 300).await, []);
        assert_eq!(indexed(&store).await, 2);
        assert_eq!(take(&store, 300).await, [behind]);
        assert_eq!(indexed(&store).await, 1);
        store.close().await;
    }

    #[tokio::test]
    async fn a_notice_has_one_index_row_in_every_state() {
        let directory = tempfile::tempdir().unwrap();
        let store = open(&directory);
        let pending = notice(1, 100);
        for settled in [Settled::Again { at: at(50) }, Settled::Notified { silent_until: at(80) }] {
            store.add_notices(vec![pending.clone(), pending.clone()]).await.unwrap();
            assert_eq!(take(&store, 100).await.len(), 1);
            store.settle(&pending, settled).await.unwrap();
            assert_eq!(indexed(&store).await, 1);
        }
        store.add_notices(vec![pending.clone()]).await.unwrap();
        assert_eq!(indexed(&store).await, 1, "the silence that was over is gone");
        store.settle(&pending, Settled::Dropped).await.unwrap();
        assert_eq!(indexed(&store).await, 0);
        store.close().await;
    }

    #[tokio::test]
    async fn a_damaged_notice_is_dropped_and_does_not_block_the_others() {
        let directory = tempfile::tempdir().unwrap();
        let store = open(&directory);
        let (damaged, sound) = (notice(1, 100), notice(2, 200));
        store.add_notices(vec![damaged.clone(), sound.clone()]).await.unwrap();
        let spoil = store.write(move |tx| {
            tx.put_new(Table::Notices, &keys::notice(key(&damaged)), vec![0xff; 3]);
            Ok(())
        });
        spoil.await.unwrap();
        assert_eq!(take(&store, 300).await, [sound]);
        assert_eq!(indexed(&store).await, 1);
        store.close().await;
    }
}
