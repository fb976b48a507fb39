use std::path::PathBuf;

use xtask::Program;

use crate::program;

/// The file of `schemathesis`, which makes requests from an OpenAPI document and holds the answers against it.
///
/// # Panics
/// If it is not there.
pub fn schemathesis() -> PathBuf {
    program::path(Program::Schemathesis)
}
