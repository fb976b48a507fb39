//! What a running service tells Prometheus: what the table of metrics says, all of it and nothing else.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tidings_metrics::{Kind, Label, Part, Values};
use uuid::Uuid;

use crate::receiver::Receiver;
use crate::server::{PATIENCE, Socket, TestServer};
use crate::webhook::{secret_file, server};

/// Parts that a service on one machine does not have.
const OF_A_FLEET: [Part; 5] = [Part::Relay, Part::Dynamodb, Part::Kafka, Part::Redis, Part::Rpc];

/// What is told only where TLS is spoken.
const OF_TLS: &str = "tidings_tls_certificate_expires_seconds";

/// Everything at least once, things that go wrong too.
async fn traffic(server: &TestServer) {
    let [ann, bob] = server.sign_up_all(["Ann", "Bob"]).await;
    let chat_id = ann.direct_chat(&bob).await;
    let (mut on_phone, mut listening) = (ann.connect().await, bob.connect().await);
    on_phone.send_message(&chat_id, "hello").await;
    let message = listening.next_of("message").await;
    let sequence = &message["payload"]["sequence"];
    listening.send(json!({ "type": "ack", "payload": { "chat_id": chat_id, "sequence": sequence } })).await;
    listening.sync_all(&chat_id).await;
    on_phone.send(json!({ "type": "presence_subscribe", "request_id": "p", "payload": { "user_ids": [] } })).await;
    on_phone.send(json!({ "type": "from_the_future" })).await;
    let unknown = json!({ "client_message_id": Uuid::new_v4(), "chat_id": Uuid::new_v4(), "content": "x" });
    assert_eq!(on_phone.ask("send_message", unknown).await["type"], "error");
    let mut nobody = bob.handshake();
    nobody.headers_mut().remove("authorization");
    assert!(Socket::try_open(nobody).await.is_err());
    ann.get("/chats").await.data(200);
    ann.get("/chats/chat_nowhere").await;
    ann.get("/no/such/path/with/a/secret").await;
    listening.leave().await;
}

#[tokio::test]
async fn what_is_told_is_what_the_table_says_and_no_label_has_an_id() {
    let receiver = Receiver::start().await;
    let secret = secret_file();
    let server = server(&receiver.url(), &secret).await;
    traffic(&server).await;

    let expected: BTreeSet<&str> = tidings_metrics::all()
        .filter(|metric| !OF_A_FLEET.contains(&metric.part) && metric.name != OF_TLS)
        .map(|metric| metric.name)
        .collect();
    let told = async || -> BTreeSet<&'static str> {
        let metrics = server.metrics().await;
        let names = series(&metrics).filter_map(|(name, _)| tidings_metrics::of_series(name));
        names.map(|metric| metric.name).collect()
    };
    // Levels are told every few seconds, and routes with the beat of the gateway.
    let deadline = Instant::now() + PATIENCE;
    while let Some(missing) = expected.difference(&told().await).next() {
        assert!(Instant::now() < deadline, "{missing} is not told");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }

    let document = server.call(reqwest::Method::GET, "/openapi.json", None).await.body;
    let metrics = server.metrics().await;
    for (name, labels) in series(&metrics) {
        let metric = tidings_metrics::of_series(name).unwrap_or_else(|| panic!("{name} is not in the table"));
        let bucket = matches!(metric.kind, Kind::Histogram(_)) && name.ends_with("_bucket");
        let known = metric.labels.iter().map(|label| label.name).chain(bucket.then_some("le"));
        let has: BTreeSet<&str> = labels.iter().map(|(label, _)| *label).collect();
        assert_eq!(has, known.collect(), "{name}");
        for label in metric.labels {
            let (_, value) = labels.iter().find(|(found, _)| *found == label.name).unwrap();
            assert!(is_one_of(label, value, &document), "{name} has {} {value}", label.name);
        }
        assert!(metrics.contains(&format!("# HELP {} {}\n", metric.name, metric.meaning)), "{name} is described");
    }
}

#[tokio::test]
async fn what_counts_is_there_before_anything_happens() {
    let server = TestServer::start().await;
    let metrics = server.metrics().await;
    for line in [
        "tidings_store_commit_errors_total 0",
        r#"tidings_ingest_sends_total{outcome="counter_missing"} 0"#,
        r#"tidings_dead_letters_total{kind="event"} 0"#,
        "tidings_ingest_answer_seconds_count 0",
    ] {
        assert!(metrics.lines().any(|told| told == line), "{line} is not in {metrics}");
    }
}

fn is_one_of(label: &Label, value: &str, document: &Value) -> bool {
    match label.values {
        Values::Listed(values) => values.contains(&value),
        Values::Version => value == env!("CARGO_PKG_VERSION"),
        Values::Routes => {
            let others = ["none", "/v1/ws", "/healthz", "/readyz", "/openapi.json", "/asyncapi.json"];
            others.contains(&value) || document["paths"].get(value).is_some()
        }
    }
}

/// Names and labels of all series. Labels are read as we write them: values without quotes or commas in them.
fn series(metrics: &str) -> impl Iterator<Item = (&str, Vec<(&str, &str)>)> {
    metrics.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).map(|line| {
        let (series, _) = line.rsplit_once(' ').expect("a series has a value");
        let (name, labels) = series.split_once('{').unwrap_or((series, ""));
        let labels = labels.trim_end_matches('}').split_terminator("\",");
        (name, labels.filter_map(|label| label.trim_end_matches('"').split_once("=\"")).collect())
    })
}
