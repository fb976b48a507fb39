use std::collections::BTreeSet;
use std::sync::Arc;

use async_trait::async_trait;
use audit::{AuditProgress, Findings};
use ports::{Engine, ProcessRole, SecurityEvents};
use tidings_metrics::Part;
use tokio::sync::watch;

use super::{EngineDescriptor, ManagedData};
use crate::compose::{self, ComposedService};
use crate::config::Config;
use crate::doctor::{self, CheckFinding, RunningService};
use crate::tools::engine;
use crate::tools::verify::Manner;

/// The embedded store, with its log in the same directory.
pub(super) struct SingleMachine;

#[async_trait]
impl EngineDescriptor for SingleMachine {
    fn is_shared(&self) -> bool {
        false
    }

    fn managed_data(&self) -> Option<ManagedData> {
        None
    }

    fn metric_parts(&self, _roles: &[ProcessRole]) -> BTreeSet<Part> {
        let of_fleet = [Part::Relay, Part::Dynamodb, Part::Kafka, Part::Redis, Part::Rpc];
        Part::ALL.into_iter().filter(|part| !of_fleet.contains(part)).collect()
    }

    fn ensure_exists(&self, config: &Config) -> anyhow::Result<()> {
        engine::ensure_exists(config)
    }

    async fn compose(
        &self,
        config: &Config,
        security: Arc<dyn SecurityEvents>,
        _stopped: watch::Receiver<bool>,
    ) -> anyhow::Result<ComposedService> {
        compose::single::compose(config, security).await
    }

    async fn examine(&self, config: &Config, running: Option<&RunningService>) -> Vec<CheckFinding> {
        doctor::single::examine(config, running).await
    }

    async fn open(&self, config: &Config) -> anyhow::Result<Box<dyn Engine>> {
        Ok(Box::new(engine::embedded_store(config)?))
    }

    /// Store and log are everything.
    async fn verify_rest(
        &self,
        _config: &Config,
        _manner: &Manner,
        _progress: &(dyn Fn(AuditProgress) + Send + Sync),
    ) -> anyhow::Result<Findings> {
        Ok(Findings::default())
    }
}
