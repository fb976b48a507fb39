//! What the command line answers to what people type: every mistake gets one clear sentence and leaves the data alone.
#![expect(clippy::unwrap_used, reason = "what surrounds a test may panic as the test itself may")]

#[path = "it/server.rs"]
mod server;

use std::collections::BTreeMap;
use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use expect_test::{Expect, expect};
use serde_json::Value;
use tempfile::TempDir;

use crate::server::{PATIENCE, TestServer};

/// The command line in an environment of its own, with free ports.
fn tidings(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidings"));
    // What the environment of the test says to a server, or about a terminal, is not meant for this one.
    for (name, _) in std::env::vars_os() {
        if name.as_encoded_bytes().starts_with(b"TIDINGS_") || name == "COLUMNS" {
            command.env_remove(name);
        }
    }
    command.env("TIDINGS_LISTEN", "127.0.0.1:0").env("TIDINGS_ADMIN__LISTEN", "127.0.0.1:0").args(arguments);
    command
}

/// Runs a command that must come to an end by itself.
fn output_of(command: &mut Command) -> Output {
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let deadline = Instant::now() + PATIENCE;
    while child.try_wait().unwrap().is_none() {
        if Instant::now() > deadline {
            child.kill().unwrap();
            panic!("it does not end: {:?}", child.wait_with_output());
        }
        thread::sleep(Duration::from_millis(5));
    }
    child.wait_with_output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Why a command refused to work: one sentence on standard error, shown here with each of its clauses on a line.
fn refusal(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(text(&output.stdout), "");
    let stderr = text(&output.stderr);
    let sentence = stderr.strip_prefix("error: ").unwrap_or_else(|| panic!("{stderr:?} is no sentence of ours"));
    sentence.trim_end().replace("; ", ";\n")
}

/// A directory with a few files, and what is in it afterwards.
struct Case {
    directory: TempDir,
    before: BTreeMap<PathBuf, Option<Vec<u8>>>,
}

impl Case {
    fn new(files: &[(&str, &[u8])]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        for (name, content) in files {
            let path = directory.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        let before = tree(directory.path());
        Self { directory, before }
    }

    /// `serve` refuses to start: nothing on standard output, `expected` on standard error, every file as it was.
    fn serve_refused(&self, arguments: &[&str], environment: &[(&str, &str)], expected: Expect) {
        let mut command = tidings(&["serve"]);
        command.args(arguments).envs(environment.iter().copied()).current_dir(self.directory.path());
        let output = output_of(&mut command);
        expected.assert_eq(&refusal(&output));
        assert!(tree(self.directory.path()) == self.before, "the data is left alone");
    }
}

/// Every file below a directory with its content, and every directory without.
fn tree(directory: &Path) -> BTreeMap<PathBuf, Option<Vec<u8>>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(tree(&path));
            found.insert(path, None);
        } else {
            found.insert(path.clone(), Some(fs::read(path).unwrap()));
        }
    }
    found
}

/// What is typed wrong is answered before anything is read: exit code 2, and the nearest right thing.
fn mistyped(arguments: &[&str], expected: Expect) {
    let output = output_of(&mut tidings(arguments));
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(text(&output.stdout), "");
    expected.assert_eq(text(&output.stderr).trim_end());
}

