//! Failures of a fleet's processes and engines under load. Afterwards every acknowledged message must exist once, in
//! order, for every member and in the log. Each drill prints its recovery time.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use domain::{ChatId, EventBody};
use engines::{Fault, When};
use ports::{EventLog, ProcessRole, SystemClock};
use rand::SeedableRng;
use rand::rngs::StdRng;
use serde_json::{Value, json};
use tidings_kafka::KafkaLog;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout, timeout_at};
use uuid::Uuid;

use crate::audit::ServerAudit;
use crate::engine::SIZE;
use crate::load::CrashLoad;
use crate::process::PATIENCE;
use crate::runbook::{RunbookMoment, follow, names};
use crate::server::{BUSY, CONSUMER_GONE_AFTER, TestDevice, TestServer, TestSocket};
use crate::world::{Manners, Refusals};

/// Longest time to rebuild the shared state in Redis after its loss.
const ROUTES_REBUILT: Duration = Duration::from_secs(15);
/// Longest time until a client gets a response (G5).
const DEADLINE: Duration = Duration::from_secs(5);

/// Number of acks that shows that sends continue.
const MORE: usize = 20;
/// Pause of each of the fourteen senders between two sends. Their total rate is below the capacity of the test's broker
/// on a busy machine; otherwise the drill would measure the broker.
const PAUSE: Duration = Duration::from_millis(300);

/// A fleet under load.
pub(crate) struct Drill {
    pub(crate) server: TestServer,
    load: CrashLoad,
}

impl Drill {
    async fn start(refusals: Refusals) -> Self {
        Self::of(TestServer::start().await, refusals).await
    }

    pub(crate) async fn of(server: TestServer, refusals: Refusals) -> Self {
        let manners = Manners { refusals, pause: PAUSE };
        let load = CrashLoad::start(&server.base_url(), manners, &mut StdRng::seed_from_u64(1)).await;
        let mut drill = Self { server, load };
        drill.load.resume().await;
        drill.acked().await;
        drill
    }

    /// Waits until sends made from now on are acknowledged.
    pub(crate) async fn acked(&mut self) {
        let made = {
            let ledger = &self.load.state().ledger;
            ledger.acks() + ledger.unanswered()
        };
        // A client that was refused waits longer after each refusal.
        let deadline = Instant::now() + 2 * PATIENCE;
        while self.load.state().ledger.acks() < made + MORE {
            assert!(Instant::now() < deadline, "nothing is acknowledged");
            sleep(Duration::from_millis(10)).await;
        }
    }

    /// Stops new sends for a while. Clients stay connected.
    pub(crate) fn pause(&self) {
        self.load.pause();
    }

    pub(crate) async fn resume(&mut self) {
        self.load.resume().await;
    }

    /// Ends the load, and checks everything that it stored.
    pub(crate) async fn end(mut self, healed: Instant) {
        self.load.pause();
        self.load.settle().await;
        let mut audit = ServerAudit::default();
        audit.sync(&self.load).await;
        self.load.converge(&audit).await;
        let converged = healed.elapsed();
        audit.compare_with_rest(&self.load).await;
        self.load.check_history();
        self.audit_log(&audit).await;
        let summary = self.load.summary();
        eprintln!(
            "all clients had all messages after {converged:?}, the log was complete after {:?}: {summary}",
            healed.elapsed()
        );
    }

    /// Reads the whole log and checks that it has every message of each chat, in order.
    async fn audit_log(&self, audit: &ServerAudit) {
        let log = KafkaLog::reading(self.server.fleet.base.engines.kafka_config(), Arc::new(SystemClock)).unwrap();
        let mut consumer = log.consumer("audit").await.unwrap();
        let mut chats: BTreeMap<ChatId, usize> = self.load.chats().map(|(chat_id, _)| (chat_id, 0)).collect();
        let mut repeated = 0;
        while chats.iter().any(|(chat_id, read)| *read < audit.rows(*chat_id).len()) {
            for record in timeout(PATIENCE, consumer.next()).await.expect("the log has everything").unwrap() {
                let EventBody::MessagePersisted { message, .. } = &record.event.body else { continue };
                // The log may hold messages from outside the load.
                let Some(read) = chats.get_mut(&message.chat_id) else { continue };
                let sequence = message.sequence.0 as usize;
                assert!(sequence <= *read + 1, "{sequence} after {read} of {}", message.chat_id);
                let (message_id, _) = audit.rows(message.chat_id)[sequence - 1];
                assert_eq!(message.message_id, message_id, "the log has what the store has");
                repeated += usize::from(sequence <= *read);
                *read = sequence.max(*read);
            }
        }
        eprintln!("{repeated} events are in the log more than once");
    }
}

