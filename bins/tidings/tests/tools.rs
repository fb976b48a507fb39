//! The operator tools: the real binary on real engines, each command with and without problems to find.
#![expect(clippy::unwrap_used, reason = "test helpers may panic like the tests themselves")]

use std::fs;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::{Credentials, SharedCredentialsProvider};
use aws_sdk_dynamodb::types::AttributeValue;
use domain::{Body, ChatId, ContentType, Event, Message, Sequence, UserId};
use dynamodb::DynamoStore;
use dynamodb::schema::Table;
use engines::{Dynamo, Kafka, Redis};
use ports::{
    AppendOutcome, ChatWriter, Clock, EventConsumer, EventLog, EventProducer, Ids, MessageWriter, NewGroup, NewMessage,
    Outbox, RandomIds, SystemClock,
};
use serde_json::Value;
use tempfile::TempDir;
use tidings_kafka::topics::{self, Topic, TopicSize};
use tidings_kafka::{KafkaLog, KafkaProducer};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Command;
use tokio::time::timeout;
use uuid::Uuid;

#[path = "tools/moving.rs"]
mod moving;
#[path = "it/runbook.rs"]
mod runbook;
#[path = "it/server.rs"]
mod server;
#[path = "tools/verify.rs"]
mod verify;

use crate::runbook::{RunbookMoment, follow};

/// How long a command may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(50);
/// Local DynamoDB accepts any credentials, but its clients require some.
const KEY: &str = "local";
const SIZE: TopicSize = TopicSize { partitions: 2, replication: 1 };

/// Empty engines, and the settings of a process that uses them.
struct World {
    dynamo: Dynamo,
    kafka: Kafka,
    redis: Redis,
    directory: TempDir,
}

/// The output and exit code of a command.
struct CommandOutput {
    code: i32,
    stdout: String,
    stderr: String,
}

impl CommandOutput {
    #[track_caller]
    fn ended(&self, code: i32) -> &Self {
        assert_eq!(self.code, code, "stdout:\n{}stderr:\n{}", self.stdout, self.stderr);
        self
    }

    #[track_caller]
    fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {}", self.stdout))
    }

    #[track_caller]
    fn says(&self, text: &str) -> &Self {
        assert!(self.stdout.contains(text) || self.stderr.contains(text), "{}{}", self.stdout, self.stderr);
        self
    }
}

impl World {
    async fn start() -> Self {
        let (dynamo, kafka, redis) = tokio::join!(Dynamo::start(), Kafka::start(), Redis::start());
        let directory = tempfile::tempdir().unwrap();
        for name in ["rpc", "auth", "assertion"] {
            fs::write(directory.path().join(name), name.repeat(32)).unwrap();
        }
        Self { dynamo, kafka, redis, directory }
    }

    async fn with_schema() -> Self {
        let world = Self::start().await;
        let tables = async { dynamodb::schema::apply(&world.client(), &dynamodb_config()).await.unwrap() };
        let topics = async { topics::apply(&world.kafka_config(), SIZE).await.unwrap() };
        tokio::join!(tables, topics);
        world
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let secret = |name: &str| self.directory.path().join(name).to_str().unwrap().to_owned();
        let mut command = Command::new(env!("CARGO_BIN_EXE_tidings"));
        for (name, _) in std::env::vars_os() {
            if name.as_encoded_bytes().starts_with(b"TIDINGS_") {
                command.env_remove(name);
            }
        }
        command
            .args(arguments)
            .env("TIDINGS_STORE__ENGINE", "dynamodb")
            .env("TIDINGS_LISTEN", "127.0.0.1:0")
            .env("TIDINGS_ADMIN__LISTEN", "127.0.0.1:0")
            .env("TIDINGS_RPC__LISTEN", "127.0.0.1:0")
            .env("TIDINGS_DATA_DIR", self.directory.path().join("data"))
            .env("TIDINGS_DYNAMODB__ENDPOINT", self.dynamo.endpoint())
            .env("TIDINGS_DYNAMODB__REGION", KEY)
            .env("TIDINGS_DYNAMODB__POINT_IN_TIME_RECOVERY", "false")
            .env("AWS_ACCESS_KEY_ID", KEY)
            .env("AWS_SECRET_ACCESS_KEY", KEY)
            .env("TIDINGS_KAFKA__BROKERS", self.kafka.bootstrap())
            .env("TIDINGS_KAFKA__PARTITIONS", SIZE.partitions.to_string())
            .env("TIDINGS_KAFKA__REPLICATION", SIZE.replication.to_string())
            .env("TIDINGS_REDIS__URL", self.redis.url())
            .env("TIDINGS_RPC__SECRET_FILE", secret("rpc"))
            .env("TIDINGS_RPC__ASSERTION_SECRET_FILE", secret("assertion"))
            .env("TIDINGS_AUTH__SECRET_FILE", secret("auth"))
            .env("USER", "ada")
            .stdin(Stdio::null())
            .kill_on_drop(true);
        command
    }

