//! Verifies the invariants of a deployment on its stored data: rows, log, routes, tables and policies.
//!
//! It only reads. On one machine it opens a data directory that no service holds, or a copy of one. A running service
//! audits its own store, through the admin listener. A fleet is audited directly, while it serves. A deep check first
//! reads every checksum of an embedded store, without opening it.

mod files;
#[cfg(feature = "fleet")]
pub(crate) mod fleet;
mod pace;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use audit::{AuditOptions, audit};
pub use audit::{AuditProgress, Findings, Line, Report};
use embedded::Scrub;
use ports::{Engine, SystemClock};

pub use self::files::{DamagedFile, ScrubbedFiles, Verified};
pub(crate) use self::pace::{CommitWait, MOMENT, Paced};
use super::engine::{ensure_exists, open_existing, with_remedy};
use crate::config::Config;
use crate::scrub;

/// Rows per second that are read by default where others use the store: a fraction of the throughput of a small disk or
/// table, so that users do not notice.
pub const RATE: u32 = 2000;
/// Most rows per second that can be asked for.
pub const RATE_MAX: u32 = 1_000_000;
/// MiB per second that a deep check reads by default.
pub const RATE_MIB: u32 = scrub::RATE_MIB;

/// The remedy for a data directory that another process holds.
pub(super) const IN_USE: &str =
    "one process holds a data directory at a time; use --admin-listen to query the running service, or verify a copy";

/// Options of an audit.
#[derive(Clone, Debug, Default)]
pub struct Manner {
    /// Most rows read per second; by default [`RATE`] where others use the store, and unlimited where nobody does.
    pub rate: Option<u32>,
    /// The file for checkpoints.
    pub checkpoint: Option<PathBuf>,
    /// Whether to resume from the checkpoint.
    pub resume: bool,
}

/// Audits everything that a deployment has stored.
pub async fn verify(
    config: &Config,
    manner: &Manner,
    progress: impl Fn(AuditProgress) + Send + Sync,
) -> anyhow::Result<Findings> {
    let engine = open_existing(config).await.map_err(|error| with_remedy(error, IN_USE))?;
    let outcome = rows(&*engine, manner, &progress).await;
    engine.close().await;
    let mut findings = outcome?;
    findings.merge(config.store.engine.descriptor().verify_rest(config, manner, &progress).await?);
    Ok(findings)
}

/// Reads every checksum of a stopped store. The store is not opened, so this also works on one that fails to open.
pub async fn files(config: &Config, rate_mib: u32, progress: impl Fn(AuditProgress)) -> anyhow::Result<ScrubbedFiles> {
    if let Some(managed) = config.store.engine.descriptor().managed_data() {
        bail!("--deep reads the files of the store of one machine; {}", managed.checksums);
    }
    ensure_exists(config)?;
    let scrub = Scrub::of_directory(&config.data_dir).map_err(|error| with_remedy(error, IN_USE))?;
    Ok(scrub::read_all(scrub, rate_mib, progress).await?.into())
}

/// Audits a store and its log.
async fn rows(
    engine: &dyn Engine,
    manner: &Manner,
    progress: impl Fn(AuditProgress) + Send + Sync,
) -> anyhow::Result<Findings> {
    // Rows that no other process writes do not change meanwhile, so no waiting time is needed.
    let (wait, usual) = if engine.is_exclusive() { (Duration::ZERO, u32::MAX) } else { (MOMENT, RATE) };
    let manner = Manner { rate: Some(manner.rate.unwrap_or(usual)), ..manner.clone() };
    let (pace, from) = Paced::new(&manner, engine.location(), wait, progress)?;
    let (store, log) = engine.audit();
    let findings = audit(&*store, Some(&*log), &AuditOptions::new(Arc::new(SystemClock)), &pace, from).await;
    let findings = findings.context("the store cannot be read")?;
    pace.finish()?;
    Ok(findings)
}
