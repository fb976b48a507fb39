//! Responses of the command line to user errors: each mistake gets one clear sentence and leaves the data unchanged.
#![expect(clippy::unwrap_used, reason = "test helpers may panic like the tests themselves")]

#[path = "it/server.rs"]
mod server;

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader};
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
    // Settings in the environment of the test, for a server or a terminal, are not meant for this process.
    for (name, _) in std::env::vars_os() {
        if name.as_encoded_bytes().starts_with(b"TIDINGS_") || name == "COLUMNS" {
            command.env_remove(name);
        }
    }
    command.env("TIDINGS_LISTEN", "127.0.0.1:0").env("TIDINGS_ADMIN__LISTEN", "127.0.0.1:0").args(arguments);
    command
}

/// Runs a command that must end without a signal.
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

/// The refusal of a command: one sentence on standard error, shown here with each of its clauses on a line.
fn refusal(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(text(&output.stdout), "");
    let stderr = text(&output.stderr);
    let sentence = stderr.strip_prefix("error: ").unwrap_or_else(|| panic!("{stderr:?} is no sentence of ours"));
    sentence.trim_end().replace("; ", ";\n")
}

/// A directory with a few files, and its contents before the command.
struct CliCase {
    directory: TempDir,
    before: BTreeMap<PathBuf, Option<Vec<u8>>>,
}

impl CliCase {
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

    /// Asserts that `serve` refuses to start: nothing on standard output, `expected` on standard error, files
    /// unchanged.
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

/// Asserts that a typing error is reported before anything is read: exit code 2, and the nearest correct input.
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

              tip: a similar subcommand exists: 'serve'

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
    let case = CliCase::new(&[("directory/file", b""), ("binary.toml", b"\xff\xfe"), ("broken.toml", b"listen =\n")]);
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
    let case = CliCase::new(&[("a.toml", b"lisen = \"127.0.0.1:0\"\n"), ("b.toml", b"[limits]\nsend_per_chats = 1\n")]);
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
fn a_value_of_the_wrong_kind_names_the_accepted_values() {
    let case = CliCase::new(&[("a.toml", b"[limits]\nsync = \"many\"\n")]);
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
            `log.level` is not usable: `loud=very=much` is not a level;
            use off, error, warn, info, debug or trace, or for one part of the service `gateway=debug`"#]],
    );
    case.serve_refused(
        &[],
        &[("TIDINGS_INGEST__QUEUE_LEN_MAX", "0")],
        expect!["`ingest.queue_len_max` is not usable: it must be 1 or more"],
    );
}

#[test]
fn dev_refuses_to_be_reached_from_elsewhere() {
    let case = CliCase::new(&[]);
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
    let case = CliCase::new(&[("file", b"words"), ("foreign/thesis.txt", b"words")]);
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
    let case =
        CliCase::new(&[("data/FORMAT", b"tidings embedded store, format 99\n"), ("data/db/0.jnl", b"of tomorrow")]);
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
        restore it from a backup, or move it away and start again with new keys (access tokens are then refreshed, pending one-time codes are invalid): expected value at line 1 column 1"#]].assert_eq(&refusal);
    assert_eq!(fs::read_to_string(data_dir.join("keys.json")).unwrap(), "garbage");
}

