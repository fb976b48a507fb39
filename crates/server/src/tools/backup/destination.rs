use std::fs::{self, File, OpenOptions, Permissions, TryLockError};
use std::io::{self, BufReader, Seek, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use embedded::backup::{Contents, check};

/// Who may read a backup: whoever may read the data directory.
const OWNER_ONLY: u32 = 0o600;

/// Where a backup is written to. Until all of it is there, and was read back and found whole, nothing has the name that
/// was asked for.
pub struct Destination {
    to: To,
    written: u64,
}

enum To {
    Stdout,
    File { file: File, partial: PathBuf, path: PathBuf, is_finished: bool },
}

impl Destination {
    /// A file that is not there yet, or the standard output if it is called `-`.
    pub fn open(path: &Path) -> anyhow::Result<Self> {
        if path.as_os_str() == "-" {
            return Ok(Self { to: To::Stdout, written: 0 });
        }
        let shown = path.display();
        ensure!(!path.try_exists()?, "`{shown}` is there, and a backup is never written over; name another file");
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
        // An interrupted backup may have left one, with other permissions if it was copied here.
        file.set_permissions(Permissions::from_mode(OWNER_ONLY)).and_then(|()| file.set_len(0))?;
        Ok(Self { to: To::File { file, partial, path: path.to_owned(), is_finished: false }, written: 0 })
    }

    /// Whether it is the standard output, where nothing else may be printed.
    pub fn is_stdout(&self) -> bool {
        matches!(self.to, To::Stdout)
    }

    /// Bytes so far.
    pub fn written(&self) -> u64 {
        self.written
    }

    /// Puts bytes behind the others.
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

    /// Reads what was written back, and gives it its name. What went to the standard output is for whoever reads it to
    /// check, and `None` here.
    pub fn finish(mut self) -> anyhow::Result<Option<Contents>> {
        let To::File { file, partial, path, is_finished } = &mut self.to else {
            io::stdout().lock().flush()?;
            return Ok(None);
        };
        let cannot = || format!("cannot write `{}`", path.display());
        file.sync_all().with_context(cannot)?;
        file.rewind()?;
        let contents = check(BufReader::new(&*file), |_| {}).context("what was written is not a whole backup")?;
        ensure!(!path.try_exists()?, "`{}` has come to be meanwhile, and is not written over", path.display());
        fs::rename(&*partial, &*path).with_context(cannot)?;
        *is_finished = true;
        // The name is in the directory, which has to reach the disk too.
        let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        File::open(directory).and_then(|directory| directory.sync_all()).with_context(cannot)?;
        Ok(Some(contents))
    }
}

impl Drop for Destination {
    fn drop(&mut self) {
        if let To::File { partial, is_finished: false, .. } = &self.to {
            // Half a backup is worth nothing; if it cannot be deleted, its name says what it is.
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
    fn what_is_there_is_not_written_over() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("backup");
        fs::write(&path, "something").unwrap();
        let refusal = Destination::open(&path).err().unwrap().to_string();
        assert_eq!(
            refusal,
            format!("`{}` is there, and a backup is never written over; name another file", path.display())
        );
        assert_eq!(fs::read_to_string(&path).unwrap(), "something");
    }

    #[test]
    fn what_is_not_a_whole_backup_gets_no_name_and_leaves_nothing() {
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
            "what was written is not a whole backup: it ends at byte 20, within the header: the rest is missing; look \
             for a whole copy or an earlier backup"
        );
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
    }
}
