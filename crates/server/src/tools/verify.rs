//! Verifies the invariants of a deployment on its stored data: rows, log, routes, tables and policies.
//!
//! It only reads. On one machine it opens a data directory that no service holds, or a copy of one. A running service
//! audits its own store, through the admin listener. A fleet is audited directly, while it serves. A deep check first
//! reads every checksum of an embedded store, without opening it.

mod files;
#[cfg(feature = "fleet")]
mod fleet;
mod pace;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, ensure};
use audit::{AuditOptions, audit};
pub use audit::{AuditProgress, Findings, Line, Report};
use embedded::Scrub;
use ports::{Engine, SystemClock};

pub use self::files::{DamagedFile, ScrubbedFiles, Verified};
pub(crate) use self::pace::{MOMENT, Paced};
use super::engine::{ensure_exists, open_existing, with_remedy};
use crate::config::{Config, StoreEngine};
use crate::scrub;

/// Rows per second that are read by default: a fraction of the throughput of a small disk or table, so that users do
/// not notice.
pub const RATE: u32 = 2000;
/// MiB per second that a deep check reads by default.
pub const RATE_MIB: u32 = scrub::RATE_MIB;

/// The remedy for a data directory that another process holds.
pub(super) const IN_USE: &str =
    "one process holds a data directory at a time; use --admin to query the running service, or verify a copy";

/// Options of an audit.
#[derive(Clone, Debug)]
pub struct Manner {
    /// Most rows read per second.
    pub rate: u32,
    /// The file for checkpoints.
    pub checkpoint: Option<PathBuf>,
    /// Whether to resume from the checkpoint.
    pub resume: bool,
}

impl Default for Manner {
    fn default() -> Self {
        Self { rate: RATE, checkpoint: None, resume: false }
    }
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
    let findings = outcome?;
    #[cfg(feature = "fleet")]
    if config.store.engine == StoreEngine::Dynamodb {
        let mut findings = findings;
        findings.merge(fleet::verify(config, manner, &progress).await?);
        return Ok(findings);
    }
    Ok(findings)
}

/// Reads every checksum of a stopped store. The store is not opened, so this also works on one that fails to open.
pub async fn files(config: &Config, rate_mib: u32, progress: impl Fn(AuditProgress)) -> anyhow::Result<ScrubbedFiles> {
    ensure!(
        config.store.engine == StoreEngine::Embedded,
        "--deep reads the files of the store of one machine; DynamoDB checks the files of a fleet's tables itself"
    );
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
    let wait = if engine.is_exclusive() { Duration::ZERO } else { MOMENT };
    let (pace, from) = Paced::new(manner, engine.location(), wait, progress)?;
    let (store, log) = engine.audit();
    let findings = audit(&*store, Some(&*log), &AuditOptions::new(Arc::new(SystemClock)), &pace, from).await;
    let findings = findings.context("the store cannot be read")?;
    pace.finish()?;
    Ok(findings)
}
