//! The store engines that the configuration can name.
//!
//! [`StoreEngine::descriptor`] is the only match on the engine. A new engine is a module with its [`EngineDescriptor`]
//! beside the two here, and its arm of that match.

mod fleet;
mod single;

use std::collections::BTreeSet;
use std::sync::Arc;

use async_trait::async_trait;
use audit::{AuditProgress, Findings};
use ports::{Engine, ProcessRole, SecurityEvents};
use tidings_metrics::Part;
use tokio::sync::watch;

use crate::compose::ComposedService;
use crate::config::{Config, StoreEngine, without_fleet};
use crate::doctor::{CheckFinding, CheckResult, RunningService};
use crate::tools::verify::Manner;

impl StoreEngine {
    /// Everything that depends on the engine.
    pub(crate) fn descriptor(self) -> &'static dyn EngineDescriptor {
        match self {
            Self::Embedded => &single::SingleMachine,
            Self::Dynamodb => &fleet::DynamodbFleet,
        }
    }
}

/// The properties and operations of a store engine that the service and the tools of operators use.
///
/// The methods with a body are those that need the adapters of the engine. A binary without these adapters keeps the
/// bodies, which refuse.
#[async_trait]
pub(crate) trait EngineDescriptor: Sync {
    /// Whether several processes share the store. Only they have single roles, and call each other.
    fn is_shared(&self) -> bool;

    /// The substitutes for the tools that work on the files of a data directory; `None` if the data are in such files.
    fn managed_data(&self) -> Option<ManagedData>;

    /// The parts of the service that run in a process with these roles.
    fn metric_parts(&self, roles: &[ProcessRole]) -> BTreeSet<Part>;

    /// Refuses to open data that do not exist, if opening would create them.
    fn ensure_exists(&self, config: &Config) -> anyhow::Result<()>;

    /// Wires a process. Its listeners for other processes end when `stopped` becomes true.
    async fn compose(
        &self,
        _config: &Config,
        _security: Arc<dyn SecurityEvents>,
        _stopped: watch::Receiver<bool>,
    ) -> anyhow::Result<ComposedService> {
        Err(without_fleet())
    }

    /// Checks the dependencies of a configured process, without lasting changes. `running` is the service that uses them
    /// now.
    async fn examine(&self, _config: &Config, _running: Option<&RunningService>) -> Vec<CheckFinding> {
        vec![CheckFinding::new("store.engine", (CheckResult::Bad, without_fleet().to_string()))]
    }

    /// Whether the store is tables in DynamoDB, which have tools of their own: to recover a counter, and to restore the
    /// tables to a point in time.
    #[cfg(feature = "fleet")]
    fn has_dynamodb_tables(&self) -> bool {
        false
    }

    /// Opens the engine for a tool.
    async fn open(&self, _config: &Config) -> anyhow::Result<Box<dyn Engine>> {
        Err(without_fleet())
    }

    /// Audits what the deployment has besides the store and its log.
    async fn verify_rest(
        &self,
        _config: &Config,
        _manner: &Manner,
        _progress: &(dyn Fn(AuditProgress) + Send + Sync),
    ) -> anyhow::Result<Findings> {
        Err(without_fleet())
    }
}

/// How an engine without files of its own replaces the tools for them. Each is the end of a refusal.
pub(crate) struct ManagedData {
    /// Instead of a key of the store.
    pub(crate) encryption: &'static str,
    /// Instead of a check of all checksums.
    pub(crate) checksums: &'static str,
    /// Instead of a backup of the store in one file.
    pub(crate) backups: &'static str,
}
