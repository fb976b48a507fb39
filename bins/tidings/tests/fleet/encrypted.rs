//! Kafka over TLS with SCRAM-SHA-512, and Redis over TLS with an ACL user: as a fleet is deployed. Neither engine accepts
//! anything else here.

use http::Method;
use ports::ProcessRole;
use serde_json::{Value, json};
use tokio::process::Command;

use crate::engine::SIZE;
use crate::server::TestServer;

/// The verdict of `doctor` on an engine, and its message, with the settings of an api process and with `changed` ones.
async fn doctor(server: &TestServer, engine: &str, changed: &[(&str, &str)]) -> (String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidings"));
    command
        .args(["doctor", "--json"])
        .envs(server.fleet.base.environment(ProcessRole::Api))
        .env("TIDINGS_KAFKA__PARTITIONS", SIZE.partitions.to_string())
        .env("TIDINGS_KAFKA__REPLICATION", SIZE.replication.to_string())
        .envs(changed.iter().copied());
    let output = command.kill_on_drop(true).output().await.unwrap();
    let findings: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"));
    let is_engine = |finding: &&Value| finding["check"] == engine;
    let finding = findings.as_array().unwrap().iter().find(is_engine).expect("the engine is checked");
    let text = |key: &str| finding[key].as_str().unwrap().to_owned();
    (text("verdict"), text("message"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fleet_works_over_encrypted_and_authenticated_connections_and_refuses_wrong_ones() {
    let server = TestServer::start_encrypted().await;
    let [ann, bob] = server.sign_up_all(["Ann", "Bob"]).await;
    let chat_id = ann.direct_chat(&bob).await;
    // Routes and deliveries are in Redis, events in Kafka: a push at another gateway needs both.
    let (mut anns, mut bobs) = (ann.connect().await, bob.connect().await);
    let ack = anns.send_message(&chat_id, "hello").await;
    assert_eq!(bobs.next_of("message").await["payload"]["message_id"], ack["message_id"]);
    bobs.send(json!({ "type": "typing_start", "payload": { "chat_id": chat_id } })).await;
    anns.next_of("typing_indicator").await;
    for process in server.fleet.processes() {
        let is_ready = async || process.call(Method::GET, "/readyz", None).await.body["status"] == "ready";
        server.until(is_ready).await;
    }

    let stranger = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(stranger.path(), engines::TestAuthority::new().ca_pem()).unwrap();
    let password = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(password.path(), "another password").unwrap();
    let (stranger, password) = (stranger.path().to_str().unwrap(), password.path().to_str().unwrap());
    for engine in ["kafka", "redis"] {
        let (verdict, message) = doctor(&server, engine, &[]).await;
        assert_eq!(verdict, "good", "{message}");
    }
    for (engine, setting, value, reason) in [
        ("kafka", "TIDINGS_KAFKA__CA_FILE", stranger, "kafka.security"),
        ("kafka", "TIDINGS_KAFKA__PASSWORD_FILE", password, "kafka.security"),
        ("redis", "TIDINGS_REDIS__CA_FILE", stranger, "certificate"),
        ("redis", "TIDINGS_REDIS__PASSWORD_FILE", password, "WRONGPASS"),
    ] {
        let (verdict, message) = doctor(&server, engine, &[(setting, value)]).await;
        assert_eq!(verdict, "bad", "{setting}: {message}");
        assert!(message.contains(reason), "{setting}: {message}");
        assert!(!message.contains("another password"), "{message}");
    }
}