    /// Runs a command that must end without a signal.
    async fn run(&self, arguments: &[&str]) -> CommandOutput {
        answer(self.command(arguments)).await
    }

    fn client(&self) -> Client {
        let credentials = Credentials::new(KEY, KEY, None, None, KEY);
        let sdk = SdkConfig::builder()
            .behavior_version(BehaviorVersion::latest())
            .region(Region::new(KEY))
            .endpoint_url(self.dynamo.endpoint())
            .credentials_provider(SharedCredentialsProvider::new(credentials))
            .build();
        Client::new(&sdk)
    }

    fn kafka_config(&self) -> tidings_kafka::Config {
        tidings_kafka::Config::new(vec![self.kafka.bootstrap()])
    }

    fn store(&self) -> DynamoStore {
        DynamoStore::new(self.client(), &dynamodb_config(), Arc::new(SystemClock), Arc::new(RandomIds))
    }

    fn log(&self) -> KafkaLog {
        KafkaLog::reading(self.kafka_config(), Arc::new(SystemClock)).unwrap()
    }

    fn producer(&self) -> KafkaProducer {
        KafkaProducer::open(self.kafka_config(), Arc::new(SystemClock)).unwrap()
    }

    async fn publish(&self, events: &[Arc<Event>]) {
        self.producer().publish(events).await.unwrap();
    }

    /// A chat with messages from two minutes ago that the store has marked as published, and their events.
    async fn chat(&self, count: usize) -> (ChatId, Vec<Arc<Event>>) {
        let store = self.store();
        let (chat_id, sender_id) = new_group(&store).await;
        let events = append(&store, (0..count).map(|_| message(chat_id, sender_id)).collect()).await;
        store.published(chat_id, Sequence(count as u64)).await.unwrap();
        (chat_id, events)
    }

    /// Deletes the counter row of a chat.
    async fn lose_counter(&self, chat_id: ChatId) {
        let (table, key) = (table(Table::ChatCounters), AttributeValue::S(chat_id.to_string()));
        self.client().delete_item().table_name(table).key("chat_id", key).send().await.unwrap();
    }

    /// An attribute of the counter row of a chat.
    async fn counter(&self, chat_id: ChatId, attribute: &str) -> Option<AttributeValue> {
        let (table, key) = (table(Table::ChatCounters), AttributeValue::S(chat_id.to_string()));
        let answer = self.client().get_item().table_name(table).key("chat_id", key).send().await.unwrap();
        answer.item.and_then(|mut item| item.remove(attribute))
    }
}

async fn answer(mut command: Command) -> CommandOutput {
    let output = timeout(PATIENCE, command.output()).await.expect("it comes to an end").unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    CommandOutput { code: output.status.code().unwrap(), stdout: text(output.stdout), stderr: text(output.stderr) }
}

fn table(table: Table) -> String {
    format!("{}{}", dynamodb_config().table_prefix, table.name())
}

fn dynamodb_config() -> dynamodb::Config {
    // Local DynamoDB does not support it.
    dynamodb::Config { point_in_time_recovery: false, ..dynamodb::Config::default() }
}

