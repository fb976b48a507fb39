//! One consumer of two is killed in each group: the time until the other one has its partitions.
//!
//! The broker of the other tests does not reassign them until another member joins. So this is measured with the mock
//! cluster of librdkafka, which removes a silent member after its session timeout, as Apache Kafka does.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use ports::ProcessRole;
use rdkafka::mocking::MockCluster;
use serde_json::json;
use tidings_kafka::topics::Topic;
use tokio::time::timeout;

use crate::engine::SIZE;
use crate::receiver::WebhookReceiver;
use crate::server::{BUSY, TestDevice, TestServer, TestSocket};
use crate::webhook::secret_file;

/// Session timeout of a consumer.
const SESSION: Duration = Duration::from_secs(10);
/// Time for the rebalance after it. The mock cluster waits this long for the other members to join again, however soon
/// they do; Apache Kafka only until they have.
const REBALANCE: Duration = Duration::from_secs(9);
/// Enough chats that each partition has some.
const CHATS: usize = 12;

/// A user with a socket, in chats of every partition, and a webhook for the messages.
struct TakeoverScene {
    server: TestServer,
    receiver: WebhookReceiver,
    ann: TestDevice,
    socket: TestSocket,
    chats: Vec<String>,
}

impl TakeoverScene {
    /// A fleet with additional settings.
    async fn set(environment: &[(&str, &str)]) -> Self {
        let (receiver, secret) = (WebhookReceiver::start().await, secret_file());
        let url = receiver.url();
        let webhook = [
            ("TIDINGS_WEBHOOK__URL", &*url),
            ("TIDINGS_WEBHOOK__SECRET_FILE", secret.path().to_str().unwrap()),
            ("TIDINGS_WEBHOOK__EVENTS", "message"),
        ];
        let server = TestServer::start_with(&[&webhook[..], environment].concat()).await;
        let ann = server.sign_up("Ann").await;
        let laptop = server.another_device(&ann).await;
        let socket = laptop.connect().await;
        let mut chats = vec![];
        for n in 0..CHATS {
            chats.push(ann.group(&n.to_string(), &[]).await);
        }
        Self { server, receiver, ann, socket, chats }
    }

    /// Sends a message to each chat. Returns how long it took until all were pushed, and until all were posted.
    async fn deliver(&mut self) -> [Duration; 2] {
        let mut sent = BTreeSet::new();
        for chat_id in &self.chats {
            sent.insert(self.ann.send(chat_id, "hello").await["message_id"].as_str().unwrap().to_owned());
        }
        let start = Instant::now();
        let (mut unpushed, mut unposted) = (sent.clone(), sent);
        let pushed = async {
            while !unpushed.is_empty() {
                // The gateway closes a connection without heartbeats.
                self.socket.send(json!({ "type": "heartbeat" })).await;
                let next = timeout(Duration::from_secs(1), self.socket.next_of("message")).await;
                if let Ok(message) = next {
                    unpushed.remove(message["payload"]["message_id"].as_str().unwrap());
                }
            }
            start.elapsed()
        };
        let posted = async {
            while !unposted.is_empty() {
                let event = self.receiver.next().await.json();
                unposted.remove(event["payload"]["message_id"].as_str().unwrap());
            }
            start.elapsed()
        };
        let (pushed, posted) = tokio::join!(pushed, posted);
        [pushed, posted]
    }

    /// Kills one consumer of each group. Returns how long it took until the others delivered everything.
    async fn takeover(&mut self) -> [Duration; 2] {
        let both = self.deliver().await;
        eprintln!("with both consumers of each group everything was pushed and posted after {both:?}");
        self.server.fleet.process_mut(ProcessRole::Fanout, 0).kill().await;
        self.server.fleet.process_mut(ProcessRole::Api, 0).kill().await;
        let killed = Instant::now();
        let sent = self.deliver().await;
        eprintln!(
            "the partitions of killed consumers: pushed and posted after {sent:?}, {:?} after the kill",
            killed.elapsed()
        );
        sent
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_partitions_of_a_killed_consumer_are_taken_over_after_its_session_timeout() {
    let cluster = MockCluster::new(1).unwrap();
    for topic in Topic::ALL {
        cluster.create_topic(topic.name(), SIZE.partitions.into(), 1).unwrap();
    }
    let brokers = cluster.bootstrap_servers();
    let mut scene = TakeoverScene::set(&[("TIDINGS_KAFKA__BROKERS", &brokers)]).await;
    for took in scene.takeover().await {
        assert!(took < SESSION + REBALANCE + BUSY, "{took:?}");
        // Otherwise the killed process had no partition with one of the chats.
        assert!(took > SESSION / 2, "{took:?}");
    }
}
