//! Shared parts of the checks: the source tree, and the requirements that tests name.

use std::path::{Path, PathBuf};
use std::{env, fs, io};

pub mod spec;

/// The directory of the root manifest.
pub fn workspace_root() -> PathBuf {
    let manifest_dir = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest_dir.parent().expect("xtask is a directory of the workspace").to_owned()
}

/// The target directory of this tree.
pub fn target_directory() -> PathBuf {
    env::var_os("CARGO_TARGET_DIR").map_or_else(|| workspace_root().join("target"), PathBuf::from)
}

/// All files of the tree with this suffix, in order, without build output and fetched packages.
pub fn files(root: &Path, suffix: &str) -> io::Result<Vec<PathBuf>> {
    let mut found = vec![];
    let mut directories = vec![root.to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory)? {
            let entry = entry?;
            let name = entry.file_name();
            let name = name.to_string_lossy();
            if entry.file_type()?.is_dir() {
                let built = name.starts_with('.') || name == "target" || name == "node_modules" || name == "dist";
                if !built {
                    directories.push(entry.path());
                }
            } else if name.ends_with(suffix) {
                found.push(entry.path());
            }
        }
    }
    found.sort();
    Ok(found)
}
