//! A real server for tests: it runs inside the test and is spoken to over HTTP, through a proxy that can fail.

use std::sync::Arc;

use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::{Credentials, SharedCredentialsProvider};
use domain::{ChatId, ContentType, UserId};
use dynoxide::{Database, server};
use engines::FaultyDynamo;
use ports::{ChatWriter, Clock, Ids, NewGroup, NewMessage, RandomIds, SystemClock};
use tokio::net::TcpListener;
use uuid::Uuid;

use crate::item::{Item, Key};
use crate::schema::{self, Table};
use crate::store::client;
use crate::{Config, DynamoStore};

/// A server, and a client of it.
pub(crate) struct Server {
    pub(crate) database: Database,
    pub(crate) client: Client,
    pub(crate) config: Config,
    /// What lies between the two.
    pub(crate) proxy: FaultyDynamo,
}

impl Server {
    /// A server with nothing in it.
    pub(crate) async fn start() -> Self {
        let database = Database::memory().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let upstream = listener.local_addr().unwrap();
        // The server ends with the runtime of the test.
        tokio::spawn(server::serve_on(listener, database.clone()));
        let proxy = FaultyDynamo::start(upstream).await;

        let credentials = Credentials::new("test", "test", None, None, "test");
        let sdk = SdkConfig::builder()
            .behavior_version(BehaviorVersion::latest())
            .region(Region::new("eu-central-1"))
            .endpoint_url(proxy.endpoint())
            .credentials_provider(SharedCredentialsProvider::new(credentials))
            .build();
        let config = Config { point_in_time_recovery: false, ..Config::default() };
        Self { database, client: client(&sdk), config, proxy }
    }

    /// A server with our tables.
    pub(crate) async fn with_tables() -> Self {
        let server = Self::start().await;
        schema::apply(&server.client, &server.config).await.unwrap();
        server
    }

    /// A store on it, as one more process of the fleet has it.
    pub(crate) fn store(&self) -> DynamoStore {
        DynamoStore::new(self.client.clone(), &self.config, Arc::new(SystemClock), Arc::new(RandomIds))
    }

    /// The name that a table has on the server.
    pub(crate) fn name(&self, table: Table) -> String {
        format!("{}{}", self.config.table_prefix, table.name())
    }

    /// Writes an item past the store.
    pub(crate) async fn put(&self, key: Key, mut item: Item) {
        item.extend(key.attributes());
        self.client.put_item().table_name(self.name(key.table)).set_item(Some(item)).send().await.unwrap();
    }
}

/// A new group of one, and that one.
pub(crate) async fn chat(store: &DynamoStore) -> (ChatId, UserId) {
    let (chat_id, created_by) = (RandomIds.ulid().into(), RandomIds.ulid().into());
    let name = "group".to_owned().try_into().unwrap();
    let group = NewGroup { chat_id, name, created_by, members: vec![], created_at: SystemClock.now() };
    store.create_group(group).await.unwrap();
    (chat_id, created_by)
}

/// A send that nobody has tried before.
pub(crate) fn message(chat_id: ChatId, sender_id: UserId) -> NewMessage {
    NewMessage {
        chat_id,
        sender_id,
        client_message_id: Uuid::new_v4().into(),
        message_id: RandomIds.ulid().into(),
        content: "hello".to_owned().try_into().unwrap(),
        content_type: ContentType::Text,
        ttl: None,
        created_at: SystemClock.now(),
        origin_connection_id: None,
    }
}
