use std::fs;
use std::net::{Ipv4Addr, SocketAddr};

use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::{Credentials, SharedCredentialsProvider};
use engines::{Dynamo, FaultyDynamo, Kafka, Ministack, Redis, TestAuthority, TlsProxy};
use ports::ProcessRole;
use tempfile::TempDir;
use tidings_kafka::Security;
use tidings_kafka::topics::{self, TopicSize};
use tokio::net::TcpListener;

use crate::history::FaultyProxy;

/// The smallest number of partitions that gives both fanout processes some of each topic.
pub(crate) const SIZE: TopicSize = TopicSize { partitions: 2, replication: 1 };
/// Local DynamoDB accepts any credentials, but its clients require some.
const KEY: &str = "local";
/// One of the local servers accepts only names of Amazon's.
const REGION: &str = "eu-central-1";

/// The engines of a fleet, with its tables and topics.
pub(crate) struct FleetEngines {
    pub(crate) dynamo: TableServer,
    /// The fault injecting proxy between the processes and DynamoDB.
    pub(crate) faults: FaultyDynamo,
    pub(crate) kafka: Kafka,
    pub(crate) redis: Redis,
    /// Credentials and encryption between the processes and Kafka and Redis.
    access: EngineAccess,
}

/// The server of the tables.
pub(crate) enum TableServer {
    Dynoxide(Dynamo),
    /// The slower one, which has point-in-time recovery.
    Ministack(Ministack),
}

impl TableServer {
    pub(crate) async fn stop(&mut self) {
        match self {
            Self::Dynoxide(server) => server.stop().await,
            Self::Ministack(server) => server.stop().await,
        }
    }

    pub(crate) async fn start_again(&mut self) {
        match self {
            Self::Dynoxide(server) => server.start_again().await,
            Self::Ministack(server) => server.start_again().await,
        }
    }

    fn port(&self) -> u16 {
        match self {
            Self::Dynoxide(server) => server.port(),
            Self::Ministack(server) => server.port(),
        }
    }

    fn endpoint(&self) -> String {
        format!("http://127.0.0.1:{}", self.port())
    }
}

/// How processes connect to Kafka and Redis.
enum EngineAccess {
    Direct,
    /// Kafka is reached through a proxy.
    KafkaProxy(FaultyProxy),
    /// Both are reached over TLS, with a user name and a password.
    Encrypted(EncryptedEngines),
}

/// The files and addresses of encrypted engines.
struct EncryptedEngines {
    files: TempDir,
    /// `HOST:PORT` of Kafka.
    kafka: String,
    redis_url: String,
    _tls: TlsProxy,
}

/// Offset to a second port of an engine. The engines of tests leave that port free.
const BUS: u16 = 10_000;
/// The user of both engines.
const USER: &str = "tidings";
const KAFKA_PASSWORD: &str = "of kafka, and long";
const REDIS_PASSWORD: &str = "of-redis-and-long";

impl FleetEngines {
    pub(crate) async fn start() -> Self {
        Self::on(Kafka::start().await, Redis::start().await, EngineAccess::Direct).await
    }

    /// Engines whose tables can be restored to a point in time.
    pub(crate) async fn start_recoverable() -> Self {
        let tables = TableServer::Ministack(Ministack::start().await);
        let (kafka, redis) = tokio::join!(Kafka::start(), Redis::start());
        Self::with_tables(tables, kafka, redis, EngineAccess::Direct).await
    }

