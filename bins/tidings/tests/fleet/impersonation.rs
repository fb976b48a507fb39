//! The limits of stolen credentials of a process.

use std::time::{Duration, Instant};

use domain::{Body, ChatId, ContentType, DeviceId, IngestError, Sequence, UpdateAction, UserId, WatermarkKind};
use ports::{
    AdvanceRequest, Assertion, Clock, Delivery, Identity, IdentityError, Ingest, PresenceLookup, PresenceReader,
    ProcessRole, Revocation, SendContent, SendRequest, Sent, Signal, SignalSender, SyncRequest, SystemClock,
    error_chain,
};
use uuid::Uuid;

use crate::credentials::Credentials;
use crate::server::{PATIENCE, TestDevice, TestServer};
use crate::thief::Thief;

fn user_id(device: &TestDevice) -> UserId {
    device.user_id.parse().unwrap()
}

fn device_id(device: &TestDevice) -> DeviceId {
    device.device_id.to_string().parse().unwrap()
}

fn send(chat_id: &str, sender_id: UserId, assertion: Option<Assertion>) -> SendRequest {
    let body = Body::new("it was me".to_owned().try_into().unwrap(), ContentType::Text);
    request(chat_id, sender_id, SendContent::Message { body, ttl: None }, assertion)
}

fn deletion(chat_id: &str, user_id: UserId, assertion: Option<Assertion>) -> SendRequest {
    let content = SendContent::Update { target: Sequence(1), action: UpdateAction::Delete };
    request(chat_id, user_id, content, assertion)
}

fn request(chat_id: &str, sender_id: UserId, content: SendContent, assertion: Option<Assertion>) -> SendRequest {
    SendRequest {
        chat_id: chat_id.parse().unwrap(),
        sender_id,
        client_message_id: Uuid::new_v4().into(),
        content,
        origin_connection_id: None,
        assertion,
    }
}