/// A group with one member.
async fn new_group(store: &impl ChatWriter) -> (ChatId, UserId) {
    let (chat_id, created_by) = (RandomIds.ulid().into(), RandomIds.ulid().into());
    let name = "group".to_owned().try_into().unwrap();
    let group = NewGroup { chat_id, name, created_by, members: vec![], created_at: SystemClock.now() };
    store.create_group(group).await.unwrap();
    (chat_id, created_by)
}

/// Commits new sends, and returns their events.
async fn append(store: &impl MessageWriter, sends: Vec<NewMessage>) -> Vec<Arc<Event>> {
    let outcomes = store.append(sends.clone()).await.unwrap();
    let event = |(send, outcome): (NewMessage, AppendOutcome)| {
        let AppendOutcome::New(receipt) = outcome else { panic!("{outcome:?}") };
        Arc::new(Event::message_persisted(send.at(receipt.sequence, None), None))
    };
    sends.into_iter().zip(outcomes).map(event).collect()
}

/// A send of two minutes ago.
fn message(chat_id: ChatId, sender_id: UserId) -> NewMessage {
    NewMessage {
        chat_id,
        sender_id,
        client_message_id: Uuid::new_v4().into(),
        message_id: RandomIds.ulid().into(),
        body: Body::new("a secret of theirs".to_owned().try_into().unwrap(), ContentType::Text),
        ttl: None,
        ttl_max: None,
        created_at: SystemClock.now().minus(Duration::from_secs(120)),
        origin_connection_id: None,
    }
}

#[tokio::test]
async fn schema_creates_missing_objects_and_reports_differences() {
    let world = World::start().await;
    let missing = world.run(&["store", "schema", "diff", "--json"]).await;
    let drifts = missing.ended(1).json();
    assert_eq!(drifts["drift"].as_array().unwrap().len(), Table::ALL.len() + Topic::ALL.len());
    assert_eq!(drifts["drift"][0], "table `tidings_users` is missing");

    let applied = world.run(&["store", "schema", "apply", "--json"]).await;
    let changes = applied.ended(0).says("creating topics").json();
    assert_eq!((&changes["changed"], &changes["left"]), (&drifts["drift"], &serde_json::json!([])));
    world.run(&["store", "schema", "apply"]).await.ended(0).says("nothing was changed");
    world.run(&["store", "schema", "diff"]).await.ended(0).says("everything is as defined");

    let mut other = world.command(&["store", "schema", "diff"]);
    other.env("TIDINGS_KAFKA__PARTITIONS", "3");
    answer(other).await.ended(1).says("topic `messages.persisted` has 2 partitions");
    world.client().delete_table().table_name(table(Table::Outbox)).send().await.unwrap();
    world.run(&["store", "schema", "diff"]).await.ended(1).says("table `tidings_outbox` is missing");
}

#[tokio::test]
async fn schema_shows_its_definition_in_the_words_of_each_engine() {
    let world = World::start().await;
    let show = async |format: &str| {
        let answer = world.run(&["store", "schema", "show", "--format", format]).await;
        answer.ended(0);
        answer.stdout
    };
    assert!(show("table").await.contains("messages.persisted"));
    assert!(show("kafka").await.contains("--topic dead_letters --partitions 1"));
    let template: Value = serde_json::from_str(&show("cloudformation").await).unwrap();
    assert_eq!(template["AWSTemplateFormatVersion"], "2010-09-09");
    assert!(show("iam").await.contains("# gateway needs no policy"));

    let fanout = world.run(&["store", "schema", "show", "--format", "iam", "--role", "fanout", "--json"]).await;
    let policies = fanout.ended(0).json();
    assert_eq!(policies["fanout"]["Version"], "2012-10-17");
    assert!(!policies.to_string().contains("PutItem"), "{policies}");
    world.run(&["store", "schema", "show", "--role", "fanout"]).await.ended(1).says("--role goes with --format iam");
    world
        .run(&["store", "schema", "show", "--format", "iam", "--role", "sales"])
        .await
        .ended(1)
        .says("`sales` is none of the roles");
}

