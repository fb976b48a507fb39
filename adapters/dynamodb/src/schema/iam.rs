//! The IAM policies of roles.
//!
//! They only allow. Actions without a statement are refused, and a process with two roles gets the policies of both.
//! Access to tables and to the log are two policies, because each has a size limit. Statements name tables, indexes,
//! topics and groups individually, without patterns. No role may scan, except that `api` may list the chats, for the retention of the service.

use std::collections::BTreeMap;

use ports::ProcessRole;
use serde_json::{Value, json};

use super::access::{TableAction, access};
use super::{Index, Table};
use crate::Config;

/// The AWS location of a fleet.
#[derive(Clone, Debug)]
pub struct AwsSite {
    /// `aws`, or `aws-cn` and the like.
    pub partition: String,
    /// The region of tables and topics.
    pub region: String,
    /// The account, twelve digits.
    pub account_id: String,
    /// The MSK cluster that uses IAM authentication, as its ARN ends: `NAME/UUID`. Without it, policies do not cover
    /// the log.
    pub msk_cluster: Option<String>,
}

/// The names of the event log's topics and groups in Kafka.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogNames {
    /// The event topics.
    pub topics: Vec<String>,
    /// The dead-letter topic for unreadable records.
    pub dead_letters: String,
    /// The consumer groups, each with the role of its processes.
    pub groups: Vec<(ProcessRole, String)>,
}

/// The policy of a role for tables, as JSON; `None` for a role without table access.
pub fn iam(config: &Config, site: &AwsSite, role: ProcessRole) -> Option<String> {
    said(table_statements(role, &ArnParts::of(config, site)))
}

/// The policy of a role for the log, as JSON; `None` for a role without log access, or without a cluster.
pub fn log_iam(config: &Config, site: &AwsSite, log: &LogNames, role: ProcessRole) -> Option<String> {
    site.msk_cluster.as_ref()?;
    said(log_statements(role, log, &ArnParts::of(config, site)))
}

fn said(statements: Vec<Statement>) -> Option<String> {
    let statements: Vec<Value> = statements.into_iter().map(|statement| statement.json(Value::String)).collect();
    (!statements.is_empty()).then(|| format!("{:#}\n", document(statements)))
}

/// The IAM action for reading a whole table.
pub const SCAN: &str = "dynamodb:Scan";

/// The table actions of an auditor: reading all items, and the configuration of tables.
const AUDITS: [&str; 7] = [
    "dynamodb:GetItem",
    "dynamodb:BatchGetItem",
    "dynamodb:Query",
    SCAN,
    "dynamodb:DescribeTable",
    "dynamodb:DescribeTimeToLive",
    "dynamodb:DescribeContinuousBackups",
];

/// The policy of an auditor who runs `tidings store verify`, as JSON. It is for a person, not for a role: it alone
/// allows scans of all tables, and it allows no writes.
pub fn auditor_iam(config: &Config, site: &AwsSite, log: &LogNames) -> String {
    let arns = ArnParts::of(config, site);
    let tables = Table::ALL.map(|table| arns.table(table)).to_vec();
    let mut statements = vec![Statement { actions: AUDITS.to_vec(), resources: tables }];
    if site.msk_cluster.is_some() {
        let topics = log.topics.iter().map(|name| arns.kafka("topic", Some(name))).collect();
        let groups = log.groups.iter().map(|(_, group)| arns.kafka("group", Some(group))).collect();
        for (actions, resources) in [
            (vec!["kafka-cluster:Connect"], vec![arns.kafka("cluster", None)]),
            (vec!["kafka-cluster:DescribeTopic", "kafka-cluster:ReadData"], topics),
            (vec!["kafka-cluster:DescribeGroup"], groups),
        ] {
            statements.push(Statement { actions, resources });
        }
    }
    let statements = statements.into_iter().map(|statement| statement.json(Value::String)).collect();
    format!("{:#}\n", document(statements))
}

/// A policy document with these statements.
pub(super) fn document(statements: Vec<Value>) -> Value {
    json!({ "Version": "2012-10-17", "Statement": statements })
}

/// The parts of an ARN, apart from resource names.
pub(super) struct ArnParts<'a> {
    pub(super) partition: &'a str,
    pub(super) region: &'a str,
    pub(super) account_id: &'a str,
    pub(super) table_prefix: &'a str,
    pub(super) msk_cluster: &'a str,
}

