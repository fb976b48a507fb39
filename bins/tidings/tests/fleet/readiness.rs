//! Outages of single engines under the health checks of the shipped deployments. Processes that can do their part stay
//! in rotation, and no deployment restarts a process, because a restart would not help.

use std::time::{Duration, Instant};

use http::Method;
use ports::ProcessRole;
use tokio::time::sleep;

use crate::drills::{Drill, operator};
use crate::health_checks::{CheckAction, HealthCheck, shipped_checks};
use crate::process::PATIENCE;
use crate::runbook::{RunbookMoment, follow};
use crate::server::{TestDevice, TestServer};
use crate::world::Refusals;

/// A fleet under load and under all shipped health checks.
struct CheckedFleet {
    drill: Drill,
    /// A user who signed up before the outage.
    ann: TestDevice,
    checks: Vec<HealthCheck>,
}

impl CheckedFleet {
    async fn start(refusals: Refusals) -> Self {
        let drill = Drill::of(TestServer::start().await, refusals).await;
        let ann = drill.server.sign_up("Ann").await;
        let members = drill.server.fleet.members();
        let checks = members.flat_map(|(role, number, process)| shipped_checks(role, number, process)).collect();
        let fleet = Self { drill, ann, checks };
        fleet.checked().await;
        assert_eq!(fleet.failed(), [""; 0], "before the outage");
        fleet
    }

    /// Waits until every check has had enough answers for a verdict about what happened before the call.
    async fn checked(&self) {
        let before: Vec<usize> = self.checks.iter().map(HealthCheck::answers).collect();
        let is_decided =
            |(check, before): (&HealthCheck, &usize)| check.answers() >= before + check.answers_to_decide();
        let deadline = Instant::now() + 3 * PATIENCE;
        while !self.checks.iter().zip(&before).all(is_decided) {
            assert!(Instant::now() < deadline, "the checks are not made");
            sleep(Duration::from_millis(50)).await;
        }
    }

    /// The checks that have failed.
    fn failed(&self) -> Vec<&str> {
        self.checks.iter().filter(|check| check.is_failed()).map(|check| &*check.name).collect()
    }

    /// Waits for the verdicts of all checks, and compares the failed ones.
    async fn check_failed(&self, expected: &[&str]) {
        self.checked().await;
        assert_eq!(self.failed(), expected, "during the outage");
        let restarted = self.checks.iter().filter(|check| check.is_failed() && check.action == CheckAction::Restart);
        assert_eq!(restarted.count(), 0, "a restart would not help");
    }

    /// The readiness of a process: the status of the response, its word, and those of an engine.
    async fn readiness(&self, role: ProcessRole, engine: &str) -> (u16, String, String) {
        let url = format!("{}/readyz", self.drill.server.fleet.process(role, 0).base_url());
        let answer = reqwest::get(url).await.unwrap();
        let status = answer.status().as_u16();
        let body: serde_json::Value = answer.json().await.unwrap();
        let word = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
        (status, word(&body["status"]), word(&body["dependencies"][engine]["status"]))
    }

    /// Waits until all checks succeed again. Then ends the load and checks that every acknowledged message is delivered.
    async fn end(self, back: Instant) {
        let deadline = Instant::now() + 2 * PATIENCE;
        while !self.failed().is_empty() {
            assert!(Instant::now() < deadline, "still failing: {:?}", self.failed());
            sleep(Duration::from_millis(50)).await;
        }
        eprintln!("all checks succeeded {:?} after the end of the outage", back.elapsed());
        self.drill.end(back).await;
    }
}

fn degraded(engine_status: &str) -> (u16, String, String) {
    (200, "degraded".to_owned(), engine_status.to_owned())
}

