//! Backup, restore and migration of a single-machine store, with the real binary.
#![expect(clippy::unwrap_used, reason = "test helpers may panic like the tests themselves")]

mod migrate;
mod repair;
mod restore;
#[path = "../it/server.rs"]
mod server;

use std::path::Path;
use std::process::Output;

use tokio::process::Command;

/// Runs a command on a data directory.
async fn tidings(arguments: &[&str], data_dir: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidings"));
    // Settings in the environment of the test are not meant for this server.
    for (name, _) in std::env::vars_os() {
        if name.as_encoded_bytes().starts_with(b"TIDINGS_") {
            command.env_remove(name);
        }
    }
    command.args(arguments).arg("--data-dir").arg(data_dir).kill_on_drop(true).output().await.unwrap()
}
