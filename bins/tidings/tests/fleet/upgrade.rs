//! Two releases in one fleet: the previous one and this one. Calls, tables, the log and Redis must be compatible in
//! both directions during an upgrade and a rollback.

use std::fs;
use std::path::PathBuf;
use std::time::Instant;

use ports::ProcessRole;

use crate::drills::Drill;
use crate::fleet::SIZES;
use crate::process::this_release;
use crate::server::TestServer;
use crate::world::Refusals;

/// Replaces the release of one process gracefully: it drains, stops, and restarts.
async fn roll(drill: &mut Drill, role: ProcessRole, number: usize, program: &PathBuf) {
    let process = drill.server.fleet.process_mut(role, number);
    let (status, took) = process.stop().await;
    assert_eq!(status.code(), Some(0), "{role} {number}");
    process.set_program(program.clone());
    process.restart().await;
    let runs = fs::read_link(format!("/proc/{}/exe", process.pid())).unwrap();
    assert_eq!(runs, fs::canonicalize(program).unwrap());
    drill.acked().await;
    eprintln!("{role} {number} was drained in {took:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fleet_is_brought_to_this_release_and_back_under_load() {
    let (previous, this) = (engines::previous_tidings(), this_release());
    let server = TestServer::start_program(previous.clone()).await;
    let mut drill = Drill::of(server, Refusals::ForAWhile).await;
    // One process of each role first, so that each release calls the other both ways; then the rest.
    for number in 0..2 {
        for (role, count) in SIZES {
            if number < count {
                roll(&mut drill, role, number, &this).await;
            }
        }
    }
    drill.server.fleet.settled().await;
    // The second step of the upgrade: assertions are required. A rollback takes it back first.
    for upgrading in ["false", "true"] {
        for number in 0..2 {
            drill.server.fleet.process_mut(ProcessRole::Ingest, number).set_env("TIDINGS_RPC__UPGRADING", upgrading);
            roll(&mut drill, ProcessRole::Ingest, number, &this).await;
        }
        drill.server.fleet.settled().await;
    }
    for (role, _) in SIZES {
        roll(&mut drill, role, 0, &previous).await;
    }
    drill.end(Instant::now()).await;
}
