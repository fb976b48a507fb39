use std::path::PathBuf;
use std::process::Command;

use xtask::Program;

/// The file of a program that `cargo xtask engines` provides.
///
/// # Panics
/// If it is not there.
pub(crate) fn path(program: Program) -> PathBuf {
    program.find().unwrap_or_else(|| panic!("{} is missing; `cargo xtask engines` provides it", program.name()))
}

/// A command whose process is killed by the kernel when the thread that starts it ends: a test that is killed has no chance
/// to kill its servers. Saying so to the kernel takes a process that is about to become the server, which is `setpriv` of
/// util-linux; where there is none (it is Linux's alone), only a test that is killed leaves servers behind.
pub(crate) fn command(program: Program) -> Command {
    let path = path(program);
    match xtask::find_in_path("setpriv") {
        Some(setpriv) => {
            let mut command = Command::new(setpriv);
            command.args(["--pdeathsig", "KILL"]).arg(path);
            command
        }
        None => Command::new(path),
    }
}
