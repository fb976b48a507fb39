use std::net::{Ipv4Addr, SocketAddr};

use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::{Credentials, SharedCredentialsProvider};
use engines::{Dynamo, FaultyDynamo, Kafka, Redis};
use ports::ProcessRole;
use tidings_kafka::topics::{self, Size};

/// As few partitions as give both fanout processes some of each topic.
pub(crate) const SIZE: Size = Size { partitions: 2, replication: 1 };
/// The server takes any credentials; its clients do not go without.
const KEY: &str = "local";

/// What a fleet stands on, with its tables and topics.
pub(crate) struct Engines {
    pub(crate) dynamo: Dynamo,
    /// What lies between the processes and DynamoDB.
    pub(crate) faults: FaultyDynamo,
    pub(crate) kafka: Kafka,
    pub(crate) redis: Redis,
}

impl Engines {
    pub(crate) async fn start() -> Self {
        let (dynamo, kafka, redis) = tokio::join!(Dynamo::start(), Kafka::start(), Redis::start());
        let faults = FaultyDynamo::start(SocketAddr::from((Ipv4Addr::LOCALHOST, dynamo.port()))).await;
        let engines = Self { dynamo, faults, kafka, redis };
        let tables = async { dynamodb::schema::apply(&engines.client(), &dynamodb_config()).await.unwrap() };
        let topics = async { topics::apply(&engines.kafka_config(), SIZE).await.unwrap() };
        tokio::join!(tables, topics);
        engines
    }

    /// How a process with a role finds what it may use, and nothing else: a gateway has no table and no topic.
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

    /// A client of DynamoDB that nothing goes wrong for.
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
    // Local servers cannot.
    dynamodb::Config { point_in_time_recovery: false, ..dynamodb::Config::default() }
}