/// Sends until it succeeds: the stream to ingest may not be open yet.
async fn send_eventually(thief: &Thief, request: SendRequest) -> Sent {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match thief.ingest.send(request.clone()).await {
            Ok(sent) => return sent,
            Err(refusal) => assert!(Instant::now() < deadline, "{refusal}"),
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Tries to act for a user at ingest, in every way.
async fn assert_refused(thief: &Thief, chat_id: &str, user_id: UserId, assertion: Option<Assertion>) {
    let refused = |outcome: Option<IngestError>, what: &str| {
        assert!(matches!(outcome, Some(IngestError::Unavailable { .. })), "{what}: {outcome:?}");
    };
    refused(thief.ingest.send(send(chat_id, user_id, assertion.clone())).await.err(), "send");
    refused(thief.ingest.send(deletion(chat_id, user_id, assertion.clone())).await.err(), "update");
    let chat_id: ChatId = chat_id.parse().unwrap();
    let sync = SyncRequest { user_id, chat_id, after: Sequence(0), limit: 10, assertion: assertion.clone() };
    refused(thief.ingest.sync(sync).await.err(), "sync");
    let advance = AdvanceRequest { user_id, chat_id, kind: WatermarkKind::Read, to: Sequence(1), assertion };
    refused(thief.ingest.advance(advance).await.err(), "advance");
}

async fn check_a_stolen_gateway(server: &TestServer) {
    let [ann, eve] = server.sign_up_all(["Ann", "Eve"]).await;
    let chat_id = ann.direct_chat(&eve).await;
    ann.send(&chat_id, "hello").await;
    let gateway = Thief::of(&server.fleet, ProcessRole::Gateway).await;

    // Eve is connected to the stolen gateway, and Ann is not.
    let principal = gateway.identity.identify(&eve.access_token, device_id(&eve)).await.unwrap();
    let of_eve = principal.assertion.expect("the api process asserts its answers");
    let sent = send_eventually(&gateway, send(&chat_id, user_id(&eve), Some(of_eve.clone()))).await;
    assert_eq!(sent.receipt.sequence, Sequence(2));

    assert_refused(&gateway, &chat_id, user_id(&ann), None).await;
    assert_refused(&gateway, &chat_id, user_id(&ann), Some(of_eve.clone())).await;
    let forged = Assertion { proof: of_eve.proof.iter().map(|byte| byte ^ 1).collect(), ..of_eve.clone() };
    assert_refused(&gateway, &chat_id, user_id(&ann), Some(forged)).await;
    let renewed = gateway.identity.renew(&Assertion { proof: [1; 150].into(), ..of_eve }).await;
    assert!(matches!(renewed, Err(IdentityError::InvalidToken(_))), "{renewed:?}");

    let history = ann.connect().await.sync_all(&chat_id).await;
    let senders: Vec<&str> = history.iter().map(|message| message["sender_id"].as_str().unwrap()).collect();
    assert_eq!(senders, [&ann.user_id, &eve.user_id], "nobody spoke for Ann");
    let metrics = server.metrics().await;
    for (method, times) in [("send", 6), ("sync", 3), ("advance", 3)] {
        let series = format!("tidings_rpc_unasserted_total{{method=\"{method}\",outcome=\"refused\"}} {times}");
        assert!(metrics.contains(&series), "{method} is counted: {metrics}");
    }
}

/// Asserts that each role may make the calls of the table and no others.
async fn check_roles(server: &TestServer) {
    let ann = server.sign_up("Ann").await;
    let (user_id, chat_id) = (user_id(&ann), ann.group("Notes", &[]).await);
    // Whether the role may call Ingest, Identity, Presence, Signals and Gateway.
    let table = [
        (ProcessRole::Gateway, [true, true, true, true, false]),
        (ProcessRole::Ingest, [false, false, false, true, false]),
        (ProcessRole::Fanout, [false, false, false, false, true]),
        (ProcessRole::Api, [true, false, false, false, true]),
    ];
    for (role, expected) in table {
        let thief = Thief::of(&server.fleet, role).await;
        let identified = thief.identity.identify("no token", device_id(&ann)).await;
        // An answer about the token, or none.
        let may_identify = matches!(identified, Err(IdentityError::InvalidToken(_)));
        let looked = thief.presences.lookup(&[PresenceLookup { viewer: user_id, user_id }]).await;
        let typing = Signal::Typing { chat_id: chat_id.parse().unwrap(), user_id, is_typing: false };
        let signalled = thief.signals.signal(typing).await;
        let revoked = thief.delivery.revoke(Revocation::User(UserId::from_bytes([9; 16]))).await;
        for failure in [looked.as_ref().err(), signalled.as_ref().err(), revoked.as_ref().err()].into_iter().flatten() {
            let text = error_chain(failure).to_string();
            assert!(text.contains("refuses calls of our role"), "{role}: {text}");
        }
        // Ingest answers nothing without an assertion, so the refusal shows in the log of the process.
        assert_refused(&thief, &chat_id, user_id, None).await;
        let answers = [may_identify, looked.is_ok(), signalled.is_ok(), revoked.is_ok()];
        assert_eq!(answers, expected[1..], "{role}");
    }
    let metrics = server.metrics().await;
    for service in ["ingest", "identity", "presence", "signals", "gateway"] {
        let none = format!("tidings_rpc_forbidden_total{{service=\"{service}\"}} 0");
        assert!(!metrics.contains(&none), "refusals of {service} are counted: {metrics}");
    }
    assert!(server.log().contains("refused a caller whose role may not call this service"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stolen_gateway_acts_for_its_own_clients_alone() {
    let server = TestServer::start().await;
    check_a_stolen_gateway(&server).await;
    check_roles(&server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fleet_with_certificates_binds_each_process_to_its_role() {
    let server = TestServer::start_with_credentials(Credentials::certificates(), &[]).await;
    check_a_stolen_gateway(&server).await;
    check_roles(&server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_one_secret_of_a_fleet_does_not_suffice_to_send_as_a_user() {
    let environment = [("TIDINGS_RPC__UPGRADING", "false")];
    let server = TestServer::start_with_credentials(Credentials::one_secret(), &environment).await;
    check_a_stolen_gateway(&server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_socket_outlives_its_assertion_and_a_stolen_assertion_does_not() {
    let server = TestServer::start_with(&[("TIDINGS_RPC__ASSERTION_SECONDS", "3")]).await;
    let ann = server.sign_up("Ann").await;
    let chat_id = ann.group("Notes", &[]).await;
    let mut socket = ann.connect().await;
    assert_eq!(socket.send_message(&chat_id, "before").await["sequence"], 1);
    let gateway = Thief::of(&server.fleet, ProcessRole::Gateway).await;
    let principal = gateway.identity.identify(&ann.access_token, device_id(&ann)).await.unwrap();
    let stolen = principal.assertion.unwrap();
    let mut last = send_eventually(&gateway, send(&chat_id, user_id(&ann), Some(stolen.clone()))).await;

    // Ingest accepts the assertion until it expires. A busy process may miss the deadline of a send before.
    let deadline = Instant::now() + PATIENCE;
    loop {
        match gateway.ingest.send(send(&chat_id, user_id(&ann), Some(stolen.clone()))).await {
            Ok(sent) => last = sent,
            Err(_) if SystemClock.now() >= stolen.expires_at => break,
            Err(_) => {}
        }
        assert!(Instant::now() < deadline, "an expired assertion is accepted");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_refused(&gateway, &chat_id, user_id(&ann), Some(stolen.clone())).await;
    let after = socket.send_message(&chat_id, "after").await["sequence"].as_u64();
    assert!(after > Some(last.receipt.sequence.0), "renewed without notice");

    // With its session ends the renewal.
    ann.post("/auth/logout", serde_json::json!({})).await;
    server.until(async || matches!(gateway.identity.renew(&stolen).await, Err(IdentityError::TokenRevoked))).await;
}
