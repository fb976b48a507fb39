//! Changes of the log level at run time.

use std::fs::{self, File};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::server::{PATIENCE, TestServer};
use crate::webhook::{said, tidings};

async fn standing(server: &TestServer) -> Value {
    serde_json::from_str(said(&tidings(server, &["admin", "log-level", "--json"]).await)).unwrap()
}

#[tokio::test]
async fn an_operator_changes_the_level_for_a_while_and_it_goes_back_by_itself() {
    let server = TestServer::start_with(&[("TIDINGS_LOG__LEVEL", "warn,server=info")]).await;
    let configured = "warn,server=info";
    let change = tidings(&server, &["admin", "log-level", "info,gateway=trace", "--for", "1s", "--json"]).await;
    let changed: Value = serde_json::from_str(said(&change)).unwrap();
    assert_eq!(changed, json!({ "level": "info,gateway=trace", "configured": configured, "for_seconds": 1 }));
    let back = json!({ "level": configured, "configured": configured, "for_seconds": null });
    server.until(async || standing(&server).await == back).await;
    server.until(async || server.log().contains("the log level is back at the configured one")).await;

    let refused = tidings(&server, &["admin", "log-level", "info,gateway=loud"]).await;
    assert_eq!(refused.status.code(), Some(1));
    let why = String::from_utf8_lossy(&refused.stderr);
    assert!(why.contains("`gateway=loud` is not a level"), "{why}");
    assert_eq!(standing(&server).await, back);

    assert_eq!(said(&tidings(&server, &["admin", "log-level", "debug"]).await).trim_end(), {
        "debug, until the next change or restart; configured is warn,server=info"
    });
    let trail = fs::read_to_string(server.data_dir().join("admin-audit.jsonl")).unwrap();
    let actions: Vec<Value> = trail.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let asked: Vec<&Value> = actions
        .iter()
        .filter(|line| line["action"] == "PUT /log-level")
        .map(|line| &line["request"]["level"])
        .collect();
    assert_eq!(asked, ["info,gateway=trace", "info,gateway=loud", "debug"]);
}

/// A server with a configuration file.
struct Configured {
    directory: TempDir,
    child: Child,
}

impl Configured {
    fn start(config: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        fs::write(path("tidings.toml"), config).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_tidings"));
        // Settings in the environment of the test are not meant for this server.
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.as_encoded_bytes().starts_with(b"TIDINGS_")) {
            command.env_remove(name);
        }
        let child = command
            .args(["serve", "--dev", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--config"])
            .arg(path("tidings.toml"))
            .arg("--data-dir")
            .arg(path("data"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(path("log")).unwrap())
            .spawn()
            .unwrap();
        Self { directory, child }
    }

    /// Writes another configuration and reloads it.
    fn reconfigure(&self, config: &str) {
        fs::write(self.directory.path().join("tidings.toml"), config).unwrap();
        kill(Pid::from_raw(self.child.id() as i32), Signal::SIGHUP).unwrap();
    }

    async fn until_logged(&self, text: &str, times: usize) {
        let deadline = Instant::now() + PATIENCE;
        let log = || fs::read_to_string(self.directory.path().join("log")).unwrap();
        while log().matches(text).count() < times {
            assert!(Instant::now() < deadline, "{text} is not {times} times in {}", log());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

impl Drop for Configured {
    fn drop(&mut self) {
        // Errors mean that the process has already ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[tokio::test]
async fn sighup_takes_the_level_over_from_the_configuration_and_refuses_one_that_cannot_be_used() {
    let server = Configured::start("[log]\nlevel = \"info\"\n");
    server.until_logged("ready", 1).await;
    server.reconfigure("[log]\nlevel = \"info,gateway=trace,server=debug\"\n");
    server.until_logged("setting reloaded from the configuration part=\"log.level\"", 1).await;
    server.reconfigure("[log]\nlevel = \"loud\"\n");
    server.until_logged("could not apply the new setting", 1).await;
    server.until_logged("`loud` is not a level", 1).await;
    server.reconfigure("[lok]\nlevel = \"info\"\n");
    server.until_logged("cannot use the new configuration; keeping the current settings", 1).await;
    // The process stays alive and accepts the next reload.
    server.reconfigure("[log]\nlevel = \"warn,server=info\"\n");
    server.until_logged("setting reloaded from the configuration part=\"log.level\"", 2).await;
}
