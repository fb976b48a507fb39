use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use ports::BoxError;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, ResourceSpecifier, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use tokio::task;

use super::{Definition, Size, Topic};
use crate::client::{CALL_TIMEOUT, settings};
use crate::config::Config;
use crate::place::PARTITIONS_MAX;

/// Why the topics could not be made or looked at.
#[derive(Debug, thiserror::Error)]
pub enum TopicError {
    /// The settings of the client.
    #[error(transparent)]
    Open(#[from] crate::OpenError),
    /// A number of partitions that positions cannot name.
    #[error("a topic is to have {0} partitions, it must be 1 to {PARTITIONS_MAX}")]
    Partitions(u16),
    /// Kafka did not do it.
    #[error("{action} failed")]
    Kafka {
        /// What was to be done.
        action: String,
        /// What Kafka said.
        #[source]
        source: BoxError,
    },
}

/// Something about a live cluster that is not as the definition says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drift {
    /// The topic, with its prefix.
    pub topic: String,
    /// What about it.
    pub aspect: Aspect,
}

/// What about a topic differs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Aspect {
    /// It is not there.
    Missing,
    /// It has this many partitions. Only a new topic changes that.
    Partitions(usize),
    /// It has this many copies of each record.
    Replication(usize),
    /// A setting is another.
    Setting {
        /// Kafka's name for it.
        key: &'static str,
        /// What it is, if the cluster says so.
        value: Option<String>,
    },
}

impl fmt::Display for Drift {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let topic = &self.topic;
        match &self.aspect {
            Aspect::Missing => write!(f, "topic `{topic}` is missing"),
            Aspect::Partitions(count) => write!(f, "topic `{topic}` has {count} partitions"),
            Aspect::Replication(count) => write!(f, "topic `{topic}` has {count} copies of each record"),
            Aspect::Setting { key, value: Some(value) } => write!(f, "topic `{topic}` has {key}={value}"),
            Aspect::Setting { key, value: None } => write!(f, "topic `{topic}` does not say its {key}"),
        }
    }
}

/// Makes the topics that are missing and leaves the others alone. It may be repeated at any moment.
pub async fn apply(config: &Config, size: Size) -> Result<(), TopicError> {
    if !(1..=PARTITIONS_MAX).contains(&i32::from(size.partitions)) {
        return Err(TopicError::Partitions(size.partitions));
    }
    let definitions = Topic::ALL.map(|topic| topic.definition(config, size));
    let new_topics: Vec<_> = definitions.iter().map(new_topic).collect();
    let outcomes = admin(config)?
        .create_topics(&new_topics, &options())
        .await
        .map_err(|error| failed("making the topics".to_owned(), error))?;
    for outcome in outcomes {
        match outcome {
            Ok(_) | Err((_, RDKafkaErrorCode::TopicAlreadyExists)) => {}
            Err((topic, code)) => return Err(failed(format!("making topic `{topic}`"), KafkaError::AdminOp(code))),
        }
    }
    Ok(())
}

/// What of a live cluster is not as the definition says.
pub async fn diff(config: &Config, size: Size) -> Result<Vec<Drift>, TopicError> {
    let admin = Arc::new(admin(config)?);
    let live = layout(admin.clone()).await?;
    let mut drifts = vec![];
    for definition in Topic::ALL.map(|topic| topic.definition(config, size)) {
        let mut check = |holds: bool, aspect| {
            if !holds {
                drifts.push(Drift { topic: definition.name.clone(), aspect });
            }
        };
        let Some(&(partitions, replication)) = live.get(&definition.name) else {
            check(false, Aspect::Missing);
            continue;
        };
        check(partitions == usize::from(definition.partitions), Aspect::Partitions(partitions));
        check(replication == usize::from(definition.replication), Aspect::Replication(replication));
        let mut values = live_settings(&admin, &definition.name).await?;
        for (key, wanted) in &definition.settings {
            let value = values.remove(*key);
            check(value.as_ref() == Some(wanted), Aspect::Setting { key, value });
        }
    }
    Ok(drifts)
}

fn admin(config: &Config) -> Result<AdminClient<DefaultClientContext>, TopicError> {
    Ok(settings(config)?.create().map_err(crate::OpenError::from)?)
}

fn options() -> AdminOptions {
    AdminOptions::new().request_timeout(Some(CALL_TIMEOUT)).operation_timeout(Some(CALL_TIMEOUT))
}

fn new_topic(definition: &Definition) -> NewTopic<'_> {
    let replication = TopicReplication::Fixed(definition.replication.into());
    let topic = NewTopic::new(&definition.name, definition.partitions.into(), replication);
    definition.settings.iter().fold(topic, |topic, (key, value)| topic.set(key, value))
}

/// The partitions of the topics of a cluster, and the copies of their records.
async fn layout(admin: Arc<AdminClient<DefaultClientContext>>) -> Result<HashMap<String, (usize, usize)>, TopicError> {
    let metadata = task::spawn_blocking(move || admin.inner().fetch_metadata(None, CALL_TIMEOUT));
    let metadata = metadata.await.map_err(|error| failed("looking at the topics".to_owned(), error))?;
    let metadata = metadata.map_err(|error| failed("looking at the topics".to_owned(), error))?;
    let layout = metadata.topics().iter().map(|topic| {
        let copies = topic.partitions().iter().map(|partition| partition.replicas().len()).min();
        (topic.name().to_owned(), (topic.partitions().len(), copies.unwrap_or(0)))
    });
    Ok(layout.collect())
}

async fn live_settings(
    admin: &AdminClient<DefaultClientContext>,
    topic: &str,
) -> Result<HashMap<String, String>, TopicError> {
    let action = || format!("reading the settings of topic `{topic}`");
    let described = admin.describe_configs(&[ResourceSpecifier::Topic(topic)], &options()).await;
    let mut values = HashMap::new();
    for resource in described.map_err(|error| failed(action(), error))? {
        let resource = resource.map_err(|code| failed(action(), KafkaError::AdminOp(code)))?;
        values.extend(resource.entries.into_iter().filter_map(|entry| Some((entry.name, entry.value?))));
    }
    Ok(values)
}

fn failed(action: String, error: impl Into<BoxError>) -> TopicError {
    TopicError::Kafka { action, source: error.into() }
}