#[test]
fn wrong_commands_flags_and_values_name_the_right_ones() {
    mistyped(
        &["serv"],
        expect![[r#"
            error: unrecognized subcommand 'serv'

              tip: some similar subcommands exist: 'user', 'serve'

            Usage: tidings <COMMAND>

            For more information, try '--help'."#]],
    );
    mistyped(
        &["serve", "--lisen", "127.0.0.1:0"],
        expect![[r#"
            error: unexpected argument '--lisen' found

              tip: a similar argument exists: '--listen'

            Usage: tidings serve --listen <ADDR>

            For more information, try '--help'."#]],
    );
    mistyped(
        &["serve", "--listen", "here"],
        expect![[r#"
            error: invalid value 'here' for '--listen <ADDR>': invalid socket address syntax

            For more information, try '--help'."#]],
    );
    mistyped(
        &["serve", "--data-dir"],
        expect![[r#"
            error: a value is required for '--data-dir <DIR>' but none was supplied

            For more information, try '--help'."#]],
    );
}

#[test]
fn an_unreadable_configuration_file_is_named_with_the_cause() {
    let case = Case::new(&[("directory/file", b""), ("binary.toml", b"\xff\xfe"), ("broken.toml", b"listen =\n")]);
    case.serve_refused(
        &["--config", "missing.toml"],
        &[],
        expect!["cannot read the configuration file `missing.toml`: No such file or directory (os error 2)"],
    );
    case.serve_refused(
        &["--config", "directory"],
        &[],
        expect!["cannot read the configuration file `directory`: Is a directory (os error 21)"],
    );
    case.serve_refused(
        &["--config", "binary.toml"],
        &[],
        expect!["cannot read the configuration file `binary.toml`: stream did not contain valid UTF-8"],
    );
    case.serve_refused(
        &["--config", "broken.toml"],
        &[],
        expect![[r#"
            the configuration file `broken.toml` is not TOML: TOML parse error at line 1, column 9
              |
            1 | listen =
              |         ^
            string values must be quoted, expected literal string"#]],
    );
}

#[test]
fn an_unknown_key_names_the_nearest_right_one() {
    let case = Case::new(&[("a.toml", b"lisen = \"127.0.0.1:0\"\n"), ("b.toml", b"[limits]\nsend_per_chats = 1\n")]);
    case.serve_refused(
        &["--config", "a.toml"],
        &[],
        expect![[r#"
            the configuration file `a.toml` sets `lisen`, which does not exist;
            did you mean `listen`?"#]],
    );
    case.serve_refused(
        &["--config", "b.toml"],
        &[],
        expect![[r#"
        the configuration file `b.toml` sets `limits.send_per_chats`, which does not exist;
        did you mean `limits.send_per_chat`?"#]],
    );
    case.serve_refused(
        &[],
        &[("TIDINGS_LIMITS__SYNK", "1")],
        expect![[r#"
        the environment variable `TIDINGS_LIMITS__SYNK` sets `limits.synk`, which does not exist;
        did you mean `limits.sync`?"#]],
    );
}

#[test]
fn a_value_of_the_wrong_kind_says_what_the_key_takes() {
    let case = Case::new(&[("a.toml", b"[limits]\nsync = \"many\"\n")]);
    case.serve_refused(
        &["--config", "a.toml"],
        &[],
        expect![[r#"the configuration file `a.toml` sets `limits.sync` to `"many"`, but it takes a whole number"#]],
    );
    case.serve_refused(
        &[],
        &[("TIDINGS_DEV", "maybe")],
        expect!["the environment variable `TIDINGS_DEV` sets `dev` to `maybe`, but it takes true or false"],
    );
    case.serve_refused(
        &[],
        &[("TIDINGS_LOG__LEVEL", "loud=very=much")],
        expect![[r#"
            `log.level` is not usable: `loud=very=much` is no level;
            say off, error, warn, info, debug or trace, or for one part of the service `gateway=debug`"#]],
    );
    case.serve_refused(
        &[],
        &[("TIDINGS_INGEST__QUEUE_LEN_MAX", "0")],
        expect!["`ingest.queue_len_max` is not usable: it must be 1 or more"],
    );
}

#[test]
fn dev_refuses_to_be_reached_from_elsewhere() {
    let case = Case::new(&[]);
    case.serve_refused(
        &["--dev", "--listen", "0.0.0.0:0"],
        &[],
        expect!["`listen` is not usable: with --dev anybody can sign in, so 0.0.0.0:0 must be a loopback address"],
    );
    case.serve_refused(
        &["--dev"],
        &[("TIDINGS_ADMIN__LISTEN", "0.0.0.0:0")],
        expect![
            "`admin.listen` is not usable: with --dev anybody can sign in, so 0.0.0.0:0 must be a loopback address"
        ],
    );
    case.serve_refused(
        &[],
        &[("TIDINGS_AUTH__OTP__SENDER", "fixed")],
        expect!["`auth.otp.sender` is not usable: `fixed` lets anybody sign in and needs --dev"],
    );
}

#[test]
fn a_data_directory_that_is_not_one_is_refused() {
    let case = Case::new(&[("file", b"words"), ("foreign/thesis.txt", b"words")]);
    case.serve_refused(
        &["--data-dir", "file"],
        &[],
        expect![[r#"
            `file` is not a directory;
            name a directory that is empty or was made by tidings"#]],
    );
    case.serve_refused(
        &["--data-dir", "file/below"],
        &[],
        expect![[r#"
            `file/below` is not a directory;
            name a directory that is empty or was made by tidings"#]],
    );
    case.serve_refused(
        &["--data-dir", "foreign"],
        &[],
        expect![[r#"
            `foreign` holds other files and no tidings store;
            name an empty directory"#]],
    );
}

#[test]
fn a_data_directory_of_a_later_version_is_refused() {
    let case = Case::new(&[("data/FORMAT", b"tidings embedded store, format 99\n"), ("data/db/0.jnl", b"of tomorrow")]);
    case.serve_refused(
        &["--data-dir", "data"],
        &[],
        expect![[r#"
        the store in `data` has format 99, this version of tidings writes format 2;
        start the version that wrote it, or a later one"#]],
    );
}

#[tokio::test]
async fn a_data_directory_in_use_is_refused_and_its_user_goes_on() {
    let server = TestServer::start().await;
    let data_dir = server.data_dir();
    let output = output_of(tidings(&["serve", "--data-dir"]).arg(&data_dir));
    let refusal = refusal(&output).replace(data_dir.to_str().unwrap(), "DATA_DIR");
    expect![[r#"
        the store in `DATA_DIR` is in use by another process;
        stop that one or name another directory"#]]
    .assert_eq(&refusal);
    let [ann, bob] = server.sign_up_all(["Ann", "Bob"]).await;
    let chat_id = ann.direct_chat(&bob).await;
    assert_eq!(ann.send(&chat_id, "still here").await["sequence"], 1);
}

#[tokio::test]
async fn a_damaged_key_file_is_refused_with_the_way_out() {
    let mut server = TestServer::start().await;
    server.stop().await;
    let data_dir = server.data_dir();
    fs::write(data_dir.join("keys.json"), "garbage").unwrap();
    let output = output_of(tidings(&["serve", "--data-dir"]).arg(&data_dir));
    let refusal = refusal(&output).replace(data_dir.to_str().unwrap(), "DATA_DIR");
    expect![[r#"
        key file `DATA_DIR/keys.json` is damaged;
        restore it from a backup, or move it away and start again with new keys (access tokens are then refreshed, waiting one-time codes are void): expected value at line 1 column 1"#]].assert_eq(&refusal);
    assert_eq!(fs::read_to_string(data_dir.join("keys.json")).unwrap(), "garbage");
}

#[test]
fn an_address_in_use_is_refused_before_the_data_is_touched() {
    let case = Case::new(&[]);
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    for (flag, expected) in [
        (
            "--listen",
            expect![[r#"
                cannot listen on ADDRESS (`listen`);
                stop what uses it or choose another address: Address already in use (os error 98)"#]],
        ),
        (
            "--admin-listen",
            expect![[r#"
                cannot listen on ADDRESS (`admin.listen`);
                stop what uses it or choose another address: Address already in use (os error 98)"#]],
        ),
    ] {
        let mut command = tidings(&["serve", "--data-dir", "data", flag, &address]);
        let output = output_of(command.current_dir(case.directory.path()));
        expected.assert_eq(&refusal(&output).replace(&address, "ADDRESS"));
        assert!(tree(case.directory.path()).is_empty());
    }
}

#[test]
fn help_says_what_there_is() {
    let help = |arguments: &[&str], expected: Expect| {
        let output = output_of(&mut tidings(arguments));
        assert_eq!(output.status.code(), Some(0));
        expected.assert_eq(&text(&output.stdout));
    };
    help(
        &["--help"],
        expect![[r#"
            A real-time messaging service in one binary.

            `tidings serve --dev` runs a complete service on this machine that anybody on it can sign in to;
            without --dev it is the same service for real users. Every setting of the configuration file is also
            an environment variable.

            Usage: tidings <COMMAND>

            Commands:
              serve            Runs the service
              doctor           Checks the configuration and everything the service stands on, in plain words
              healthcheck      Asks a running service whether it is alive, or ready, for whoever restarts it
              drain            Has a process take no more work, and waits until it is safe to remove it
              resume           Has a process that was drained take work again
              schema           Looks after the tables and topics of a fleet, from their one definition
              events           Reads the event log, and sends consumers of it to another place
              reconcile        Compares store and log, both ways, and publishes what is missing
              recover-counter  Restores the counter of a chat whose sends are refused because it was lost
              verify           Checks everything that is stored against what must be true of it
              backup           Writes the store of one machine into a file, as it is at one moment
              restore          Makes a data directory of a backup, and checks it as `verify` does
              migrate          Brings the store of an earlier version into the format of this one
              export           Writes everything that a stopped service holds to a file, for another to import
              import           Fills an empty store from an export, so that users go on where they were
              chat             Chats in the terminal, as a person does; with a subcommand, looks after a chat as
                               an operator does
              load             Puts a server under load and prints what it did, what it lost, and how fast it
                               was
              capacity         Says what so many people take, what it costs, and what ends first
              history          Judges what clients did and saw
              webhook          Looks after the webhook by which an application hears of every event
              notifications    Looks after the notifications of people who are away
              dead-letters     Shows what could not be delivered to others' servers, and delivers it again
              user             Looks after users and their accounts
              session          Shows where users are signed in, and signs them out
              message          Answers "where is my message?"
              routes           Shows who is connected now, and to which gateway
              report           Shows what users have reported, and ends it
              log-level        Shows or changes what a running service logs, without a restart
              help             Print this message or the help of the given subcommand(s)

            Options:
              -h, --help
                      Print help (see a summary with '-h')

              -V, --version
                      Print version
        "#]],
    );
    help(
        &["serve", "--help"],
        expect![[r#"
            Runs the service

            Usage: tidings serve [OPTIONS]

            Options:
                  --config <FILE>        A TOML file; docs/tidings.example.toml shows every key
                  --dev                  Lets anybody sign in with the code 000000. Listens on loopback only
                  --data-dir <DIR>       Where the store, the log and the signing keys are [default:
                                         tidings-data]
                  --listen <ADDR>        Where clients connect; port 0 takes a free one [default:
                                         127.0.0.1:8080]
                  --admin-listen <ADDR>  Where operators look (/metrics) and what their commands ask [default:
                                         127.0.0.1:9464]
                  --roles <ROLES>        Which parts of the service this process is [default: all]
              -h, --help                 Print help
        "#]],
    );
    help(
        &["routes", "--help"],
        expect![[r#"
        Shows who is connected now, and to which gateway

        Usage: tidings routes <COMMAND>

        Commands:
          user      Lists the connections that a user has now
          gateways  Lists the gateways that beat, and how many connections each has
          gateway   Lists connections of one gateway
          help      Print this message or the help of the given subcommand(s)

        Options:
          -h, --help  Print help
    "#]],
    );
    help(
        &["doctor", "--help"],
        expect![[r#"
            Checks the configuration and everything the service stands on, in plain words

            Usage: tidings doctor [OPTIONS]

            Options:
                  --config <FILE>        A TOML file; docs/tidings.example.toml shows every key
                  --dev                  Lets anybody sign in with the code 000000. Listens on loopback only
                  --data-dir <DIR>       Where the store, the log and the signing keys are [default:
                                         tidings-data]
                  --listen <ADDR>        Where clients connect; port 0 takes a free one [default:
                                         127.0.0.1:8080]
                  --admin-listen <ADDR>  Where operators look (/metrics) and what their commands ask [default:
                                         127.0.0.1:9464]
                  --roles <ROLES>        Which parts of the service this process is [default: all]
                  --json                 Prints the findings as JSON
              -h, --help                 Print help
        "#]],
    );
}

fn doctor(case: &Case, arguments: &[&str]) -> Output {
    output_of(tidings(&["doctor"]).args(arguments).current_dir(case.directory.path()))
}

#[test]
fn doctor_finds_a_good_place_good_and_leaves_nothing_there() {
    let case = Case::new(&[]);
    let output = doctor(&case, &["--data-dir", "data"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let stdout = text(&output.stdout);
    // How much space and how many files there are is the machine's, and may deserve a warning.
    let checks: Vec<_> = stdout.lines().map(|line| line["warn  ".len()..].split("  ").next().unwrap()).collect();
    assert_eq!(checks, ["listen", "admin.listen", "data_dir", "disk space", "fsync", "open files"]);
    assert!(tree(case.directory.path()).is_empty());
}

#[test]
fn doctor_says_what_is_bad_and_what_to_do() {
    let case = Case::new(&[("foreign/thesis.txt", b"words")]);
    let output = doctor(&case, &["--data-dir", "foreign"]);
    assert_eq!(output.status.code(), Some(1));
    let stdout = text(&output.stdout);
    let bad = stdout.lines().filter(|line| line.starts_with("BAD")).collect::<Vec<_>>().join("\n");
    expect!["BAD   data_dir       `foreign` holds other files and no tidings store; name an empty directory"]
        .assert_eq(&bad);
    assert!(tree(case.directory.path()) == case.before);
}

#[test]
fn doctor_looks_at_the_secrets_of_webhooks() {
    let case =
        Case::new(&[("tidings.toml", b"[webhook]\nurl = \"https://app.example/hook\"\nsecret_file = \"none\"\n")]);
    let output = doctor(&case, &["--config", "tidings.toml"]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let said = String::from_utf8(output.stdout).unwrap();
    let line = said.lines().find(|line| line.contains("webhook")).unwrap_or_else(|| panic!("{said}"));
    assert_eq!(
        line,
        "BAD   webhook        cannot read `webhook.secret_file`, `none`: No such file or directory (os error 2)"
    );
}

#[test]
fn doctor_tells_the_same_to_machines() {
    let case = Case::new(&[("foreign/thesis.txt", b"words")]);
    let output = doctor(&case, &["--data-dir", "foreign", "--json"]);
    assert_eq!(output.status.code(), Some(1));
    let findings: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
    let data_dir = findings.iter().find(|finding| finding["check"] == "data_dir").unwrap();
    assert_eq!(data_dir["verdict"], "bad");
    assert_eq!(data_dir["message"], "`foreign` holds other files and no tidings store; name an empty directory");
    assert!(
        findings.iter().all(|finding| finding["check"] == "data_dir" || finding["verdict"] != "bad"),
        "{findings:?}"
    );
}

#[test]
fn doctor_refuses_a_broken_configuration_like_serve() {
    let case = Case::new(&[("a.toml", b"lisen = \"127.0.0.1:0\"\n")]);
    let output = doctor(&case, &["--config", "a.toml"]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(text(&output.stdout), "");
    expect!["error: the configuration file `a.toml` sets `lisen`, which does not exist; did you mean `listen`?"]
        .assert_eq(text(&output.stderr).trim_end());
}
