//! What must be true of a deployment, checked on what it has stored: rows, log, routes, tables and policies.
//!
//! It reads, and changes nothing. On one machine it opens a data directory that no service holds, or a copy of one; a
//! running service is asked on its admin listener, and audits its own store. A fleet is looked at directly, while it
//! serves.

mod fleet;
mod pace;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, ensure};
use audit::{Checkpoint, Options, audit};
pub use audit::{Findings, Line, Progress, Report};
use embedded::EmbeddedStore;
use ports::{AuditLog, AuditSource, RandomIds, SystemClock};

pub(crate) use self::pace::{MOMENT, Paced};
use crate::config::{Config, Engine};

/// Rows that are read in a second, unless another number is asked for: a part of what a small disk or table can do, so
/// that users do not notice.
pub const RATE: u32 = 2000;

/// How a deployment is checked.
#[derive(Clone, Debug)]
pub struct Manner {
    /// Rows that are read in a second, at the most.
    pub rate: u32,
    /// Where to keep how far it is.
    pub checkpoint: Option<PathBuf>,
    /// Whether to go on from there.
    pub resume: bool,
}

impl Default for Manner {
    fn default() -> Self {
        Self { rate: RATE, checkpoint: None, resume: false }
    }
}

/// Checks everything that a deployment has stored.
pub async fn verify(
    config: &Config,
    manner: &Manner,
    progress: impl Fn(Progress) + Send + Sync,
) -> anyhow::Result<Findings> {
    match config.store.engine {
        Engine::Embedded => {
            let of = format!("embedded {}", config.data_dir.display());
            // Nobody else writes here, so there is nothing to wait for.
            let (pace, from) = Paced::new(manner, of, Duration::ZERO, progress)?;
            let store = open(config)?;
            let outcome = rows(&store, &store, &pace, from).await;
            store.close().await;
            outcome
        }
        Engine::Dynamodb => fleet::verify(config, manner, progress).await,
    }
}

/// Checks a store and its log.
async fn rows<P: Fn(Progress) + Send + Sync>(
    store: &dyn AuditSource,
    log: &dyn AuditLog,
    pace: &Paced<P>,
    from: Option<Checkpoint>,
) -> anyhow::Result<Findings> {
    let findings = audit(store, Some(log), &Options::new(Arc::new(SystemClock)), pace, from).await;
    let findings = findings.context("the store cannot be read")?;
    pace.finish()?;
    Ok(findings)
}

/// Opens a store that nobody serves from, and leaves it as it is.
pub(super) fn open(config: &Config) -> anyhow::Result<EmbeddedStore> {
    let directory = &config.data_dir;
    // A look must not make a store where there is none.
    ensure!(directory.exists(), "there is no data directory `{}`; name it with --data-dir", directory.display());
    let settings = embedded::Config { forgets: false, ..embedded::Config::default() };
    EmbeddedStore::open(directory, settings, Arc::new(SystemClock), Arc::new(RandomIds)).context(
        "one process holds a data directory at a time; ask the running service with --admin, or look at a copy",
    )
}
