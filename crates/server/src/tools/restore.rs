//! Creates a data directory from a backup.

use std::fs::File;
use std::io::{BufReader, Read, stdin};
use std::path::{Path, PathBuf};

use anyhow::Context;
use embedded::RestoreKeys;
use embedded::backup::{self, BackupContents};

use super::backup::{KEY_FILES, only_embedded};
use super::new_directory::{NewDirectory, with_suffix};
use super::verify::{self, AuditProgress, Findings, Manner, RATE_MAX};
use crate::config::Config;
use crate::embedded_config::{key_from_file, store_key};

/// Rows audited per second after a restore: unlimited, because the store does not serve yet.
const VERIFY_RATE: u32 = RATE_MAX;

/// A restored backup.
pub struct Restored {
    pub contents: BackupContents,
    /// The result of an audit of the restored store.
    pub findings: Findings,
    /// The location of the store: the requested directory or, if an invariant is violated, another one.
    pub directory: PathBuf,
}

/// Reads a whole backup and returns its contents. `progress` receives the bytes read and the total.
pub fn check(file: &Path, progress: impl Fn(u64, u64)) -> anyhow::Result<BackupContents> {
    let (from, len) = open(file)?;
    backup::check(from, |read| progress(read, len)).with_context(|| damaged(file))
}

/// Creates the data directory of a configuration from a backup, and audits it. The directory must be empty or absent,
/// and gets its name after everything was read, written and verified.
///
/// `backup_key_file` has the key of the backup, if that differs from the key of the configuration.
pub async fn restore(
    config: &Config,
    file: &Path,
    backup_key_file: Option<&Path>,
    progress: impl Fn(u64, u64),
    verifying: impl Fn(AuditProgress) + Send + Sync,
) -> anyhow::Result<Restored> {
    only_embedded(config)?;
    let directory = &config.data_dir;
    let store = store_key(config)?;
    let backup = match backup_key_file {
        Some(path) => Some(key_from_file(path).context("`--backup-key-file` is not usable")?),
        None => store.clone(),
    };
    let keys = RestoreKeys { backup, store };
    let begun = NewDirectory::begin(directory, "restore")?;
    let (from, len) = open(file)?;
    // It may block on the disk here: nothing else runs in this process.
    let contents = match embedded::restore(from, begun.path(), &KEY_FILES, &keys, |read| progress(read, len)) {
        Ok(contents) => contents,
        Err(failure) => {
            begun.discard();
            return Err(failure).with_context(|| damaged(file));
        }
    };
    let findings = audit(config, begun.path(), verifying).await?;
    let suffix = if findings.is_clean() { "" } else { ".violated" };
    let kept = with_suffix(directory, suffix);
    begun.finish(&kept)?;
    Ok(Restored { contents, findings, directory: kept })
}

/// Audits a directory as `tidings store verify` does.
pub(super) async fn audit(
    config: &Config,
    directory: &Path,
    progress: impl Fn(AuditProgress) + Send + Sync,
) -> anyhow::Result<Findings> {
    let config = Config { data_dir: directory.to_owned(), ..config.clone() };
    verify::verify(&config, &Manner { rate: Some(VERIFY_RATE), ..Manner::default() }, progress).await
}

/// A backup and its length; 0 if unknown.
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
