//! The restore of the tables of a fleet to a second of the past, as new tables (ADR 022).

use anyhow::{Context, bail, ensure};
use domain::Timestamp;
pub use dynamodb::Restoration;
use dynamodb::schema::TablesRestore;
pub use dynamodb::schema::{RestorePlan, RestoredTable, TableOrigin, TableProgress};

use super::engine::dynamo_store;
use crate::config::{Config, DynamodbSettings};
use crate::engines;

/// The parameters of a restore.
#[derive(Clone, Debug)]
pub struct RestoreRequest {
    /// The time of the restored data; the latest possible one, if absent.
    pub at: Option<Timestamp>,
    /// The prefix of the new tables.
    pub into_prefix: String,
    /// Tables, without prefix, that did not exist at that time.
    pub empty: Vec<String>,
    /// Whether new tables may exist already.
    pub resume: bool,
}

/// A finished restore.
#[derive(Clone, Debug)]
pub struct RestoreOutcome {
    /// The result of the repair.
    pub restoration: Restoration,
    /// Differences of the new tables from their definition.
    pub drifts: Vec<String>,
}

/// The plan of a restore. Changes nothing.
pub async fn plan(config: &Config, request: &RestoreRequest) -> anyhow::Result<RestorePlan> {
    ensure!(
        config.store.engine.descriptor().has_dynamodb_tables(),
        "only the tables of a fleet have point-in-time recovery; `tidings store restore` restores the backup of one machine"
    );
    let RestoreRequest { at, into_prefix, empty, .. } = request;
    let old_prefix = &config.dynamodb.table_prefix;
    ensure!(
        into_prefix != old_prefix,
        "`--into-prefix {into_prefix}` is the prefix of the old tables; DynamoDB restores into new ones"
    );
    let is_allowed = |letter: char| letter.is_ascii_alphanumeric() || "_.-".contains(letter);
    ensure!(
        into_prefix.chars().all(is_allowed) && into_prefix.len() <= 32,
        "`--into-prefix {into_prefix}` must have at most 32 letters, digits, `_`, `.` or `-`"
    );
    let restore = tables(config, into_prefix).await;
    restore.plan(*at, empty).await.context("DynamoDB does not answer as expected; check region and credentials")
}

/// Performs a plan. `progress` gets the stage, and how much of it is done.
pub async fn restore(
    config: &Config,
    request: &RestoreRequest,
    plan: &RestorePlan,
    progress: impl Fn(&str, u64, u64),
) -> anyhow::Result<RestoreOutcome> {
    let into = &request.into_prefix;
    ensure!(!plan.is_finished, "the restore into `{into}` is finished; nothing was changed");
    if let Some(obstacle) = plan.tables.iter().find_map(|table| table.obstacle.as_ref()) {
        bail!("{obstacle}");
    }
    ensure!(
        request.resume || !plan.has_begun(),
        "tables with the prefix `{into}` exist; pass --resume to continue a restore, or choose another prefix"
    );
    let tables = tables(config, into).await;
    tables.copy(plan, |done, all| progress("tables", done, all)).await?;
    let dynamodb = DynamodbSettings { table_prefix: into.clone(), ..config.dynamodb.clone() };
    let target = dynamo_store(&Config { dynamodb, ..config.clone() }).await;
    target.begin_restore(plan.at).await.context("the new tables cannot be written")?;
    let drifts = tables.configure(plan, |done, all| progress("settings", done, all)).await?;
    let restoration = target.repair_restored(&dynamo_store(config).await, plan.at, progress).await;
    let restoration = restoration.context("the new tables are incomplete; run the command again with --resume")?;
    tables.finish().await?;
    target.end_restore().await?;
    Ok(RestoreOutcome { restoration, drifts: drifts.iter().map(ToString::to_string).collect() })
}

async fn tables(config: &Config, into_prefix: &str) -> TablesRestore {
    let settings = engines::dynamodb(config);
    TablesRestore::new(dynamodb::connect(&settings).await, &settings, into_prefix)
}
