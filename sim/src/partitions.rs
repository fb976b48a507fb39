//! The load of the store by partition key, as DynamoDB counts it.
//!
//! `partition_key_distributed` (ADR-007): one partition serves 3,000 read units and 1,000 write units a second. With the
//! headroom of 50 % that `item_size_bounded` has too, no partition key may take more than half of each in any second.
//! Refused requests count, because they reach the partition as well. The first attempt of a send does not, nor does the
//! first on each later connection of its client: it is what users ask for, and nothing spreads a chat over partitions. So
//! the check finds load that the service adds itself.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use domain::{ChatId, DirectPair, Invariant, MessageId, UserId};
use tokio::time::Instant;

use crate::plan::RunShape;
use crate::world::World;

/// The share of one partition key: units in any second.
const READS_MAX: u64 = 3000 / 2;
const WRITES_MAX: u64 = 1000 / 2;
/// Half of the largest item that DynamoDB accepts.
const ITEM_BYTES_MAX: usize = 400 * 1024 / 2;
const WINDOW: Duration = Duration::from_secs(1);
/// Bytes of one unit.
const READ_UNIT: usize = 4096;
const WRITE_UNIT: usize = 1024;
/// A write in a transaction costs two units.
const TRANSACTION: u64 = 2;
/// Approximate size of an item without variable parts.
pub(crate) const ITEM: usize = 300;

/// A table, and the value of its partition key. Ids of users, chats and messages have 16 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct PartitionKey {
    table: &'static str,
    id: [u8; 16],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Access {
    Read,
    Write,
}

/// The items that one call of the store touches.
#[derive(Clone, Debug, Default)]
pub(crate) struct Load {
    items: Vec<(Access, PartitionKey, usize)>,
}

/// An id that a table is partitioned by.
pub(crate) trait PartitionId {
    fn partition(&self) -> [u8; 16];
}

macro_rules! partition_ids {
    ($($id:ty)+) => {
        $(impl PartitionId for $id {
            fn partition(&self) -> [u8; 16] {
                self.to_bytes()
            }
        })+
    };
}

partition_ids!(ChatId UserId MessageId);

impl PartitionId for DirectPair {
    fn partition(&self) -> [u8; 16] {
        let [one, other] = self.users().map(UserId::to_bytes);
        std::array::from_fn(|at| one[at] ^ other[at].rotate_left(1))
    }
}

impl Load {
    /// Reads an item, or a page of small ones.
    pub(crate) fn read(table: &'static str, id: impl PartitionId) -> Self {
        Self::read_bytes(table, id, 0)
    }

    /// Reads a page with this many bytes.
    pub(crate) fn read_bytes(table: &'static str, id: impl PartitionId, bytes: usize) -> Self {
        Self { items: vec![(Access::Read, PartitionKey { table, id: id.partition() }, bytes)] }
    }

    /// Reads one item of each partition.
    pub(crate) fn reads<'a, I: PartitionId + Copy + 'a>(
        table: &'static str,
        ids: impl IntoIterator<Item = &'a I>,
    ) -> Self {
        let item = |id: &I| (Access::Read, PartitionKey { table, id: id.partition() }, 0);
        Self { items: ids.into_iter().map(item).collect() }
    }

    /// Writes an item of ordinary size.
    pub(crate) fn write(table: &'static str, id: impl PartitionId) -> Self {
        Self::write_bytes(table, id, 0)
    }

    /// Writes an item with this many bytes of variable parts.
    pub(crate) fn write_bytes(table: &'static str, id: impl PartitionId, bytes: usize) -> Self {
        Self { items: vec![(Access::Write, PartitionKey { table, id: id.partition() }, ITEM + bytes)] }
    }

    /// The same load, and another one.
    #[must_use]
    pub(crate) fn and(mut self, other: Self) -> Self {
        self.items.extend(other.items);
        self
    }
}

impl FromIterator<Self> for Load {
    fn from_iter<I: IntoIterator<Item = Self>>(loads: I) -> Self {
        loads.into_iter().fold(Self::default(), Self::and)
    }
}

/// The units of the last second, by partition key.
#[derive(Default)]
pub(crate) struct PartitionLoads(BTreeMap<(Access, PartitionKey), RecentUnits>);

#[derive(Default)]
struct RecentUnits {
    spent: VecDeque<(Instant, u64)>,
    total: u64,
}

impl RecentUnits {
    fn spend(&mut self, now: Instant, units: u64) -> u64 {
        while let Some((at, before)) = self.spent.front().copied()
            && at + WINDOW <= now
        {
            self.total -= before;
            self.spent.pop_front();
        }
        self.spent.push_back((now, units));
        self.total += units;
        self.total
    }
}

impl Access {
    fn units(self, bytes: usize) -> u64 {
        match self {
            Self::Read => bytes.div_ceil(READ_UNIT).max(1) as u64,
            Self::Write => TRANSACTION * bytes.div_ceil(WRITE_UNIT) as u64,
        }
    }

    fn units_max(self) -> u64 {
        match self {
            Self::Read => READS_MAX,
            Self::Write => WRITES_MAX,
        }
    }
}

impl World {
    /// Checks the size of the items of a request.
    pub(crate) fn fits(&self, load: &Load) {
        for (_, key, bytes) in load.items.iter().filter(|(access, ..)| *access == Access::Write) {
            self.check(Invariant::ItemSizeBounded, *bytes <= ITEM_BYTES_MAX, || {
                format!("an item of `{}` takes {bytes} bytes, limit is {ITEM_BYTES_MAX}", key.table)
            });
        }
    }

    /// Counts a request, and checks the size of its items and the load of their partitions.
    pub(crate) fn charge(&self, load: &Load) {
        self.fits(load);
        if self.plan.shape == RunShape::Fleet {
            for (access, key, bytes) in &load.items {
                self.spend(*access, *key, access.units(*bytes));
            }
        }
    }

    fn spend(&self, access: Access, key: PartitionKey, units: u64) {
        let total = self.partitions().0.entry((access, key)).or_default().spend(Instant::now(), units);
        self.check(Invariant::PartitionKeyDistributed, total <= access.units_max(), || {
            let PartitionKey { table, id } = key;
            let id = u128::from_be_bytes(id);
            format!("{access:?} of {total} units of `{table}` with the key {id:x} within a second")
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn units_count_for_one_second() {
        let mut units = RecentUnits::default();
        let totals = [(0, 3), (400, 4), (999, 5), (1000, 6), (1400, 1), (5000, 2)];
        let began = Instant::now();
        let spent = totals.map(|(at, some)| units.spend(began + Duration::from_millis(at), some));
        assert_eq!(spent, [3, 7, 12, 15, 12, 2]);
    }

    #[test]
    fn units_are_those_of_strong_reads_and_of_transactions() {
        assert_eq!([0, 1, 4096, 4097].map(|bytes| Access::Read.units(bytes)), [1, 1, 1, 2]);
        assert_eq!([300, 1024, 1025].map(|bytes| Access::Write.units(bytes)), [2, 2, 4]);
    }
}
