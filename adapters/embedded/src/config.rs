use std::time::Duration;

use crate::StoreKey;

/// Resource limits of the store, and its key. `docs/adr/002-the-embedded-store.md` describes the measurements that led to
/// the defaults.
#[derive(Clone, Debug)]
pub struct Config {
    /// Memory for blocks read from disk.
    pub cache_bytes: u64,
    /// Total size of sealed journals on disk above which the engine flushes tables to delete the oldest journal. It
    /// bounds the replay at startup. The minimum is 64 MiB; lower values are raised to it.
    pub journal_bytes_max: u64,
    /// Threads that flush and compact; at least one. With several workers, one never compacts: while another compacts,
    /// it requeues the next compaction in a busy loop and uses a whole core (fjall 3.1, `worker_tick`).
    pub workers: usize,
    /// Capacity of the committer's queue. When the queue is full, writers wait.
    pub queue_len_max: usize,
    /// Maximum number of jobs in one commit.
    pub batch_jobs_max: usize,
    /// Size of the rows in one commit at which the batch is closed. The last job may exceed it.
    pub batch_bytes_max: usize,
    /// Recent events of the log kept in memory. Consumers further behind read from disk.
    pub tail_events_max: usize,
    /// Maximum bytes of message content in these events.
    pub tail_bytes_max: usize,
    /// Bytes of purged messages that trigger a compaction, if they were at least a quarter of the table.
    pub purged_bytes_max: u64,
    /// Time within which the bytes of deleted rows leave the disk, if the store purges at all; `None` leaves that to the
    /// engine's own compaction.
    pub erase_within: Option<Duration>,
    /// Bytes of the files of all tables from which on sends are refused; unlimited if absent. The journal is not counted.
    pub used_bytes_max: Option<u64>,
    /// Free bytes of the disk below which sends are refused.
    pub free_bytes_min: u64,
    /// Whether the store purges expired rows. Tools that only inspect a store turn it off.
    pub forgets: bool,
    /// The key that encrypts the rows; `None` for an unencrypted store.
    pub key: Option<StoreKey>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            cache_bytes: 64 << 20,
            journal_bytes_max: 64 << 20,
            workers: 1,
            queue_len_max: 4096,
            batch_jobs_max: 1024,
            batch_bytes_max: 1 << 20,
            tail_events_max: 8192,
            tail_bytes_max: 8 << 20,
            purged_bytes_max: 64 << 20,
            erase_within: None,
            used_bytes_max: None,
            free_bytes_min: 0,
            forgets: true,
            key: None,
        }
    }
}
