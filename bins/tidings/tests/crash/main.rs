//! The state after the process dies: at any moment, under load, repeatedly.
//!
//! The knowledge of the clients is kept in this process, outside the server and across its crashes.
//! `TIDINGS_CRASHES=1000 cargo test -p tidings --test crash` crashes a thousand times instead of fifty;
//! `TIDINGS_CRASH_SEED` repeats the random choices of a run, which prints its seed.
#![expect(clippy::unwrap_used, reason = "test helpers may panic like the tests themselves")]

mod audit;
mod commit;
#[path = "../history/mod.rs"]
mod history;
mod ledger;
mod load;
mod sender;
#[path = "../it/server.rs"]
mod server;
#[path = "../shim/mod.rs"]
mod shim;
mod updates;
mod world;

use std::fs;
use std::str::FromStr;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::time::sleep;

use crate::audit::ServerAudit;
use crate::load::CrashLoad;
use crate::server::TestServer;
use crate::world::{Manners, Refusals};

/// Time under load before the next crash, in milliseconds.
const LIFE_MS: std::ops::RangeInclusive<u64> = 20..=400;
/// Time into a start before it is killed, in milliseconds: about the duration of a start.
const START_MS: std::ops::RangeInclusive<u64> = 0..=60;
/// The same for a start that creates the store.
const FIRST_START_MS: std::ops::RangeInclusive<u64> = 0..=200;
/// After this many crashes the whole history is read again, not only the new part.
const WHOLE_AUDIT_EVERY: usize = 25;

#[tokio::test(flavor = "multi_thread")]
async fn g1_sigkill_under_load_loses_doubles_and_reorders_nothing() {
    let crashes: usize = setting("TIDINGS_CRASHES").unwrap_or(50);
    let mut random = seeded();
    let mut server = TestServer::start().await;
    let manners = Manners { refusals: Refusals::None, pause: Duration::ZERO };
    let mut load = CrashLoad::start(&server.base_url(), manners, &mut random).await;
    let mut audit = ServerAudit::default();
    let mut deaths_at_start = 0;

    for crash in 1..=crashes {
        load.resume().await;
        sleep(Duration::from_millis(random.random_range(LIFE_MS))).await;
        server.kill().await;
        load.pause();
        while random.random_bool(0.2) {
            server.spawn();
            sleep(Duration::from_millis(random.random_range(START_MS))).await;
            server.kill().await;
            deaths_at_start += 1;
        }
        server.restart().await;
        load.settle().await;
        if crash % WHOLE_AUDIT_EVERY == 0 {
            audit = ServerAudit::default();
        }
        audit.sync(&load).await;
        load.converge(&audit).await;
    }

    let (status, _) = server.stop().await;
    assert_eq!(status.code(), Some(0));
    server.restart().await;
    let mut last = ServerAudit::default();
    last.sync(&load).await;
    last.compare_with_rest(&load).await;
    load.converge(&last).await;
    load.check_history();
    eprintln!("{crashes} deaths under load, {deaths_at_start} at the start: {}", load.summary());
}

/// A crash in the very first start leaves a directory that the next start can use.
#[tokio::test]
async fn sigkill_while_the_store_is_made_leaves_nothing_in_the_way() {
    const DEATHS: usize = 20;
    let mut random = seeded();
    let mut server = TestServer::start().await;
    for _ in 0..DEATHS {
        server.kill().await;
        fs::remove_dir_all(server.data_dir()).unwrap();
        server.spawn();
        sleep(Duration::from_millis(random.random_range(FIRST_START_MS))).await;
        server.kill().await;
        server.restart().await;
        let [ann, bob] = server.sign_up_all(["Ann", "Bob"]).await;
        let chat_id = ann.direct_chat(&bob).await;
        assert_eq!(ann.send(&chat_id, "hello").await["sequence"], 1);
    }
}

/// The random choices of a test; prints the seed that repeats them.
fn seeded() -> StdRng {
    let seed = setting("TIDINGS_CRASH_SEED").unwrap_or_else(rand::random);
    eprintln!("TIDINGS_CRASH_SEED={seed}");
    StdRng::seed_from_u64(seed)
}

/// A setting of the test from its environment.
fn setting<T: FromStr>(name: &str) -> Option<T> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name}={text} is not a number")))
}