impl<'a> ArnParts<'a> {
    fn of(config: &'a Config, site: &'a AwsSite) -> Self {
        Self {
            partition: &site.partition,
            region: &site.region,
            account_id: &site.account_id,
            table_prefix: &config.table_prefix,
            msk_cluster: site.msk_cluster.as_deref().unwrap_or_default(),
        }
    }

    fn table(&self, table: Table) -> String {
        let Self { partition, region, account_id, table_prefix, .. } = self;
        format!("arn:{partition}:dynamodb:{region}:{account_id}:table/{table_prefix}{}", table.name())
    }

    fn index(&self, table: Table, index: Index) -> String {
        format!("{}/index/{}", self.table(table), index.name)
    }

    /// The ARN of the cluster, or of one of its topics or groups.
    fn kafka(&self, kind: &str, name: Option<&str>) -> String {
        let Self { partition, region, account_id, msk_cluster, .. } = self;
        let name = name.map(|name| format!("/{name}")).unwrap_or_default();
        format!("arn:{partition}:kafka:{region}:{account_id}:{kind}/{msk_cluster}{name}")
    }
}

/// An allow statement.
pub(super) struct Statement {
    actions: Vec<&'static str>,
    resources: Vec<String>,
}

impl Statement {
    /// The statement as JSON; `resource` formats each resource.
    pub(super) fn json(self, resource: impl FnMut(String) -> Value) -> Value {
        let resources: Vec<Value> = self.resources.into_iter().map(resource).collect();
        json!({ "Effect": "Allow", "Action": self.actions, "Resource": resources })
    }
}

/// The table statements of a role. Tables with the same actions share a statement, because policies have a size limit.
pub(super) fn table_statements(role: ProcessRole, arns: &ArnParts<'_>) -> Vec<Statement> {
    let mut shared: BTreeMap<Vec<&'static str>, Vec<String>> = BTreeMap::new();
    for (table, allowed) in access(role) {
        let (of_index, of_table): (Vec<TableAction>, Vec<TableAction>) =
            allowed.into_iter().partition(|action| *action == TableAction::QueryIndex);
        let names = |actions: Vec<TableAction>| actions.into_iter().map(TableAction::name).collect::<Vec<_>>();
        let index = table.definition().index.filter(|_| !of_index.is_empty());
        if let Some(index) = index {
            shared.entry(names(of_index)).or_default().push(arns.index(table, index));
        }
        if !of_table.is_empty() {
            shared.entry(names(of_table)).or_default().push(arns.table(table));
        }
    }
    shared.into_iter().map(|(actions, resources)| Statement { actions, resources }).collect()
}

/// The log statements of a role.
pub(super) fn log_statements(role: ProcessRole, log: &LogNames, arns: &ArnParts<'_>) -> Vec<Statement> {
    let topics = |names: &[String]| names.iter().map(|name| arns.kafka("topic", Some(name))).collect::<Vec<_>>();
    let groups = log.groups.iter().filter(|(reader, _)| *reader == role);
    let groups: Vec<String> = groups.map(|(_, group)| arns.kafka("group", Some(group))).collect();
    let produces = matches!(role, ProcessRole::Ingest | ProcessRole::Api);
    let mut statements = vec![];
    let mut allow = |actions: &[&'static str], resources: Vec<String>| {
        statements.push(Statement { actions: actions.to_vec(), resources });
    };
    if produces {
        let cluster = vec![arns.kafka("cluster", None)];
        allow(&["kafka-cluster:Connect", "kafka-cluster:WriteDataIdempotently"], cluster);
        let mut written = topics(&log.topics);
        // Consumers that may write also copy unreadable records to the dead-letter topic.
        if !groups.is_empty() {
            written.extend(topics(std::slice::from_ref(&log.dead_letters)));
        }
        allow(&["kafka-cluster:DescribeTopic", "kafka-cluster:WriteData"], written);
    } else if !groups.is_empty() {
        allow(&["kafka-cluster:Connect"], vec![arns.kafka("cluster", None)]);
    }
    if !groups.is_empty() {
        allow(&["kafka-cluster:DescribeTopic", "kafka-cluster:ReadData"], topics(&log.topics));
        allow(&["kafka-cluster:AlterGroup", "kafka-cluster:DescribeGroup"], groups);
    }
    statements
}

#[cfg(test)]
pub(super) mod tests {
    use expect_test::expect;

    use super::*;

    /// The size limit of a policy in AWS, without whitespace.
    const POLICY_LEN_MAX: usize = 6144;

