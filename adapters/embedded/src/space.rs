//! Whether the disk has space for new messages. Sends are refused before it is full, so that commits, purges and
//! compactions that free space still work.

use std::sync::atomic::{AtomicU8, Ordering};

use domain::StorageLimit;
use metrics::gauge;
use ports::error_chain;
use tracing::{error, info, warn};

use crate::Config;
use crate::tables::{Table, Tables};

/// The state of the space, as of the last measurement.
///
/// The trimmer measures once a second. So the free space must cover the messages of a second, and the journal.
#[derive(Debug, Default)]
pub(crate) struct Space {
    used_bytes_max: Option<u64>,
    free_bytes_min: u64,
    /// The index of the reached limit in [`LIMITS`], plus one; 0 if there is space.
    reached: AtomicU8,
}

const LIMITS: [StorageLimit; 2] = [StorageLimit::MinFreeMib, StorageLimit::MaxGib];

impl Space {
    pub(crate) fn new(config: &Config) -> Self {
        gauge!("tidings_store_limit_bytes").set(config.used_bytes_max.unwrap_or(0) as f64);
        Self { used_bytes_max: config.used_bytes_max, free_bytes_min: config.free_bytes_min, reached: AtomicU8::new(0) }
    }

    /// The limit that new messages would exceed.
    pub(crate) fn reached(&self) -> Option<StorageLimit> {
        let reached = self.reached.load(Ordering::Relaxed);
        LIMITS.get(usize::from(reached).checked_sub(1)?).copied()
    }

    /// Measures used and free bytes. Without a measurement the state stays.
    pub(crate) fn measure(&self, tables: &Tables) {
        if self.used_bytes_max.is_none() && self.free_bytes_min == 0 {
            return;
        }
        match tables.free_space() {
            Ok(free) => self.judge(used(tables), free),
            Err(error) => warn!(error = %error_chain(&error), "could not read the free disk space"),
        }
    }

    fn judge(&self, used: u64, free: u64) {
        let is_reached = |limit: &StorageLimit| match limit {
            StorageLimit::MinFreeMib => free < self.free_bytes_min,
            StorageLimit::MaxGib => self.used_bytes_max.is_some_and(|max| used >= max),
        };
        let reached = LIMITS.iter().position(is_reached).map_or(0, |at| at as u8 + 1);
        let before = self.reached.swap(reached, Ordering::Relaxed);
        match self.reached() {
            Some(limit) if before != reached => {
                error!(limit = limit.setting(), used, free, "no space for new messages; refusing sends until there is");
            }
            None if before != 0 => info!(used, free, "there is space again; accepting sends"),
            _ => {}
        }
    }
}

/// Bytes of the files of all tables.
pub(crate) fn used(tables: &Tables) -> u64 {
    Table::ALL.into_iter().map(|table| tables.disk_space(table)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sends_stop_at_either_limit_and_continue_below_it() {
        let space = Space::new(&Config { used_bytes_max: Some(1000), free_bytes_min: 100, ..Config::default() });
        assert_eq!(space.reached(), None);
        for (used, free, reached) in [
            (999, 100, None),
            (1000, 100, Some(StorageLimit::MaxGib)),
            (0, 99, Some(StorageLimit::MinFreeMib)),
            (1000, 99, Some(StorageLimit::MinFreeMib)),
            (999, 100, None),
        ] {
            space.judge(used, free);
            assert_eq!(space.reached(), reached, "{used} used, {free} free");
        }
        let unlimited = Space::new(&Config::default());
        unlimited.judge(u64::MAX, 0);
        assert_eq!(unlimited.reached(), None);
    }
}
