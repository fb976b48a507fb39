//! Measures the embedded store on a directory: `limit DIRECTORY [MESSAGES]`.
//!
//! First what it takes at three depths beside what the disk alone does, then a sustained load of `MESSAGES` (a million)
//! over 10,000 chats in batches of 500, and how long the store takes to open after that.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ports::{RandomIds, SystemClock};
use tidings_embedded::{Config, EmbeddedStore, Filled, Filling, store_limit};

/// As in the server.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const CHATS: usize = 10_000;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let directory = args.next().ok_or("name a directory")?;
    let messages: u64 = args.next().map_or(Ok(1_000_000), |text| text.parse())?;
    let directory = tempfile::tempdir_in(directory)?;
    for in_flight in [1, 64, 1024] {
        let limit =
            store_limit(&directory.path().join(in_flight.to_string()), in_flight, Duration::from_secs(5)).await?;
        println!(
            "in flight {:>5}   store {:>8.0}/s   raw {:>8.0}/s   longest {:?}",
            limit.in_flight, limit.store_sends_per_second, limit.raw_sends_per_second, limit.longest_send
        );
    }
    sustained(&directory.path().join("sustained"), messages).await
}

async fn sustained(directory: &Path, messages: u64) -> Result<(), Box<dyn std::error::Error>> {
    let filled = Filling::new(directory, &[]).fill_up_to(CHATS, messages, |_| {}).await?;
    let Filled { messages_per_second, batch_median, batch_longest, stalls } = filled;
    println!(
        "sustained {messages_per_second:.0}/s   batch median {batch_median:?}   longest {batch_longest:?}   \
         over 10 medians {stalls}"
    );
    let opening = Instant::now();
    let store = EmbeddedStore::open(directory, Config::default(), Arc::new(SystemClock), Arc::new(RandomIds))?;
    println!("open {:?}", opening.elapsed());
    store.close().await;
    Ok(())
}
