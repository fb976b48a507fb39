//! A real server for tests. It runs inside the test, and the client reaches it over HTTP through a proxy that injects
//! faults.

use std::net::SocketAddr;
use std::sync::Arc;

use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::{Credentials, SharedCredentialsProvider};
use domain::{Body, ChatId, ContentType, Sequence, UpdateAction, UserId};
use dynoxide::{Database, server};
use engines::{FaultyDynamo, LastingFault};
use ports::{ChatWriter, Clock, Ids, NewGroup, NewMessage, NewUpdate, RandomIds, SystemClock};
use tokio::net::TcpListener;
use uuid::Uuid;

use crate::item::{DynamoItem, ItemKey};
use crate::schema::{self, Table};
use crate::store::client;
use crate::{Config, DynamoStore};

/// A server, and a client of it.
pub(crate) struct DynamoServer {
    pub(crate) database: Database,
    pub(crate) client: Client,
    pub(crate) config: Config,
    /// The proxy between client and server.
    pub(crate) proxy: FaultyDynamo,
}

impl DynamoServer {
    /// An empty server.
    pub(crate) async fn start() -> Self {
        let (database, upstream) = serve().await;
        Self::behind(FaultyDynamo::start(upstream).await, database)
    }

    fn behind(proxy: FaultyDynamo, database: Database) -> Self {
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

    /// A server with our tables, under a lasting fault.
    pub(crate) async fn with_fault(fault: LastingFault) -> Self {
        let server = Self::with_tables().await;
        server.proxy.keep_failing(fault);
        server
    }

    /// A server with our tables. No index has a write until the proxy lets the indexes catch up.
    pub(crate) async fn with_lagging_indexes() -> Self {
        let ((database, upstream), (_, replica)) = (serve().await, serve().await);
        let server = Self::behind(FaultyDynamo::start_lagging(upstream, replica).await, database);
        schema::apply(&server.client, &server.config).await.unwrap();
        server.proxy.catch_up().await;
        server
    }

    /// A store on this server, like another process of the fleet.
    pub(crate) fn store(&self) -> DynamoStore {
        DynamoStore::new(self.client.clone(), &self.config, Arc::new(SystemClock), Arc::new(RandomIds))
    }

    /// The full name of a table on the server.
    pub(crate) fn name(&self, table: Table) -> String {
        format!("{}{}", self.config.table_prefix, table.name())
    }

    /// Writes an item directly, bypassing the store.
    pub(crate) async fn put(&self, key: ItemKey, mut item: DynamoItem) {
        item.extend(key.attributes());
        self.client.put_item().table_name(self.name(key.table)).set_item(Some(item)).send().await.unwrap();
    }
}

/// A database, and the address of its server, which ends with the runtime of the test.
async fn serve() -> (Database, SocketAddr) {
    let database = Database::memory().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(server::serve_on(listener, database.clone()));
    (database, address)
}

/// A new group with one member.
pub(crate) async fn chat(store: &DynamoStore) -> (ChatId, UserId) {
    let (chat_id, created_by) = (RandomIds.ulid().into(), RandomIds.ulid().into());
    let name = "group".to_owned().try_into().unwrap();
    let group = NewGroup { chat_id, name, created_by, members: vec![], created_at: SystemClock.now() };
    store.create_group(group).await.unwrap();
    (chat_id, created_by)
}

/// A new send.
pub(crate) fn message(chat_id: ChatId, sender_id: UserId) -> NewMessage {
    NewMessage {
        chat_id,
        sender_id,
        client_message_id: Uuid::new_v4().into(),
        message_id: RandomIds.ulid().into(),
        body: Body::new("hello".to_owned().try_into().unwrap(), ContentType::Text),
        ttl: None,
        ttl_max: None,
        created_at: SystemClock.now(),
        origin_connection_id: None,
    }
}

/// A new update of the message at a sequence.
pub(crate) fn update(chat_id: ChatId, user_id: UserId, target: u64, action: UpdateAction) -> NewUpdate {
    NewUpdate {
        chat_id,
        user_id,
        client_message_id: Uuid::new_v4().into(),
        update_id: RandomIds.ulid().into(),
        target: Sequence(target),
        action,
        window: None,
        ttl_max: None,
        created_at: SystemClock.now(),
    }
}