    /// Engines with a proxy in front of Kafka. The addresses of the others are settings, so they can have a proxy for each
    /// process.
    pub(crate) async fn start_behind_proxy() -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let kafka = Kafka::start_behind(listener.local_addr().unwrap().to_string()).await;
        let proxy = FaultyProxy::start_on(listener, SocketAddr::from((Ipv4Addr::LOCALHOST, kafka.port())));
        Self::on(kafka, Redis::start().await, EngineAccess::KafkaProxy(proxy)).await
    }

    /// Kafka and Redis accept connections over TLS only, and only a user with a password.
    pub(crate) async fn start_encrypted() -> Self {
        let (authority, files) = (TestAuthority::new(), tempfile::tempdir().unwrap());
        let certificate = authority.issue();
        let path = |name: &str| files.path().join(name).to_str().unwrap().to_owned();
        for (name, text) in [
            ("ca.pem", &*authority.ca_pem()),
            ("server.pem", &certificate.certificate_pem),
            ("server.key", &certificate.key_pem),
            ("kafka.password", KAFKA_PASSWORD),
            ("redis.password", REDIS_PASSWORD),
        ] {
            fs::write(path(name), text).unwrap();
        }
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = format!("localhost:{}", listener.local_addr().unwrap().port());
        let mut kafka = Kafka::start_behind(address.clone()).await;
        let tls = TlsProxy::start(listener, &certificate, SocketAddr::from((Ipv4Addr::LOCALHOST, kafka.port())));
        kafka.require_users(&[(USER, KAFKA_PASSWORD)]).await;

        let rights = "~* &* -@all +@read +@write +@scripting +@pubsub +@connection +info";
        let user = format!("{USER} on >{REDIS_PASSWORD} {rights}");
        let [certificate, key, authorities] = ["server.pem", "server.key", "ca.pem"].map(path);
        let tls_settings =
            ["--tls-cert-file", &certificate, "--tls-key-file", &key, "--tls-ca-cert-file", &authorities];
        let settings: Vec<&str> =
            tls_settings.into_iter().chain(["--tls-auth-clients", "no", "--user"]).chain(user.split(' ')).collect();
        let redis = Redis::start_with(&settings).await;
        let port = redis.port() + BUS;
        let client = redis::Client::open(redis.url()).unwrap();
        let mut connection = client.get_connection().unwrap();
        for command in [&*format!("CONFIG SET tls-port {port}"), "CONFIG SET port 0", "ACL SETUSER default off"] {
            let mut words = command.split(' ');
            let mut called = redis::cmd(words.next().unwrap());
            called.arg(words.collect::<Vec<_>>()).query::<()>(&mut connection).unwrap();
        }
        let redis_url = format!("rediss://localhost:{port}");
        let encrypted = EncryptedEngines { files, kafka: address, redis_url, _tls: tls };
        Self::on(kafka, redis, EngineAccess::Encrypted(encrypted)).await
    }

    async fn on(kafka: Kafka, redis: Redis, access: EngineAccess) -> Self {
        let tables = TableServer::Dynoxide(Dynamo::start().await);
        Self::with_tables(tables, kafka, redis, access).await
    }

    async fn with_tables(dynamo: TableServer, kafka: Kafka, redis: Redis, access: EngineAccess) -> Self {
        let faults = FaultyDynamo::start(SocketAddr::from((Ipv4Addr::LOCALHOST, dynamo.port()))).await;
        let engines = Self { dynamo, faults, kafka, redis, access };
        // Only one of the servers supports it.
        let point_in_time_recovery = matches!(engines.dynamo, TableServer::Ministack(_));
        let config = dynamodb::Config { point_in_time_recovery, ..dynamodb::Config::default() };
        let tables = async { dynamodb::schema::apply(&engines.client(), &config).await.unwrap() };
        let topics = async { topics::apply(&engines.kafka_config(), SIZE).await.unwrap() };
        tokio::join!(tables, topics);
        engines
    }

    /// The settings of a role: each process gets only the engines that it may use. A gateway has no table and no topic.
    pub(crate) fn environment(&self, role: ProcessRole) -> Vec<(String, String)> {
        let mut environment = vec![("TIDINGS_STORE__ENGINE", "dynamodb".to_owned())];
        match &self.access {
            EngineAccess::Encrypted(encrypted) => environment.extend([
                ("TIDINGS_REDIS__URL", encrypted.redis_url.clone()),
                ("TIDINGS_REDIS__CA_FILE", encrypted.path("ca.pem")),
                ("TIDINGS_REDIS__USERNAME", USER.to_owned()),
                ("TIDINGS_REDIS__PASSWORD_FILE", encrypted.path("redis.password")),
            ]),
            EngineAccess::Direct | EngineAccess::KafkaProxy(_) => {
                environment.push(("TIDINGS_REDIS__URL", self.redis.url()));
            }
        }
        if role != ProcessRole::Gateway {
            environment.extend([
                ("TIDINGS_DYNAMODB__ENDPOINT", self.faults.endpoint()),
                ("TIDINGS_DYNAMODB__REGION", REGION.to_owned()),
                ("AWS_ACCESS_KEY_ID", KEY.to_owned()),
                ("AWS_SECRET_ACCESS_KEY", KEY.to_owned()),
                ("TIDINGS_KAFKA__BROKERS", self.kafka_config().brokers.join(",")),
            ]);
            if let EngineAccess::Encrypted(encrypted) = &self.access {
                environment.extend([
                    ("TIDINGS_KAFKA__SECURITY", "sasl".to_owned()),
                    ("TIDINGS_KAFKA__CA_FILE", encrypted.path("ca.pem")),
                    ("TIDINGS_KAFKA__USERNAME", USER.to_owned()),
                    ("TIDINGS_KAFKA__PASSWORD_FILE", encrypted.path("kafka.password")),
                ]);
            }
        }
        environment.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }

    /// The proxy in front of Kafka.
    ///
    /// # Panics
    /// If there is none.
    pub(crate) fn kafka_proxy(&self) -> &FaultyProxy {
        match &self.access {
            EngineAccess::KafkaProxy(proxy) => proxy,
            EngineAccess::Direct | EngineAccess::Encrypted(_) => panic!("Kafka has no proxy"),
        }
    }

    pub(crate) fn kafka_config(&self) -> tidings_kafka::Config {
        match &self.access {
            EngineAccess::Direct => tidings_kafka::Config::new(vec![self.kafka.bootstrap()]),
            EngineAccess::KafkaProxy(proxy) => tidings_kafka::Config::new(vec![proxy.address().to_string()]),
            EngineAccess::Encrypted(encrypted) => {
                let ca_pem = Some(fs::read_to_string(encrypted.path("ca.pem")).unwrap());
                let password = KAFKA_PASSWORD.to_owned().into();
                let security = Security::Scram { ca_pem, username: USER.to_owned(), password };
                tidings_kafka::Config { security, ..tidings_kafka::Config::new(vec![encrypted.kafka.clone()]) }
            }
        }
    }

    /// A DynamoDB client without fault injection.
    pub(crate) fn client(&self) -> Client {
        let credentials = Credentials::new(KEY, KEY, None, None, KEY);
        let sdk = SdkConfig::builder()
            .behavior_version(BehaviorVersion::latest())
            .region(Region::new(REGION))
            .endpoint_url(self.dynamo.endpoint())
            .credentials_provider(SharedCredentialsProvider::new(credentials))
            .build();
        Client::new(&sdk)
    }
}

impl EncryptedEngines {
    fn path(&self, name: &str) -> String {
        self.files.path().join(name).to_str().unwrap().to_owned()
    }
}
