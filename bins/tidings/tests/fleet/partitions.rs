//! Network partitions: all packets between some processes, or between a process and an engine, are lost in both
//! directions for a while. No connection is closed and no process is killed, so only deadlines end a call.

use std::time::{Duration, Instant};

use http::Method;
use ports::ProcessRole;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::sleep;
use uuid::Uuid;

use crate::history::{Crowd, FaultyProxy, Keeps};
use crate::network::ProcessNetwork;
use crate::server::{BUSY, PATIENCE, TestDevice, TestServer};

/// Longest time until a client gets a response (G5).
const DEADLINE: Duration = Duration::from_secs(5);
/// How long a partition continues after a process has noticed it: longer than a call may take.
const HELD: Duration = Duration::from_secs(6);
/// The same for Kafka, where it takes a process some seconds to notice. A longer partition would measure how long the
/// broker of the tests takes to admit its consumers again.
const KAFKA_HELD: Duration = Duration::from_secs(2);
/// Number of accepted sends in a row that shows that a prober is served again.
const SERVED: usize = 5;
/// Chats of a prober, so that both ingest processes own some.
const CHATS: usize = 6;

/// A fleet on a network that can be partitioned, under a crowd whose history is checked, and under probers that measure
/// every call.
struct PartitionedFleet {
    server: TestServer,
    crowd: Crowd,
    probers: JoinSet<()>,
    /// The outcomes of each prober's sends.
    outcomes: Vec<watch::Receiver<ProbeOutcomes>>,
}

/// The number of accepted and refused sends.
#[derive(Clone, Copy, Debug, Default)]
struct ProbeOutcomes {
    accepted: usize,
    refused: usize,
}

impl PartitionedFleet {
    async fn start() -> Self {
        let server = TestServer::start_on_network().await;
        let crowd = Crowd::gather(&server.base_url(), &server.base_url(), Keeps::NoOrder).await;
        let (mut probers, mut outcomes) = (JoinSet::new(), vec![]);
        // Two sockets in turn are at both gateways.
        for number in 0..4 {
            let device = server.sign_up("Prober").await;
            let mut chats = vec![];
            for n in 0..CHATS {
                chats.push(device.group(&n.to_string(), &[]).await);
            }
            let (tell, told) = watch::channel(ProbeOutcomes::default());
            outcomes.push(told);
            match number {
                0 | 1 => probers.spawn(probe_over_http(device, chats, tell)),
                _ => probers.spawn(probe_over_socket(device, chats, tell)),
            };
        }
        let mut fleet = Self { server, crowd, probers, outcomes };
        fleet.all_served().await;
        fleet
    }

    fn network(&self, role: ProcessRole, number: usize) -> &ProcessNetwork {
        self.server.fleet.base.network.as_ref().expect("the fleet has one").of(role, number)
    }

    /// Waits until every prober has some accepted sends in a row that were made from now on.
    async fn all_served(&mut self) {
        let deadline = Instant::now() + 2 * PATIENCE;
        let now = |outcomes: &watch::Receiver<ProbeOutcomes>| *outcomes.borrow();
        let mut since: Vec<ProbeOutcomes> = self.outcomes.iter().map(now).collect();
        loop {
            let mut is_served = true;
            for (outcomes, since) in self.outcomes.iter().zip(&mut since) {
                let now = *outcomes.borrow();
                if now.refused > since.refused {
                    *since = now;
                }
                // One send may have been pending at the start.
                is_served &= now.accepted > since.accepted + SERVED;
            }
            if is_served {
                return;
            }
            assert!(Instant::now() < deadline, "probers are not served: {since:?} {:?}", self.outcomes);
            self.go_on(Duration::from_millis(20)).await;
        }
    }

    /// Lets everything run for a while. A prober that ends has measured a call that took too long.
    async fn go_on(&mut self, time: Duration) {
        tokio::select! {
            () = self.crowd.go_on(time) => {}
            Some(ended) = self.probers.join_next() => panic!("a prober has ended: {ended:?}"),
        }
    }

    /// Partitions the network until the partition is noticed and for a while longer, then repairs it.
    async fn partition(
        &mut self,
        what: &str,
        held: Duration,
        proxy: impl Fn(&Self) -> &FaultyProxy,
        is_noticed: impl AsyncFn(&TestServer) -> bool,
        is_healed: impl AsyncFn(&TestServer) -> bool,
    ) {
        proxy(self).stall(true);
        let cut = Instant::now();
        while !is_noticed(&self.server).await {
            assert!(cut.elapsed() < PATIENCE, "{what}: no process notices");
            self.go_on(Duration::from_millis(50)).await;
        }
        let noticed = cut.elapsed();
        self.go_on(held).await;
        proxy(self).stall(false);
        let repaired = Instant::now();
        while !is_healed(&self.server).await {
            assert!(repaired.elapsed() < 2 * PATIENCE, "{what}: not healed");
            self.go_on(Duration::from_millis(50)).await;
        }
        self.all_served().await;
        eprintln!("{what}: noticed after {noticed:?}, all were served {:?} after the repair", repaired.elapsed());
    }
}

