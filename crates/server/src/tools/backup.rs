//! A backup of the embedded store as one file: taken from a running service through its admin listener, or from the
//! data directory of a stopped one.
//!
//! It includes the keys, so that sessions stay valid after a restore. The file is as sensitive as the data directory.

mod destination;

use std::io::ErrorKind;
use std::path::Path;
use std::time::Duration;
use std::{error, fs, io};

use anyhow::{Context, bail};
use auth::KeyRing;
use embedded::EmbeddedStore;
use embedded::backup::Backup;
pub use embedded::backup::{BackupContents, Header};
use notify::VapidKeys;
use ports::StoreError;
use tokio::time::{Instant, sleep_until};

pub use self::destination::Destination;
use super::engine::{embedded_store, ensure_exists, with_remedy};
use super::verify::IN_USE;
use crate::config::Config;

/// MiB per second that a backup reads by default: a fraction of the throughput of a small disk.
pub const RATE_MIB: u32 = 64;
/// The highest allowed rate, which is effectively unlimited.
pub const RATE_MIB_MAX: u32 = 100_000;
/// The response header with the approximate size of a backup.
pub const BYTES_ABOUT: &str = "tidings-bytes-about";

/// The key files of a data directory that sessions and push subscriptions depend on. The admin token is not included,
/// so that a backup does not grant operator access. The next start creates a new token.
pub(super) const KEY_FILES: [&str; 2] = [KeyRing::FILE, VapidKeys::FILE];

/// The version written into backups.
pub(super) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Why a backup could not start.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BeginError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("the key file `{name}` cannot be read")]
    Key {
        name: &'static str,
        #[source]
        source: io::Error,
    },
    #[error("a read of the disk did not finish")]
    Read(#[source] Box<dyn error::Error + Send + Sync>),
}

/// Starts a backup of a store and its keys.
pub(crate) async fn begin(store: &EmbeddedStore, data_dir: &Path) -> Result<Backup, BeginError> {
    let mut backup = store.backup(VERSION).await?;
    // Keys are read after the snapshot, so every key that signed a token before it is included.
    let directory = data_dir.to_owned();
    let read = tokio::task::spawn_blocking(move || key_files(&directory)).await;
    for (name, bytes) in read.map_err(|error| BeginError::Read(error.into()))?? {
        backup.add_file(name, bytes);
    }
    Ok(backup)
}

/// The existing key files.
pub(super) fn key_files(directory: &Path) -> Result<Vec<(&'static str, Vec<u8>)>, BeginError> {
    let mut files = vec![];
    for name in KEY_FILES {
        match fs::read(directory.join(name)) {
            Ok(bytes) => files.push((name, bytes)),
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(source) => return Err(BeginError::Key { name, source }),
        }
    }
    Ok(files)
}

/// Takes a backup of the store of a stopped service. `progress` receives the bytes written and the approximate total.
pub async fn take(
    config: &Config,
    rate_mib: u32,
    to: &mut Destination,
    progress: impl Fn(u64, u64),
) -> anyhow::Result<()> {
    only_embedded(config)?;
    ensure_exists(config)?;
    let store = embedded_store(config).map_err(|error| with_remedy(error, IN_USE))?;
    let taken = write(&store, config, rate_mib, to, progress).await;
    store.close().await;
    taken
}

async fn write(
    store: &EmbeddedStore,
    config: &Config,
    rate_mib: u32,
    to: &mut Destination,
    progress: impl Fn(u64, u64),
) -> anyhow::Result<()> {
    let mut backup = begin(store, &config.data_dir).await?;
    let (about, mut pace) = (backup.bytes_about(), ByteRateLimit::new(rate_mib));
    while let Some((rest, piece)) = backup.next().await.context("the store cannot be read")? {
        to.write(&piece)?;
        progress(to.written(), about);
        pace.passed(piece.len()).await;
        backup = rest;
    }
    Ok(())
}

/// Refuses a configuration with another engine than the embedded store.
pub(super) fn only_embedded(config: &Config) -> anyhow::Result<()> {
    match config.store.engine.descriptor().managed_data() {
        Some(managed) => bail!("this is for the store of one machine; {}", managed.backups),
        None => Ok(()),
    }
}

/// Limits a transfer to a number of bytes per second.
pub(crate) struct ByteRateLimit {
    bytes_per_second: f64,
    next: Instant,
}

impl ByteRateLimit {
    pub(crate) fn new(rate_mib: u32) -> Self {
        Self { bytes_per_second: f64::from(rate_mib.max(1)) * 1_048_576.0, next: Instant::now() }
    }

    /// Waits for as long as these bytes take at the rate.
    pub(crate) async fn passed(&mut self, bytes: usize) {
        let takes = Duration::from_secs_f64(bytes as f64 / self.bytes_per_second);
        self.next = self.next.max(Instant::now()) + takes;
        sleep_until(self.next).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn bytes_pass_at_the_rate() {
        let started = Instant::now();
        let mut pace = ByteRateLimit::new(2);
        for _ in 0..8 {
            pace.passed(1 << 20).await;
        }
        assert_eq!(started.elapsed(), Duration::from_secs(4));
    }

    #[test]
    fn keys_go_with_a_store_and_the_admin_token_does_not() {
        let directory = tempfile::tempdir().unwrap();
        for name in ["keys.json", "admin.json", "vapid.json"] {
            fs::write(directory.path().join(name), name).unwrap();
        }
        let files = key_files(directory.path()).unwrap();
        assert_eq!(files, ["keys.json", "vapid.json"].map(|name| (name, name.as_bytes().to_owned())));
    }
}
