//! Limits of a fleet, and how to raise each of them.

use serde::Serialize;

use super::costs::*;
use super::plan::{TablePlan, kib};
use super::usage::{Demand, Usage};

/// A resource that does not scale with the number of processes.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Limit {
    pub(super) name: &'static str,
    pub(super) demand: f64,
    pub(super) capacity: f64,
    pub(super) unit: &'static str,
    pub(super) lifted_by: &'static str,
}

impl Limit {
    /// The share of the limit that is used.
    pub(super) fn used(&self) -> f64 {
        self.demand / self.capacity
    }
}

/// All limits, the nearest first.
pub(super) fn of(usage: &Usage, demand: &Demand, tables: &[TablePlan]) -> Vec<Limit> {
    let most = |units: fn(&TablePlan) -> f64| tables.iter().map(units).fold(0.0, f64::max);
    let mut limits = vec![
        Limit {
            name: "one chat, in one partition of `messages`",
            demand: usage.busiest_chat * MESSAGE_ROW * kib(usage.content + MESSAGE_BYTES),
            capacity: PARTITION_WRITES,
            unit: "write units/s",
            lifted_by: "a limit for each chat (limits.send_per_chat); nothing else spreads a chat over partitions",
        },
        Limit {
            name: "unpublished chats, in `dirty-index`",
            demand: demand.entries() * DIRTY_INDEX,
            capacity: DIRTY_SHARDS * PARTITION_WRITES,
            unit: "write units/s",
            lifted_by: "more partitions of the index (DIRTY_SHARDS), with the same number in every process",
        },
        Limit {
            name: "notices that are due, in `due-index`",
            demand: demand.notices * NOTICE_INDEX,
            capacity: DUE_SHARDS * PARTITION_WRITES,
            unit: "write units/s",
            lifted_by: "more partitions of the index (DUE_SHARDS), or a longer notify.silence_seconds",
        },
        Limit {
            name: "readers of the log, one for each partition",
            demand: demand.entries(),
            capacity: LOG_PARTITIONS * PARTITION_EVENTS,
            unit: "events/s",
            lifted_by: "kafka.partitions, set before the first message: a later change moves chats to other partitions",
        },
        Limit {
            name: "the busiest table, writing",
            demand: most(|table| table.write_units),
            capacity: TABLE_UNITS,
            unit: "write units/s",
            lifted_by: "a higher quota for tables on demand, which AWS grants on request",
        },
        Limit {
            name: "the busiest table, reading",
            demand: most(|table| table.read_units),
            capacity: TABLE_UNITS,
            unit: "read units/s",
            lifted_by: "a higher quota for tables on demand, which AWS grants on request",
        },
    ];
    limits.sort_by(|one, other| other.used().total_cmp(&one.used()));
    limits
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capacity::usage::tests::usage;

    fn nearest(arguments: &[&str]) -> Limit {
        let usage = usage(arguments);
        of(&usage, &usage.demand(), &[]).remove(0)
    }

    #[test]
    fn a_hot_chat_is_listed_first_if_its_limit_is_reached_first() {
        let limit = nearest(&["--users", "1000", "--busiest-chat", "500"]);
        assert_eq!((limit.name, limit.used()), ("one chat, in one partition of `messages`", 1.0));
        // A row of two 1 KiB units costs twice as much.
        assert_eq!(nearest(&["--users", "1000", "--busiest-chat", "500", "--content", "1000"]).used(), 2.0);
    }

    #[test]
    fn many_quiet_chats_reach_the_limit_of_the_index_that_the_relay_reads() {
        let limit = nearest(&["--users", "100M", "--notified", "0"]);
        assert_eq!(limit.name, "unpublished chats, in `dirty-index`");
        assert!(limit.used() > 1.0);
    }
}
