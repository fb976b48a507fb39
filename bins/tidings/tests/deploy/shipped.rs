//! The real binary with the environment, the files and the command of each shipped deployment.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use engines::{ManagedKafka, ManagedRedis, TestAuthority, TlsProxy};
use futures_util::StreamExt;
use http::{HeaderMap, Method, StatusCode};
use serde_json::{Value, json};
use tempfile::TempDir;
use tidings_kafka::Security;
use tidings_kafka::topics::{self, TopicSize};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use uuid::Uuid;

use crate::ServerChild;
use crate::redis_rights::documented_redis_rights;

/// The directories of a container that hold its files.
const DIRECTORIES: [&str; 3] = ["/run/secrets", "/etc/tidings", "/var/lib/tidings"];
/// Longest wait for an effect on a busy machine.
const PATIENCE: Duration = Duration::from_secs(40);
/// The smallest number of partitions that more than one consumer can share.
const TOPIC_SIZE: TopicSize = TopicSize { partitions: 2, replication: 1 };
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
        // The address for the other processes follows from the free port, too.
        server.env("TIDINGS_RPC__LISTEN", "127.0.0.1:0").env("TIDINGS_RPC__ADVERTISE", "");
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

    /// Waits until the process has reached all of its engines.
    pub(crate) async fn check_ready(&self) {
        let url = format!("http://127.0.0.1:{}/readyz", self.admin.port());
        let deadline = Instant::now() + PATIENCE;
        loop {
            let answer: Value = reqwest::get(&url).await.unwrap().json().await.unwrap();
            if answer["status"] == "ready" {
                return;
            }
            assert!(Instant::now() < deadline, "{answer}");
            sleep(Duration::from_millis(50)).await;
        }
    }

    /// A REST call behind the proxy.
    async fn call(&self, method: Method, path: &str, token: &str, body: Value) -> (StatusCode, Value) {
        let http = reqwest::Client::builder().timeout(PATIENCE).build().unwrap();
        let request = http.request(method, format!("{}/api/v1{path}", self.url)).header("x-forwarded-for", CLIENTS[0]);
        let request = if token.is_empty() { request } else { request.bearer_auth(token) };
        let response = request.json(&body).send().await.unwrap();
        (response.status(), response.json().await.unwrap())
    }

    /// Signs a new user in with the code that their phone receives.
    pub(crate) async fn sign_up(&self, name: &str, number: u32, codes: &mut CodeReceiver) -> SignedIn {
        let (status, body) = self.request_code(CLIENTS[0], number).await;
        assert_eq!(status, 200, "{body}");
        let code = codes.next().await;
        let (phone_number, device_id) = (phone_number(number), Uuid::new_v4());
        assert_eq!(code["phone_number"], *phone_number);
        let body = json!({
            "phone_number": phone_number, "otp": code["code"], "device_id": device_id, "display_name": name,
        });
        let (status, body) = self.call(Method::POST, "/auth/verify-otp", "", body).await;
        assert_eq!(status, 201, "{body}");
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let data = &body["data"];
        let (user_id, access_token) = (text(&data["user"]["user_id"]), text(&data["tokens"]["access_token"]));
        SignedIn { user_id, device_id, access_token }
    }

    /// Sends messages from one user to another until one of them is pushed by `gateway`: every role of the fleet has a part
    /// in that, with its engines.
    pub(crate) async fn check_push(&self, gateway: &Self, from: &SignedIn, to: &SignedIn) {
        let chat = json!({ "type": "direct", "member_ids": [to.user_id] });
        let (status, chat) = self.call(Method::POST, "/chats", &from.access_token, chat).await;
        assert!(status.is_success(), "{chat}");
        let chat_id = chat["data"]["chat_id"].as_str().unwrap().to_owned();
        let path = format!("/chats/{chat_id}/messages");
        let address = gateway.url.replace("http://", "ws://");
        let request = || {
            let mut request = format!("{address}/v1/ws").into_client_request().unwrap();
            let token = format!("Bearer {}", to.access_token);
            request.headers_mut().insert("authorization", token.parse().unwrap());
            request.headers_mut().insert("x-device-id", to.device_id.to_string().parse().unwrap());
            request
        };
        let deadline = Instant::now() + PATIENCE;
        // The gateway has to discover the api process, and the api process the one that commits.
        let mut socket = loop {
            match tokio_tungstenite::connect_async(request()).await {
                Ok((socket, _)) => break socket,
                Err(refusal) => assert!(Instant::now() < deadline, "the handshake is refused: {refusal}"),
            }
            sleep(Duration::from_millis(100)).await;
        };
        let mut last = json!(null);
        loop {
            let message = json!({ "client_message_id": Uuid::new_v4(), "content": "hello" });
            let sent = self.call(Method::POST, &path, &from.access_token, message).await;
            let until = Instant::now() + Duration::from_secs(1);
            while let Ok(Some(frame)) = timeout_at(until, socket.next()).await {
                let frame = frame.unwrap();
                let Ok(text) = frame.to_text() else { continue };
                last = serde_json::from_str(text).unwrap_or_default();
                if last["type"] == "message" {
                    assert_eq!(last["payload"]["content"], "hello", "{last}");
                    return;
                }
            }
            assert!(Instant::now() < deadline, "no message is pushed; the last send: {sent:?}, the last frame: {last}");
        }
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
        let response = request.json(&json!({ "phone_number": phone_number(number) })).send().await.unwrap();
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

fn phone_number(number: u32) -> String {
    format!("+14155550{number:03}")
}

/// A user with a device.
pub(crate) struct SignedIn {
    user_id: String,
    device_id: Uuid,
    access_token: String,
}

/// The operator's service that delivers codes, over TLS.
pub(crate) struct CodeReceiver {
    url: String,
    calls: mpsc::Receiver<(HeaderMap, Bytes)>,
    serving: AbortHandle,
    _tls: TlsProxy,
}

impl CodeReceiver {
    async fn start(authority: &TestAuthority) -> Self {
        let [plain, listener] =
            [TcpListener::bind("127.0.0.1:0").await.unwrap(), TcpListener::bind("127.0.0.1:0").await.unwrap()];
        let url = format!("https://localhost:{}/codes", listener.local_addr().unwrap().port());
        let tls = TlsProxy::start(listener, &authority.issue(), plain.local_addr().unwrap());
        let (sender, calls) = mpsc::channel(100);
        let app = Router::new().fallback(take_code).with_state(sender);
        let serving = tokio::spawn(async move { axum::serve(plain, app).await.unwrap() }).abort_handle();
        Self { url, calls, serving, _tls: tls }
    }

    /// The next code. Its call is signed with the secret of the deployment.
    async fn next(&mut self) -> Value {
        let (headers, body) = timeout(PATIENCE, self.calls.recv()).await.expect("a code comes").unwrap();
        let signature = headers["tidings-signature"].to_str().unwrap();
        let (time, tag) = signature.strip_prefix("t=").and_then(|rest| rest.split_once(",v1=")).unwrap();
        let key = aws_lc_rs::hmac::Key::new(aws_lc_rs::hmac::HMAC_SHA256, secret("otp.secret").as_bytes());
        let signed = aws_lc_rs::hmac::sign(&key, &[time.as_bytes(), b".", &body].concat());
        let expected: String = signed.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(tag, expected);
        serde_json::from_slice(&body).unwrap()
    }
}

async fn take_code(
    State(calls): State<mpsc::Sender<(HeaderMap, Bytes)>>,
    headers: HeaderMap,
    body: Bytes,
) -> StatusCode {
    calls.send((headers, body)).await.unwrap();
    StatusCode::NO_CONTENT
}

impl Drop for CodeReceiver {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

/// The engines of a deployment: tables, and Kafka and Redis over TLS with users, as the template expects them.
pub(crate) struct DeployedEngines {
    tables: DeployedTables,
    kafka: ManagedKafka,
    redis: ManagedRedis,
    authority: TestAuthority,
    files: TempDir,
}

impl DeployedEngines {
    /// Engines whose users have the passwords of [`secret`].
    pub(crate) async fn start() -> Self {
        let (authority, files) = (TestAuthority::new(), tempfile::tempdir().unwrap());
        fs::write(files.path().join("ca.pem"), authority.ca_pem()).unwrap();
        let redis_password = secret("redis.password");
        let users = ["ingest", "fanout", "api"].map(|user| (user, secret(&format!("kafka.{user}.password"))));
        let users = users.each_ref().map(|(user, password)| (*user, &**password));
        let (certificate, rights) = (authority.issue(), documented_redis_rights());
        let (tables, kafka, redis) = tokio::join!(
            DeployedTables::start(),
            ManagedKafka::start(&certificate, &users),
            ManagedRedis::start(&certificate, &redis_password, &rights),
        );
        let password = secret("kafka.api.password").into();
        let security = Security::Scram { ca_pem: Some(authority.ca_pem()), username: "api".to_owned(), password };
        let brokers = vec![kafka.bootstrap().to_owned()];
        let config = tidings_kafka::Config { security, ..tidings_kafka::Config::new(brokers) };
        topics::apply(&config, TOPIC_SIZE).await.unwrap();
        Self { tables, kafka, redis, authority, files }
    }

    pub(crate) async fn code_receiver(&self) -> CodeReceiver {
        CodeReceiver::start(&self.authority).await
    }

    /// The parameters of the template that name the engines and the receiver of codes.
    pub(crate) fn parameters(&self, codes: &CodeReceiver) -> [(&'static str, String); 3] {
        [
            ("KafkaBrokers", self.kafka.bootstrap().to_owned()),
            ("RedisUrl", self.redis.url()),
            ("OtpWebhookUrl", codes.url.clone()),
        ]
    }

    /// The variables of the platform. A real process finds the authority of all certificates in its system.
    pub(crate) fn environment(&self) -> Vec<(String, String)> {
        let ca_file = self.files.path().join("ca.pem").to_str().unwrap().to_owned();
        let trusted = ["TIDINGS_KAFKA__CA_FILE", "TIDINGS_REDIS__CA_FILE", "SSL_CERT_FILE"];
        let trusted = trusted.map(|name| (name.to_owned(), ca_file.clone()));
        self.tables.environment().into_iter().chain(trusted).collect()
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
