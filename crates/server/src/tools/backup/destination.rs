use std::fs::{self, File, OpenOptions, Permissions, TryLockError};
use std::io::{self, BufReader, Seek, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use embedded::backup::{BackupContents, check};

/// The mode of a backup, which must be no more readable than the data directory.
const OWNER_ONLY: u32 = 0o600;

/// The destination of a backup. The file gets its final name only after it was written completely, read back and
/// verified.
pub struct Destination {
    to: To,
    written: u64,
}

enum To {
    Stdout,
    File { file: File, partial: PathBuf, path: PathBuf, is_finished: bool },
}

impl Destination {
    /// A file that must not exist yet, or standard output for `-`.
    pub fn open(path: &Path) -> anyhow::Result<Self> {
        if path.as_os_str() == "-" {
            return Ok(Self { to: To::Stdout, written: 0 });
        }
        let shown = path.display();
        ensure!(!path.try_exists()?, "`{shown}` exists, and a backup never overwrites a file; choose another name");
        let partial = beside(path);
        let file =
            OpenOptions::new().create(true).truncate(false).read(true).write(true).mode(OWNER_ONLY).open(&partial);
        let file = file.with_context(|| format!("cannot write `{}`", partial.display()))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => bail!("`{}` is being written by another process", partial.display()),
            Err(TryLockError::Error(error)) => {
                return Err(error).with_context(|| format!("cannot lock `{}`", partial.display()));
            }
        }
        // An interrupted backup may have left a partial file, with other permissions if it was copied here.
        file.set_permissions(Permissions::from_mode(OWNER_ONLY)).and_then(|()| file.set_len(0))?;
        Ok(Self { to: To::File { file, partial, path: path.to_owned(), is_finished: false }, written: 0 })
    }

    /// Whether it is standard output, where nothing else may be printed.
    pub fn is_stdout(&self) -> bool {
        matches!(self.to, To::Stdout)
    }

    /// Bytes written so far.
    pub fn written(&self) -> u64 {
        self.written
    }

    /// Appends bytes.
    pub fn write(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        match &mut self.to {
            To::Stdout => io::stdout().lock().write_all(bytes).context("cannot write to the standard output")?,
            To::File { file, partial, .. } => {
                file.write_all(bytes).with_context(|| format!("cannot write `{}`", partial.display()))?;
            }
        }
        self.written += bytes.len() as u64;
        Ok(())
    }

    /// Reads the file back, verifies it, and renames it to its final name. For standard output the reader has to verify
    /// the bytes, and the result is `None`.
    pub fn finish(mut self) -> anyhow::Result<Option<BackupContents>> {
        let To::File { file, partial, path, is_finished } = &mut self.to else {
            io::stdout().lock().flush()?;
            return Ok(None);
        };
        let cannot = || format!("cannot write `{}`", path.display());
        file.sync_all().with_context(cannot)?;
        file.rewind()?;
        let contents = check(BufReader::new(&*file), |_| {}).context("the written file is not a complete backup")?;
        ensure!(!path.try_exists()?, "`{}` was created meanwhile, and is not overwritten", path.display());
        fs::rename(&*partial, &*path).with_context(cannot)?;
        *is_finished = true;
        // The rename is durable only after the directory is synced too.
        let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        File::open(directory).and_then(|directory| directory.sync_all()).with_context(cannot)?;
        Ok(Some(contents))
    }
}

impl Drop for Destination {
    fn drop(&mut self) {
        if let To::File { partial, is_finished: false, .. } = &self.to {
            // A partial backup is useless. If it cannot be deleted, its name shows that it is partial.
            drop(fs::remove_file(partial));
        }
    }
}

fn beside(path: &Path) -> PathBuf {
    path.with_added_extension("partial")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_existing_file_is_not_overwritten() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("backup");
        fs::write(&path, "something").unwrap();
        let refusal = Destination::open(&path).err().unwrap().to_string();
        assert_eq!(
            refusal,
            format!("`{}` exists, and a backup never overwrites a file; choose another name", path.display())
        );
        assert_eq!(fs::read_to_string(&path).unwrap(), "something");
    }

    #[test]
    fn an_incomplete_backup_is_refused_and_removed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("backup");
        let mut destination = Destination::open(&path).unwrap();
        let second = Destination::open(&path).err().unwrap().to_string();
        assert!(second.ends_with("is being written by another process"), "{second}");
        destination.write(b"tidings backup\n\x01half").unwrap();
        let mode = fs::metadata(beside(&path)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, OWNER_ONLY);
        let refusal = destination.finish().unwrap_err();
        assert_eq!(
            format!("{refusal:#}"),
            "the written file is not a complete backup: it ends at byte 20, within the header: the rest is missing; look \
             for a whole copy or an earlier backup"
        );
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
    }
}
