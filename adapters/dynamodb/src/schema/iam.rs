//! The policies of roles: what AWS lets a process do, said in AWS's words.
//!
//! They only allow. What a role has no statement for is refused, and a process of two roles is given the policies of both.
//! What a role does to tables and what to the log are two policies, because each has a bound on its length. No statement
//! names more than one of our tables, indexes, topics or groups by a pattern, and none of a role allows a scan.

use std::collections::BTreeMap;

use ports::ProcessRole;
use serde_json::{Value, json};

use super::access::{Action, access};
use super::{Index, Table};
use crate::Config;

/// Where in AWS a fleet is.
#[derive(Clone, Debug)]
pub struct Site {
    /// `aws`, or `aws-cn` and the like.
    pub partition: String,
    /// The region of tables and topics.
    pub region: String,
    /// The account, twelve digits.
    pub account_id: String,
    /// The cluster of MSK whose clients IAM lets in, as its ARN ends: `NAME/UUID`. Without it, policies say nothing of
    /// the log.
    pub msk_cluster: Option<String>,
}

/// The names that the event log has in Kafka.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogNames {
    /// The topics of events.
    pub topics: Vec<String>,
    /// The topic of records that nobody can read.
    pub dead_letters: String,
    /// The groups that read events, each with the role whose processes they are.
    pub groups: Vec<(ProcessRole, String)>,
}

/// The policy of a role on tables, as JSON; `None` for one that needs nothing.
pub fn iam(config: &Config, site: &Site, role: ProcessRole) -> Option<String> {
    said(table_statements(role, &Place::of(config, site)))
}

/// The policy of a role on the log, as JSON; `None` for one that needs nothing, and without a cluster.
pub fn log_iam(config: &Config, site: &Site, log: &LogNames, role: ProcessRole) -> Option<String> {
    site.msk_cluster.as_ref()?;
    said(log_statements(role, log, &Place::of(config, site)))
}

fn said(statements: Vec<Statement>) -> Option<String> {
    let statements: Vec<Value> = statements.into_iter().map(|statement| statement.json(Value::String)).collect();
    (!statements.is_empty()).then(|| format!("{:#}\n", document(statements)))
}

/// What AWS calls it to read a whole table.
pub const SCAN: &str = "dynamodb:Scan";

/// What whoever checks a fleet does to tables: it reads everything, and looks at how they are made.
const AUDITS: [&str; 7] = [
    "dynamodb:GetItem",
    "dynamodb:BatchGetItem",
    "dynamodb:Query",
    SCAN,
    "dynamodb:DescribeTable",
    "dynamodb:DescribeTimeToLive",
    "dynamodb:DescribeContinuousBackups",
];

/// The policy of whoever checks a fleet with `tidings verify`, as JSON. It is a person's, and no role's: it alone may scan,
/// and it writes nothing.
pub fn auditor_iam(config: &Config, site: &Site, log: &LogNames) -> String {
    let place = Place::of(config, site);
    let tables = Table::ALL.map(|table| place.table(table)).to_vec();
    let mut statements = vec![Statement { actions: AUDITS.to_vec(), resources: tables }];
    if site.msk_cluster.is_some() {
        let topics = log.topics.iter().map(|name| place.kafka("topic", Some(name))).collect();
        let groups = log.groups.iter().map(|(_, group)| place.kafka("group", Some(group))).collect();
        for (actions, resources) in [
            (vec!["kafka-cluster:Connect"], vec![place.kafka("cluster", None)]),
            (vec!["kafka-cluster:DescribeTopic", "kafka-cluster:ReadData"], topics),
            (vec!["kafka-cluster:DescribeGroup"], groups),
        ] {
            statements.push(Statement { actions, resources });
        }
    }
    let statements = statements.into_iter().map(|statement| statement.json(Value::String)).collect();
    format!("{:#}\n", document(statements))
}

/// A policy of these statements.
pub(super) fn document(statements: Vec<Value>) -> Value {
    json!({ "Version": "2012-10-17", "Statement": statements })
}

/// What an ARN is made of, apart from the names that are ours.
pub(super) struct Place<'a> {
    pub(super) partition: &'a str,
    pub(super) region: &'a str,
    pub(super) account_id: &'a str,
    pub(super) table_prefix: &'a str,
    pub(super) msk_cluster: &'a str,
}

