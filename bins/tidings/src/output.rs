//! Writes the output of commands.
//!
//! The reader of a pipe may close it early, as `head` does. A command then ends quietly, like other programs, which the
//! signal SIGPIPE ends. `println!` would panic instead.

use std::fmt::Arguments;
use std::io::{ErrorKind, Write, stdout};
use std::process::exit;

/// The status with which shells report a process that SIGPIPE has ended.
const CLOSED_PIPE: i32 = 128 + 13;

/// Like `print!`, but ends the process if standard output is closed.
macro_rules! out {
    ($($text:tt)*) => { $crate::output::write(format_args!($($text)*)) };
}

/// Like `println!`, but ends the process if standard output is closed.
macro_rules! outln {
    () => { $crate::output::write(format_args!("\n")) };
    ($($text:tt)*) => { $crate::output::write(format_args!("{}\n", format_args!($($text)*))) };
}

pub(crate) fn write(text: Arguments<'_>) {
    match stdout().write_fmt(text) {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::BrokenPipe => exit(CLOSED_PIPE),
        Err(error) => {
            eprintln!("error: cannot write to standard output: {error}");
            exit(1);
        }
    }
}
