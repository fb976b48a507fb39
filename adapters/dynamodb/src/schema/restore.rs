//! The restore of all tables to one second of the past, as new tables under another prefix.
//!
//! DynamoDB restores each table on its own and always into a new one, which has keys, indexes and items of the old one,
//! but no time to live, no recovery, no protection from deletion and no tags. The progress of a restore is visible in
//! the account alone, so an interrupted one continues from any step.
//!
//! The tables agree to the second, not to the transaction: each of them may have some changes of a transaction of that
//! second and lack others. `restoration` repairs that.

use std::time::Duration;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::Error;
use aws_sdk_dynamodb::primitives::DateTime;
use aws_sdk_dynamodb::types::{BillingMode, TableDescription, TableStatus};
use domain::{Backoff, Timestamp};
use tokio::time::sleep;

use super::live::Live;
use super::{SchemaError, Table, TableDrift, diff};
use crate::Config;

/// Delays between two looks at tables that are being restored, which takes minutes to hours.
const BACKOFF: Backoff = Backoff { first: Duration::from_millis(200), longest: Duration::from_secs(15) };

/// The tag with the time that a table was restored to.
const RESTORED_TO: &str = "restored-to";
/// The tag of the table of chats after the restore of all tables, and its value.
const RESTORE: &str = "restore";
const FINISHED: &str = "finished";

/// A restore of the tables of one prefix into those of another.
#[derive(Debug)]
pub struct TablesRestore {
    client: Client,
    source: Config,
    target: Config,
}

/// The steps of a restore, and their progress.
#[derive(Clone, Debug)]
pub struct RestorePlan {
    /// The time of the restored data, a whole second.
    pub at: Timestamp,
    /// All tables.
    pub tables: Vec<RestoredTable>,
    /// Whether everything is done.
    pub is_finished: bool,
}

/// A table of the plan.
#[derive(Clone, Debug)]
pub struct RestoredTable {
    table: Table,
    /// The name of the old table.
    pub source: String,
    /// The name of the new table.
    pub target: String,
    /// The origin of the items of the new table.
    pub origin: TableOrigin,
    /// The size of the old table, as of some hours ago.
    pub bytes: u64,
    /// The progress of the new table.
    pub progress: TableProgress,
    /// Why the table cannot be restored, and the remedy.
    pub obstacle: Option<String>,
}

/// The origin of the items of a new table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableOrigin {
    /// The old table at the time of the restore.
    PointInTime,
    /// None: the old table has only short-lived items, or did not exist at that time.
    Empty,
}

/// The progress of a new table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableProgress {
    /// It does not exist.
    Absent,
    /// Its items are being copied.
    Restoring,
    /// Its items are complete.
    Active,
}

impl RestorePlan {
    /// Whether some of the new tables exist already.
    pub fn has_begun(&self) -> bool {
        self.tables.iter().any(|table| table.progress != TableProgress::Absent)
    }
}

/// An old table.
struct Source {
    description: Option<TableDescription>,
    window: Option<Window>,
}

/// The times to which a table can be restored, in seconds.
#[derive(Clone, Copy)]
struct Window {
    earliest: i64,
    latest: i64,
}

impl TablesRestore {
    /// A restore of the tables that `source` names into those with the prefix `into`.
    pub fn new(client: Client, source: &Config, into: &str) -> Self {
        let target = Config { table_prefix: into.to_owned(), ..source.clone() };
        Self { client, source: source.clone(), target }
    }

    /// The plan of a restore to a time, or to the latest possible one. `empty` names tables, without prefix, that did
    /// not exist at that time. Changes nothing.
    pub async fn plan(&self, at: Option<Timestamp>, empty: &[String]) -> Result<RestorePlan, SchemaError> {
        let mut sources = vec![];
        for table in Table::ALL {
            let live = self.source(table);
            let description = live.describe().await?;
            let mut window = None;
            if description.is_some() && table.definition().backed_up {
                let recovery = live.recovery().await?;
                window = recovery.and_then(|recovery| {
                    let earliest = recovery.earliest_restorable_date_time?.secs();
                    Some(Window { earliest, latest: recovery.latest_restorable_date_time?.secs() })
                });
            }
            sources.push((table, Source { description, window }));
        }
        let latest = sources.iter().filter_map(|(_, source)| source.window).map(|window| window.latest).min();
        let latest = Timestamp::from_millis(u64::try_from(latest.unwrap_or(0)).unwrap_or(0).saturating_mul(1000));
        let at = at.map_or(latest, |at| Timestamp::from_millis(at.as_secs() * 1000));
        let mut plan = RestorePlan { at, tables: vec![], is_finished: false };
        for (table, source) in sources {
            plan.tables.push(self.planned(table, &source, at, empty).await?);
        }
        let chats = self.target(Table::Chats);
        let arn = chats.describe().await?.and_then(|chats| chats.table_arn);
        if let Some(arn) = arn {
            plan.is_finished = chats.tagged(&arn, RESTORE).await?.as_deref() == Some(FINISHED);
        }
        Ok(plan)
    }

