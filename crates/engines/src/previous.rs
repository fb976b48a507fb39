use std::path::PathBuf;

use programs::Program;

use crate::program;

/// The path of `tidings` of the previous release.
///
/// # Panics
/// If it is missing.
pub fn previous_tidings() -> PathBuf {
    program::path(Program::PreviousTidings)
}