fn unready(engine_status: &str) -> (u16, String, String) {
    (503, "unready".to_owned(), engine_status.to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn c3_a_kafka_outage_takes_no_api_and_no_gateway_out_of_rotation() {
    let mut fleet = CheckedFleet::start(Refusals::WhenLoaded).await;
    fleet.drill.server.fleet.base.engines.kafka.stop().await;
    fleet.drill.acked().await;
    // Otherwise the drill would measure how long the broker of the tests takes for the backlog.
    fleet.drill.pause();
    // No client is routed to fanout: it is not ready, and keeps running.
    fleet.check_failed(&["fanout 0: readinessProbe", "fanout 1: readinessProbe"]).await;
    assert_eq!(fleet.readiness(ProcessRole::Api, "kafka").await, degraded("failing"));
    assert_eq!(fleet.readiness(ProcessRole::Ingest, "kafka").await, degraded("failing"));
    assert_eq!(fleet.readiness(ProcessRole::Fanout, "kafka consumer").await, unready("failing"));
    fleet.ann.get("/chats").await.data(200);
    fleet.drill.resume().await;
    fleet.drill.acked().await;
    fleet.drill.server.fleet.base.engines.kafka.start_again().await;
    fleet.end(Instant::now()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn c8_a_redis_outage_takes_no_process_out_of_rotation() {
    let mut fleet = CheckedFleet::start(Refusals::WhenLoaded).await;
    fleet.drill.server.fleet.base.engines.redis.stop().await;
    fleet.check_failed(&[]).await;
    for role in ProcessRole::ALL {
        assert_eq!(fleet.readiness(role, "redis").await, degraded("failing"), "{role}");
    }
    // The balancer still routes handshakes, and a gateway accepts them.
    fleet.drill.server.another_device(&fleet.ann).await.connect_eventually().await;
    fleet.drill.acked().await;
    fleet.drill.server.fleet.base.engines.redis.start_again().await;
    fleet.end(Instant::now()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dynamodb_outage_takes_no_api_and_no_gateway_out_of_rotation_and_requests_get_a_retry_time() {
    let mut fleet = CheckedFleet::start(Refusals::ForAWhile).await;
    fleet.drill.server.fleet.base.engines.dynamo.stop().await;
    fleet.check_failed(&["ingest 0: readinessProbe", "ingest 1: readinessProbe"]).await;
    assert_eq!(fleet.readiness(ProcessRole::Ingest, "dynamodb").await, unready("failing"));
    assert_eq!(fleet.readiness(ProcessRole::Api, "dynamodb").await, degraded("failing"));
    assert_eq!(fleet.readiness(ProcessRole::Gateway, "redis").await, (200, "ready".to_owned(), "ok".to_owned()));
    let refused = fleet.ann.get("/chats").await;
    assert_eq!(refused.header("retry-after"), "1");
    refused.refused(503, "SERVICE_UNAVAILABLE");
    follow("not-ready.md", RunbookMoment::Broken, operator(&fleet.drill.server, ProcessRole::Ingest)).await;

    fleet.drill.server.fleet.base.engines.dynamo.start_again().await;
    let back = Instant::now();
    follow("not-ready.md", RunbookMoment::Over, operator(&fleet.drill.server, ProcessRole::Ingest)).await;
    fleet.drill.acked().await;
    fleet.end(back).await;
}

/// A gateway that starts during an outage of Redis knows no process that could resolve a token.
#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_that_starts_without_redis_gets_no_clients_before_redis_answers() {
    let mut server = TestServer::start().await;
    server.fleet.base.engines.redis.stop().await;
    let gateway = server.fleet.process_mut(ProcessRole::Gateway, 0);
    gateway.stop().await;
    gateway.restart().await;
    let url = "/readyz";
    let started = server.fleet.process(ProcessRole::Gateway, 0).call(Method::GET, url, None).await;
    assert_eq!((started.status.as_u16(), &started.body["status"]), (503, &"unready".into()), "{}", started.body);
    assert_eq!(started.body["dependencies"]["redis"]["needed"], true);
    let other = server.fleet.process(ProcessRole::Gateway, 1);
    other.until(async || other.call(Method::GET, url, None).await.body["status"] == "degraded").await;
    assert_eq!(other.call(Method::GET, url, None).await.status, 200);
    server.fleet.base.engines.redis.start_again().await;
    let gateway = server.fleet.process(ProcessRole::Gateway, 0);
    gateway.until(async || gateway.call(Method::GET, url, None).await.status == 200).await;
}
