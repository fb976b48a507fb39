//! Records of the real topics and calls of the real webhooks match the AsyncAPI document, and each message of the document
//! is seen. Fields that the document does not describe count as violations.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::{Headers, OwnedMessage};
use rdkafka::producer::{FutureProducer, FutureRecord};
use rdkafka::{ClientConfig, Message, Offset, TopicPartitionList};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use crate::engine::SIZE;
use crate::receiver::{ReceivedCall, WebhookReceiver};
use crate::server::{PATIENCE, TestServer};
use crate::updates::{done, edit, react, update};
use crate::webhook::secret_file;

/// The key of a record that is no event.
const NO_CHAT: &[u8] = b"no chat";

/// The committed document, and the messages that were seen.
struct EventsContract {
    document: Value,
    /// The channel and the name of each.
    seen: BTreeSet<(String, String)>,
    /// The types of events that the webhook has delivered.
    delivered: BTreeSet<String>,
}

impl EventsContract {
    fn new() -> Self {
        let mut document = serde_json::from_str(include_str!("../../../../docs/asyncapi-events.json")).unwrap();
        close(&mut document);
        Self { document, seen: BTreeSet::new(), delivered: BTreeSet::new() }
    }

    /// The names and the definitions of the messages of a channel.
    fn messages(&self, channel: &str) -> BTreeMap<String, Value> {
        let messages = self.document["channels"][channel]["messages"].as_object().unwrap();
        let definition = |reference: &Value| {
            let pointer = reference["$ref"].as_str().unwrap().strip_prefix('#').unwrap();
            self.document.pointer(pointer).unwrap().clone()
        };
        messages.iter().map(|(name, reference)| (name.clone(), definition(reference))).collect()
    }

    fn check(&self, what: &str, schema: &Value, value: &Value) {
        let mut schema = schema.clone();
        schema["components"] = self.document["components"].clone();
        let validator = jsonschema::validator_for(&schema).unwrap();
        let errors: Vec<String> = validator.iter_errors(value).map(|error| error.to_string()).collect();
        assert!(errors.is_empty(), "{what}: {value} is not described: {errors:?}");
    }

    /// Checks the headers and the content of a message.
    fn check_message(&mut self, channel: &str, name: &str, headers: impl Fn(&str) -> Option<String>, content: &[u8]) {
        let message = self.messages(channel).remove(name).unwrap_or_else(|| panic!("`{channel}` has no `{name}`"));
        let mut values = Map::new();
        for (header, schema) in message["headers"]["properties"].as_object().unwrap() {
            let Some(text) = headers(header) else { continue };
            let is_number = schema["type"] == "integer";
            let value = if is_number { serde_json::from_str(&text).unwrap() } else { json!(text) };
            values.insert(header.clone(), value);
        }
        self.check(&format!("headers of {name}"), &message["headers"], &values.into());
        if message["contentType"].is_null() {
            let content = serde_json::from_slice(content).unwrap();
            self.check(name, &message["payload"], &content);
        }
        self.seen.insert((channel.to_owned(), name.to_owned()));
    }

    /// Checks a record of a topic.
    fn check_record(&mut self, record: &OwnedMessage) {
        let channels = self.document["channels"].as_object().unwrap();
        let channel = channels.iter().find(|(_, channel)| channel["address"] == record.topic());
        let channel = channel.unwrap_or_else(|| panic!("the topic {} is not described", record.topic())).0.clone();
        let header = |name: &str| {
            let header = record.headers()?.iter().find(|header| header.key == name)?;
            Some(String::from_utf8(header.value?.to_vec()).unwrap())
        };
        let mut messages = self.messages(&channel);
        // The only message of a topic, or the one of the event's type.
        let name = match messages.len() {
            1 if header("event_type").is_none() => messages.keys().next().unwrap().clone(),
            _ => header("event_type").unwrap_or_else(|| panic!("{record:?} has no type")),
        };
        let key = messages.remove(&name).unwrap_or_default()["bindings"]["kafka"]["key"].take();
        if !key.is_null() {
            let text = std::str::from_utf8(record.key().unwrap()).unwrap();
            self.check(&format!("key of {name}"), &key, &json!(text));
        }
        self.check_message(&channel, &name, header, record.payload().unwrap_or_default());
    }

    /// Checks a call of a webhook.
    fn check_call(&mut self, channel: &str, call: &ReceivedCall) {
        assert_eq!(call.header("content-type"), self.document["defaultContentType"]);
        let name = self.messages(channel).into_keys().next().unwrap();
        let header = |name: &str| call.headers.get(name).map(|value| value.to_str().unwrap().to_owned());
        self.check_message(channel, &name, header, &call.body);
        if channel == "webhook" {
            self.delivered.insert(call.json()["event_type"].as_str().unwrap().to_owned());
        }
    }

    /// The messages of all channels.
    fn all(&self) -> BTreeSet<(String, String)> {
        let channels = self.document["channels"].as_object().unwrap();
        let of = |channel: &String| self.messages(channel).into_keys().map(|name| (channel.clone(), name)).collect();
        channels.keys().flat_map::<Vec<_>, _>(of).collect()
    }

    /// The types of events.
    fn event_types(&self) -> BTreeSet<String> {
        let topics = ["messages", "memberships", "chats"];
        topics.into_iter().flat_map(|channel| self.messages(channel).into_keys()).collect()
    }
}

/// Makes the schemas refuse fields that they do not describe. Consumers ignore such fields, and this test must not.
fn close(schema: &mut Value) {
    match schema {
        Value::Object(object) => {
            if object.get("type") == Some(&json!("object"))
                && object.contains_key("properties")
                && !object.contains_key("additionalProperties")
            {
                object.insert("additionalProperties".to_owned(), json!(false));
            }
            object.values_mut().for_each(close);
        }
        Value::Array(values) => values.iter_mut().for_each(close),
        _ => {}
    }
}

