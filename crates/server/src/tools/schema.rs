//! The tables and topics of a fleet: shows their definition, compares it with the deployment, and creates missing ones.

use anyhow::Context;
use dynamodb::schema::{self, Attribute, AwsSite, Definition, LogNames, Table};
use fanout::Fanout;
use notify::{EventWebhook, Notifications};
use ports::ProcessRole;
use serde_json::{Map, Value, json};
use tidings_kafka::topics::{self, Topic, TopicSize};

use crate::config::Config;
use crate::engines;

/// The role name for the policy of an operator who runs `tidings store verify` on a fleet.
const AUDITOR: &str = "auditor";

/// The output format of the definition.
#[derive(Clone, Debug)]
pub enum Format {
    /// For people to read.
    Table,
    /// An AWS CloudFormation template with tables and the policies of roles.
    Cloudformation,
    /// An AWS CloudFormation template with the alarms of tables and indexes.
    Alarms,
    /// An AWS CloudFormation template with scheduled backups of the tables.
    Backups,
    /// Only the policies of roles.
    Iam(Policies),
    /// The commands that create the topics.
    Kafka,
}

/// The policies to show, and their AWS account.
#[derive(Clone, Debug)]
pub struct Policies {
    /// One role; all roles, if absent.
    pub role: Option<String>,
    pub account_id: String,
    /// The MSK cluster with IAM authentication, `NAME/UUID`.
    pub msk_cluster: Option<String>,
}

/// The changes that `apply` has made, and the remaining differences.
#[derive(Debug)]
pub struct Applied {
    pub changed: Vec<String>,
    pub left: Vec<String>,
}

/// The definition in the given format.
pub fn show(config: &Config, format: &Format) -> anyhow::Result<String> {
    let (tables, kafka) = (engines::dynamodb(config), kafka_names(config));
    match format {
        Format::Table => {
            let topics = Topic::ALL.map(|topic| topic.definition(&kafka, size(config)));
            let width = topics.iter().map(|topic| topic.name.len()).max().unwrap_or(0);
            let mut text = format!("{}\n{:width$}  partitions  copies  settings\n", schema::show(), "topic");
            for topic in topics {
                let settings: Vec<_> = topic.settings.iter().map(|(key, value)| format!("{key}={value}")).collect();
                let (name, settings) = (topic.name, settings.join(" "));
                text += &format!("{name:width$}  {:<10}  {:<6}  {settings}\n", topic.partitions, topic.replication);
            }
            Ok(text)
        }
        Format::Cloudformation => Ok(schema::cloudformation(&tables, &log_names(&kafka))),
        Format::Alarms => Ok(schema::alarms(&tables)),
        Format::Backups => Ok(schema::backups(&tables)),
        Format::Iam(which) => {
            let policies = policies(config, which)?;
            let is_alone = policies.len() == 1;
            let shown = policies.into_iter().map(|(role, policy)| match policy {
                // A single policy is printed without a heading, so that it can be pasted.
                Some(policy) if is_alone => policy,
                Some(policy) => format!("# {role}\n{policy}"),
                None => format!("# {role} needs no policy: it has no table and no topic\n"),
            });
            Ok(shown.collect())
        }
        Format::Kafka => Ok(topics::commands(&kafka, size(config))),
    }
}

/// The definition as JSON.
pub fn show_json(config: &Config, format: &Format) -> anyhow::Result<Value> {
    let kafka = kafka_names(config);
    let topics = || Topic::ALL.map(|topic| topic_json(&topic.definition(&kafka, size(config))));
    Ok(match format {
        Format::Table => {
            json!({ "tables": Table::ALL.map(|table| table_json(&table.definition())), "topics": topics() })
        }
        Format::Kafka => json!({ "topics": topics() }),
        Format::Cloudformation | Format::Alarms | Format::Backups => serde_json::from_str(&show(config, format)?)?,
        Format::Iam(which) => {
            let mut by_role = Map::new();
            for (role, policy) in policies(config, which)? {
                let policy = policy.map(|text| serde_json::from_str(&text)).transpose()?;
                by_role.insert(role, policy.unwrap_or(Value::Null));
            }
            by_role.into()
        }
    })
}

/// The differences of account and cluster from the definition. Topics are left out if no broker is set.
pub async fn diff(config: &Config) -> anyhow::Result<Vec<String>> {
    let tables = engines::dynamodb(config);
    let client = dynamodb::connect(&tables).await;
    let drifts = schema::diff(&client, &tables).await.with_context(unreachable_tables)?;
    let mut drifts: Vec<String> = drifts.iter().map(ToString::to_string).collect();
    if has_log(config) {
        let topics = topics::diff(&engines::kafka(config)?, size(config)).await.with_context(unreachable_topics)?;
        drifts.extend(topics.iter().map(ToString::to_string));
    }
    Ok(drifts)
}

