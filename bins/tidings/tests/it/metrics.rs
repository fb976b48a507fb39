//! The metrics of a running service are exactly those of the metrics table.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tidings_metrics::{Kind, Label, LabelValues, Part};
use uuid::Uuid;

use crate::receiver::WebhookReceiver;
use crate::server::{PATIENCE, TestServer, TestSocket};
use crate::webhook::{secret_file, server};

/// Components that a service on one machine does not have.
const OF_A_FLEET: [Part; 5] = [Part::Relay, Part::Dynamodb, Part::Kafka, Part::Redis, Part::Rpc];

/// A metric that exists only with TLS.
const OF_TLS: &str = "tidings_tls_certificate_expires_seconds";

/// Exercises every metric at least once, including failures.
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
    assert!(TestSocket::try_open(nobody).await.is_err());
    ann.get("/chats").await.data(200);
    ann.get("/chats/chat_nowhere").await;
    ann.get("/no/such/path/with/a/secret").await;
    listening.leave().await;
}

#[tokio::test]
async fn exported_metrics_match_the_table_and_no_label_holds_an_id() {
    let receiver = WebhookReceiver::start().await;
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
    // Gauges are updated every few seconds, and routes with the gateway's heartbeat.
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
async fn counters_exist_before_their_first_event() {
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
        LabelValues::Listed(values) => values.contains(&value),
        LabelValues::Version => value == env!("CARGO_PKG_VERSION"),
        LabelValues::Routes => {
            let documents = ["/openapi.json", "/asyncapi.json", "/asyncapi-events.json"];
            let others = [&["none", "/v1/ws", "/healthz", "/readyz"][..], &documents].concat();
            others.contains(&value) || document["paths"].get(value).is_some()
        }
    }
}

/// Names and labels of all series. Assumes label values without quotes and commas.
fn series(metrics: &str) -> impl Iterator<Item = (&str, Vec<(&str, &str)>)> {
    metrics.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).map(|line| {
        let (series, _) = line.rsplit_once(' ').expect("a series has a value");
        let (name, labels) = series.split_once('{').unwrap_or((series, ""));
        let labels = labels.trim_end_matches('}').split_terminator("\",");
        (name, labels.filter_map(|label| label.trim_end_matches('"').split_once("=\"")).collect())
    })
}
