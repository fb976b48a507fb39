use std::fs::{self, File, OpenOptions};
use std::io::BufWriter;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};

/// Readable by the owner only: it contains phone numbers and message contents.
const MODE: u32 = 0o600;

/// A file in progress: it has a temporary name until it is completely on the disk, and is removed otherwise.
pub(super) struct Partial {
    path: PathBuf,
    partial: PathBuf,
    file: File,
    kept: bool,
}

impl Partial {
    pub(super) fn create(path: &Path) -> anyhow::Result<Self> {
        ensure!(!path.exists(), "`{}` exists already; choose another name, or delete it", path.display());
        let mut partial = path.as_os_str().to_owned();
        partial.push(".partial");
        let partial = PathBuf::from(partial);
        let unusable = || format!("cannot write `{}`", partial.display());
        let options = OpenOptions::new().write(true).create(true).truncate(true).mode(MODE).to_owned();
        let file = options.open(&partial).with_context(unusable)?;
        // A file left by an earlier attempt may have another mode.
        file.set_permissions(fs::Permissions::from_mode(MODE)).with_context(unusable)?;
        Ok(Self { path: path.to_owned(), partial, file, kept: false })
    }

    pub(super) fn writer(&self) -> anyhow::Result<BufWriter<File>> {
        let file = self.file.try_clone().context("the file cannot be written")?;
        Ok(BufWriter::with_capacity(1 << 20, file))
    }

    /// Renames the file to its final name after it was synced; returns its length.
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
            // A partial export is useless, and the next attempt would overwrite it.
            drop(fs::remove_file(&self.partial));
        }
    }
}
