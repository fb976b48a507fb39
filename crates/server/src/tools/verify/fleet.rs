use std::sync::Arc;

use anyhow::Context;
use audit::{Findings, Progress, audit_routes};
use domain::Invariant;
use dynamodb::schema::{self, Aspect, Drift, Table};
use fanout::Fanout;
use notify::{EventWebhook, Notifications};
use ports::{ProcessRole, SystemClock};
use tidings_kafka::KafkaAudit;
use tidings_redis::{Redis, RedisRoutes};

use super::{MOMENT, Manner, Paced, rows};
use crate::config::Config;
use crate::engines;
use crate::tools::opened::dynamo_store;
use crate::tools::schema::policy_of;

/// Checks a fleet: store and log, then the routes, then what the account is made of.
pub(super) async fn verify(
    config: &Config,
    manner: &Manner,
    progress: impl Fn(Progress) + Send + Sync,
) -> anyhow::Result<Findings> {
    let store = dynamo_store(config).await;
    let groups = [Fanout::GROUP, EventWebhook::GROUP, Notifications::GROUP].map(str::to_owned).to_vec();
    let log = KafkaAudit::open(engines::kafka(config)?, Arc::new(SystemClock), groups);
    let log = log.context("Kafka cannot be used")?;
    let tables = engines::dynamodb(config);
    let place = tables.endpoint.as_deref().or(tables.region.as_deref()).unwrap_or_default();
    let of = format!("dynamodb {place} {}", tables.table_prefix);
    let (pace, from) = Paced::new(manner, of, MOMENT, &progress)?;
    let mut findings = rows(&store, &log, &pace, from).await?;
    findings.merge(routes(config, manner, &progress).await?);
    findings.merge(schema(config).await?);
    let policies = ProcessRole::ALL.into_iter().map(|role| Ok((role, policy_of(config, role)?)));
    findings.merge(judge_policies(&policies.collect::<anyhow::Result<Vec<_>>>()?));
    Ok(findings)
}

async fn routes(
    config: &Config,
    manner: &Manner,
    progress: impl Fn(Progress) + Send + Sync,
) -> anyhow::Result<Findings> {
    let redis = Redis::open(engines::redis(config)?, Arc::new(SystemClock)).context("Redis cannot be used")?;
    let routes = RedisRoutes::new(redis, config.expiry());
    // There are few enough of them to begin anew.
    let manner = Manner { checkpoint: None, ..manner.clone() };
    let (pace, _) = Paced::new(&manner, String::new(), MOMENT, progress)?;
    audit_routes(&routes, &pace).await.context("the routes cannot be read")
}

async fn schema(config: &Config) -> anyhow::Result<Findings> {
    let tables = engines::dynamodb(config);
    let client = dynamodb::connect(&tables).await;
    let drifts = schema::diff(&client, &tables).await.context("DynamoDB does not say what its tables are")?;
    Ok(judge_schema(drifts, tables.point_in_time_recovery))
}

/// The live tables against their definition: an index that nothing of ours asks, or that is missing; backups, where they
/// are wanted; and whether items end by themselves.
fn judge_schema(drifts: Vec<Drift>, wants_backups: bool) -> Findings {
    let mut findings = Findings::default();
    let backed_up = Table::ALL.into_iter().filter(|table| table.definition().backed_up).count();
    findings.checked(Invariant::GsiJustification, Table::ALL.len() as u64);
    findings.checked(Invariant::TtlBoundedTables, Table::ALL.len() as u64);
    if wants_backups {
        findings.checked(Invariant::BackupEnabled, backed_up as u64);
    }
    for drift in drifts {
        let invariant = match drift.aspect {
            Aspect::Index => Invariant::GsiJustification,
            Aspect::Backups => Invariant::BackupEnabled,
            Aspect::TimeToLive => Invariant::TtlBoundedTables,
            // `tidings schema diff` says these; no promise hangs on them.
            Aspect::Missing | Aspect::Keys | Aspect::Billing => continue,
        };
        findings.violate(invariant, drift.to_string());
    }
    findings
}

/// What AWS lets the processes of a fleet do, as we tell it: none of them reads a whole table.
fn judge_policies(policies: &[(ProcessRole, String)]) -> Findings {
    let mut findings = Findings::default();
    for (role, policy) in policies {
        findings.check(Invariant::AccessPatternEfficiency, !policy.contains(schema::SCAN), || {
            format!("the policy of the role `{role}` allows to read whole tables")
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
    fn tables_that_drifted_break_the_promise_that_hangs_on_it() {
        let cases = [
            (Aspect::Missing, None),
            (Aspect::Keys, None),
            (Aspect::Index, Some(Invariant::GsiJustification)),
            (Aspect::TimeToLive, Some(Invariant::TtlBoundedTables)),
            (Aspect::Billing, None),
            (Aspect::Backups, Some(Invariant::BackupEnabled)),
        ];
        for (aspect, expected) in cases {
            let findings = judge_schema(vec![Drift { table: "messages".to_owned(), aspect }], true);
            assert_eq!(violated(&findings), Vec::from_iter(expected), "{aspect:?}");
            for invariant in [Invariant::GsiJustification, Invariant::TtlBoundedTables, Invariant::BackupEnabled] {
                assert!(findings.tally(invariant).checked > 0, "{invariant}");
            }
        }
        assert_eq!(judge_schema(vec![], false).tally(Invariant::BackupEnabled).checked, 0, "nobody wants any");
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
