//! Returns unused memory to the operating system.

use std::convert::Infallible;
use std::hint::black_box;
use std::time::Duration;

/// Interval at which unused memory is returned.
const PURGE_INTERVAL: Duration = Duration::from_secs(10);
/// More bytes than any machine can allocate.
const IMPOSSIBLE_BYTES: usize = 1 << 60;

/// Returns unused memory regularly, until it is dropped.
///
/// mimalloc returns freed memory only while it serves thousands of further allocations. So an idle process would keep
/// the memory of a past load, hundreds of megabytes after thousands of connections.
pub(crate) async fn keep_purged() -> Infallible {
    loop {
        tokio::time::sleep(PURGE_INTERVAL).await;
        // Returning hundreds of megabytes takes tens of milliseconds. A panic is impossible, and the next round repeats
        // a purge that did not run.
        drop(tokio::task::spawn_blocking(purge).await);
    }
}

/// Makes mimalloc return all unused memory of the process.
///
/// It does so before it fails an allocation. `mi_collect`, the function for this purpose, cannot be called from safe code.
fn purge() {
    let mut bytes = Vec::<u8>::new();
    let failed = bytes.try_reserve_exact(black_box(IMPOSSIBLE_BYTES));
    // Otherwise the compiler may leave out the allocation.
    black_box((&bytes, failed.is_err()));
}
