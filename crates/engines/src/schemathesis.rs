use std::path::PathBuf;

use programs::Program;

use crate::program;

/// The path of `schemathesis`, which generates requests from an OpenAPI document and checks the responses against it.
///
/// # Panics
/// If it is missing.
pub fn schemathesis() -> PathBuf {
    program::path(Program::Schemathesis)
}
