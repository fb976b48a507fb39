//! Validates the files in `deploy/`, and the workflows that build a release, with the tools that consume them.
#![expect(clippy::unwrap_used, reason = "test helpers may panic like the tests themselves")]

mod chart;
mod cloudformation;
mod container;
mod pod;
mod redis_rights;
mod shipped;
mod stack;
mod unit;
mod workflows;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output};

/// The root of the tree.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The output of a command that succeeds.
#[track_caller]
fn said(command: &mut Command) -> String {
    let Output { status, stdout, stderr } = command.output().unwrap();
    let [said, complained] = [stdout, stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    assert!(status.success(), "{command:?}: {status}\n{said}{complained}");
    said
}

/// A child process that is killed at the end of its test.
struct ServerChild(Child);

impl Drop for ServerChild {
    fn drop(&mut self) {
        // Errors mean that the process has already ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
