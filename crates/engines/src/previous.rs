use std::path::PathBuf;

use xtask::Program;

use crate::program;

/// The file of the `tidings` of the release before this one.
///
/// # Panics
/// If it is not there.
pub fn previous_tidings() -> PathBuf {
    program::path(Program::PreviousTidings)
}
