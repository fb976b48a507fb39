//! Spans and metrics at a collector: of a send, of failures, and without any effect of a collector outage.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::net::TcpSocket;

use crate::collector::{SpanStep, TestCollector, attribute, has_failed};
use crate::server::{BUSY, TestServer, TestSocket};
use crate::traced::{SPAN, TRACE, connect_traced, span_id, trace_id, traceparent};

#[tokio::test]
async fn a_send_is_one_trace_from_its_frame_to_the_sockets_of_the_others() {
    let collector = TestCollector::start().await;
    let headers = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(headers.path(), "x-key: for the collector").unwrap();
    let mut server = TestServer::start_with(&[
        ("TIDINGS_TELEMETRY__OTLP_ENDPOINT", &collector.url()),
        ("TIDINGS_TELEMETRY__TRACE_RATIO", "0"),
        ("TIDINGS_TELEMETRY__HEADERS_FILE", headers.path().to_str().unwrap()),
    ])
    .await;
    let [ann, bob] = server.sign_up_all(["Ann", "Bob"]).await;
    let chat_id = ann.direct_chat(&bob).await;
    let mut bobs = bob.connect().await;
    let mut anns = connect_traced(&ann).await;
    let payload = json!({ "client_message_id": uuid::Uuid::new_v4(), "chat_id": chat_id, "content": "hush" });
    anns.send(json!({ "type": "send_message", "request_id": "mine", "payload": payload })).await;
    let ack = anns.answer("mine").await;
    bobs.next_of("message").await;

    let way = collector.way_to("push", trace_id(), span_id()).await;
    let names: Vec<&str> = way.iter().map(|SpanStep { name, .. }| &**name).collect();
    assert_eq!(names, ["send_message", "commit", "fanout", "push"]);
    assert!(way.iter().all(|step| step.roles == "all"), "{way:?}");
    assert_eq!(collector.header("x-key"), "for the collector");

    assert!(server.stop().await.0.success());
    let spans = collector.spans();
    let named = |name: &str| &spans.iter().find(|(_, span)| span.name == name).unwrap().1;
    let send = named("send_message");
    assert_eq!(attribute(&send.attributes, "chat_id"), chat_id);
    assert_eq!(attribute(&send.attributes, "request_id"), "mine");
    assert!(attribute(&send.attributes, "connection_id").starts_with("conn_"));
    let message_id = ack["payload"]["message_id"].as_str().unwrap();
    assert_eq!(attribute(&named("commit").attributes, "message_id"), message_id);
    // Other requests are in no sampled trace.
    assert!(spans.iter().all(|(_, span)| span.trace_id == trace_id()), "{spans:?}");
    for secret in ["hush", &ann.phone_number, &ann.access_token, "Ann"] {
        assert!(!format!("{spans:?}").contains(secret), "{secret} is in a span");
    }
    assert_eq!(collector.counter("tidings_ingest_sends_total"), Some(1.0));
}

#[tokio::test]
async fn failures_are_exported_even_if_their_trace_is_not_sampled() {
    let collector = TestCollector::start().await;
    let mut server = TestServer::start_with(&[
        ("TIDINGS_TELEMETRY__OTLP_ENDPOINT", &collector.url()),
        ("TIDINGS_TELEMETRY__TRACE_RATIO", "0"),
        ("TIDINGS_GATEWAY__CONNECTIONS_MAX", "1"),
    ])
    .await;
    let [ann, bob] = server.sign_up_all(["Ann", "Bob"]).await;
    let chat_id = ann.direct_chat(&bob).await;
    let mut socket = ann.connect().await;
    socket.send_message(&chat_id, "hush").await;
    assert!(TestSocket::try_open(bob.handshake()).await.is_err(), "there is no room");
    assert!(server.stop().await.0.success());
    let spans = collector.spans();
    assert!(spans.iter().all(|(_, span)| has_failed(span)), "{spans:?}");
    let names: Vec<&str> = spans.iter().map(|(_, span)| &*span.name).collect();
    assert_eq!(names, ["handshake", "request"]);
    assert_eq!(attribute(&spans[0].1.attributes, "refused"), "service_unavailable");
    assert_eq!(spans[0].1.parent_span_id, spans[1].1.span_id);
}

#[tokio::test]
async fn a_collector_outage_has_no_effect_and_is_reported_afterwards() {
    // The socket keeps its port from other tests, and refuses connections until it listens.
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = socket.local_addr().unwrap();
    let mut server = TestServer::start_with(&[
        ("TIDINGS_TELEMETRY__OTLP_ENDPOINT", &format!("http://{address}")),
        ("TIDINGS_TELEMETRY__TRACE_RATIO", "1"),
    ])
    .await;
    let [ann, bob] = server.sign_up_all(["Ann", "Bob"]).await;
    let chat_id = ann.direct_chat(&bob).await;
    let (mut anns, mut bobs) = (ann.connect().await, bob.connect().await);
    let away = "the collector does not accept traces and metrics";
    server.until(async || server.log().contains(away)).await;
    for n in 1..=50 {
        assert_eq!(anns.send_message(&chat_id, "hush").await["sequence"], n);
        assert_eq!(bobs.next_of("message").await["payload"]["sequence"], n);
    }
    let collector = TestCollector::start_on(socket.listen(128).unwrap());
    let commits = || collector.spans().iter().filter(|(_, span)| span.name == "commit").count();
    server.until(async || commits() == 50).await;
    let (status, took) = server.stop().await;
    assert!(status.success() && took < Duration::from_secs(10) + BUSY, "{status} after {took:?}");
    let log = server.log();
    assert_eq!(log.matches(away).count(), 1, "{log}");
    assert_eq!(log.matches("the collector accepts traces and metrics again").count(), 1, "{log}");
}

#[tokio::test]
async fn a_line_of_the_log_names_the_trace_and_the_request_that_it_is_of() {
    let collector = TestCollector::start().await;
    let server = TestServer::start_with(&[
        ("TIDINGS_TELEMETRY__OTLP_ENDPOINT", &collector.url()),
        ("TIDINGS_TELEMETRY__TRACE_RATIO", "0"),
        ("TIDINGS_AUTH__OTP__SENDER", "log"),
        ("TIDINGS_LOG__FORMAT", "json"),
    ])
    .await;
    let request = reqwest::Client::new()
        .post(format!("{}/api/v1/auth/request-otp", server.base_url()))
        .header("traceparent", traceparent())
        .header("x-request-id", "mine")
        .json(&json!({ "phone_number": "+14155550100" }));
    assert_eq!(request.send().await.unwrap().status(), 200);
    let log = server.log();
    let lines: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let told = lines.iter().find(|line| line["fields"]["message"] == "one-time code").expect("the code is logged");
    assert_eq!(told["trace_id"], TRACE);
    assert_eq!(told["span_id"].as_str().map(str::len), Some(16));
    assert_ne!(told["span_id"], SPAN, "it is our own span, under that of the client");
    assert_eq!(told["span"]["request_id"], "mine");
    let ready = lines.iter().find(|line| line["fields"]["message"] == "ready").unwrap();
    assert_eq!(ready["trace_id"], Value::Null, "what is in no trace names none");
}
