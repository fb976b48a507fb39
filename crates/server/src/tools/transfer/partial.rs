use std::fs::{self, File, OpenOptions};
use std::io::BufWriter;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};

/// Readable by the owner alone: it holds phone numbers and what people have said.
const MODE: u32 = 0o600;

/// A file on its way: under another name until all of it is on the disk, and gone if it never is.
pub(super) struct Partial {
    path: PathBuf,
    partial: PathBuf,
    file: File,
    kept: bool,
}

impl Partial {
    pub(super) fn create(path: &Path) -> anyhow::Result<Self> {
        ensure!(!path.exists(), "`{}` is there already; name another file, or delete it", path.display());
        let mut partial = path.as_os_str().to_owned();
        partial.push(".partial");
        let partial = PathBuf::from(partial);
        let unusable = || format!("cannot write `{}`", partial.display());
        let options = OpenOptions::new().write(true).create(true).truncate(true).mode(MODE).to_owned();
        let file = options.open(&partial).with_context(unusable)?;
        // What an earlier try has left may have another mode.
        file.set_permissions(fs::Permissions::from_mode(MODE)).with_context(unusable)?;
        Ok(Self { path: path.to_owned(), partial, file, kept: false })
    }

    pub(super) fn writer(&self) -> anyhow::Result<BufWriter<File>> {
        let file = self.file.try_clone().context("the file cannot be written")?;
        Ok(BufWriter::with_capacity(1 << 20, file))
    }

    /// Gives the file its name, once it is on the disk; returns how long it is.
    pub(super) fn keep(mut self) -> anyhow::Result<u64> {
        let unusable = || format!("cannot write `{}`", self.path.display());
        self.file.sync_all().with_context(unusable)?;
        let len = self.file.metadata().with_context(unusable)?.len();
        fs::rename(&self.partial, &self.path).with_context(unusable)?;
        let directory = self.path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let synced = File::open(directory.unwrap_or(Path::new("."))).and_then(|directory| directory.sync_all());
        synced.with_context(unusable)?;
        self.kept = true;
        Ok(len)
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        if !self.kept {
            // It says nothing that anybody could use, and the next try would write over it.
            drop(fs::remove_file(&self.partial));
        }
    }
}