/// Sends over HTTP to the chats in turn. Each call is answered in time, by an acknowledgement or with a retry time.
async fn probe_over_http(device: TestDevice, chats: Vec<String>, outcomes: watch::Sender<ProbeOutcomes>) {
    for chat_id in chats.iter().cycle() {
        let body = json!({ "client_message_id": Uuid::new_v4(), "content": "probe" });
        let start = Instant::now();
        let answer = device.post(&format!("/chats/{chat_id}/messages"), body).await;
        let took = start.elapsed();
        assert!(took < DEADLINE + BUSY, "a call over HTTP took {took:?}: {answer:?}");
        if answer.status == 201 {
            outcomes.send_modify(|outcomes| outcomes.accepted += 1);
        } else {
            assert!(!answer.header("retry-after").is_empty(), "{answer:?}");
            answer.refused(503, "SERVICE_UNAVAILABLE");
            outcomes.send_modify(|outcomes| outcomes.refused += 1);
        }
        sleep(Duration::from_millis(100)).await;
    }
}

/// Sends over a socket to the chats in turn. Each frame is answered in time, by an acknowledgement or an error that may
/// be retried.
async fn probe_over_socket(device: TestDevice, chats: Vec<String>, outcomes: watch::Sender<ProbeOutcomes>) {
    let mut socket = device.connect().await;
    for chat_id in chats.iter().cycle() {
        let payload = json!({ "client_message_id": Uuid::new_v4(), "chat_id": chat_id, "content": "probe" });
        let start = Instant::now();
        let answer = socket.ask("send_message", payload).await;
        let took = start.elapsed();
        assert!(took < DEADLINE + BUSY, "a call over a socket took {took:?}: {answer}");
        if answer["type"] == "send_message_ack" {
            outcomes.send_modify(|outcomes| outcomes.accepted += 1);
        } else {
            assert_eq!(answer["payload"]["code"], "SERVICE_UNAVAILABLE", "{answer}");
            outcomes.send_modify(|outcomes| outcomes.refused += 1);
        }
        // Pushes of other frames are of no interest here.
        socket.heard_so_far().await;
        sleep(Duration::from_millis(100)).await;
    }
}

/// The readiness of a process: the status of the response, and its word.
async fn readiness(server: &TestServer, role: ProcessRole, number: usize) -> (u16, Value) {
    let answer = server.fleet.process(role, number).call(Method::GET, "/readyz", None).await;
    (answer.status.as_u16(), answer.body["status"].clone())
}

#[tokio::test(flavor = "multi_thread")]
async fn partitions_between_processes_and_engines_end_every_call_in_time_and_leave_a_history_that_fits() {
    use ProcessRole::{Api, Gateway, Ingest};
    let mut fleet = PartitionedFleet::start().await;

    // Ingest 0 lives, is listed in Redis and reaches its engines, and no other process reaches it.
    let callers = [(Gateway, 0), (Gateway, 1), (Api, 0), (Api, 1)];
    let breakers = async |server: &TestServer, text: &str| {
        callers.iter().any(|(role, n)| server.fleet.process(*role, *n).last_log().contains(text))
    };
    fleet
        .partition(
            "ingest 0 from its callers",
            HELD,
            |fleet| &fleet.network(Ingest, 0).calls,
            async |server| breakers(server, "circuit breaker of a process changed").await,
            async |server| breakers(server, "process answers again").await,
        )
        .await;

    let is_ready = async |server: &TestServer| readiness(server, Ingest, 1).await.0 == 200;
    let is_unready = async |server: &TestServer| readiness(server, Ingest, 1).await.0 == 503;
    fleet
        .partition("ingest 1 from DynamoDB", HELD, |fleet| &fleet.network(Ingest, 1).dynamodb, is_unready, is_ready)
        .await;

    let is = async |server: &TestServer, word: &str| readiness(server, Gateway, 0).await.1 == word;
    fleet
        .partition(
            "gateway 0 from Redis",
            HELD,
            |fleet| &fleet.network(Gateway, 0).redis,
            async |server| is(server, "degraded").await,
            async |server| is(server, "ready").await,
        )
        .await;

    let is = async |server: &TestServer, word: &str| readiness(server, Ingest, 0).await.1 == word;
    fleet
        .partition(
            "all processes from Kafka",
            KAFKA_HELD,
            |fleet| fleet.server.fleet.base.engines.kafka_proxy(),
            async |server| is(server, "degraded").await,
            async |server| is(server, "ready").await,
        )
        .await;

    fleet.probers.shutdown().await;
    fleet.crowd.part(&[]).await;
}
