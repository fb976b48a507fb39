//! Measures the embedded store on a directory: `limit DIRECTORY [MESSAGES]`.
//!
//! First the throughput at three queue depths, compared with the raw disk. Then a sustained load of `MESSAGES` (a
//! million) over 10,000 chats in batches of 500, and the time to open the store after that.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use embedded::{Config, EmbeddedStore};
use ports::{RandomIds, SystemClock};

use store::{Filled, Filling, store_limit};

/// The measurements of `tidings load`.
#[path = "../src/load/store/mod.rs"]
mod store;

/// The same allocator as in the server.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const CHATS: usize = 10_000;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let mut args = std::env::args().skip(1);
    let directory = args.next().context("name a directory")?;
    let messages: u64 = args.next().map_or(Ok(1_000_000), |text| text.parse())?;
    let directory = tempfile::tempdir_in(directory)?;
    for in_flight in [1, 64, 1024] {
        let limit =
            store_limit(&directory.path().join(in_flight.to_string()), in_flight, Duration::from_secs(5)).await?;
        println!("{limit}");
    }
    sustained(&directory.path().join("sustained"), messages).await
}

async fn sustained(directory: &Path, messages: u64) -> anyhow::Result<()> {
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