    async fn planned(
        &self,
        table: Table,
        source: &Source,
        at: Timestamp,
        empty: &[String],
    ) -> Result<RestoredTable, SchemaError> {
        let (old, new) = (self.source(table), self.target(table));
        let is_empty = !table.definition().backed_up || empty.iter().any(|name| name == table.name());
        let origin = if is_empty { TableOrigin::Empty } else { TableOrigin::PointInTime };
        let found = new.describe().await?;
        let progress = match found.as_ref().and_then(|found| found.table_status.as_ref()) {
            None => TableProgress::Absent,
            Some(TableStatus::Creating) => TableProgress::Restoring,
            Some(_) => TableProgress::Active,
        };
        let mut obstacle = match origin {
            TableOrigin::Empty => None,
            TableOrigin::PointInTime => obstacle(table, &old.name, source, at),
        };
        if let Some(found) = &found
            && origin == TableOrigin::PointInTime
            && let Some(other) = self.restored_otherwise(&new, found, source, at).await?
        {
            let name = &new.name;
            obstacle = Some(format!("`{name}` was restored {other}; choose another prefix, or delete the new tables"));
        }
        let bytes = source.description.as_ref().and_then(|old| old.table_size_bytes).unwrap_or(0);
        let bytes = u64::try_from(bytes).unwrap_or(0);
        Ok(RestoredTable {
            table,
            source: old.name.clone(),
            target: new.name.clone(),
            origin,
            bytes,
            progress,
            obstacle,
        })
    }

    /// How an existing table was restored, if not by this restore.
    async fn restored_otherwise(
        &self,
        new: &Live<'_>,
        found: &TableDescription,
        source: &Source,
        at: Timestamp,
    ) -> Result<Option<String>, SchemaError> {
        if let Some(summary) = &found.restore_summary {
            let old = source.description.as_ref().and_then(|old| old.table_arn.as_deref());
            if let Some(from) = summary.source_table_arn().filter(|from| Some(*from) != old) {
                return Ok(Some(format!("from `{from}`")));
            }
            let secs = u64::try_from(summary.restore_date_time().secs()).unwrap_or(0);
            let to = Timestamp::from_millis(secs.saturating_mul(1000));
            return Ok((to != at).then(|| format!("to {to}")));
        }
        let (Some(arn), Some(TableStatus::Active)) = (&found.table_arn, &found.table_status) else { return Ok(None) };
        let to = new.tagged(arn, RESTORED_TO).await?;
        Ok(to.filter(|to| *to != at.to_string()).map(|to| format!("to {to}")))
    }

    /// Begins the restore of every absent table, and waits until all of them are complete. `progress` gets the number
    /// of complete tables and of all.
    pub async fn copy(&self, plan: &RestorePlan, progress: impl Fn(u64, u64)) -> Result<(), SchemaError> {
        let (mut left, mut looks): (Vec<&RestoredTable>, u32) = (plan.tables.iter().collect(), 0);
        loop {
            let mut waiting = vec![];
            for table in left {
                let target = self.target(table.table);
                match target.describe().await?.and_then(|target| target.table_status) {
                    Some(TableStatus::Creating) => waiting.push(table),
                    Some(_) => {}
                    None => {
                        self.begin(table, plan.at).await?;
                        waiting.push(table);
                    }
                }
            }
            progress((plan.tables.len() - waiting.len()) as u64, plan.tables.len() as u64);
            if waiting.is_empty() {
                return Ok(());
            }
            left = waiting;
            looks += 1;
            sleep(BACKOFF.delay(looks)).await;
        }
    }

    /// Begins the restore of a table, unless the account has too many restores at the moment.
    async fn begin(&self, table: &RestoredTable, at: Timestamp) -> Result<(), SchemaError> {
        let target = self.target(table.table);
        if table.origin == TableOrigin::Empty {
            return target.create().await;
        }
        let secs = i64::try_from(at.as_secs()).unwrap_or(i64::MAX);
        let request = self
            .client
            .restore_table_to_point_in_time()
            .source_table_name(&table.source)
            .target_table_name(&table.target)
            .restore_date_time(DateTime::from_secs(secs))
            .billing_mode_override(BillingMode::PayPerRequest);
        match request.send().await.map_err(Error::from) {
            // A request whose answer was lost has made the table.
            Ok(_) | Err(Error::TableAlreadyExistsException(_) | Error::TableInUseException(_)) => Ok(()),
            Err(Error::LimitExceededException(_)) => Ok(()),
            Err(error) => Err(target.failed("its restore")(error)),
        }
    }

