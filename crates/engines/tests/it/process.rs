//! Properties that need a second process: each test runs itself again in one.

use std::env;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::process::{Command, Stdio};

use tidings_engines::{Kafka, Redis};

use crate::ask;

/// Tells a test that it runs in the inner process.
const INNER: &str = "TIDINGS_ENGINES_INNER";

#[tokio::test]
async fn a_test_that_is_killed_leaves_no_server_behind() {
    if env::var_os(INNER).is_some() {
        let redis = Redis::start().await;
        println!("\nport={}", redis.port());
        // Wait to be killed; if the outer test is killed, standard input closes.
        io::stdin().read_to_end(&mut vec![]).unwrap();
        return;
    }
    // The server's directory does stay behind, and is removed with this one.
    let directory = tempfile::tempdir().unwrap();
    let mut inner = run_again("process::a_test_that_is_killed_leaves_no_server_behind")
        .env("TMPDIR", directory.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let port = BufReader::new(inner.stdout.take().unwrap())
        .lines()
        .find_map(|line| line.unwrap().strip_prefix("port=")?.parse().ok())
        .expect("the test says where its server is");
    let mut connection = ask::connect(port).unwrap();
    connection.write_all(b"PING\r\n").unwrap();
    connection.read_exact(&mut [0; 7]).unwrap();
    inner.kill().unwrap();
    inner.wait().unwrap();
    // The connection ends with the server; if the server lived on, this would time out.
    assert_eq!(connection.read(&mut [0]).unwrap(), 0);
}

#[tokio::test]
async fn a_missing_program_is_named_with_the_command_that_provides_it() {
    if env::var_os(INNER).is_some() {
        Kafka::start().await;
        return;
    }
    let empty = tempfile::tempdir().unwrap();
    let inner = run_again("process::a_missing_program_is_named_with_the_command_that_provides_it")
        .env("XDG_CACHE_HOME", empty.path())
        .output()
        .unwrap();
    assert!(!inner.status.success());
    let output = String::from_utf8_lossy(&inner.stderr);
    assert!(output.contains("tansu is missing; `cargo xtask engines` provides it"), "{output}");
}

fn run_again(test: &str) -> Command {
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture"]).env(INNER, "1");
    command
}
