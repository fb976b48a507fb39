use std::net::{Ipv4Addr, SocketAddr};

use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::{Credentials, SharedCredentialsProvider};
use engines::{Dynamo, FaultyDynamo, Kafka, Redis};
use ports::ProcessRole;
use tidings_kafka::topics::{self, TopicSize};

/// The smallest number of partitions that gives both fanout processes some of each topic.
pub(crate) const SIZE: TopicSize = TopicSize { partitions: 2, replication: 1 };
/// Local DynamoDB accepts any credentials, but its clients require some.
const KEY: &str = "local";

/// The engines of a fleet, with its tables and topics.
pub(crate) struct FleetEngines {
    pub(crate) dynamo: Dynamo,
    /// The fault injecting proxy between the processes and DynamoDB.
    pub(crate) faults: FaultyDynamo,
    pub(crate) kafka: Kafka,
    pub(crate) redis: Redis,
}

impl FleetEngines {
    pub(crate) async fn start() -> Self {
        let (dynamo, kafka, redis) = tokio::join!(Dynamo::start(), Kafka::start(), Redis::start());
        let faults = FaultyDynamo::start(SocketAddr::from((Ipv4Addr::LOCALHOST, dynamo.port()))).await;
        let engines = Self { dynamo, faults, kafka, redis };
        let tables = async { dynamodb::schema::apply(&engines.client(), &dynamodb_config()).await.unwrap() };
        let topics = async { topics::apply(&engines.kafka_config(), SIZE).await.unwrap() };
        tokio::join!(tables, topics);
        engines
    }

    /// The settings of a role: each process gets only the engines that it may use. A gateway has no table and no topic.
    pub(crate) fn environment(&self, role: ProcessRole) -> Vec<(String, String)> {
        let mut environment =
            vec![("TIDINGS_STORE__ENGINE", "dynamodb".to_owned()), ("TIDINGS_REDIS__URL", self.redis.url())];
        if role != ProcessRole::Gateway {
            environment.extend([
                ("TIDINGS_DYNAMODB__ENDPOINT", self.faults.endpoint()),
                ("TIDINGS_DYNAMODB__REGION", KEY.to_owned()),
                ("AWS_ACCESS_KEY_ID", KEY.to_owned()),
                ("AWS_SECRET_ACCESS_KEY", KEY.to_owned()),
                ("TIDINGS_KAFKA__BROKERS", self.kafka.bootstrap()),
            ]);
        }
        environment.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }

    pub(crate) fn kafka_config(&self) -> tidings_kafka::Config {
        tidings_kafka::Config::new(vec![self.kafka.bootstrap()])
    }

    /// A DynamoDB client without fault injection.
    fn client(&self) -> Client {
        let credentials = Credentials::new(KEY, KEY, None, None, KEY);
        let sdk = SdkConfig::builder()
            .behavior_version(BehaviorVersion::latest())
            .region(Region::new(KEY))
            .endpoint_url(self.dynamo.endpoint())
            .credentials_provider(SharedCredentialsProvider::new(credentials))
            .build();
        Client::new(&sdk)
    }
}

fn dynamodb_config() -> dynamodb::Config {
    // Local DynamoDB does not support it.
    dynamodb::Config { point_in_time_recovery: false, ..dynamodb::Config::default() }
}