    pub(in super::super) fn log_names() -> LogNames {
        let named = |name: &str| name.to_owned();
        LogNames {
            topics: ["messages.persisted", "memberships.changed", "chats.created"].map(named).into(),
            dead_letters: named("dead_letters"),
            groups: vec![
                (ProcessRole::Fanout, named("tidings.fanout")),
                (ProcessRole::Api, named("tidings.notify")),
                (ProcessRole::Api, named("tidings.webhook")),
            ],
        }
    }

    fn site(msk_cluster: Option<&str>) -> AwsSite {
        AwsSite {
            partition: "aws".to_owned(),
            region: "eu-central-1".to_owned(),
            account_id: "123456789012".to_owned(),
            msk_cluster: msk_cluster.map(str::to_owned),
        }
    }

    /// All statements of a role.
    fn policy(role: ProcessRole) -> Option<Value> {
        let (config, site) = (Config::default(), site(Some("events/0a1b-2c")));
        let policies = [iam(&config, &site, role), log_iam(&config, &site, &log_names(), role)];
        let statements = policies.into_iter().flatten().flat_map(|policy| {
            let policy: Value = serde_json::from_str(&policy).unwrap();
            policy["Statement"].as_array().unwrap().clone()
        });
        let statements: Vec<Value> = statements.collect();
        (!statements.is_empty()).then(|| document(statements))
    }

    /// The statements, one per line, without the common part of the ARNs.
    fn said(policy: &Value) -> String {
        let words = |value: &Value| {
            let words = value.as_array().unwrap().iter().map(|word| word.as_str().unwrap().to_owned());
            words.collect::<Vec<_>>().join(" ")
        };
        let statements = policy["Statement"].as_array().unwrap().iter();
        let lines = statements.map(|statement| {
            assert_eq!(statement["Effect"], "Allow");
            format!("{}: {}\n", words(&statement["Action"]), words(&statement["Resource"]))
        });
        let shorter = |line: String| {
            let line = line.replace("arn:aws:dynamodb:eu-central-1:123456789012:", "");
            line.replace("arn:aws:kafka:eu-central-1:123456789012:", "").replace("kafka-cluster:", "kafka:")
        };
        lines.map(shorter).collect()
    }

    #[test]
    fn a_gateway_has_no_policy() {
        assert_eq!(policy(ProcessRole::Gateway), None);
    }

