use std::collections::BTreeSet;
#[cfg(feature = "fleet")]
use std::sync::Arc;

use async_trait::async_trait;
use ports::ProcessRole;
use tidings_metrics::Part;
#[cfg(feature = "fleet")]
use {
    crate::compose::{self, ComposedService},
    crate::doctor::{self, CheckFinding, RunningService},
    crate::tools::engine::FleetEngine,
    crate::tools::verify::{self, Manner},
    audit::{AuditProgress, Findings},
    ports::{Engine, SecurityEvents},
    tokio::sync::watch,
};

use super::{EngineDescriptor, ManagedData};
use crate::config::Config;

/// The store in DynamoDB, with the log in Kafka and shared state in Redis.
pub(super) struct DynamodbFleet;

#[async_trait]
impl EngineDescriptor for DynamodbFleet {
    fn is_shared(&self) -> bool {
        true
    }

    fn managed_data(&self) -> Option<ManagedData> {
        Some(ManagedData {
            encryption: "DynamoDB encrypts its tables itself",
            checksums: "DynamoDB checks the files of a fleet's tables itself",
            backups: "DynamoDB keeps backups of a fleet's tables (docs/fleet.md)",
        })
    }

    fn metric_parts(&self, roles: &[ProcessRole]) -> BTreeSet<Part> {
        let of_role = |role: &ProcessRole| -> &[Part] {
            match role {
                ProcessRole::Gateway => &[Part::Gateway],
                ProcessRole::Ingest => &[Part::Ingest, Part::Purge, Part::Relay, Part::Dynamodb, Part::Kafka],
                ProcessRole::Fanout => &[Part::Fanout, Part::Dynamodb, Part::Kafka],
                ProcessRole::Api => {
                    &[Part::Api, Part::Presence, Part::Notify, Part::Relay, Part::Dynamodb, Part::Kafka]
                }
            }
        };
        let everywhere = [Part::Process, Part::Redis, Part::Rpc];
        roles.iter().flat_map(of_role).copied().chain(everywhere).collect()
    }

    /// No tool creates tables unasked.
    fn ensure_exists(&self, _config: &Config) -> anyhow::Result<()> {
        Ok(())
    }

    #[cfg(feature = "fleet")]
    async fn compose(
        &self,
        config: &Config,
        security: Arc<dyn SecurityEvents>,
        stopped: watch::Receiver<bool>,
    ) -> anyhow::Result<ComposedService> {
        compose::fleet::compose(config, security, stopped).await
    }

    #[cfg(feature = "fleet")]
    async fn examine(&self, config: &Config, _running: Option<&RunningService>) -> Vec<CheckFinding> {
        doctor::fleet::examine(config).await
    }

    #[cfg(feature = "fleet")]
    fn has_dynamodb_tables(&self) -> bool {
        true
    }

    #[cfg(feature = "fleet")]
    async fn open(&self, config: &Config) -> anyhow::Result<Box<dyn Engine>> {
        Ok(Box::new(FleetEngine::open(config).await?))
    }

    /// Audits the routes in Redis, then tables and policies.
    #[cfg(feature = "fleet")]
    async fn verify_rest(
        &self,
        config: &Config,
        manner: &Manner,
        progress: &(dyn Fn(AuditProgress) + Send + Sync),
    ) -> anyhow::Result<Findings> {
        verify::fleet::verify(config, manner, progress).await
    }
}
