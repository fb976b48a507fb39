//! Copies the readable data of a damaged data directory into a new one.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
pub use embedded::{Missing, Repaired, Unreadable};
use ports::{Clock, SystemClock};

use super::backup::{KEY_FILES, only_embedded};
use super::new_directory::NewDirectory;
use super::restore::audit;
use super::verify::{AuditProgress, Findings};
use crate::config::Config;
use crate::embedded_config::store_key;

/// The result of a repair.
pub struct Repair {
    pub repaired: Repaired,
    /// Key files that could not be read. Without them all users have to sign in again.
    pub lost_keys: Vec<&'static str>,
    /// The findings of an audit of the new store.
    pub findings: Findings,
}

/// Copies the readable data of a configuration's data directory into a new one, and audits that. The new directory must
/// be empty or absent, and gets its name after everything was written. The damaged directory is only read.
///
/// `progress` receives the name of the part that is read or written next.
pub async fn repair(
    config: &Config,
    into: &Path,
    progress: impl Fn(&'static str),
    verifying: impl Fn(AuditProgress) + Send + Sync,
) -> anyhow::Result<Repair> {
    only_embedded(config)?;
    let from = &config.data_dir;
    ensure!(from.is_dir(), "there is no data directory `{}`; name it with --data-dir", from.display());
    let key = store_key(config)?;
    let begun = NewDirectory::begin(into, "repair")?;
    // It may block on the disk here: nothing else runs in this process.
    let repaired = match embedded::repair(from, begun.path(), key.as_ref(), SystemClock.now(), progress) {
        Ok(repaired) => repaired,
        Err(failure) => {
            begun.discard();
            return Err(failure).with_context(|| format!("`{}` is not repaired", from.display()));
        }
    };
    let lost_keys = copy_keys(from, begun.path())?;
    let findings = audit(config, begun.path(), verifying).await?;
    begun.finish(into)?;
    Ok(Repair { repaired, lost_keys, findings })
}

/// Copies the key files that sessions and push subscriptions depend on, and returns the names of unreadable ones.
fn copy_keys(from: &Path, into: &Path) -> anyhow::Result<Vec<&'static str>> {
    let mut lost = vec![];
    for name in KEY_FILES {
        let path: PathBuf = from.join(name);
        if !path.try_exists()? {
            continue;
        }
        match fs::read(&path) {
            Ok(bytes) => embedded::write_file(&into.join(name), &bytes)
                .with_context(|| format!("cannot write `{name}` into `{}`", into.display()))?,
            Err(_) => lost.push(name),
        }
    }
    Ok(lost)
}
