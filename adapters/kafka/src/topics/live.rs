use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use ports::BoxError;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, ResourceSpecifier, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use tokio::task;

use super::{Topic, TopicDefinition, TopicSize};
use crate::client::{CALL_TIMEOUT, settings};
use crate::config::Config;
use crate::location::PARTITIONS_MAX;

/// Why the topics could not be created or inspected.
#[derive(Debug, thiserror::Error)]
pub enum TopicError {
    /// The client settings are invalid.
    #[error(transparent)]
    Open(#[from] crate::KafkaOpenError),
    /// The number of partitions does not fit into a position.
    #[error("the partition count of a topic is {0}, it must be 1 to {PARTITIONS_MAX}")]
    Partitions(u16),
    /// A Kafka request failed.
    #[error("{action} failed")]
    Kafka {
        /// The action that failed.
        action: String,
        /// The error that Kafka returned.
        #[source]
        source: BoxError,
    },
}

/// A difference between a live cluster and the definition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicDrift {
    /// The topic, with its prefix.
    pub topic: String,
    /// The property that differs.
    pub aspect: TopicAspect,
}

/// A property of a topic that differs from the definition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TopicAspect {
    /// The topic does not exist.
    Missing,
    /// The actual number of partitions. Changing it requires a new topic.
    Partitions(usize),
    /// The actual number of replicas.
    Replication(usize),
    /// A setting differs.
    Setting {
        /// Kafka's name for it.
        key: &'static str,
        /// The actual value, if the cluster returns it.
        value: Option<String>,
    },
}

impl fmt::Display for TopicDrift {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let topic = &self.topic;
        match &self.aspect {
            TopicAspect::Missing => write!(f, "topic `{topic}` is missing"),
            TopicAspect::Partitions(count) => write!(f, "topic `{topic}` has {count} partitions"),
            TopicAspect::Replication(count) => write!(f, "topic `{topic}` has {count} copies of each record"),
            TopicAspect::Setting { key, value: Some(value) } => write!(f, "topic `{topic}` has {key}={value}"),
            TopicAspect::Setting { key, value: None } => write!(f, "topic `{topic}` does not say its {key}"),
        }
    }
}

/// Creates the missing topics and leaves existing ones unchanged. Safe to repeat at any time.
pub async fn apply(config: &Config, size: TopicSize) -> Result<(), TopicError> {
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

/// Compares a live cluster with the definition.
pub async fn diff(config: &Config, size: TopicSize) -> Result<Vec<TopicDrift>, TopicError> {
    let admin = Arc::new(admin(config)?);
    let live = layout(admin.clone()).await?;
    let mut drifts = vec![];
    for definition in Topic::ALL.map(|topic| topic.definition(config, size)) {
        let mut check = |holds: bool, aspect| {
            if !holds {
                drifts.push(TopicDrift { topic: definition.name.clone(), aspect });
            }
        };
        let Some(&(partitions, replication)) = live.get(&definition.name) else {
            check(false, TopicAspect::Missing);
            continue;
        };
        check(partitions == usize::from(definition.partitions), TopicAspect::Partitions(partitions));
        check(replication == usize::from(definition.replication), TopicAspect::Replication(replication));
        let mut values = live_settings(&admin, &definition.name).await?;
        for (key, wanted) in &definition.settings {
            let value = values.remove(*key);
            check(value.as_ref() == Some(wanted), TopicAspect::Setting { key, value });
        }
    }
    Ok(drifts)
}

fn admin(config: &Config) -> Result<AdminClient<DefaultClientContext>, TopicError> {
    Ok(settings(config)?.create().map_err(crate::KafkaOpenError::from)?)
}

fn options() -> AdminOptions {
    AdminOptions::new().request_timeout(Some(CALL_TIMEOUT)).operation_timeout(Some(CALL_TIMEOUT))
}

fn new_topic(definition: &TopicDefinition) -> NewTopic<'_> {
    let replication = TopicReplication::Fixed(definition.replication.into());
    let topic = NewTopic::new(&definition.name, definition.partitions.into(), replication);
    definition.settings.iter().fold(topic, |topic, (key, value)| topic.set(key, value))
}

/// The number of partitions and of replicas of each topic in the cluster.
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
