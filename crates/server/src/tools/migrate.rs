//! A store of an older format, brought into that of today.

use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use embedded::OlderStore;
use embedded::backup::{Backup, Contents};
use nix::sys::statvfs::statvfs;
use ports::{Clock, SystemClock};

use super::backup::{Destination, KEY_FILES, VERSION, key_files, only_embedded};
use super::restore::{audit, with_suffix};
use super::verify::{Findings, Progress};
use crate::config::Config;

/// What became of a store.
pub enum Migration {
    /// It is of today's format, and was left alone.
    NotNeeded,
    Done(Box<Migrated>),
}

/// A store that was brought forward, or would have been.
pub struct Migrated {
    pub from: u32,
    pub to: u32,
    /// The store as it was.
    pub backup: PathBuf,
    pub contents: Contents,
    /// What an audit of the new store found. If something is violated, the old one is still there.
    pub findings: Findings,
}

/// What a migration is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    BackingUp,
    Rewriting,
    Verifying,
}

/// Brings the store of a data directory into today's format: takes a backup, makes a new store of it, audits that one, and
/// puts it in the place of the old one. Whatever interrupts it, the directory holds the old store or the new one.
///
/// `progress` is told what is done, how much of it, and of how much, in bytes or rows.
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
    embedded::restore(std::io::BufReader::new(file), &workshop, &KEY_FILES, |read| {
        progress(Stage::Rewriting, read, contents.bytes);
    })
    .context("the store is as it was")?;
    let verifying = |Progress { read, all, .. }| progress(Stage::Verifying, read, all);
    let findings = audit(config, &workshop, verifying).await.context("the store is as it was")?;
    if findings.is_clean() {
        older.replace()?;
    }
    Ok(Migration::Done(Box::new(Migrated { from, to, backup, contents, findings })))
}

fn back_up(mut taken: Backup, directory: &Path, to: &Path, progress: impl Fn(u64)) -> anyhow::Result<Contents> {
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

/// Refuses to begin what would fill the disk: the backup and the new store are each about as large as the old one.
fn has_space(directory: &Path, backup: &Path, bytes: u64) -> anyhow::Result<()> {
    let beside = backup.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    for (of, needed) in [(directory, 2 * bytes), (beside, bytes)] {
        let stat = statvfs(of).with_context(|| format!("cannot see how much space `{}` has", of.display()))?;
        let free = stat.blocks_available() * stat.fragment_size();
        ensure!(
            free >= needed,
            "`{}` has {} MiB free, and {} MiB are needed; make room, or name another place with --backup",
            of.display(),
            free >> 20,
            needed.div_ceil(1 << 20),
        );
    }
    Ok(())
}