#[tokio::test]
async fn a_tail_shows_the_events_of_a_chat_without_contents() {
    let world = World::with_schema().await;
    let (chat_id, events) = world.chat(2).await;
    let (_, others) = world.chat(1).await;
    world.publish(&[events, others].concat()).await;
    let chat = chat_id.to_string();
    let lines = async |arguments: &[&str]| {
        let usual = ["log", "tail", "--from", "oldest", "--chat", &chat];
        let mut tail = world.command(&[&usual, arguments].concat()).stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(tail.stdout.take().unwrap()).lines();
        let mut next = async || timeout(PATIENCE, lines.next_line()).await.expect("it shows it").unwrap().unwrap();
        [next().await, next().await]
    };
    let hidden =
        lines(&["--json", "--kind", "message"]).await.map(|line| serde_json::from_str::<Value>(&line).unwrap());
    for (envelope, sequence) in hidden.iter().zip(1..) {
        assert_eq!(
            (&envelope["partition_key"], &envelope["payload"]["sequence"]),
            (&chat.clone().into(), &sequence.into())
        );
        assert_eq!(
            (&envelope["payload"]["content"], &envelope["payload"]["content_bytes"]),
            (&Value::Null, &18.into())
        );
    }
    let shown = lines(&["--contents"]).await;
    assert!(shown[0].contains("MessagePersisted") && shown[0].contains("content=\"a secret of theirs\""), "{shown:?}");

    world.run(&["log", "tail", "--group", "fanout"]).await.ended(1).says("choose another --group");
}

#[tokio::test]
async fn a_replay_prepares_a_fresh_group_and_no_other() {
    let world = World::with_schema().await;
    let (chat_id, events) = world.chat(3).await;
    world.publish(&events).await;
    let replay = async |group: &str, more: &[&str]| {
        world.run(&[&["log", "replay", "--from", "oldest", "--group", group], more].concat()).await
    };
    assert_eq!(
        replay("search", &["--json"]).await.ended(0).json(),
        serde_json::json!({ "group": "search", "events": 3 })
    );
    let log = world.log();
    let mut consumer = log.consumer("search").await.unwrap();
    let sequences = read(&mut *consumer, chat_id, 3).await;
    assert_eq!(sequences, [1, 2, 3]);
    consumer.commit().await.unwrap();

    replay("search", &[]).await.ended(1).says("group `search` has consumed already");
    assert_eq!(log.lag("search").await.unwrap(), 0);
    drop(consumer);
    replay("search", &["--force"]).await.ended(0).says("begins 3 events before the end");
    assert_eq!(log.lag("search").await.unwrap(), 3);

    replay("notifications", &[]).await.ended(1).says("stop all processes with the role `api`, pass --force");
    world.run(&["log", "replay", "--group", "a", "--from", "never"]).await.ended(2).says("`never` is not a position");
}

/// Reads so many messages of a chat.
async fn read(consumer: &mut dyn EventConsumer, chat_id: ChatId, count: usize) -> Vec<u64> {
    let mut sequences = vec![];
    while sequences.len() < count {
        for record in timeout(PATIENCE, consumer.next()).await.expect("it is in the log").unwrap() {
            if let domain::EventBody::MessagePersisted { message, .. } = &record.event.body
                && message.chat_id == chat_id
            {
                sequences.push(message.sequence.0);
            }
        }
    }
    sequences
}