    #[test]
    fn fanout_reads_members_and_events_and_writes_nothing() {
        expect![[r#"
            dynamodb:BatchGetItem: table/tidings_chat_counters
            dynamodb:GetItem: table/tidings_direct_chats
            dynamodb:GetItem dynamodb:BatchGetItem: table/tidings_chats
            dynamodb:GetItem dynamodb:BatchGetItem dynamodb:Query: table/tidings_chat_memberships
            dynamodb:Query: table/tidings_delivery_state
            kafka:Connect: cluster/events/0a1b-2c
            kafka:DescribeTopic kafka:ReadData: topic/events/0a1b-2c/messages.persisted topic/events/0a1b-2c/memberships.changed topic/events/0a1b-2c/chats.created
            kafka:AlterGroup kafka:DescribeGroup: group/events/0a1b-2c/tidings.fanout
        "#]].assert_eq(&said(&policy(ProcessRole::Fanout).unwrap()));
    }

    #[test]
    fn ingest_commits_and_publishes() {
        expect![[r#"
            dynamodb:BatchGetItem dynamodb:PutItem: table/tidings_idempotency_keys
            dynamodb:BatchGetItem dynamodb:Query dynamodb:PutItem dynamodb:DeleteItem: table/tidings_reactions
            dynamodb:BatchGetItem dynamodb:Query dynamodb:UpdateItem: table/tidings_delivery_state
            dynamodb:GetItem: table/tidings_direct_chats
            dynamodb:GetItem dynamodb:BatchGetItem: table/tidings_chats
            dynamodb:GetItem dynamodb:BatchGetItem dynamodb:Query dynamodb:ConditionCheckItem: table/tidings_chat_memberships
            dynamodb:GetItem dynamodb:BatchGetItem dynamodb:Query dynamodb:PutItem dynamodb:UpdateItem dynamodb:DeleteItem: table/tidings_messages
            dynamodb:GetItem dynamodb:BatchGetItem dynamodb:UpdateItem: table/tidings_chat_counters
            dynamodb:GetItem dynamodb:PutItem: table/tidings_message_locations
            dynamodb:GetItem dynamodb:Query: table/tidings_restrictions
            dynamodb:Query: table/tidings_messages/index/message_id-index table/tidings_chat_counters/index/dirty-index table/tidings_outbox/index/age-index
            dynamodb:Query dynamodb:PutItem: table/tidings_updates
            dynamodb:Query dynamodb:PutItem dynamodb:DeleteItem: table/tidings_outbox
            dynamodb:Query dynamodb:PutItem dynamodb:UpdateItem dynamodb:DeleteItem: table/tidings_expirations
            kafka:Connect kafka:WriteDataIdempotently: cluster/events/0a1b-2c
            kafka:DescribeTopic kafka:WriteData: topic/events/0a1b-2c/messages.persisted topic/events/0a1b-2c/memberships.changed topic/events/0a1b-2c/chats.created
        "#]].assert_eq(&said(&policy(ProcessRole::Ingest).unwrap()));
    }

    #[test]
    fn the_api_reads_events_publishes_its_own_and_buries_the_unreadable() {
        let said = said(&policy(ProcessRole::Api).unwrap());
        let of_log: String = said.split_inclusive('\n').filter(|line| line.starts_with("kafka:")).collect();
        expect![[r#"
            kafka:Connect kafka:WriteDataIdempotently: cluster/events/0a1b-2c
            kafka:DescribeTopic kafka:WriteData: topic/events/0a1b-2c/messages.persisted topic/events/0a1b-2c/memberships.changed topic/events/0a1b-2c/chats.created topic/events/0a1b-2c/dead_letters
            kafka:DescribeTopic kafka:ReadData: topic/events/0a1b-2c/messages.persisted topic/events/0a1b-2c/memberships.changed topic/events/0a1b-2c/chats.created
            kafka:AlterGroup kafka:DescribeGroup: group/events/0a1b-2c/tidings.notify group/events/0a1b-2c/tidings.webhook
        "#]].assert_eq(&of_log);
    }

    #[test]
    fn an_auditor_reads_everything_and_writes_nothing() {
        let policy = auditor_iam(&Config::default(), &site(Some("events/0a1b-2c")), &log_names());
        assert!(policy.contains(SCAN) && !policy.contains(['*', '?']), "{policy}");
        for table in Table::ALL {
            assert!(policy.contains(&format!("table/tidings_{}\"", table.name())), "{}", table.name());
        }
        let policy: Value = serde_json::from_str(&policy).unwrap();
        let said = said(&policy);
        for word in ["Put", "Update", "Delete", "Write", "Alter", "Create"] {
            assert!(!said.contains(word), "{word}: {said}");
        }
        let len = policy.to_string().len();
        assert!(len <= POLICY_LEN_MAX, "{len}");
    }

    #[test]
    fn without_an_msk_cluster_the_policy_has_no_rights_on_the_log() {
        for role in ProcessRole::ALL {
            let policy = iam(&Config::default(), &site(None), role).unwrap_or_default();
            assert!(!policy.contains("kafka"), "{policy}");
            assert_eq!(log_iam(&Config::default(), &site(None), &log_names(), role), None);
        }
    }

    #[test]
    fn no_policy_has_a_pattern_or_a_scan_but_that_of_chats_or_is_too_long() {
        let config = Config { table_prefix: "x".repeat(32), ..Config::default() };
        let site = AwsSite {
            region: "ap-southeast-1".to_owned(),
            ..site(Some(&format!("{}/{}", "x".repeat(64), "x".repeat(38))))
        };
        for role in ProcessRole::ALL {
            for policy in [iam(&config, &site, role), log_iam(&config, &site, &log_names(), role)].into_iter().flatten()
            {
                assert!(!policy.contains(['*', '?']), "{policy}");
                // The retention of the service walks all chats.
                let statements: serde_json::Value = serde_json::from_str(&policy).unwrap();
                for statement in statements["Statement"].as_array().unwrap() {
                    let is_scan = statement["Action"].to_string().contains("Scan");
                    let mut tables = statement["Resource"].as_array().unwrap().iter();
                    let is_of_chats = tables.all(|table| table.as_str().unwrap().ends_with("xchats"));
                    assert!(!is_scan || (role == ProcessRole::Api && is_of_chats), "{statement}");
                }
                let len = policy.split_whitespace().map(str::len).sum::<usize>();
                assert!(len <= POLICY_LEN_MAX, "{role}: {len}");
            }
        }
    }
}