fn client(server: &TestServer) -> ClientConfig {
    let mut settings = ClientConfig::new();
    let brokers = server.fleet.base.engines.kafka.bootstrap();
    settings.set("bootstrap.servers", brokers).set("group.id", "described");
    settings
}

/// All records of a topic, at least `count`.
fn records(settings: &ClientConfig, topic: &str, partitions: u16, count: usize) -> Vec<OwnedMessage> {
    let consumer: BaseConsumer = settings.create().unwrap();
    let (mut all, mut ends, mut from) = (vec![], 0, TopicPartitionList::new());
    for number in 0..i32::from(partitions) {
        let (begin, end) = consumer.fetch_watermarks(topic, number, PATIENCE).unwrap();
        from.add_partition_offset(topic, number, Offset::Beginning).unwrap();
        ends += usize::try_from(end - begin).unwrap();
    }
    consumer.assign(&from).unwrap();
    while all.len() < ends.max(count) {
        let next = consumer.poll(PATIENCE).unwrap_or_else(|| panic!("{topic} has {} of {ends} records", all.len()));
        all.push(next.unwrap().detach());
    }
    all
}

/// Writes a record that is no event into the topic of messages.
async fn write_rubbish(settings: &ClientConfig) {
    let producer: FutureProducer = settings.create().unwrap();
    let record = FutureRecord::to("messages.persisted").partition(0).key(NO_CHAT).payload(&b"{\"event_type\":7}"[..]);
    producer.send(record, Duration::from_secs(10)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn every_message_of_the_document_is_sent_and_described() {
    let [mut events, mut pushes, mut codes] =
        [WebhookReceiver::start().await, WebhookReceiver::start().await, WebhookReceiver::start().await];
    let secret = secret_file();
    let secret = secret.path().to_str().unwrap();
    let server = TestServer::start_with(&[
        ("TIDINGS_WEBHOOK__URL", &events.url()),
        ("TIDINGS_WEBHOOK__SECRET_FILE", secret),
        ("TIDINGS_NOTIFY__WEBHOOK__URL", &pushes.url()),
        ("TIDINGS_NOTIFY__WEBHOOK__SECRET_FILE", secret),
        ("TIDINGS_NOTIFY__DELAY_MS", "100"),
        ("TIDINGS_AUTH__OTP__SENDER", "webhook"),
        ("TIDINGS_AUTH__OTP__WEBHOOK_URL", &codes.url()),
        ("TIDINGS_AUTH__OTP__WEBHOOK_SECRET_FILE", secret),
    ])
    .await;
    let mut contract = EventsContract::new();
    let [ann, bob, cleo] = server.sign_up_all(["Ann", "Bob", "Cleo"]).await;
    for person in [&ann, &bob, &cleo] {
        let call = codes.next().await;
        assert_eq!(call.json()["phone_number"], *person.phone_number);
        contract.check_call("codes", &call);
    }

    // A chat of each type, a message with all optional fields, and an update of each kind.
    let registration = json!({ "provider": "webhook", "token": "the-phone-of-Bob" });
    bob.put(&format!("/devices/{}/push", bob.device_id), registration).await.data(204);
    let (direct, group) = (ann.direct_chat(&bob).await, ann.group("Saturday", &[&bob]).await);
    ann.send(&direct, "are you there?").await;
    contract.check_call("notifications", &pushes.next().await);
    let mut socket = ann.connect().await;
    let whole = json!({
        "client_message_id": Uuid::new_v4(), "chat_id": group, "content": "one", "ttl_seconds": 3600,
        "metadata": { "color": "blue" },
    });
    let ack = socket.ask("send_message", whole).await;
    assert_eq!(ack["type"], "send_message_ack", "{ack}");
    ann.send(&group, "two").await;
    done(&mut socket, edit(&group, 1, "one, edited")).await;
    let mut reaction = react(&group, 2, "party");
    done(&mut socket, reaction.clone()).await;
    reaction["action"] = json!("unreact");
    reaction["client_message_id"] = json!(Uuid::new_v4());
    done(&mut socket, reaction).await;
    done(&mut socket, update(&group, 2, "delete")).await;
    ann.patch(&format!("/chats/{group}"), json!({ "name": "Sunday", "message_ttl_seconds": 86_400 })).await.data(200);
    let members = format!("/chats/{group}/members");
    ann.post(&members, json!({ "user_id": cleo.user_id })).await.data(201);
    ann.delete(&format!("{members}/{}", cleo.user_id)).await.data(204);
    let settings = client(&server);
    write_rubbish(&settings).await;

    while contract.delivered != contract.event_types() {
        let missing: Vec<String> = contract.event_types().difference(&contract.delivered).cloned().collect();
        eprintln!("the webhook has yet to deliver {missing:?}");
        contract.check_call("webhook", &events.next().await);
    }
    let topics =
        ["messages.persisted", "memberships.changed", "chats.created"].map(|topic| (topic, SIZE.partitions, 0));
    for (topic, partitions, count) in topics.into_iter().chain([("dead_letters", 1, 1)]) {
        let settings = settings.clone();
        let read = move || records(&settings, topic, partitions, count);
        for record in tokio::task::spawn_blocking(read).await.unwrap() {
            // This test has written it.
            if record.key() != Some(NO_CHAT) || topic == "dead_letters" {
                contract.check_record(&record);
            }
        }
    }
    let missing: Vec<_> = contract.all().difference(&contract.seen).cloned().collect();
    assert!(missing.is_empty(), "described, and not seen: {missing:?}");
}
