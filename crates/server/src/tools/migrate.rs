//! Migrates a store of an older format to the current one.

use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use embedded::backup::{Backup, BackupContents};
use embedded::{OlderStore, RestoreKeys};
use nix::sys::statvfs::statvfs;
use ports::{Clock, SystemClock};

use super::backup::{Destination, KEY_FILES, VERSION, key_files, only_embedded};
use super::new_directory::with_suffix;
use super::restore::audit;
use super::verify::{AuditProgress, Findings};
use crate::config::Config;
use crate::embedded_config::store_key;

/// The result of a migration.
pub enum Migration {
    /// The store has the current format and was left unchanged.
    NotNeeded,
    Done(Box<Migrated>),
}

/// A migrated store. If the audit found violations, it has not replaced the old one.
pub struct Migrated {
    pub from: u32,
    pub to: u32,
    /// The backup of the old store.
    pub backup: PathBuf,
    pub contents: BackupContents,
    /// The result of an audit of the new store. If an invariant is violated, the old store is still in place.
    pub findings: Findings,
}

/// The current stage of a migration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    BackingUp,
    Rewriting,
    Verifying,
}

/// Migrates the store of a data directory to the current format: takes a backup, creates a new store from it, audits
/// that, and replaces the old one. After any interruption the directory holds either the old store or the new one.
///
/// `progress` receives the stage, the amount done, and the total, in bytes or rows.
pub async fn migrate(
    config: &Config,
    backup: Option<PathBuf>,
    progress: impl Fn(Stage, u64, u64) + Send + Sync,
) -> anyhow::Result<Migration> {
    only_embedded(config)?;
    let directory = &config.data_dir;
    let Some(older) = OlderStore::open(directory)? else { return Ok(Migration::NotNeeded) };
    let (from, to) = (older.format(), older.target());
    let now = SystemClock.now();
    let backup = backup.unwrap_or_else(|| with_suffix(directory, &format!(".format-{from}.{}.backup", now.as_secs())));
    has_space(directory, &backup, older.bytes())?;

    let taken = older.backup(now, VERSION).context("the store cannot be read")?;
    let contents = back_up(taken, directory, &backup, |bytes| progress(Stage::BackingUp, bytes, older.bytes()))?;
    let workshop = older.workshop()?;
    let file = std::fs::File::open(&backup).with_context(|| format!("cannot read `{}`", backup.display()))?;
    // Stores of older formats are not encrypted; the new one is, if the settings name a key.
    let keys = RestoreKeys { backup: None, store: store_key(config)? };
    embedded::restore(std::io::BufReader::new(file), &workshop, &KEY_FILES, &keys, |read| {
        progress(Stage::Rewriting, read, contents.bytes);
    })
    .context("the store is as it was")?;
    let verifying = |AuditProgress { read, all, .. }| progress(Stage::Verifying, read, all);
    let findings = audit(config, &workshop, verifying).await.context("the store is as it was")?;
    if findings.is_clean() {
        older.replace()?;
    }
    Ok(Migration::Done(Box::new(Migrated { from, to, backup, contents, findings })))
}

fn back_up(mut taken: Backup, directory: &Path, to: &Path, progress: impl Fn(u64)) -> anyhow::Result<BackupContents> {
    for (name, bytes) in key_files(directory)? {
        taken.add_file(name, bytes);
    }
    let mut destination = Destination::open(to)?;
    ensure!(!destination.is_stdout(), "the backup of a migration is a file; name one with --backup");
    while let Some(piece) = taken.next_piece().context("the store cannot be read")? {
        destination.write(&piece)?;
        progress(destination.written());
    }
    destination.finish()?.context("a backup that is a file says what is in it")
}

/// Refuses to start without enough disk space: the backup and the new store are each about as large as the old one.
fn has_space(directory: &Path, backup: &Path, bytes: u64) -> anyhow::Result<()> {
    let beside = backup.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    for (of, needed) in [(directory, 2 * bytes), (beside, bytes)] {
        let stat = statvfs(of).with_context(|| format!("cannot see how much space `{}` has", of.display()))?;
        let free = stat.blocks_available() * stat.fragment_size();
        ensure!(
            free >= needed,
            "`{}` has {} MiB free, and {} MiB are needed; make room, or choose another path with --backup",
            of.display(),
            free >> 20,
            needed.div_ceil(1 << 20),
        );
    }
    Ok(())
}