/// Creates missing tables and topics, and reports each step to `progress`. It deletes nothing.
pub async fn apply(config: &Config, progress: impl Fn(&str)) -> anyhow::Result<Applied> {
    progress("comparing the deployment with the definition");
    let before = diff(config).await?;
    if before.is_empty() {
        return Ok(Applied { changed: vec![], left: vec![] });
    }
    progress("creating tables");
    let tables = engines::dynamodb(config);
    schema::apply(&dynamodb::connect(&tables).await, &tables).await.with_context(unreachable_tables)?;
    if has_log(config) {
        progress("creating topics");
        topics::apply(&engines::kafka(config)?, size(config)).await.with_context(unreachable_topics)?;
    }
    progress("comparing the result with the definition");
    let left = diff(config).await?;
    let changed = before.into_iter().filter(|drift| !left.contains(drift)).collect();
    Ok(Applied { changed, left })
}

/// Whether the settings name a log.
pub fn has_log(config: &Config) -> bool {
    !config.kafka.brokers.is_empty()
}

fn unreachable_tables() -> String {
    "DynamoDB does not answer as expected; check `dynamodb.endpoint`, `dynamodb.region` and the credentials".to_owned()
}

fn unreachable_topics() -> String {
    "Kafka does not answer as expected; check `kafka.brokers` and `kafka.security`".to_owned()
}

fn size(config: &Config) -> TopicSize {
    TopicSize { partitions: config.kafka.partitions, replication: config.kafka.replication }
}

/// A Kafka configuration for names only, without connection settings.
fn kafka_names(config: &Config) -> tidings_kafka::Config {
    let brokers = if has_log(config) { config.kafka.brokers.clone() } else { "$brokers".to_owned() };
    let topic_prefix = config.kafka.topic_prefix.clone();
    tidings_kafka::Config { topic_prefix, ..tidings_kafka::Config::new(vec![brokers]) }
}

fn log_names(kafka: &tidings_kafka::Config) -> LogNames {
    LogNames {
        topics: [Topic::Messages, Topic::Members, Topic::Chats].map(|topic| kafka.topic(topic)).to_vec(),
        dead_letters: kafka.topic(Topic::DeadLetters),
        groups: vec![
            (ProcessRole::Fanout, kafka.group(Fanout::GROUP)),
            (ProcessRole::Api, kafka.group(Notifications::GROUP)),
            (ProcessRole::Api, kafka.group(EventWebhook::GROUP)),
        ],
    }
}

/// The requested policies, each with its role; the policy for the log is called `ROLE-log`.
fn policies(config: &Config, which: &Policies) -> anyhow::Result<Vec<(String, Option<String>)>> {
    let region = &config.dynamodb.region;
    let site = AwsSite {
        partition: "aws".to_owned(),
        region: if region.is_empty() { "*".to_owned() } else { region.clone() },
        account_id: which.account_id.clone(),
        msk_cluster: which.msk_cluster.clone(),
    };
    let (tables, log) = (engines::dynamodb(config), log_names(&kafka_names(config)));
    let roles = match &which.role {
        None => ProcessRole::ALL.to_vec(),
        // No process has this role: it is for an operator who runs `tidings store verify`.
        Some(name) if name == AUDITOR => {
            return Ok(vec![(AUDITOR.to_owned(), Some(schema::auditor_iam(&tables, &site, &log)))]);
        }
        Some(name) => {
            let found = ProcessRole::ALL.into_iter().find(|role| role.name() == *name);
            let unknown = || format!("`{name}` is none of the roles gateway, ingest, fanout, api, and not `{AUDITOR}`");
            vec![found.with_context(unknown)?]
        }
    };
    let policies = |role: ProcessRole| {
        let of_log = schema::log_iam(&tables, &site, &log, role);
        let of_log = of_log.map(|policy| (format!("{}-log", role.name()), Some(policy)));
        std::iter::once((role.name().to_owned(), schema::iam(&tables, &site, role))).chain(of_log)
    };
    Ok(roles.into_iter().flat_map(policies).collect())
}

fn table_json(definition: &Definition) -> Value {
    let name = |attribute: Attribute| attribute.name();
    json!({
        "name": definition.name,
        "partition_key": definition.partition_key,
        "sort_key": definition.sort_key.map(name),
        "index": definition.index.map(|index| json!({
            "name": index.name,
            "partition_key": index.partition_key,
            "sort_key": index.sort_key.map(name),
        })),
        "expires": definition.expires,
        "backed_up": definition.backed_up,
    })
}

fn topic_json(definition: &topics::TopicDefinition) -> Value {
    let settings: Map<_, _> =
        definition.settings.iter().map(|(key, value)| ((*key).to_owned(), json!(value))).collect();
    json!({
        "name": definition.name,
        "partitions": definition.partitions,
        "replication": definition.replication,
        "settings": settings,
    })
}
