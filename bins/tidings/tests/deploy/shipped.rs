//! The real binary with the environment, the files and the command of each shipped deployment.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::ServerChild;

/// The directories of a container that hold its files.
const DIRECTORIES: [&str; 3] = ["/run/secrets", "/etc/tidings", "/var/lib/tidings"];
/// Addresses of two clients, from a network for documentation.
const CLIENTS: [&str; 2] = ["203.0.113.1", "203.0.113.2"];

/// The files of a container, under a directory of this test instead of the root.
pub(crate) struct ContainerRoot(TempDir);

impl ContainerRoot {
    pub(crate) fn new() -> Self {
        let root = Self(tempfile::tempdir().unwrap());
        for directory in DIRECTORIES {
            fs::create_dir_all(root.path(directory)).unwrap();
        }
        root
    }

    /// A path of the container.
    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.0.path().join(path.trim_start_matches('/'))
    }

    /// A text with the paths of the container in it.
    pub(crate) fn placed(&self, text: &str) -> String {
        let root = self.0.path().to_str().unwrap();
        DIRECTORIES.iter().fold(text.to_owned(), |text, path| text.replace(path, &format!("{root}{path}")))
    }

    pub(crate) fn write(&self, path: &str, text: &str) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
}

/// A running process of a deployment.
pub(crate) struct ShippedProcess {
    _child: ServerChild,
    url: String,
    admin: SocketAddr,
}

impl ShippedProcess {
    /// Starts the command of a container with its environment. Only ports differ, because other tests use the same
    /// network: each listener is on the address that the environment has, and on a free port.
    pub(crate) fn start(root: &ContainerRoot, command: &[String], environment: &[(String, String)]) -> Self {
        let listen = |name: &str| {
            let (_, address) = environment.iter().find(|(variable, _)| variable == name).expect("it is set");
            let (host, _) = address.rsplit_once(':').unwrap();
            format!("{host}:0")
        };
        let log = root.path("log");
        let mut server = Command::new(env!("CARGO_BIN_EXE_tidings"));
        server.args(command.iter().map(|word| root.placed(word))).env_clear();
        server.envs(environment.iter().map(|(name, value)| (name, root.placed(value))));
        server.args(["--listen", &listen("TIDINGS_LISTEN"), "--admin-listen", &listen("TIDINGS_ADMIN__LISTEN")]);
        server.env("TIDINGS_RPC__LISTEN", "127.0.0.1:0");
        let log_file = File::create(&log).unwrap();
        let child = server.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log_file).spawn().unwrap();
        let mut child = ServerChild(child);
        let mut line = String::new();
        BufReader::new(child.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let logged = fs::read_to_string(&log).unwrap();
        let url = line.trim_end().strip_prefix("listening on ");
        let url = url.unwrap_or_else(|| panic!("{line}{logged}")).replace("0.0.0.0", "127.0.0.1");
        let admin = logged.lines().find_map(|line| {
            let line: Value = serde_json::from_str(line).ok()?;
            line["fields"]["admin_address"].as_str()?.parse().ok()
        });
        Self { _child: child, url, admin: admin.unwrap_or_else(|| panic!("no admin address: {logged}")) }
    }

    /// Checks that metrics can be scraped, from outside of the container if `outside`.
    pub(crate) async fn check_metrics(&self, outside: bool) {
        assert_eq!(self.admin.ip().is_unspecified(), outside, "{}", self.admin);
        let url = format!("http://127.0.0.1:{}/metrics", self.admin.port());
        let metrics = reqwest::get(url).await.unwrap().text().await.unwrap();
        assert!(metrics.contains("tidings_build_info"), "{metrics}");
    }

    /// Checks that the process has the engines of its role, and no others.
    pub(crate) async fn check_engines(&self, expected: &[&str]) {
        let url = format!("http://127.0.0.1:{}/readyz", self.admin.port());
        let answer: Value = reqwest::get(url).await.unwrap().json().await.unwrap();
        let engines: Vec<&str> = answer["dependencies"].as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(engines, expected, "{answer}");
    }

    /// Checks that each client behind the proxy has its own limit of codes.
    pub(crate) async fn check_codes_per_client(&self) {
        for n in 0..10 {
            let (status, body) = self.request_code(CLIENTS[0], n).await;
            assert_eq!(status, 200, "{n}: {body}");
        }
        let (status, body) = self.request_code(CLIENTS[0], 10).await;
        assert_eq!((status, &body["error"]["code"]), (429, &json!("RATE_LIMITED")), "{body}");
        let (status, body) = self.request_code(CLIENTS[1], 10).await;
        assert_eq!(status, 200, "another client: {body}");
    }

    async fn request_code(&self, client: &str, number: u32) -> (u16, Value) {
        let http = reqwest::Client::builder().timeout(Duration::from_secs(20)).build().unwrap();
        let request = http.post(format!("{}/api/v1/auth/request-otp", self.url)).header("x-forwarded-for", client);
        let phone = format!("+14155550{number:03}");
        let response = request.json(&json!({ "phone_number": phone })).send().await.unwrap();
        (response.status().as_u16(), response.json().await.unwrap())
    }

    /// The answer to the preflight request of a page.
    pub(crate) async fn allowed_origin(&self, origin: &str) -> Option<String> {
        let http = reqwest::Client::new();
        let request = http.request(http::Method::OPTIONS, format!("{}/api/v1/chats", self.url));
        let request = request.header("origin", origin).header("access-control-request-method", "GET");
        let response = request.send().await.unwrap();
        let allowed = response.headers().get("access-control-allow-origin");
        allowed.map(|allowed| allowed.to_str().unwrap().to_owned())
    }
}

/// A DynamoDB with the tables of a fleet, and the variables by which the platform gives a process access to it.
pub(crate) struct DeployedTables {
    dynamo: engines::Dynamo,
}

impl DeployedTables {
    pub(crate) async fn start() -> Self {
        let tables = Self { dynamo: engines::Dynamo::start().await };
        let apply = Command::new(env!("CARGO_BIN_EXE_tidings"))
            .args(["store", "schema", "apply"])
            .env_clear()
            .envs(tables.environment())
            .envs([
                ("TIDINGS_DYNAMODB__REGION", "eu-central-1"),
                // Local servers do not support it.
                ("TIDINGS_DYNAMODB__POINT_IN_TIME_RECOVERY", "false"),
            ])
            .output()
            .unwrap();
        assert!(apply.status.success(), "{apply:?}");
        tables
    }

    pub(crate) fn environment(&self) -> Vec<(String, String)> {
        let endpoint = self.dynamo.endpoint();
        let variables = [
            ("AWS_ENDPOINT_URL_DYNAMODB", &*endpoint),
            ("AWS_ACCESS_KEY_ID", "local"),
            ("AWS_SECRET_ACCESS_KEY", "local"),
        ];
        variables.map(|(name, value)| (name.to_owned(), value.to_owned())).into()
    }
}

/// The secrets of a fleet, by the names of docs/fleet.md.
pub(crate) fn secret(name: &str) -> String {
    if name == "rpc.callers" {
        let line = |role: &str| {
            let digest =
                aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, secret(&format!("rpc.{role}.secret")).as_bytes());
            let hex: String = digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
            format!("{hex} {role}\n")
        };
        return ["gateway", "ingest", "fanout", "api"].map(line).concat();
    }
    format!("{name}-of-at-least-thirty-two-bytes-for-tests")
}

/// Writes a file that only its owner can read.
pub(crate) fn write_secret(path: &Path, text: &str) {
    use std::os::unix::fs::PermissionsExt;
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
}
