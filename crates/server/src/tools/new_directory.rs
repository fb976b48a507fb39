//! A data directory that gets its name when it is complete.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};

/// A directory under construction, next to the place of the final one. An interrupted command leaves it behind, and the
/// next one names it.
pub(super) struct NewDirectory {
    partial: PathBuf,
}

impl NewDirectory {
    /// Refuses a target that is not empty, and the rest of an interrupted attempt. `what` names the command in errors.
    pub(super) fn begin(target: &Path, what: &str) -> anyhow::Result<Self> {
        ensure!(
            is_free(target)?,
            "`{}` is not empty, and a {what} overwrites nothing; choose an empty or new directory",
            target.display()
        );
        let partial = with_suffix(target, ".partial");
        ensure!(
            !partial.try_exists()?,
            "`{}` is the partial result of an interrupted {what}; delete it",
            partial.display()
        );
        Ok(Self { partial })
    }

    pub(super) fn path(&self) -> &Path {
        &self.partial
    }

    /// Deletes a useless part.
    pub(super) fn discard(self) {
        // If it cannot be deleted, the next attempt names it.
        drop(fs::remove_dir_all(&self.partial));
    }

    /// Gives the complete directory its name, and makes the name durable.
    pub(super) fn finish(self, name: &Path) -> anyhow::Result<()> {
        let Self { partial } = self;
        ensure!(is_free(name)?, "`{}` exists already; the new store is in `{}`", name.display(), partial.display());
        fs::rename(&partial, name)
            .with_context(|| format!("the new store is in `{}`, and cannot be renamed", partial.display()))?;
        let parent = name.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let synced = File::open(parent).and_then(|parent| parent.sync_all());
        synced.with_context(|| format!("cannot make the name of `{}` durable", name.display()))
    }
}

/// Whether a directory is empty or absent.
fn is_free(directory: &Path) -> anyhow::Result<bool> {
    match fs::read_dir(directory) {
        Ok(mut entries) => Ok(entries.next().is_none()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(true),
        Err(error) if error.kind() == ErrorKind::NotADirectory => bail!("`{}` is not a directory", directory.display()),
        Err(error) => Err(error).with_context(|| format!("cannot read `{}`", directory.display())),
    }
}

/// A sibling path of a directory, with or without a trailing slash.
pub(super) fn with_suffix(directory: &Path, suffix: &str) -> PathBuf {
    let mut name = directory.components().as_path().as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_overwritten() {
        let directory = tempfile::tempdir().unwrap();
        let target = directory.path().join("data");
        let refusal = || NewDirectory::begin(&target, "repair").err().unwrap().to_string();
        fs::create_dir(&target).unwrap();
        fs::create_dir(with_suffix(&target, ".partial")).unwrap();
        assert!(refusal().ends_with("data.partial` is the partial result of an interrupted repair; delete it"));
        fs::write(target.join("thesis"), "").unwrap();
        assert!(refusal().contains("data` is not empty, and a repair overwrites nothing;"));
    }

    #[test]
    fn a_directory_gets_its_name_when_it_is_complete() {
        let directory = tempfile::tempdir().unwrap();
        let target = directory.path().join("data");
        let begun = NewDirectory::begin(&target, "restore").unwrap();
        fs::create_dir(begun.path()).unwrap();
        fs::write(begun.path().join("row"), "").unwrap();
        assert!(!target.exists());
        let partial = begun.path().to_owned();
        begun.finish(&target).unwrap();
        assert!(target.join("row").exists() && !partial.exists());
    }
}