    /// Sets what a restore leaves out: time to live, backups, protection from deletion, and tags. Returns the remaining
    /// differences from the definition.
    pub async fn configure(
        &self,
        plan: &RestorePlan,
        progress: impl Fn(u64, u64),
    ) -> Result<Vec<TableDrift>, SchemaError> {
        let at = plan.at.to_string();
        let tags = [
            ("application", "tidings"),
            ("table-prefix", self.target.table_prefix.as_str()),
            ("restored-from", self.source.table_prefix.as_str()),
            (RESTORED_TO, at.as_str()),
        ];
        for (done, planned) in plan.tables.iter().enumerate() {
            progress(done as u64, plan.tables.len() as u64);
            let live = self.target(planned.table);
            let Some(found) = live.describe().await? else { continue };
            if live.definition.expires && !live.expires().await? {
                live.let_expire().await?;
            }
            let is_kept = live.definition.backed_up && self.target.point_in_time_recovery;
            if is_kept && !live.is_backed_up().await? {
                live.back_up().await?;
            }
            if let Some(arn) = &found.table_arn {
                live.tag(arn, &tags).await?;
            }
            if is_kept && found.deletion_protection_enabled != Some(true) {
                live.protect().await?;
            }
        }
        diff(&self.client, &self.target).await
    }

    /// Records that everything is done, so that it is not done again.
    pub async fn finish(&self) -> Result<(), SchemaError> {
        let chats = self.target(Table::Chats);
        match chats.describe().await?.and_then(|chats| chats.table_arn) {
            Some(arn) => chats.tag(&arn, &[(RESTORE, FINISHED)]).await,
            None => Ok(()),
        }
    }

    fn source(&self, table: Table) -> Live<'_> {
        Live::new(&self.client, &self.source, table)
    }

    fn target(&self, table: Table) -> Live<'_> {
        Live::new(&self.client, &self.target, table)
    }
}

/// Why a table cannot be restored to a time.
fn obstacle(table: Table, name: &str, source: &Source, at: Timestamp) -> Option<String> {
    if source.description.is_none() {
        return Some(format!(
            "`{name}` does not exist; if it was deleted, restore the system backup that DynamoDB has made of it to that \
             name first"
        ));
    }
    let Some(Window { earliest, latest }) = source.window else {
        return Some(format!("`{name}` has no point-in-time recovery; `tidings store schema apply` enables it"));
    };
    let at = i64::try_from(at.as_secs()).unwrap_or(i64::MAX);
    let time = |secs: i64| Timestamp::from_millis(u64::try_from(secs).unwrap_or(0).saturating_mul(1000));
    if at > latest {
        return Some(format!("`{name}` can be restored to {} at the latest", time(latest)));
    }
    // A window without length says nothing about the past; then the service decides.
    if at < earliest && earliest < latest {
        return Some(format!(
            "`{name}` can be restored to {} at the earliest; if it did not exist before, pass `--empty {}`",
            time(earliest),
            table.name()
        ));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(secs: u64) -> Timestamp {
        Timestamp::from_millis(secs * 1000)
    }

    fn check(description: Option<TableDescription>, window: Option<(i64, i64)>, at: u64, expected: Option<&str>) {
        let window = window.map(|(earliest, latest)| Window { earliest, latest });
        let said = obstacle(Table::Users, "tidings_users", &Source { description, window }, seconds(at));
        let is_expected = match expected {
            Some(part) => said.as_deref().is_some_and(|said| said.contains(part)),
            None => said.is_none(),
        };
        assert!(is_expected, "{said:?}");
    }

    #[test]
    fn a_table_is_restored_only_to_times_that_the_service_has() {
        let table = || Some(TableDescription::builder().build());
        check(table(), Some((100, 200)), 100, None);
        check(table(), Some((100, 200)), 200, None);
        check(table(), Some((100, 200)), 201, Some("1970-01-01T00:03:20.000Z at the latest"));
        check(table(), Some((100, 200)), 99, Some("pass `--empty users`"));
        check(table(), Some((100, 100)), 99, None);
        check(table(), None, 150, Some("has no point-in-time recovery"));
        check(None, None, 150, Some("does not exist"));
    }
}
