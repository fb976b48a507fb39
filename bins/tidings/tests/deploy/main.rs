//! Whether what is in `deploy/` would be taken by those it is for.
#![expect(clippy::unwrap_used, reason = "what surrounds a test may panic as the test itself may")]

mod chart;
mod cloudformation;
mod container;
mod unit;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The root of the tree.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// What a command prints, if it is content.
#[track_caller]
fn said(command: &mut Command) -> String {
    let Output { status, stdout, stderr } = command.output().unwrap();
    let [said, complained] = [stdout, stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    assert!(status.success(), "{command:?}: {status}\n{said}{complained}");
    said
}
