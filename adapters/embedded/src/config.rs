/// How much the store may use. The defaults are measured; `docs/adr/002-the-embedded-store.md` says how.
#[derive(Clone, Debug)]
pub struct Config {
    /// Memory for blocks read from disk.
    pub cache_bytes: u64,
    /// Sealed write-ahead journals on disk above which tables are flushed so that the oldest can go. It bounds how much
    /// a restart has to replay. Less than 64 MiB counts as that.
    pub journal_bytes_max: u64,
    /// Threads that flush and compact; at least one. With several of them the engine has one that never compacts and, while
    /// another does, hands the next compaction round and round: a whole core for nothing (fjall 3.1, `worker_tick`).
    pub workers: usize,
    /// Jobs that may wait for the committer. When it is full, writers wait for room.
    pub queue_len_max: usize,
    /// Jobs in one commit, at the most.
    pub batch_jobs_max: usize,
    /// Bytes of rows in one commit, at the most, but for the last job's.
    pub batch_bytes_max: usize,
    /// Events of the log kept in memory for consumers that keep up; the others read the disk.
    pub tail_events_max: usize,
    /// Bytes of content among them, at the most.
    pub tail_bytes_max: usize,
    /// Bytes of purged messages above which their space is taken back from the engine, if they were a quarter of all.
    pub purged_bytes_max: u64,
    /// Whether what is past its time is forgotten. Whoever only looks at a store leaves it as it is.
    pub forgets: bool,
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
            forgets: true,
        }
    }
}