impl<'a> Place<'a> {
    fn of(config: &'a Config, site: &'a Site) -> Self {
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

    /// The cluster, or one of its topics or groups.
    fn kafka(&self, kind: &str, name: Option<&str>) -> String {
        let Self { partition, region, account_id, msk_cluster, .. } = self;
        let name = name.map(|name| format!("/{name}")).unwrap_or_default();
        format!("arn:{partition}:kafka:{region}:{account_id}:{kind}/{msk_cluster}{name}")
    }
}

/// Something that is allowed.
pub(super) struct Statement {
    actions: Vec<&'static str>,
    resources: Vec<String>,
}

impl Statement {
    /// The statement, with resources as `resource` writes them.
    pub(super) fn json(self, resource: impl FnMut(String) -> Value) -> Value {
        let resources: Vec<Value> = self.resources.into_iter().map(resource).collect();
        json!({ "Effect": "Allow", "Action": self.actions, "Resource": resources })
    }
}

/// What a role may do to tables. Tables to which it may do the same share a statement, because a policy has a bound on
/// its length.
pub(super) fn table_statements(role: ProcessRole, place: &Place<'_>) -> Vec<Statement> {
    let mut shared: BTreeMap<Vec<&'static str>, Vec<String>> = BTreeMap::new();
    for (table, allowed) in access(role) {
        let (of_index, of_table): (Vec<Action>, Vec<Action>) =
            allowed.into_iter().partition(|action| *action == Action::QueryIndex);
        let names = |actions: Vec<Action>| actions.into_iter().map(Action::name).collect::<Vec<_>>();
        let index = table.definition().index.filter(|_| !of_index.is_empty());
        if let Some(index) = index {
            shared.entry(names(of_index)).or_default().push(place.index(table, index));
        }
        if !of_table.is_empty() {
            shared.entry(names(of_table)).or_default().push(place.table(table));
        }
    }
    shared.into_iter().map(|(actions, resources)| Statement { actions, resources }).collect()
}

/// What a role may do to the log.
pub(super) fn log_statements(role: ProcessRole, log: &LogNames, place: &Place<'_>) -> Vec<Statement> {
    let topics = |names: &[String]| names.iter().map(|name| place.kafka("topic", Some(name))).collect::<Vec<_>>();
    let groups = log.groups.iter().filter(|(reader, _)| *reader == role);
    let groups: Vec<String> = groups.map(|(_, group)| place.kafka("group", Some(group))).collect();
    let produces = matches!(role, ProcessRole::Ingest | ProcessRole::Api);
    let mut statements = vec![];
    let mut allow = |actions: &[&'static str], resources: Vec<String>| {
        statements.push(Statement { actions: actions.to_vec(), resources });
    };
    if produces {
        let cluster = vec![place.kafka("cluster", None)];
        allow(&["kafka-cluster:Connect", "kafka-cluster:WriteDataIdempotently"], cluster);
        let mut written = topics(&log.topics);
        // Whoever buries what cannot be read tells the topic of it, too.
        if !groups.is_empty() {
            written.extend(topics(std::slice::from_ref(&log.dead_letters)));
        }
        allow(&["kafka-cluster:DescribeTopic", "kafka-cluster:WriteData"], written);
    } else if !groups.is_empty() {
        allow(&["kafka-cluster:Connect"], vec![place.kafka("cluster", None)]);
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

    /// The longest that AWS takes, without the spaces between words.
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

    fn site(msk_cluster: Option<&str>) -> Site {
        Site {
            partition: "aws".to_owned(),
            region: "eu-central-1".to_owned(),
            account_id: "123456789012".to_owned(),
            msk_cluster: msk_cluster.map(str::to_owned),
        }
    }

    /// All that a role may do.
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

    /// The statements, one on each line, without what all ARNs have in common.
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
            dynamodb:BatchGetItem dynamodb:Query dynamodb:UpdateItem: table/tidings_delivery_state
            dynamodb:GetItem dynamodb:BatchGetItem: table/tidings_chats
            dynamodb:GetItem dynamodb:BatchGetItem dynamodb:Query dynamodb:ConditionCheckItem: table/tidings_chat_memberships
            dynamodb:GetItem dynamodb:BatchGetItem dynamodb:UpdateItem: table/tidings_chat_counters
            dynamodb:GetItem dynamodb:Query dynamodb:PutItem dynamodb:DeleteItem: table/tidings_messages
            dynamodb:Query: table/tidings_messages/index/message_id-index table/tidings_chat_counters/index/dirty-index table/tidings_outbox/index/age-index
            dynamodb:Query dynamodb:PutItem dynamodb:DeleteItem: table/tidings_expirations table/tidings_outbox
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
    fn without_a_cluster_of_msk_nothing_is_said_of_the_log() {
        for role in ProcessRole::ALL {
            let policy = iam(&Config::default(), &site(None), role).unwrap_or_default();
            assert!(!policy.contains("kafka"), "{policy}");
            assert_eq!(log_iam(&Config::default(), &site(None), &log_names(), role), None);
        }
    }

    #[test]
    fn no_policy_has_a_pattern_or_a_scan_or_is_too_long() {
        let config = Config { table_prefix: "x".repeat(32), ..Config::default() };
        let site = Site {
            region: "ap-southeast-1".to_owned(),
            ..site(Some(&format!("{}/{}", "x".repeat(64), "x".repeat(38))))
        };
        for role in ProcessRole::ALL {
            for policy in [iam(&config, &site, role), log_iam(&config, &site, &log_names(), role)].into_iter().flatten()
            {
                assert!(!policy.contains(['*', '?']) && !policy.contains("Scan"), "{policy}");
                let len = policy.split_whitespace().map(str::len).sum::<usize>();
                assert!(len <= POLICY_LEN_MAX, "{role}: {len}");
            }
        }
    }
}
