use std::path::PathBuf;
use std::process::Command;

use programs::{Program, find_in_path};

/// The path of a program that `cargo xtask engines` provides.
///
/// # Panics
/// If it is missing.
pub(crate) fn path(program: Program) -> PathBuf {
    program.find().unwrap_or_else(|| panic!("{} is missing; `cargo xtask engines` provides it", program.name()))
}

/// A command that makes the kernel kill the process when its starting thread ends, because a killed test cannot kill
/// its servers itself. The setting must be made in the child before `exec`, which `setpriv` of util-linux does. Without
/// `setpriv`, which exists on Linux only, a killed test leaves its servers running.
pub(crate) fn command(program: Program) -> Command {
    let path = path(program);
    match find_in_path("setpriv") {
        Some(setpriv) => {
            let mut command = Command::new(setpriv);
            command.args(["--pdeathsig", "KILL"]).arg(path);
            command
        }
        None => Command::new(path),
    }
}
