use std::collections::BTreeMap;
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;

use crate::ask;

#[test]
fn the_script_starts_engines_that_answer_and_keep_their_ports_and_data() {
    let directory = tempfile::tempdir().unwrap();
    let engines = ScriptedEngines(directory.path());
    let started = engines.script("start");
    let settings: BTreeMap<_, _> = started.settings.lines().filter_map(|line| line.split_once('=')).collect();
    let port = |key, before| settings[key].strip_prefix(before).unwrap().parse::<u16>().unwrap();
    let redis = port("TIDINGS_REDIS__URL", "redis://127.0.0.1:");
    let kafka = port("TIDINGS_KAFKA__BROKERS", "127.0.0.1:");
    let dynamodb = port("TIDINGS_DYNAMODB__ENDPOINT", "http://127.0.0.1:");
    for key in ["TIDINGS_DYNAMODB__REGION", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"] {
        assert_eq!(settings[key], "local", "{key}");
    }
    assert_eq!(ask::redis(redis, "PING").unwrap(), ["+PONG", "+OK"]);
    ask::kafka_make_topic(kafka, "kept").unwrap();
    ask::dynamodb_make_table(dynamodb, "kept").unwrap();
    assert_eq!(engines.script("status"), started);
    assert_eq!(engines.script("start"), started);

    let stopped = engines.script("stop");
    assert_eq!(stopped, ScriptOutput::only("redis is stopped\nkafka is stopped\ndynamodb is stopped\n"));
    for port in [redis, kafka, dynamodb] {
        assert!(TcpStream::connect(("127.0.0.1", port)).is_err(), "{port}");
    }
    let down = ScriptOutput::only("redis is not up\nkafka is not up\ndynamodb is not up\n");
    assert_eq!(engines.script("status"), down);
    assert_eq!(engines.script("stop"), down);

    assert_eq!(engines.script("start"), started);
    assert!(ask::kafka_metadata(kafka).unwrap().contains("kept"));
    assert_eq!(ask::dynamodb_tables(dynamodb).unwrap(), r#"{"TableNames":["kept"]}"#);
}

#[test]
fn the_script_starts_only_the_engines_that_are_named() {
    let directory = tempfile::tempdir().unwrap();
    let engines = ScriptedEngines(directory.path());
    let started = engines.script("start redis");
    assert!(started.settings.starts_with("TIDINGS_REDIS__URL=") && started.settings.lines().count() == 1);
    let status = engines.script("status");
    assert_eq!(
        status,
        ScriptOutput { settings: started.settings, words: "kafka is not up\ndynamodb is not up\n".to_owned() }
    );
}

#[test]
fn the_script_names_an_engine_that_it_does_not_know() {
    let directory = tempfile::tempdir().unwrap();
    let said = ScriptedEngines(directory.path()).script("start cassandra");
    assert_eq!(said, ScriptOutput::only("there is no engine cassandra; there are redis, kafka and dynamodb\n"));
}

/// The engines of one directory. They are stopped when this is dropped.
struct ScriptedEngines<'a>(&'a Path);

/// The output of the script: standard output to be sourced, standard error to be read.
#[derive(Debug, PartialEq)]
struct ScriptOutput {
    settings: String,
    words: String,
}

impl ScriptedEngines<'_> {
    /// Runs a command on the engines, or on those named after it.
    fn script(&self, words: &str) -> ScriptOutput {
        let mut words = words.split(' ');
        let output = Command::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/engines"))
            .args(words.next())
            .arg(self.0)
            .args(words)
            .output()
            .unwrap();
        ScriptOutput {
            settings: String::from_utf8(output.stdout).unwrap(),
            words: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

impl Drop for ScriptedEngines<'_> {
    fn drop(&mut self) {
        self.script("stop");
    }
}

impl ScriptOutput {
    fn only(words: &str) -> Self {
        Self { settings: String::new(), words: words.to_owned() }
    }
}