/// The environment of an operator: the settings of a process, and the variables that runbook commands use. `ADMIN` is
/// the first process of a role.
pub(crate) fn operator(server: &TestServer, role: ProcessRole) -> Vec<(String, String)> {
    let process = server.fleet.process(role, 0);
    let mut names = names(&server.base_url(), &process.admin_url(), &process.data_dir());
    names.extend(server.fleet.base.environment(ProcessRole::Api));
    let data_dir = process.data_dir().to_str().unwrap().to_owned();
    for (name, value) in [
        ("TIDINGS_LISTEN", "127.0.0.1:0"),
        ("TIDINGS_ADMIN__LISTEN", "127.0.0.1:0"),
        ("TIDINGS_DATA_DIR", &*data_dir),
        ("TIDINGS_KAFKA__PARTITIONS", &SIZE.partitions.to_string()),
        ("TIDINGS_KAFKA__REPLICATION", &SIZE.replication.to_string()),
        ("FANOUT_ADMIN", server.fleet.process(ProcessRole::Fanout, 0).admin_url().trim_start_matches("http://")),
        // Local DynamoDB does not support it.
        ("TIDINGS_DYNAMODB__POINT_IN_TIME_RECOVERY", "false"),
    ] {
        names.push((name.to_owned(), value.to_owned()));
    }
    names
}

/// Two users at different gateways, with sockets that only receive: every frame was pushed.
struct Witnesses {
    ann: TestDevice,
    bob: TestDevice,
    chat_id: String,
    sockets: [TestSocket; 2],
}

impl Witnesses {
    async fn meet(server: &TestServer) -> Self {
        let [ann, bob] = server.sign_up_all(["Ann", "Bob"]).await;
        let chat_id = ann.direct_chat(&bob).await;
        let sockets = [ann.connect().await, bob.connect().await];
        let mut witnesses = Self { ann, bob, chat_id, sockets };
        witnesses.pushed().await;
        witnesses
    }

    /// Sends over HTTP, once a second, until both sockets have received a push of it. Returns the time it took.
    async fn pushed(&mut self) -> Duration {
        let start = Instant::now();
        let mut sent = vec![];
        let mut waiting: Vec<&mut TestSocket> = self.sockets.iter_mut().collect();
        while !waiting.is_empty() {
            assert!(start.elapsed() < PATIENCE, "nothing is pushed");
            sent.push(self.ann.send(&self.chat_id, "hello").await["message_id"].take());
            let mut still = vec![];
            let turn = Instant::now() + Duration::from_secs(1);
            for socket in waiting {
                // The gateway closes a connection without heartbeats.
                socket.send(json!({ "type": "heartbeat" })).await;
                let any = async { while !sent.contains(&next(socket).await) {} };
                if timeout_at(turn.into(), any).await.is_err() {
                    still.push(socket);
                }
            }
            waiting = still;
        }
        start.elapsed()
    }
}

/// The id of the next pushed message.
async fn next(socket: &mut TestSocket) -> Value {
    socket.next_of("message").await["payload"]["message_id"].take()
}

#[tokio::test(flavor = "multi_thread")]
async fn while_kafka_is_unavailable_sends_succeed_and_all_events_are_published_afterwards() {
    let mut drill = Drill::start(Refusals::WhenLoaded).await;
    drill.server.fleet.base.engines.kafka.stop().await;
    drill.acked().await;
    follow("kafka.md", RunbookMoment::Broken, operator(&drill.server, ProcessRole::Ingest)).await;
    drill.acked().await;
    drill.server.fleet.base.engines.kafka.start_again().await;
    let back = Instant::now();
    follow("kafka.md", RunbookMoment::Over, operator(&drill.server, ProcessRole::Ingest)).await;
    drill.end(back).await;
}

