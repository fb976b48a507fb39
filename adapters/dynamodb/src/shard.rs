/// One of `shards` partitions, always the same for an id. The last bytes of our ids are random.
pub(crate) fn shard(id: &[u8; 16], shards: u64) -> u64 {
    u64::from(id[15]) % shards
}