#[tokio::test]
async fn a_missing_event_is_found_and_republished() {
    let world = World::with_schema().await;
    let (whole, events) = world.chat(3).await;
    world.publish(&events).await;
    world.run(&["log", "reconcile"]).await.ended(0).says("store and log agree");

    let (chat_id, events) = world.chat(4).await;
    world.publish(&events[..1]).await;
    world.publish(&events[2..3]).await;
    let found = world.run(&["log", "reconcile", "--json"]).await.ended(1).json();
    let missing = |report: &Value| -> Vec<(Value, Value)> {
        let missing = report["missing"].as_array().unwrap().iter();
        missing.map(|finding| (finding["chat_id"].clone(), finding["sequence"].clone())).collect()
    };
    let expected = [2, 4].map(|sequence: u64| (chat_id.to_string().into(), sequence.into()));
    assert_eq!(missing(&found), expected);
    assert_eq!((&found["chats"], &found["events"], &found["messages"]), (&2.into(), &5.into(), &7.into()));
    world.run(&["log", "reconcile", "--chat", &whole.to_string()]).await.ended(0).says("store and log agree");

    let repaired = world.run(&["log", "reconcile", "--republish", "--json"]).await.ended(0).json();
    assert_eq!((&repaired["republished"], missing(&repaired)), (&2.into(), vec![]));
    let mut consumer = world.log().consumer("reader").await.unwrap();
    assert_eq!(read(&mut *consumer, chat_id, 4).await, [1, 3, 2, 4]);

    let late = world.run(&["log", "reconcile", "--json"]).await.ended(1).json();
    assert_eq!((missing(&late), &late["late"][0]["sequence"]), (vec![], &2.into()));
}

/// A growing log has no end. It is compared up to its end at the start, and a little further.
#[tokio::test]
async fn a_log_that_grows_meanwhile_is_compared_all_the_same() {
    let world = World::with_schema().await;
    let (_, events) = world.chat(50).await;
    world.publish(&events).await;
    let (store, producer) = (world.store(), world.producer());
    let (chat_id, sender_id) = new_group(&store).await;
    let growing = async {
        loop {
            let send = NewMessage { created_at: SystemClock.now(), ..message(chat_id, sender_id) };
            let sent = append(&store, vec![send]).await;
            producer.publish(&sent).await.unwrap();
        }
    };
    let report = tokio::select! {
        never = growing => never,
        report = world.run(&["log", "reconcile", "--json"]) => report.ended(0).json(),
    };
    assert!(report["events"].as_u64().unwrap() >= 50, "{report}");
}

