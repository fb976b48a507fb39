use std::collections::BTreeSet;
use std::sync::Arc;

use anyhow::Context;
use audit::{AuditProgress, Findings, audit_routes};
use domain::Invariant;
use dynamodb::schema::{self, Table, TableAction, TableAspect, TableDrift};
use ports::{ProcessRole, SystemClock};
use tidings_redis::{Redis, RedisRoutes};

use super::{MOMENT, Manner, Paced};
use crate::config::Config;
use crate::engines;

/// Audits the parts of a fleet besides store and log: the routes, then tables and policies.
pub(crate) async fn verify(
    config: &Config,
    manner: &Manner,
    progress: impl Fn(AuditProgress) + Send + Sync,
) -> anyhow::Result<Findings> {
    let mut findings = routes(config, manner, progress).await?;
    findings.merge(schema(config).await?);
    findings.merge(judge_scans(ProcessRole::ALL.map(|role| (role, scanned_by(role)))));
    Ok(findings)
}

async fn routes(
    config: &Config,
    manner: &Manner,
    progress: impl Fn(AuditProgress) + Send + Sync,
) -> anyhow::Result<Findings> {
    let redis = Redis::open(engines::redis(config)?, Arc::new(SystemClock)).context("Redis cannot be used")?;
    let routes = RedisRoutes::new(redis, config.expiry());
    // There are few routes, so no checkpoint is needed.
    let manner = Manner { checkpoint: None, ..manner.clone() };
    let (pace, _) = Paced::new(&manner, String::new(), MOMENT, progress)?;
    audit_routes(&routes, &pace).await.context("the routes cannot be read")
}

async fn schema(config: &Config) -> anyhow::Result<Findings> {
    let tables = engines::dynamodb(config);
    let client = dynamodb::connect(&tables).await;
    let drifts = schema::diff(&client, &tables).await.context("cannot describe the tables of DynamoDB")?;
    Ok(judge_schema(drifts, tables.point_in_time_recovery))
}

/// Compares the live tables with their definition: unused or missing indexes, backups if they are wanted, and the
/// expiry of items.
fn judge_schema(drifts: Vec<TableDrift>, wants_backups: bool) -> Findings {
    let mut findings = Findings::default();
    let backed_up = Table::ALL.into_iter().filter(|table| table.definition().backed_up).count();
    findings.checked(Invariant::GsiJustification, Table::ALL.len() as u64);
    findings.checked(Invariant::TtlBoundedTables, Table::ALL.len() as u64);
    if wants_backups {
        findings.checked(Invariant::BackupEnabled, backed_up as u64);
    }
    for drift in drifts {
        let invariant = match drift.aspect {
            TableAspect::Index => Invariant::GsiJustification,
            TableAspect::Backups => Invariant::BackupEnabled,
            TableAspect::TimeToLive => Invariant::TtlBoundedTables,
            // `tidings store schema diff` reports these; no invariant depends on them.
            TableAspect::Missing | TableAspect::Keys | TableAspect::Billing => continue,
        };
        findings.violate(invariant, drift.to_string());
    }
    findings
}

/// The tables that the policy of a role allows to scan.
fn scanned_by(role: ProcessRole) -> Vec<Table> {
    let may_scan = |actions: &BTreeSet<TableAction>| actions.contains(&TableAction::Scan);
    schema::access(role).into_iter().filter(|(_, actions)| may_scan(actions)).map(|(table, _)| table).collect()
}

/// Checks the policies of a fleet's roles: none of them may scan a table, except that `api` lists the chats for the
/// retention of the service, in the background.
fn judge_scans(policies: impl IntoIterator<Item = (ProcessRole, Vec<Table>)>) -> Findings {
    let mut findings = Findings::default();
    for (role, mut scanned) in policies {
        scanned.retain(|table| (role, *table) != (ProcessRole::Api, Table::Chats));
        findings.check(Invariant::AccessPatternEfficiency, scanned.is_empty(), || {
            format!("the policy of the role `{role}` allows scans of whole tables: {scanned:?}")
        });
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn violated(findings: &Findings) -> Vec<Invariant> {
        findings.violations().map(|violation| violation.invariant).collect()
    }

    #[test]
    fn a_drifted_table_violates_the_invariant_that_depends_on_it() {
        let cases = [
            (TableAspect::Missing, None),
            (TableAspect::Keys, None),
            (TableAspect::Index, Some(Invariant::GsiJustification)),
            (TableAspect::TimeToLive, Some(Invariant::TtlBoundedTables)),
            (TableAspect::Billing, None),
            (TableAspect::Backups, Some(Invariant::BackupEnabled)),
        ];
        for (aspect, expected) in cases {
            let findings = judge_schema(vec![TableDrift { table: "messages".to_owned(), aspect }], true);
            assert_eq!(violated(&findings), Vec::from_iter(expected), "{aspect:?}");
            for invariant in [Invariant::GsiJustification, Invariant::TtlBoundedTables, Invariant::BackupEnabled] {
                assert!(findings.tally(invariant).checked > 0, "{invariant}");
            }
        }
        assert_eq!(judge_schema(vec![], false).tally(Invariant::BackupEnabled).checked, 0, "backups are not wanted");
    }

    #[test]
    fn a_role_that_may_read_whole_tables_is_found() {
        for (role, scanned) in [
            (ProcessRole::Fanout, vec![Table::Chats]),
            (ProcessRole::Ingest, vec![Table::Messages]),
            (ProcessRole::Api, vec![Table::Chats, Table::Users]),
        ] {
            let findings = judge_scans([(ProcessRole::Gateway, vec![]), (role, scanned)]);
            assert_eq!(violated(&findings), [Invariant::AccessPatternEfficiency]);
            assert_eq!(findings.tally(Invariant::AccessPatternEfficiency).checked, 2);
        }
        let as_shipped = judge_scans(ProcessRole::ALL.map(|role| (role, scanned_by(role))));
        assert_eq!(violated(&as_shipped), []);
    }
}
