//! A directory in memory for the temporary files of a check.
//!
//! The tests open hundreds of stores, and a store syncs every commit. On a disk that other processes use too, these
//! syncs take most of the time of a test, and a test that waits for one fails in the end. No test needs the disk itself:
//! power cuts are simulated from recorded calls, and a killed process loses nothing that it has written.

use std::fs;
use std::path::Path;

use nix::sys::statvfs::{FsFlags, statvfs};
use tempfile::TempDir;

/// The file system in memory of a Linux machine.
const MEMORY: &str = "/dev/shm";
/// Bytes that must be free: several times the size of all temporary files at once.
const ROOM: u64 = 6 << 30;
/// The name of a directory continues with the id of the process that made it.
const PREFIX: &str = "tidings-ci-";

/// Makes a directory in memory, if this machine has enough of it and lets tests run programs from there.
pub(crate) fn directory() -> Option<TempDir> {
    if room() < ROOM {
        return None;
    }
    remove_leftovers();
    let made = tempfile::Builder::new().prefix(&format!("{PREFIX}{}-", std::process::id())).tempdir_in(MEMORY);
    made.inspect_err(|error| eprintln!("==> temporary files go to the disk, because of {MEMORY}: {error}")).ok()
}

/// Bytes that can be written there.
fn room() -> u64 {
    // Other systems have neither of the two.
    let (Ok(memory), Ok(table)) = (statvfs(MEMORY), fs::read_to_string("/proc/meminfo")) else { return 0 };
    if memory.flags().contains(FsFlags::ST_NOEXEC) {
        return 0;
    }
    available(&table).min(memory.blocks_available() * memory.fragment_size())
}

/// The memory that processes can still get, from the kernel's table of it.
fn available(table: &str) -> u64 {
    let line = table.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kilobytes = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    kilobytes.unwrap_or(0) << 10
}

/// Removes the directories of checks that were killed: they would occupy memory until the machine restarts.
fn remove_leftovers() {
    for entry in fs::read_dir(MEMORY).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let process = name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.split('-').next());
        if process.is_some_and(|process| !Path::new("/proc").join(process).exists())
            && let Err(error) = fs::remove_dir_all(entry.path())
        {
            // It may belong to another user.
            eprintln!("==> {} is left of an earlier check: {error}", entry.path().display());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn available_memory_is_read_from_the_table_of_the_kernel() {
        let table = "MemTotal:       24576000 kB\nMemFree:         3145728 kB\nMemAvailable:   20971520 kB\n";
        assert_eq!(available(table), 20 << 30);
        assert_eq!(available("MemTotal: 1 kB\n"), 0);
    }

    #[test]
    fn directory_of_a_check_that_was_killed_is_removed_and_that_of_a_running_one_is_not() {
        if room() < ROOM {
            return;
        }
        // No process has this id: it is above the kernel's maximum.
        let left = Path::new(MEMORY).join(format!("{PREFIX}4194305-{}", std::process::id()));
        fs::create_dir_all(left.join("store")).unwrap();
        let running = directory().expect("there is room");
        assert!(!left.exists());
        let next = directory().expect("there is room");
        assert!(running.path().exists() && next.path().exists());
    }
}
