use std::fs;

use ports::ProcessRole;
use tempfile::NamedTempFile;

use crate::fleet::SIZES;
use crate::operators::operators_of_a_mounted_file_have_their_roles_at_every_process;
use crate::process::TestServer as Process;
use crate::rules::rules;
use crate::server::{TestServer, TestSocket};

// In this order: a process without the secret causes warnings, which the first rule would find.
rules!(
    on crate::operators::OperatedFleet::start();
    a_healthy_fleet_refuses_no_call_and_logs_no_warning,
    each_role_answers_its_own_routes_alone,
    operators_of_a_mounted_file_have_their_roles_at_every_process,
    a_gateway_without_the_secret_gets_no_data,
    an_ingest_process_without_the_secret_gets_no_send,
);

async fn each_role_answers_its_own_routes_alone(server: &TestServer) {
    let http = reqwest::Client::new();
    for (role, _) in SIZES {
        let process = server.fleet.process(role, 0);
        let status = async |path: &str| {
            http.get(format!("{}{path}", process.base_url())).send().await.unwrap().status().as_u16()
        };
        let answers = [status("/healthz").await, status("/api/v1").await, status("/v1/ws").await];
        let expected = match role {
            ProcessRole::Api => [200, 200, 404],
            ProcessRole::Gateway => [200, 404, 400],
            ProcessRole::Ingest | ProcessRole::Fanout => [200, 404, 404],
        };
        assert_eq!(answers, expected, "{role}");
    }
}

async fn a_healthy_fleet_refuses_no_call_and_logs_no_warning(server: &TestServer) {
    let (ann, bob) = (server.sign_up("Ann").await, server.sign_up("Bob").await);
    let mut socket = bob.connect().await;
    let chat_id = ann.direct_chat(&bob).await;
    ann.send(&chat_id, "hello").await;
    socket.next_of("message").await;
    let metrics = server.metrics().await;
    let refused = metrics.lines().find(|line| line.starts_with("tidings_rpc_forbidden_total") && !line.ends_with(" 0"));
    assert_eq!(refused, None);
    let open = metrics.lines().find(|line| line.starts_with("tidings_rpc_breakers_open") && !line.ends_with(" 0"));
    assert_eq!(open, None);
    let log = server.log();
    let is_warning = |line: &&str| line.contains(" WARN ") || line.contains("ERROR ");
    let warnings: Vec<_> = log.lines().filter(is_warning).filter(|line| !line.contains(" --dev: ")).collect();
    assert!(warnings.is_empty(), "{}", warnings.join("\n"));
}

/// A process with a different secret than the others.
async fn stranger(server: &TestServer, role: ProcessRole, secret: &NamedTempFile) -> Process {
    fs::write(secret.path(), "not the secret of the others").unwrap();
    let mut environment = server.fleet.base.environment(role);
    // Without the list of secrets it accepts its own alone.
    environment.retain(|(name, _)| name != "TIDINGS_RPC__SECRET_FILE" && name != "TIDINGS_RPC__CALLERS_FILE");
    environment.push(("TIDINGS_RPC__SECRET_FILE".to_owned(), secret.path().to_str().unwrap().to_owned()));
    Process::start_in(environment).await
}

async fn a_gateway_without_the_secret_gets_no_data(server: &TestServer) {
    let ann = server.sign_up("Ann").await;
    let secret = NamedTempFile::new().unwrap();
    let stranger = stranger(server, ProcessRole::Gateway, &secret).await;
    server.until(async || stranger.log().contains("role=api processes=2")).await;
    let mut handshake = ann.handshake();
    *handshake.uri_mut() = format!("ws://{}/v1/ws", stranger.address()).parse().unwrap();
    let refusal = TestSocket::try_open(handshake).await.err().expect("no process can verify the token").to_string();
    assert!(refusal.contains("503"), "{refusal}");
    server.until(async || stranger.log().contains("rejects our secret")).await;
}

async fn an_ingest_process_without_the_secret_gets_no_send(server: &TestServer) {
    let ann = server.sign_up("Ann").await;
    let secret = NamedTempFile::new().unwrap();
    let stranger = stranger(server, ProcessRole::Ingest, &secret).await;
    let known = "role=ingest processes=3";
    for (role, n) in [(ProcessRole::Api, 0), (ProcessRole::Gateway, 0), (ProcessRole::Gateway, 1)] {
        server.until(async || server.fleet.process(role, n).log().contains(known)).await;
    }
    // With this many chats, the peers would assign some of them to the stranger.
    let mut sockets = [ann.connect().await, server.another_device(&ann).await.connect().await];
    for n in 0..20 {
        let chat_id = ann.group(&n.to_string(), &[]).await;
        for (socket, sequence) in sockets.iter_mut().zip(1..) {
            assert_eq!(socket.send_message(&chat_id, "hello").await["sequence"], sequence);
        }
        assert_eq!(ann.send(&chat_id, "hello").await["sequence"], 3);
    }
    let metrics = stranger.metrics().await;
    let sends = metrics.lines().filter(|line| line.starts_with("tidings_ingest_sends_total"));
    assert!(sends.clone().count() > 0 && sends.clone().all(|line| line.ends_with(" 0")), "it was given nothing");
}
