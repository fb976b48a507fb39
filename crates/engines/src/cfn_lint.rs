use std::path::PathBuf;

use programs::Program;

use crate::program;

/// The path of `cfn-lint`, which checks CloudFormation templates.
///
/// # Panics
/// If it is missing.
pub fn cfn_lint() -> PathBuf {
    program::path(Program::CfnLint)
}
