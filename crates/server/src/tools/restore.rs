//! A data directory made of a backup.

use std::fs::{self, File};
use std::io::{BufReader, ErrorKind, Read, stdin};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use embedded::backup::{self, Contents};

use super::backup::{KEY_FILES, only_embedded};
use super::verify::{self, Findings, Manner, Progress};
use crate::config::Config;

/// Rows that are checked in a second after a restore: as many as the disk gives, because nobody is served from them yet.
const VERIFY_RATE: u32 = 1_000_000;

/// What became of a backup.
pub struct Restored {
    pub contents: Contents,
    /// What an audit of the restored store found.
    pub findings: Findings,
    /// Where it is: the directory that was asked for or, if something is violated, another one.
    pub directory: PathBuf,
}

/// Reads a whole backup and says what is in it. `progress` is told how many bytes were read, and of how many.
pub fn check(file: &Path, progress: impl Fn(u64, u64)) -> anyhow::Result<Contents> {
    let (from, len) = open(file)?;
    backup::check(from, |read| progress(read, len)).with_context(|| damaged(file))
}

/// Makes the data directory of a configuration from a backup, and audits it. The directory is not there, or is empty; it
/// gets its name when everything was read, written and found well.
pub async fn restore(
    config: &Config,
    file: &Path,
    progress: impl Fn(u64, u64),
    verifying: impl Fn(Progress) + Send + Sync,
) -> anyhow::Result<Restored> {
    only_embedded(config)?;
    let directory = &config.data_dir;
    ensure!(
        is_free(directory)?,
        "`{}` holds something, and a restore writes over nothing; name a directory that is empty or not there",
        directory.display()
    );
    let partial = with_suffix(directory, ".partial");
    ensure!(
        !partial.try_exists()?,
        "`{}` is left of a restore that was interrupted, and is no store; delete it",
        partial.display()
    );
    let (from, len) = open(file)?;
    // The disk is waited for where it is: nothing else goes on in this process.
    let restored = embedded::restore(from, &partial, &KEY_FILES, |read| progress(read, len));
    let contents = match restored {
        Ok(contents) => contents,
        Err(failure) => {
            // Half a store is worth nothing. What cannot be deleted is named by the next try.
            drop(fs::remove_dir_all(&partial));
            return Err(failure).with_context(|| damaged(file));
        }
    };
    let findings = audit(config, &partial, verifying).await?;
    let suffix = if findings.is_clean() { "" } else { ".violated" };
    let kept = with_suffix(directory, suffix);
    ensure!(is_free(&kept)?, "`{}` is there already; what was restored is in `{}`", kept.display(), partial.display());
    fs::rename(&partial, &kept)
        .with_context(|| format!("what was restored is in `{}`, and cannot be renamed", partial.display()))?;
    sync_parent(&kept)?;
    Ok(Restored { contents, findings, directory: kept })
}

/// Checks a directory as `tidings verify` does.
pub(super) async fn audit(
    config: &Config,
    directory: &Path,
    progress: impl Fn(Progress) + Send + Sync,
) -> anyhow::Result<Findings> {
    let config = Config { data_dir: directory.to_owned(), ..config.clone() };
    verify::verify(&config, &Manner { rate: VERIFY_RATE, ..Manner::default() }, progress).await
}

/// A backup, and how long it is; 0 where nobody knows.
fn open(file: &Path) -> anyhow::Result<(Box<dyn Read>, u64)> {
    if file.as_os_str() == "-" {
        return Ok((Box::new(stdin().lock()), 0));
    }
    let opened = File::open(file).with_context(|| format!("cannot read `{}`", file.display()))?;
    let len = opened.metadata().map_or(0, |metadata| metadata.len());
    Ok((Box::new(BufReader::new(opened)), len))
}

fn damaged(file: &Path) -> String {
    format!("`{}` is not restored", file.display())
}

/// Whether a directory is empty or not there.
fn is_free(directory: &Path) -> anyhow::Result<bool> {
    match fs::read_dir(directory) {
        Ok(mut entries) => Ok(entries.next().is_none()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(true),
        Err(error) if error.kind() == ErrorKind::NotADirectory => bail!("`{}` is no directory", directory.display()),
        Err(error) => Err(error).with_context(|| format!("cannot look into `{}`", directory.display())),
    }
}

/// A name beside a directory, whether it ends with a slash or not.
pub(super) fn with_suffix(directory: &Path, suffix: &str) -> PathBuf {
    let mut name = directory.components().as_path().as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

fn sync_parent(path: &Path) -> anyhow::Result<()> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let synced = File::open(parent).and_then(|parent| parent.sync_all());
    synced.with_context(|| format!("cannot make the name of `{}` durable", path.display()))
}
