//! The store of one machine, out of a service and back, and from one format into the next: the real binary.
#![expect(clippy::unwrap_used, reason = "what surrounds a test may panic as the test itself may")]

mod migrate;
mod restore;
#[path = "../it/server.rs"]
mod server;

use std::path::Path;
use std::process::Output;

use tokio::process::Command;

/// Runs a command on a data directory.
async fn tidings(arguments: &[&str], data_dir: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidings"));
    // Whatever the environment of the test says to a server is not meant for this one.
    for (name, _) in std::env::vars_os() {
        if name.as_encoded_bytes().starts_with(b"TIDINGS_") {
            command.env_remove(name);
        }
    }
    command.args(arguments).arg("--data-dir").arg(data_dir).kill_on_drop(true).output().await.unwrap()
}
