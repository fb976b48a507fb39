use std::sync::Arc;

use anyhow::Context;
use audit::{AuditProgress, Findings, audit_routes};
use domain::Invariant;
use dynamodb::schema::{self, Table, TableAspect, TableDrift};
use ports::{ProcessRole, SystemClock};
use tidings_redis::{Redis, RedisRoutes};

use super::{MOMENT, Manner, Paced};
use crate::config::Config;
use crate::engines;
use crate::tools::schema::policy_of;

/// Audits the parts of a fleet besides store and log: the routes, then tables and policies.
pub(super) async fn verify(
    config: &Config,
    manner: &Manner,
    progress: impl Fn(AuditProgress) + Send + Sync,
) -> anyhow::Result<Findings> {
    let mut findings = routes(config, manner, progress).await?;
    findings.merge(schema(config).await?);
    let policies = ProcessRole::ALL.into_iter().map(|role| Ok((role, policy_of(config, role)?)));
    findings.merge(judge_policies(&policies.collect::<anyhow::Result<Vec<_>>>()?));
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

/// Checks the policies of a fleet's roles: none of them may scan a table.
fn judge_policies(policies: &[(ProcessRole, String)]) -> Findings {
    let mut findings = Findings::default();
    for (role, policy) in policies {
        findings.check(Invariant::AccessPatternEfficiency, !policy.contains(schema::SCAN), || {
            format!("the policy of the role `{role}` allows scans of whole tables")
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
        let policy = |action: &str| format!(r#"{{"Action": ["dynamodb:GetItem", "{action}"]}}"#);
        let policies = [(ProcessRole::Api, policy("dynamodb:Query")), (ProcessRole::Fanout, policy("dynamodb:Scan"))];
        let findings = judge_policies(&policies);
        assert_eq!(violated(&findings), [Invariant::AccessPatternEfficiency]);
        assert_eq!(findings.tally(Invariant::AccessPatternEfficiency).checked, 2);
    }
}
