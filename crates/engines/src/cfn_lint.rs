use std::path::PathBuf;

use xtask::Program;

use crate::program;

/// The file of `cfn-lint`, which checks CloudFormation templates.
///
/// # Panics
/// If it is not there.
pub fn cfn_lint() -> PathBuf {
    program::path(Program::CfnLint)
}
