//! A real server for tests: it runs inside the test and is spoken to over HTTP, through a proxy that can lose answers.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::{Credentials, SharedCredentialsProvider};
use dynoxide::{Database, server};
use ports::{RandomIds, SystemClock};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::item::{Item, Key};
use crate::schema::{self, Table};
use crate::store::client;
use crate::{Config, DynamoStore};

/// A server, and a client of it.
pub(crate) struct Server {
    pub(crate) database: Database,
    pub(crate) client: Client,
    pub(crate) config: Config,
    lost_answers: Arc<AtomicUsize>,
}

impl Server {
    /// A server with nothing in it.
    pub(crate) async fn start() -> Self {
        let database = Database::memory().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let upstream = listener.local_addr().unwrap();
        // Server and proxy end with the runtime of the test.
        tokio::spawn(server::serve_on(listener, database.clone()));

        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let lost_answers = Arc::new(AtomicUsize::new(0));
        let losing = lost_answers.clone();
        tokio::spawn(async move {
            while let Ok((downstream, _)) = listener.accept().await {
                let upstream = TcpStream::connect(upstream).await.unwrap();
                tokio::spawn(pass(downstream, upstream, losing.clone()));
            }
        });

        let credentials = Credentials::new("test", "test", None, None, "test");
        let sdk = SdkConfig::builder()
            .behavior_version(BehaviorVersion::latest())
            .region(Region::new("eu-central-1"))
            .endpoint_url(endpoint)
            .credentials_provider(SharedCredentialsProvider::new(credentials))
            .build();
        let config = Config { point_in_time_recovery: false, ..Config::default() };
        Self { database, client: client(&sdk), config, lost_answers }
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

    /// Has the next answers get lost on their way, after what was asked has been done.
    pub(crate) fn lose_answers(&self, count: usize) {
        self.lost_answers.store(count, Ordering::SeqCst);
    }

    /// How many answers are still to be lost.
    pub(crate) fn answers_to_lose(&self) -> usize {
        self.lost_answers.load(Ordering::SeqCst)
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

/// Passes requests up and answers down, and closes the connection where an answer is to be lost.
async fn pass(downstream: TcpStream, upstream: TcpStream, lost_answers: Arc<AtomicUsize>) {
    let (mut from_client, mut to_client) = downstream.into_split();
    let (mut from_server, mut to_server) = upstream.into_split();
    let up = tokio::spawn(async move { tokio::io::copy(&mut from_client, &mut to_server).await });
    let mut buffer = vec![0; 64 * 1024];
    while let Ok(len @ 1..) = from_server.read(&mut buffer).await {
        let lose = |left: usize| left.checked_sub(1);
        if lost_answers.fetch_update(Ordering::SeqCst, Ordering::SeqCst, lose).is_ok() {
            break;
        }
        if to_client.write_all(&buffer[..len]).await.is_err() {
            break;
        }
    }
    up.abort();
}