#[tokio::test]
async fn a_chat_that_lost_all_its_events_is_found_by_its_name() {
    let world = World::with_schema().await;
    let (chat_id, _) = world.chat(2).await;
    world.run(&["log", "reconcile"]).await.ended(0);
    let found = world.run(&["log", "reconcile", "--json", "--chat", &chat_id.to_string()]).await.ended(1).json();
    assert_eq!(found["missing"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn an_event_without_a_message_is_reported_and_left() {
    let world = World::with_schema().await;
    let (chat_id, events) = world.chat(1).await;
    let sender_id = RandomIds.ulid().into();
    let orphan: Message = message(chat_id, sender_id).at(Sequence(2), None);
    world.publish(&[events, vec![Arc::new(Event::message_persisted(orphan.clone(), None))]].concat()).await;
    for _ in 0..2 {
        let report = world.run(&["log", "reconcile", "--republish", "--json"]).await.ended(1).json();
        let orphaned = report["orphaned"].as_array().unwrap();
        assert_eq!((orphaned.len(), &orphaned[0]["message_id"]), (1, &orphan.message_id.to_string().into()));
        assert_eq!((&report["republished"], &report["missing"]), (&0.into(), &serde_json::json!([])));
    }
}

#[tokio::test]
async fn a_lost_counter_is_recovered_and_a_good_one_is_left() {
    let world = World::with_schema().await;
    let (chat_id, _) = world.chat(3).await;
    let chat = chat_id.to_string();
    world
        .run(&["store", "recover-counter", &chat])
        .await
        .ended(1)
        .says("says 3 and is well; there is nothing to recover");

    world.lose_counter(chat_id).await;
    let look = world.run(&["store", "recover-counter", &chat]).await;
    look.ended(0)
        .says("is missing")
        .says("highest sequence of messages and watermarks is 3")
        .says("nothing was changed");
    assert_eq!(world.counter(chat_id, "sequence_counter").await, None);
    world.run(&["store", "recover-counter", &chat, "--yes"]).await.ended(2).says("--reason");

    let done = world.run(&["store", "recover-counter", &chat, "--yes", "--reason", "incident 7", "--json"]).await;
    assert_eq!(done.ended(0).json()["sequence"], 3);
    let text = |text: &str| Some(AttributeValue::S(text.to_owned()));
    assert_eq!(world.counter(chat_id, "sequence_counter").await, Some(AttributeValue::N("3".to_owned())));
    assert_eq!(world.counter(chat_id, "recovered_by").await, text("ada"));
    assert_eq!(world.counter(chat_id, "recovery_reason").await, text("incident 7"));
    let again = world.run(&["store", "recover-counter", &chat, "--yes", "--reason", "incident 7"]).await;
    again.ended(1).says("there is nothing to recover");

    // The same command as in the runbook.
    world.lose_counter(chat_id).await;
    let set = world.command(&[]);
    let set = set.as_std().get_envs().filter_map(|(name, value)| Some((name.to_str()?, value?.to_str()?)));
    let names: Vec<_> = set.chain([("CHAT", &*chat)]).map(|(name, value)| (name.into(), value.into())).collect();
    follow("counter-missing.md", RunbookMoment::Broken, names.clone()).await;
    follow("counter-missing.md", RunbookMoment::Over, names).await;
    assert_eq!(world.counter(chat_id, "sequence_counter").await, Some(AttributeValue::N("3".to_owned())));

    let nobody: ChatId = RandomIds.ulid().into();
    world.run(&["store", "recover-counter", &nobody.to_string()]).await.ended(1).says("there is no chat `");
}

#[tokio::test]
async fn the_doctor_reports_missing_dependencies_of_a_fleet() {
    let mut world = World::with_schema().await;
    let well = world.run(&["doctor", "--json"]).await.ended(0).json();
    let verdict = |findings: &Value, check: &str| {
        let found = findings.as_array().unwrap().iter().find(|finding| finding["check"] == check);
        found.unwrap_or_else(|| panic!("no {check} in {findings}"))["verdict"].clone()
    };
    for check in ["data_dir", "dynamodb", "kafka", "redis", "rpc", "rpc.assertion_secret_file", "auth.secret_file"] {
        assert_eq!(verdict(&well, check), "good", "{check}: {well}");
    }

    world.client().delete_table().table_name(table(Table::Users)).send().await.unwrap();
    fs::remove_file(world.directory.path().join("rpc")).unwrap();
    world.redis.stop().await;
    let ill = world.run(&["doctor"]).await;
    ill.ended(1)
        .says("table `tidings_users` is missing; run `tidings store schema apply`")
        .says("cannot read `rpc.secret_file`")
        .says("look at `redis.url`")
        .says("ok    kafka");
}

#[tokio::test]
async fn on_one_machine_the_log_is_read_while_the_service_is_stopped() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    let run = async |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tidings"));
        command.args(arguments).arg("--data-dir").arg(&data).stdin(Stdio::null());
        answer(command).await
    };
    run(&["log", "tail"]).await.ended(1).says("there is no data directory").says("--data-dir");
    let open = || {
        let (clock, ids) = (Arc::new(SystemClock), Arc::new(RandomIds));
        embedded::EmbeddedStore::open(&data, embedded::Config::default(), clock, ids).unwrap()
    };
    let store = open();
    let (chat_id, sender_id) = new_group(&store).await;
    append(&store, vec![message(chat_id, sender_id)]).await;
    run(&["log", "tail", "--from", "oldest"]).await.ended(1).says("in use by another process");
    store.close().await;

    let tail = run(&["log", "tail", "--from", "oldest", "--kind", "message", "--json"]).await;
    assert_eq!(tail.ended(0).says("the log ends here").json()["payload"]["sequence"], 1);
    run(&["log", "reconcile"]).await.ended(0).says("store and log agree");
    run(&["log", "reconcile", "--republish"]).await.ended(1).says("there is nothing to republish");
    run(&["store", "recover-counter", &chat_id.to_string()]).await.ended(1).says("`store.engine` = \"dynamodb\"");
    let replayed = run(&["log", "replay", "--group", "search", "--from", "oldest", "--json"]).await.ended(0).json();
    let store = open();
    assert_eq!(store.lag("search").await.unwrap(), replayed["events"].as_u64().unwrap());
    store.close().await;
}
