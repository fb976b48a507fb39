//! Files that only their owner can use.
//!
//! New files get their mode from the umask of the process, which `tidings` sets to 077. This module restricts files
//! that an earlier version, a copy or a volume has left open to other users.

use std::fs::{self, Metadata, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Every bit of a mode for users other than the owner.
const OTHERS: u32 = 0o077;
/// The bit that lets every user create and rename files in a directory.
const WRITABLE_BY_ALL: u32 = 0o002;
/// The sticky bit, which marks a directory that users share, such as `/tmp`.
const SHARED: u32 = 0o1000;

/// The directory that the file system of a volume keeps for itself.
const LOST_AND_FOUND: &str = "lost+found";

/// Why a directory cannot be restricted to its owner.
#[derive(Debug, thiserror::Error)]
pub enum PrivateError {
    /// A file of the store is open to other users, and not ours to restrict.
    #[error(
        "`{}` has mode {mode:04o} and belongs to another user; run `chown -R` on the data directory, to the user of this \
         process", path.display()
    )]
    NotOurs {
        /// The file or directory.
        path: PathBuf,
        /// Its mode.
        mode: u32,
    },
    /// All users of the machine share the directory.
    #[error("all users share `{}` (mode {mode:04o}); name a directory in it", path.display())]
    Shared {
        /// The directory.
        path: PathBuf,
        /// Its mode.
        mode: u32,
    },
    /// The file system reported an error.
    #[error("cannot restrict `{}` to its owner", path.display())]
    Io {
        /// The directory or file.
        path: PathBuf,
        /// The error of the operating system.
        #[source]
        source: io::Error,
    },
}

/// The mode of a file or directory that other users can access; `None` if they cannot or it does not exist.
pub fn mode_open_to_others(path: &Path) -> io::Result<Option<u32>> {
    match fs::symlink_metadata(path) {
        Ok(metadata) => Ok(Some(mode(&metadata)).filter(|mode| mode & OTHERS != 0)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Creates a missing directory with its missing parents, for its owner only. An existing one is restricted to its
/// owner, but nothing in it is changed.
///
/// The directory of another user is accepted, because volumes of Kubernetes belong to root, with mode 2775 or 2777.
/// A log line warns of it.
pub fn private_directory(path: &Path) -> Result<(), PrivateError> {
    let io = |source| PrivateError::Io { path: path.to_owned(), source };
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(io)?;
    let mode = mode(&fs::metadata(path).map_err(io)?);
    if mode & SHARED != 0 && mode & WRITABLE_BY_ALL != 0 {
        return Err(PrivateError::Shared { path: path.to_owned(), mode });
    }
    if mode & OTHERS == 0 {
        return Ok(());
    }
    match fs::set_permissions(path, Permissions::from_mode(0o700)) {
        Ok(()) => {
            tracing::warn!(
                path = %path.display(), mode = %format_args!("{mode:04o}"),
                "other users had access to the data directory; it is now restricted to its owner"
            );
            Ok(())
        }
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            tracing::warn!(
                path = %path.display(), mode = %format_args!("{mode:04o}"),
                "the data directory belongs to another user and cannot be restricted; its files are"
            );
            Ok(())
        }
        Err(error) => Err(io(error)),
    }
}

/// Restricts a directory and everything in it to its owner. Call it only on a directory with a store.
pub(crate) fn private_tree(path: &Path) -> Result<(), PrivateError> {
    private_directory(path)?;
    private_entries(path)
}

fn private_entries(directory: &Path) -> Result<(), PrivateError> {
    let io_at = |path: &Path| {
        let path = path.to_owned();
        move |source| PrivateError::Io { path, source }
    };
    for entry in fs::read_dir(directory).map_err(io_at(directory))? {
        let entry = entry.map_err(io_at(directory))?;
        let path = entry.path();
        // Does not follow symbolic links: their targets are not in the directory.
        let metadata = entry.metadata().map_err(io_at(&path))?;
        if metadata.is_symlink() || entry.file_name() == LOST_AND_FOUND {
            continue;
        }
        let mode = mode(&metadata);
        if mode & OTHERS != 0 {
            let private = if metadata.is_dir() { 0o700 } else { 0o600 };
            fs::set_permissions(&path, Permissions::from_mode(private)).map_err(|error| match error.kind() {
                ErrorKind::PermissionDenied => PrivateError::NotOurs { path: path.clone(), mode },
                _ => PrivateError::Io { path: path.clone(), source: error },
            })?;
        }
        if metadata.is_dir() {
            private_entries(&path)?;
        }
    }
    Ok(())
}

fn mode(metadata: &Metadata) -> u32 {
    metadata.permissions().mode() & 0o7777
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chmod(path: &Path, mode: u32) {
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }

    fn mode_of(path: &Path) -> u32 {
        mode(&fs::symlink_metadata(path).unwrap())
    }

    #[test]
    fn a_tree_is_restricted_and_the_targets_of_links_are_not() {
        let outside = tempfile::tempdir().unwrap();
        let foreign = outside.path().join("foreign");
        fs::write(&foreign, "").unwrap();
        chmod(&foreign, 0o644);
        let root = tempfile::tempdir().unwrap();
        let inner = root.path().join("db").join("tables");
        fs::create_dir_all(&inner).unwrap();
        fs::write(inner.join("0"), "").unwrap();
        std::os::unix::fs::symlink(&foreign, inner.join("link")).unwrap();
        for (path, mode) in [(root.path(), 0o755), (&inner, 0o775), (&inner.join("0"), 0o644)] {
            chmod(path, mode);
        }
        private_tree(root.path()).unwrap();
        assert_eq!([mode_of(root.path()), mode_of(&inner), mode_of(&inner.join("0"))], [0o700, 0o700, 0o600]);
        assert_eq!(mode_of(&foreign), 0o644);
        assert_eq!(mode_open_to_others(root.path()).unwrap(), None);
    }

    #[test]
    fn a_directory_that_all_users_share_is_refused_and_unchanged() {
        let root = tempfile::tempdir().unwrap();
        chmod(root.path(), 0o1777);
        let refusal = private_directory(root.path()).unwrap_err().to_string();
        let expected = format!("all users share `{}` (mode 1777); name a directory in it", root.path().display());
        assert_eq!(refusal, expected);
        assert_eq!(mode_of(root.path()), 0o1777);
    }
}
