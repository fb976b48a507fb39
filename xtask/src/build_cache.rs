//! A build directory outside of the tree, so that a check in a new clone compiles no dependency again.
//!
//! Cargo puts everything but the final binaries there. It does not tell our crates in two clones apart: it would use those
//! of another clone if they were built after the sources of this one were last changed. So one check at a time has the
//! directory, and a check of another clone than the last one removes our crates from it first.

use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};
use std::{env, io};

use anyhow::{Context, ensure};

/// The variable that names the build directory to cargo.
pub(crate) const BUILD_DIRECTORY: &str = "CARGO_BUILD_BUILD_DIR";

/// A larger directory is emptied. One clone needs about 10 GiB.
const BYTES_MAX: u64 = 30 << 30;
/// The file in a build directory with the path of the clone that has used it last.
const OWNER: &str = "owner";
/// Directories of other versions are removed after this time without a check.
const UNUSED_MAX: Duration = Duration::from_secs(7 * 24 * 3600);

/// A build directory in use. While it is held, no other check uses or removes it.
pub(crate) struct BuildCache {
    path: PathBuf,
    _in_use: File,
}

impl BuildCache {
    /// The directory for these dependencies and this compiler; `None` if the caller's environment names one, or if another
    /// check uses it.
    pub(crate) fn open() -> anyhow::Result<Option<Self>> {
        if [BUILD_DIRECTORY, "CARGO_TARGET_DIR"].iter().any(|name| env::var_os(name).is_some()) {
            return Ok(None);
        }
        let Some(builds) = programs::cache().map(|cache| cache.join("builds")) else { return Ok(None) };
        fs::create_dir_all(&builds).with_context(|| format!("the cache `{}` cannot be made", builds.display()))?;
        let path = builds.join(key()?);
        for directory in unneeded(&builds, &path)? {
            remove_unless_in_use(&directory)?;
        }
        let in_use = lock_of(&path)?;
        if in_use.try_lock().is_err() {
            eprintln!("==> another check uses `{}`; this one builds in its own directory", path.display());
            return Ok(None);
        }
        fs::create_dir_all(&path)?;
        let clone = xtask::workspace_root();
        if !is_owner(&path, &clone) {
            forget_our_crates(&path)?;
            // Afterwards, so that an interrupted removal is repeated.
            set_owner(&path, &clone)?;
        }
        Ok(Some(Self { path, _in_use: in_use }))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

/// Identifies what the dependencies are built from: their versions, the profiles, and the compiler.
fn key() -> anyhow::Result<String> {
    let root = xtask::workspace_root();
    let compiler = Command::new("rustc").arg("-vV").output().context("`rustc` could not be started")?;
    let mut digest = DefaultHasher::new();
    (compiler.stdout, fs::read(root.join("Cargo.lock"))?, fs::read(root.join("Cargo.toml"))?).hash(&mut digest);
    Ok(format!("{:016x}", digest.finish()))
}

/// Whether a clone was the last one to use a build directory.
fn is_owner(path: &Path, clone: &Path) -> bool {
    fs::read(path.join(OWNER)).is_ok_and(|last| last == clone.as_os_str().as_encoded_bytes())
}

/// Records the clone that uses a build directory.
fn set_owner(path: &Path, clone: &Path) -> io::Result<()> {
    fs::write(path.join(OWNER), clone.as_os_str().as_encoded_bytes())
}

/// Removes the crates of the workspace from a build directory, and keeps those of dependencies.
fn forget_our_crates(path: &Path) -> anyhow::Result<()> {
    // Not in the target directory of this clone, which has the binary that runs now.
    let elsewhere = tempfile::tempdir()?;
    let mut clean = Command::new("cargo");
    clean.args(["clean", "--quiet", "--workspace"]).current_dir(xtask::workspace_root());
    clean.env(BUILD_DIRECTORY, path).env("CARGO_TARGET_DIR", elsewhere.path());
    ensure!(clean.status()?.success(), "`cargo clean --workspace` failed in `{}`", path.display());
    Ok(())
}

/// The file whose lock says that a directory is in use. Its time of change is that of the last check.
fn lock_of(directory: &Path) -> io::Result<File> {
    File::create(directory.with_added_extension("lock"))
}

/// The directories to remove: the current one if it is too large, others if no check has used them for a while.
fn unneeded(builds: &Path, current: &Path) -> io::Result<Vec<PathBuf>> {
    let mut unneeded = vec![];
    for entry in fs::read_dir(builds)? {
        let path = entry?.path();
        if !path.is_dir() {
            continue;
        }
        let removes = if path == current {
            size(&path)? > BYTES_MAX
        } else {
            let used = path.with_added_extension("lock").metadata().and_then(|lock| lock.modified());
            let unused = SystemTime::now().duration_since(used.unwrap_or(SystemTime::UNIX_EPOCH));
            unused.is_ok_and(|unused| unused > UNUSED_MAX)
        };
        if removes {
            unneeded.push(path);
        }
    }
    Ok(unneeded)
}

fn remove_unless_in_use(directory: &Path) -> anyhow::Result<()> {
    let lock = lock_of(directory)?;
    if lock.try_lock().is_err() {
        return Ok(());
    }
    eprintln!("==> removing `{}`: it has grown too large, or is no longer used", directory.display());
    fs::remove_dir_all(directory).with_context(|| format!("`{}` cannot be removed", directory.display()))
}

/// The bytes of all files of a directory.
fn size(directory: &Path) -> io::Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let metadata = entry.metadata()?;
        bytes += if metadata.is_dir() { size(&entry.path())? } else { metadata.len() };
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn directory(builds: &Path, name: &str, used: SystemTime) -> PathBuf {
        let path = builds.join(name);
        fs::create_dir_all(path.join("debug")).unwrap();
        fs::write(path.join("debug/lib"), [0; 100]).unwrap();
        lock_of(&path).unwrap().set_modified(used).unwrap();
        path
    }

    #[test]
    fn builds_that_no_check_has_used_for_a_week_are_removed_unless_in_use() {
        let builds = tempfile::tempdir().unwrap();
        let long_ago = SystemTime::now() - UNUSED_MAX - Duration::from_secs(60);
        let current = directory(builds.path(), "current", long_ago);
        let recent = directory(builds.path(), "recent", SystemTime::now());
        let old = directory(builds.path(), "old", long_ago);
        assert_eq!(size(&old).unwrap(), 100);
        assert_eq!(unneeded(builds.path(), &current).unwrap(), std::slice::from_ref(&old));

        let in_use = File::open(old.with_added_extension("lock")).unwrap();
        in_use.lock().unwrap();
        remove_unless_in_use(&old).unwrap();
        assert!(old.exists());
        drop(in_use);
        remove_unless_in_use(&old).unwrap();
        assert!(!old.exists() && recent.exists() && current.exists());
    }

    #[test]
    fn the_last_clone_is_the_owner() {
        let build = tempfile::tempdir().unwrap();
        let [one, other] = ["/a", "/b"].map(Path::new);
        assert!(!is_owner(build.path(), one), "nobody has used it");
        for owner in [one, other, one] {
            set_owner(build.path(), owner).unwrap();
            assert_eq!([one, other].map(|clone| is_owner(build.path(), clone)), [owner == one, owner == other]);
        }
    }
}