#[test]
fn an_address_in_use_is_refused_before_the_data_is_touched() {
    let case = CliCase::new(&[]);
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    for (flag, expected) in [
        (
            "--listen",
            expect![[r#"
                cannot listen on ADDRESS (`listen`);
                stop the process that uses it or choose another address: Address already in use (os error 98)"#]],
        ),
        (
            "--admin-listen",
            expect![[r#"
                cannot listen on ADDRESS (`admin.listen`);
                stop the process that uses it or choose another address: Address already in use (os error 98)"#]],
        ),
    ] {
        let mut command = tidings(&["serve", "--data-dir", "data", flag, &address]);
        let output = output_of(command.current_dir(case.directory.path()));
        expected.assert_eq(&refusal(&output).replace(&address, "ADDRESS"));
        assert!(tree(case.directory.path()).is_empty());
    }
}

#[test]
fn help_lists_commands_and_options() {
    let help = |arguments: &[&str], expected: Expect| {
        let output = output_of(&mut tidings(arguments));
        assert_eq!(output.status.code(), Some(0));
        expected.assert_eq(&text(&output.stdout));
    };
    help(
        &["--help"],
        expect![[r#"
            A real-time messaging service in one binary.

            `tidings serve --dev` runs a complete service on this machine that any local user can sign in to;
            without --dev it is the same service for production. Every setting of the configuration file is also
            an environment variable.

            Usage: tidings <COMMAND>

            Commands:
              serve        Runs the service
              chat         Opens the terminal chat client
              doctor       Checks the configuration and every dependency of the service
              healthcheck  Checks whether a running service is alive or ready, for container health checks
              store        Checks, saves, moves and repairs stored data: verify, backup, restore, …
              log          Reads and replays the event log, and shows the state of its deliveries: tail,
                           webhook, dead-letters, …
              admin        Administers a running service: user, session, chat, report, routes, drain, …
              load         Runs a load test against a server and reports throughput, latency and lost messages
              capacity     Estimates resources, monthly cost and the first bottleneck for N users
              history      Checks recorded client histories against the delivery guarantees
              help         Print this message or the help of the given subcommand(s)

            Options:
              -h, --help
                      Print help (see a summary with '-h')

              -V, --version
                      Print version

            Examples:
              tidings serve --dev                           run a service to try it out
              tidings chat                                  chat in this terminal
              tidings doctor --config tidings.toml          check a configuration before the first start
              tidings store backup FILE --admin-listen      back up the running service
              tidings log dead-letters list                 list failed deliveries
              tidings admin user find +14155550101          find a user
              tidings help store verify                     explain one command
        "#]],
    );
    help(
        &["serve", "--help"],
        expect![[r#"
            Runs the service

            Usage: tidings serve [OPTIONS]

            Options:
                  --config <FILE>        A TOML file; docs/tidings.example.toml shows every key
                  --dev                  Lets any user sign in with the code 000000, without limits of codes and
                                         sends. Listens on loopback only
                  --insecure             Starts with unsafe settings that `serve` otherwise refuses, such as a
                                         public listener without TLS
                  --data-dir <DIR>       Directory of the store, the log and the signing keys [default:
                                         tidings-data]
                  --listen <ADDR>        Address for clients; port 0 picks a free port [default: 127.0.0.1:8080]
                  --admin-listen <ADDR>  Address of the admin listener: metrics and operator commands [default:
                                         127.0.0.1:9464]
                  --roles <ROLES>        Roles that this process runs [default: all]
              -h, --help                 Print help
        "#]],
    );
    help(
        &["admin", "routes", "--help"],
        expect![[r#"
        Shows which users are connected, and to which gateway

        Usage: tidings admin routes <COMMAND>

        Commands:
          user      Lists the current connections of a user
          gateways  Lists the live gateways and their number of connections
          gateway   Lists connections of one gateway
          help      Print this message or the help of the given subcommand(s)

        Options:
          -h, --help  Print help
    "#]],
    );
    help(
        &["doctor", "--help"],
        expect![[r#"
            Checks the configuration and every dependency of the service

            Usage: tidings doctor [OPTIONS]

            Options:
                  --config <FILE>        A TOML file; docs/tidings.example.toml shows every key
                  --dev                  Lets any user sign in with the code 000000, without limits of codes and
                                         sends. Listens on loopback only
                  --insecure             Starts with unsafe settings that `serve` otherwise refuses, such as a
                                         public listener without TLS
                  --data-dir <DIR>       Directory of the store, the log and the signing keys [default:
                                         tidings-data]
                  --listen <ADDR>        Address for clients; port 0 picks a free port [default: 127.0.0.1:8080]
                  --admin-listen <ADDR>  Address of the admin listener: metrics and operator commands [default:
                                         127.0.0.1:9464]
                  --roles <ROLES>        Roles that this process runs [default: all]
                  --json                 Prints the findings as JSON
              -h, --help                 Print help
        "#]],
    );
}

/// Commands by their names of version 0.2, and by their current ones.
const OLD_NAMES: &[(&str, &str)] = &[
    ("verify", "store verify"),
    ("backup", "store backup"),
    ("restore", "store restore"),
    ("repair", "store repair"),
    ("migrate", "store migrate"),
    ("export", "store export"),
    ("import", "store import"),
    ("schema apply", "store schema apply"),
    ("schema diff", "store schema diff"),
    ("schema show", "store schema show"),
    ("recover-counter", "store recover-counter"),
    ("events tail", "log tail"),
    ("events replay", "log replay"),
    ("reconcile", "log reconcile"),
    ("webhook status", "log webhook status"),
    ("webhook replay", "log webhook replay"),
    ("notifications replay", "log notifications replay"),
    ("dead-letters list", "log dead-letters list"),
    ("dead-letters redeliver", "log dead-letters redeliver"),
    ("dead-letters forget", "log dead-letters forget"),
    ("user find", "admin user find"),
    ("user show", "admin user show"),
    ("user create", "admin user create"),
    ("user rename", "admin user rename"),
    ("user export", "admin user export"),
    ("user delete", "admin user delete"),
    ("session list", "admin session list"),
    ("session revoke", "admin session revoke"),
    ("chat show", "admin chat show"),
    ("chat members", "admin chat members"),
    ("chat timeline", "admin chat timeline"),
    ("chat remove-member", "admin chat remove-member"),
    ("chat set-owner", "admin chat set-owner"),
    ("chat retention", "admin chat retention"),
    ("message show", "admin message show"),
    ("report list", "admin report list"),
    ("report show", "admin report show"),
    ("report resolve", "admin report resolve"),
    ("routes user", "admin routes user"),
    ("routes gateways", "admin routes gateways"),
    ("routes gateway", "admin routes gateway"),
    ("drain", "admin drain"),
    ("resume", "admin resume"),
    ("log-level", "admin log-level"),
];

#[test]
fn every_command_still_has_its_old_name() {
    for (old, current) in OLD_NAMES {
        let help = |name: &str| {
            let arguments: Vec<_> = name.split(' ').chain(["--help"]).collect();
            text(&output_of(&mut tidings(&arguments)).stdout)
        };
        let shown = help(current);
        assert!(shown.contains(&format!("Usage: tidings {current}")), "{current}: {shown}");
        assert_eq!(help(old), shown, "{old}");
    }
}

#[test]
fn an_old_name_runs_its_command() {
    let case = CliCase::new(&[]);
    let run = |arguments: &[&str]| {
        let output = output_of(tidings(arguments).current_dir(case.directory.path()));
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    };
    let current = run(&["store", "verify", "--data-dir", "nowhere"]);
    assert_eq!(current.0, Some(2), "{current:?}");
    assert_eq!(run(&["verify", "--data-dir", "nowhere"]), current);
}

fn doctor(case: &CliCase, arguments: &[&str]) -> Output {
    output_of(tidings(&["doctor"]).args(arguments).current_dir(case.directory.path()))
}

#[test]
fn doctor_finds_a_good_place_good_and_leaves_nothing_there() {
    let case = CliCase::new(&[]);
    let output = doctor(&case, &["--data-dir", "data", "--json"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    // Disk space and open files depend on the machine, and may result in a warning.
    let findings: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
    let checks: Vec<_> = findings.iter().map(|finding| finding["check"].as_str().unwrap()).collect();
    let expected =
        ["listen", "admin.listen", "data_dir", "access", "disk space", "fsync", "open files", "auth.otp.sender"];
    assert_eq!(checks, expected);
    assert!(tree(case.directory.path()).is_empty());
}

#[test]
fn doctor_reports_problems_with_their_remedy() {
    let case = CliCase::new(&[("foreign/thesis.txt", b"words")]);
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
        CliCase::new(&[("tidings.toml", b"[webhook]\nurl = \"https://app.example/hook\"\nsecret_file = \"none\"\n")]);
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
fn doctor_reports_the_same_as_json() {
    let case = CliCase::new(&[("foreign/thesis.txt", b"words")]);
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
    let case = CliCase::new(&[("a.toml", b"lisen = \"127.0.0.1:0\"\n")]);
    let output = doctor(&case, &["--config", "a.toml"]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(text(&output.stdout), "");
    expect!["error: the configuration file `a.toml` sets `lisen`, which does not exist; did you mean `listen`?"]
        .assert_eq(text(&output.stderr).trim_end());
}

/// The writing end of a pipe that has no reader any more.
fn closed_pipe() -> Stdio {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    writer.into()
}

#[test]
fn command_whose_output_is_closed_ends_without_a_message() {
    for arguments in [
        &["capacity", "--users", "1000"][..],
        &["capacity", "--users", "1000", "--json"],
        &["store", "schema", "show"],
        &["store", "schema", "show", "--format", "iam"],
        &["help"],
    ] {
        let mut command = tidings(arguments);
        let mut child = command.stdin(Stdio::null()).stdout(closed_pipe()).stderr(Stdio::piped()).spawn().unwrap();
        // The command has ended when nothing holds its standard error open.
        let stderr = std::io::read_to_string(child.stderr.take().unwrap()).unwrap();
        let status = child.wait().unwrap();
        assert_eq!(stderr, "", "{arguments:?}");
        assert!(matches!(status.code(), Some(0 | 141)), "{arguments:?}: {status}");
    }
}

#[test]
fn service_whose_output_is_closed_continues() {
    let directory = tempfile::tempdir().unwrap();
    let data_dir = directory.path().join("data");
    let mut serve = tidings(&["serve", "--dev", "--data-dir"]);
    let mut child = serve.arg(&data_dir).stdout(closed_pipe()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    let ready = lines.find(|line| line.contains("admin_address=")).expect("it becomes ready");
    let (_, address) = ready.split_once("admin_address=").unwrap();
    let url = format!("http://{}", address.split(' ').next().unwrap());
    assert!(lines.any(|line| line.contains("the service runs without standard output")));
    let answer = output_of(&mut tidings(&["healthcheck", "--url", &url]));
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(answer.status.success(), "{answer:?}");
}
