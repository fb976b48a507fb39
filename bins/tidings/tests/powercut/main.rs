//! Power cuts at any moment, with any legal part of the unsynced data surviving.
//!
//! The file operations of the real binary are recorded while clients use it. States that a power cut may leave are
//! computed from the recording (`model`), the binary is started on each, and everything that was answered before the
//! cut has to be there (`judge`). `docs/reliability.md` says more. `TIDINGS_CUTS=5000 cargo test -p tidings --test
//! powercut` cuts five thousand times; a finding prints the command that repeats it.
#![expect(clippy::unwrap_used, reason = "test helpers may panic like the tests themselves")]

mod aim;
mod cuts;
mod disk;
mod format_1;
mod judge;
mod ledger;
mod load;
mod model;
#[cfg(test)]
mod model_tests;
mod process;
mod recorded;
mod recorder;
mod scenarios;
#[path = "../it/server.rs"]
mod server;
mod trace;
