//! Secrets that never reach a log or a trace, at any log level. One-time codes are left out: with --dev they are
//! public.

use serde_json::json;

use crate::collector::TestCollector;
use crate::receiver::WebhookReceiver;
use crate::server::TestServer;
use crate::updates;
use crate::webhook::{SECRET, secret_file};

#[tokio::test]
async fn no_secret_of_a_body_a_header_or_a_file_is_logged_or_traced_at_the_loudest_level() {
    let (collector, mut receiver, secret) =
        (TestCollector::start().await, WebhookReceiver::start().await, secret_file());
    let headers = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(headers.path(), "x-key: of the collector").unwrap();
    let (url, file) = (receiver.url(), secret.path().to_str().unwrap());
    let mut server = TestServer::start_with(&[
        ("TIDINGS_LOG__LEVEL", "trace"),
        ("TIDINGS_TELEMETRY__OTLP_ENDPOINT", &collector.url()),
        ("TIDINGS_TELEMETRY__TRACE_RATIO", "1"),
        ("TIDINGS_TELEMETRY__HEADERS_FILE", headers.path().to_str().unwrap()),
        ("TIDINGS_AUTH__OTP__SENDER", "webhook"),
        ("TIDINGS_AUTH__OTP__WEBHOOK_URL", &url),
        ("TIDINGS_AUTH__OTP__WEBHOOK_SECRET_FILE", file),
        ("TIDINGS_WEBHOOK__URL", &url),
        ("TIDINGS_WEBHOOK__SECRET_FILE", file),
        ("TIDINGS_NOTIFY__WEBHOOK__URL", &url),
        ("TIDINGS_NOTIFY__WEBHOOK__SECRET_FILE", file),
        ("TIDINGS_NOTIFY__DELAY_MS", "50"),
    ])
    .await;
    let ann = server.sign_up("Ann Andersson").await;
    let bob = server.sign_up("Bob Bengtsson").await;
    bob.put(
        &format!("/devices/{}/push", bob.device_id),
        json!({ "provider": "webhook", "token": "token-of-the-phone" }),
    )
    .await
    .data(204);
    let refresh = json!({ "refresh_token": ann.refresh_token, "device_id": ann.device_id });
    let renewed = ann.post("/auth/refresh", refresh).await.data(200)["tokens"].take();
    let chat_id = ann.direct_chat(&bob).await;
    ann.send(&chat_id, "sealed lips").await;
    let mut socket = ann.connect().await;
    socket.send_message(&chat_id, "sealed too").await;
    let reauthenticated = socket.ask("reauth", json!({ "token": renewed["access_token"] })).await;
    assert_eq!(reauthenticated["type"], "reauth_ack");
    for update in [updates::edit(&chat_id, 1, "sealed again"), updates::react(&chat_id, 1, "sealed_reaction")] {
        updates::done(&mut socket, update).await;
    }
    // Bob is offline, so his device is notified, and the application receives both messages.
    let mut heard = String::new();
    while !(heard.contains("token-of-the-phone") && heard.contains("sealed too")) {
        heard += &String::from_utf8_lossy(&receiver.next().await.body);
    }
    assert!(server.stop().await.0.success());

    let admin = std::fs::read_to_string(server.data_dir().join("admin.json")).unwrap();
    let admin: serde_json::Value = serde_json::from_str(&admin).unwrap();
    let log = server.log();
    assert!(log.contains("TRACE"), "everything is logged");
    let spans = format!("{:?}", collector.spans());
    assert!(spans.contains("send_message"), "everything is traced");
    let secrets = [
        &*ann.access_token,
        &ann.refresh_token,
        renewed["access_token"].as_str().unwrap(),
        renewed["refresh_token"].as_str().unwrap(),
        admin["token"].as_str().unwrap(),
        &ann.phone_number,
        "Andersson",
        "sealed",
        "token-of-the-phone",
        SECRET,
        "of the collector",
    ];
    for secret in secrets {
        assert!(!log.contains(secret), "{secret} is in the log");
        assert!(!spans.contains(secret), "{secret} is in a trace");
    }
}