/// Flushes Redis.
pub(crate) async fn flush(server: &TestServer) {
    let mut redis = TcpStream::connect(("127.0.0.1", server.fleet.base.engines.redis.port())).await.unwrap();
    redis.write_all(b"FLUSHALL\r\n").await.unwrap();
    let mut answer = [0; 5];
    redis.read_exact(&mut answer).await.unwrap();
    assert_eq!(&answer, b"+OK\r\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_push_lost_to_a_flushed_redis_is_synced_without_further_messages() {
    let server = TestServer::start().await;
    let mut witnesses = Witnesses::meet(&server).await;
    flush(&server).await;
    let sent = witnesses.ann.send(&witnesses.chat_id, "alone").await["message_id"].take();
    let socket = &mut witnesses.sockets[1];
    let start = Instant::now();
    loop {
        // The gateway closes a connection without heartbeats.
        socket.send(json!({ "type": "heartbeat" })).await;
        let frame =
            timeout_at((start + ROUTES_REBUILT).into(), socket.next()).await.expect("it is pushed or told to sync");
        // A gateway heartbeat between flush and send restores the route, and then the message is pushed.
        if frame["type"] == "resync" || frame["payload"]["message_id"] == sent {
            break;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn redis_recovery_rebuilds_state_and_nothing_is_lost() {
    let mut drill = Drill::start(Refusals::WhenLoaded).await;
    let mut witnesses = Witnesses::meet(&drill.server).await;
    flush(&drill.server).await;
    let flushed = Instant::now();
    let rebuilt = witnesses.pushed().await;
    eprintln!("routes were rebuilt after {rebuilt:?}");
    assert!(rebuilt < ROUTES_REBUILT, "{rebuilt:?}");
    drill.acked().await;
    drill.end(flushed).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn redis_unavailable_degrades_to_broadcast_routing_and_new_connections_go_on() {
    let mut drill = Drill::start(Refusals::WhenLoaded).await;
    let mut witnesses = Witnesses::meet(&drill.server).await;
    drill.server.fleet.base.engines.redis.stop().await;
    let fallen_back = witnesses.pushed().await;
    let start = Instant::now();
    let mut newcomer = drill.server.another_device(&witnesses.bob).await.connect_eventually().await;
    let admitted = start.elapsed();
    let ack = witnesses.ann.send(&witnesses.chat_id, "hello").await;
    while next(&mut newcomer).await != ack["message_id"] {}
    drill.acked().await;
    follow("redis.md", RunbookMoment::Broken, operator(&drill.server, ProcessRole::Api)).await;

    drill.server.fleet.base.engines.redis.start_again().await;
    let back = Instant::now();
    eprintln!("pushes came directly after {fallen_back:?}, a connection was let in after {admitted:?}");
    // Until then fanout pushes directly to all gateways, so a push proves nothing about the routes.
    let is_back = |n| {
        drill.server.fleet.process(ProcessRole::Fanout, n).log().contains("shared state in Redis is available again")
    };
    while !(0..2).all(is_back) {
        assert!(back.elapsed() < 2 * PATIENCE, "shared state in Redis is not trusted again");
        for socket in &mut witnesses.sockets {
            socket.send(json!({ "type": "heartbeat" })).await;
        }
        sleep(Duration::from_millis(500)).await;
    }
    let believed = back.elapsed();
    eprintln!(
        "shared state in Redis was trusted again after {believed:?}, and pushes came {:?} later",
        witnesses.pushed().await
    );
    follow("redis.md", RunbookMoment::Over, operator(&drill.server, ProcessRole::Api)).await;
    drill.end(back).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn while_dynamodb_throttles_and_times_out_sends_succeed_or_get_a_retry_time() {
    let mut drill = Drill::start(Refusals::ForAWhile).await;
    let faults = &drill.server.fleet.base.engines.faults;
    for (fault, when) in [
        (Fault::Throttled, When::Before),
        (Fault::ServerError, When::After),
        (Fault::Conflict, When::Before),
        (Fault::Cut, When::After),
        (Fault::CapacityExceeded, When::Before),
        (Fault::Unavailable, When::After),
        (Fault::InProgress, When::After),
        (Fault::Cut, When::Before),
    ] {
        faults.fail_operation("TransactWriteItems", fault, when, 20);
        faults.fail(fault, when, 20);
    }
    let deadline = Instant::now() + 2 * PATIENCE;
    while drill.server.fleet.base.engines.faults.faults_left() > 0 {
        assert!(Instant::now() < deadline, "the faults do not come");
        sleep(Duration::from_millis(10)).await;
    }
    let healed = Instant::now();
    drill.acked().await;
    drill.end(healed).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn while_dynamodb_is_unavailable_sends_get_a_retry_time_and_none_is_duplicated() {
    let mut drill = Drill::start(Refusals::ForAWhile).await;
    let ann = drill.server.sign_up("Ann").await;
    let chat_id = ann.group("Notes", &[]).await;
    let mut socket = ann.connect().await;
    let sent = json!({ "client_message_id": Uuid::new_v4(), "chat_id": chat_id, "content": "hello" });
    drill.server.fleet.base.engines.dynamo.stop().await;
    let start = Instant::now();
    let refused = socket.ask("send_message", sent.clone()).await;
    let took = start.elapsed();
    assert_eq!(refused["payload"]["code"], "SERVICE_UNAVAILABLE", "{refused}");
    assert!(refused["payload"]["details"]["retry_after_seconds"].as_u64().is_some_and(|seconds| seconds >= 1));
    assert!(took < DEADLINE + BUSY, "{took:?}");
    follow("dynamodb.md", RunbookMoment::Broken, operator(&drill.server, ProcessRole::Ingest)).await;

    drill.server.fleet.base.engines.dynamo.start_again().await;
    let back = Instant::now();
    while socket.ask("send_message", sent.clone()).await["type"] != "send_message_ack" {
        assert!(back.elapsed() < PATIENCE, "sends are still refused");
    }
    eprintln!("a send was refused after {took:?}, and taken {:?} after the return", back.elapsed());
    let again = socket.ask("send_message", sent).await;
    assert_eq!((&again["payload"]["sequence"], &again["payload"]["deduplicated"]), (&json!(1), &json!(true)));
    drill.acked().await;
    follow("dynamodb.md", RunbookMoment::Over, operator(&drill.server, ProcessRole::Ingest)).await;
    drill.end(back).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn when_an_ingest_process_is_killed_the_other_takes_its_chats() {
    let mut drill = Drill::start(Refusals::ForAWhile).await;
    drill.server.fleet.process_mut(ProcessRole::Ingest, 0).kill().await;
    let killed = Instant::now();
    drill.acked().await;
    eprintln!("sends were acknowledged {:?} after the death", killed.elapsed());
    follow("partition.md", RunbookMoment::Broken, operator(&drill.server, ProcessRole::Gateway)).await;
    drill.server.fleet.process_mut(ProcessRole::Ingest, 0).restart().await;
    drill.acked().await;
    drill.end(killed).await;
}

// The broker of the tests does not reassign the partitions of a killed consumer until another member joins. So here a
// process leaves its group gracefully, or all processes die and restart; `takeover` kills one of two, at another broker.

#[tokio::test(flavor = "multi_thread")]
async fn when_a_fanout_process_leaves_the_other_takes_its_part_of_the_log() {
    let mut drill = Drill::start(Refusals::WhenLoaded).await;
    let (status, _) = drill.server.fleet.process_mut(ProcessRole::Fanout, 0).stop().await;
    assert_eq!(status.code(), Some(0));
    let left = Instant::now();
    drill.acked().await;
    drill.end(left).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn when_all_fanout_processes_are_killed_their_successors_skip_no_event() {
    let mut drill = Drill::start(Refusals::WhenLoaded).await;
    for n in 0..2 {
        drill.server.fleet.process_mut(ProcessRole::Fanout, n).kill().await;
    }
    drill.acked().await;
    follow("pushes-late.md", RunbookMoment::Broken, operator(&drill.server, ProcessRole::Ingest)).await;
    sleep(CONSUMER_GONE_AFTER).await;
    for n in 0..2 {
        drill.server.fleet.process_mut(ProcessRole::Fanout, n).restart().await;
    }
    let back = Instant::now();
    follow("pushes-late.md", RunbookMoment::Over, operator(&drill.server, ProcessRole::Ingest)).await;
    drill.end(back).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn when_a_gateway_is_killed_its_clients_continue_at_the_other() {
    let mut drill = Drill::start(Refusals::WhenLoaded).await;
    drill.server.fleet.process_mut(ProcessRole::Gateway, 0).kill().await;
    let killed = Instant::now();
    drill.acked().await;
    eprintln!("sends were acknowledged {:?} after the death", killed.elapsed());
    follow("gateway-gone.md", RunbookMoment::Broken, operator(&drill.server, ProcessRole::Api)).await;
    drill.end(killed).await;
}
