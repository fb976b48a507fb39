use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

use crate::ServerChild;
use crate::chart::{fleet_config, rendered, rendered_with};
use crate::shipped::{ContainerRoot, DeployedTables, ShippedProcess, secret, write_secret};

/// The variables that Kubernetes sets in every pod for each Service of the namespace, unless `enableServiceLinks` is
/// false.
pub(crate) fn service_links(objects: &[Value]) -> Vec<(String, String)> {
    let mut links = Vec::new();
    for (n, service) in objects.iter().filter(|object| object["kind"] == "Service").enumerate() {
        let name = variable(&service["metadata"]["name"]);
        // A cluster has addresses of one family or of both.
        let (address, host) = match n % 2 {
            0 => (format!("10.96.0.{n}"), format!("10.96.0.{n}")),
            _ => (format!("fd00::{n}"), format!("[fd00::{n}]")),
        };
        let ports = service["spec"]["ports"].as_array().unwrap();
        let first = ports[0]["port"].to_string();
        links.push((format!("{name}_SERVICE_HOST"), address.clone()));
        links.push((format!("{name}_SERVICE_PORT"), first.clone()));
        links.push((format!("{name}_PORT"), format!("tcp://{host}:{first}")));
        for port in ports {
            let number = port["port"].to_string();
            let protocol = port["protocol"].as_str().unwrap_or("TCP");
            let url = format!("{}://{host}:{number}", protocol.to_lowercase());
            let link = format!("{name}_PORT_{number}_{protocol}");
            links.push((format!("{name}_SERVICE_PORT_{}", variable(&port["name"])), number.clone()));
            links.push((format!("{link}_PROTO"), protocol.to_lowercase()));
            links.push((format!("{link}_PORT"), number));
            links.push((format!("{link}_ADDR"), address.clone()));
            links.push((link, url));
        }
    }
    links
}

fn variable(name: &Value) -> String {
    name.as_str().unwrap().to_uppercase().replace('-', "_")
}

#[test]
fn a_pod_beside_services_of_its_own_name_starts() {
    let directory = tempfile::tempdir().unwrap();
    let objects = rendered("single");
    let config = objects.iter().find(|object| object["kind"] == "ConfigMap").unwrap();
    let settings = directory.path().join("tidings.toml");
    fs::write(&settings, config["data"]["tidings.toml"].as_str().unwrap()).unwrap();
    let set = objects.iter().find(|object| object["kind"] == "StatefulSet").unwrap();
    let container = &set["spec"]["template"]["spec"]["containers"][0];
    let environment = container["env"].as_array().unwrap().iter();
    let mut links = service_links(&objects);
    // A fleet in the same namespace has Services with the same name prefix.
    links.extend(service_links(&rendered("fleet")));
    let names: Vec<&str> = links.iter().map(|(name, _)| &**name).collect();
    for known in ["TIDINGS_SERVICE_HOST", "TIDINGS_PORT_80_TCP_ADDR", "TIDINGS_GATEWAY_SERVICE_PORT_PUBLIC"] {
        assert!(names.contains(&known), "{known}: {names:?}");
    }

    let server = Command::new(env!("CARGO_BIN_EXE_tidings"))
        .args(["serve", "--config"])
        .arg(&settings)
        // The pod has its own network and volume; this test has not. Like a pod it listens on all addresses.
        .args(["--listen", "0.0.0.0:0", "--admin-listen", "0.0.0.0:0", "--data-dir"])
        .arg(directory.path().join("data"))
        .env_clear()
        .envs(environment.map(|variable| (variable["name"].as_str().unwrap(), variable["value"].as_str().unwrap())))
        .envs([("KUBERNETES_SERVICE_HOST", "10.96.0.1"), ("KUBERNETES_PORT", "tcp://10.96.0.1:443")])
        .envs(links)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut server = ServerChild(server.unwrap());
    let (mut stdout, mut log) = (server.0.stdout.take().unwrap(), server.0.stderr.take().unwrap());
    let mut line = String::new();
    BufReader::new(&mut stdout).read_line(&mut line).unwrap();
    if line.starts_with("listening on http://") {
        kill(Pid::from_raw(server.0.id() as i32), Signal::SIGTERM).unwrap();
    }
    let mut logged = String::new();
    log.read_to_string(&mut logged).unwrap();
    assert_eq!(server.0.wait().unwrap().code(), Some(0), "{line}{logged}");
    assert_eq!(logged.matches("ignoring service-link variables of Kubernetes").count(), 1, "{logged}");
}

#[test]
fn pods_start_with_the_settings_of_the_chart() {
    let directory = tempfile::tempdir().unwrap();
    for name in ["single", "fleet"] {
        let objects = rendered(name);
        let config = objects.iter().find(|object| object["kind"] == "ConfigMap").unwrap();
        let settings = directory.path().join("tidings.toml");
        fs::write(&settings, config["data"]["tidings.toml"].as_str().unwrap()).unwrap();
        for object in objects.iter().filter(|object| object["spec"]["template"].is_object()) {
            let environment = object["spec"]["template"]["spec"]["containers"][0]["env"].as_array().unwrap();
            let examine = |without: &str| {
                let mut doctor = Command::new(env!("CARGO_BIN_EXE_tidings"));
                doctor.args(["doctor", "--json", "--config"]).arg(&settings).env_clear();
                // Engines and volumes exist only in a cluster; unsafe settings are checked without them.
                doctor.env("TIDINGS_STORE__ENGINE", "embedded").arg("--data-dir").arg(directory.path().join("data"));
                doctor.args(["--roles", "all"]);
                for variable in environment.iter().filter(|variable| variable["value"].is_string()) {
                    let name = variable["name"].as_str().unwrap();
                    if ![without, "TIDINGS_STORE__ENGINE", "TIDINGS_ROLES"].contains(&name) {
                        doctor.env(name, variable["value"].as_str().unwrap());
                    }
                }
                let findings: Vec<Value> = serde_json::from_slice(&doctor.output().unwrap().stdout).unwrap();
                let unsafe_listener = |finding: &&Value| {
                    finding["check"] == "listen" && finding["message"].as_str().unwrap().contains("has no TLS")
                };
                findings.iter().filter(unsafe_listener).count()
            };
            assert_eq!(examine(""), 0, "{name}");
            assert_eq!(examine("TIDINGS_TRUSTED_PROXIES"), 1, "{name}: this setting admits the listener");
        }
    }
}

/// Starts the container of a workload with the files that Kubernetes mounts.
fn start_pod(objects: &[Value], workload: &Value, platform: &[(String, String)]) -> (ContainerRoot, ShippedProcess) {
    let pod = &workload["spec"]["template"]["spec"];
    let container = &pod["containers"][0];
    let files = ContainerRoot::new();
    let config = objects.iter().find(|object| object["kind"] == "ConfigMap").unwrap();
    files.write("/etc/tidings/tidings.toml", &files.placed(config["data"]["tidings.toml"].as_str().unwrap()));
    let volumes = pod["volumes"].as_array().unwrap();
    let secrets = &volumes.iter().find(|volume| volume["name"] == "secrets").expect("it has secrets")["secret"];
    assert_eq!(secrets["secretName"], "tidings");
    // Without a list, all entries are mounted.
    let all =
        json!([{ "key": "otp.secret", "path": "otp.secret" }, { "key": "webhook.secret", "path": "webhook.secret" }]);
    let items = if secrets["items"].is_array() { &secrets["items"] } else { &all };
    for item in items.as_array().unwrap() {
        let path = format!("/run/secrets/tidings/{}", item["path"].as_str().unwrap());
        write_secret(&files.path(&path), &secret(item["key"].as_str().unwrap()));
    }
    let mut environment = vec![];
    for variable in container["env"].as_array().unwrap() {
        // The only field that pods ask for is their address.
        let value = variable["value"].as_str().unwrap_or("127.0.0.1").replace("$(POD_IP)", "127.0.0.1");
        environment.push((variable["name"].as_str().unwrap().to_owned(), value));
    }
    environment.extend_from_slice(platform);
    let command: Vec<String> = serde_json::from_value(container["args"].clone()).unwrap();
    let process = ShippedProcess::start(&files, &command, &environment);
    (files, process)
}

/// Your service that delivers codes: counts the calls with a signature.
async fn code_service() -> (String, Arc<AtomicUsize>) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = calls.clone();
    let app = axum::Router::new().fallback(async move |headers: http::HeaderMap| {
        let is_signed = headers.keys().any(|name| name.as_str().contains("signature"));
        counted.fetch_add(usize::from(is_signed), Ordering::Relaxed);
    });
    tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
    (url, calls)
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_limit_codes_for_each_client_of_the_ingress_and_deliver_them() {
    let tables = DeployedTables::start().await;
    let (url, calls) = code_service().await;
    for (name, component) in [("single", None), ("fleet", Some("api"))] {
        let mut values = json!({
            "secretName": "tidings",
            "trustedProxies": "127.0.0.0/8",
            "allowedOrigins": "https://app.example",
            "otp": { "webhookUrl": format!("{url}/codes") },
            "webhook": { "url": format!("{url}/events") },
            "telemetry": { "otlpEndpoint": "http://127.0.0.1:1" },
        });
        if name == "fleet" {
            values["config"] = unreachable_engines().into();
        }
        let objects = rendered_with(name, &values);
        let before = calls.load(Ordering::Relaxed);
        let (_files, process) = start_pod(&objects, workload(&objects, component), &tables.environment());
        process.check_metrics(true).await;
        process.check_codes_per_client().await;
        assert_eq!(calls.load(Ordering::Relaxed) - before, 11, "each code is delivered");
        assert_eq!(process.allowed_origin("https://app.example").await.as_deref(), Some("https://app.example"));
        assert_eq!(process.allowed_origin("https://other.example").await, None);
    }
}

/// The settings of the fleet with Kafka and Redis at addresses where nothing listens.
fn unreachable_engines() -> String {
    let mut config = fleet_config();
    for (real, unused) in [
        ("b-1.example:9096,b-2.example:9096,b-3.example:9096", "127.0.0.1:1"),
        ("rediss://clustercfg.example:6379", "redis://127.0.0.1:1"),
    ] {
        assert!(config.contains(real), "{real}");
        config = config.replace(real, unused);
    }
    config
}

/// The workload of a component; of the only pod, without one.
fn workload<'a>(objects: &'a [Value], component: Option<&str>) -> &'a Value {
    let is_workload = |object: &&Value| {
        let label = object["metadata"]["labels"]["app.kubernetes.io/component"].as_str();
        object["spec"]["template"].is_object() && label == component
    };
    objects.iter().find(is_workload).expect("it is rendered")
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_of_every_role_start_with_their_own_secrets_and_can_be_scraped() {
    let tables = DeployedTables::start().await;
    let values = json!({
        "secretName": "tidings",
        "otp": { "webhookUrl": "http://127.0.0.1:1/codes" },
        "config": unreachable_engines(),
    });
    let objects = rendered_with("fleet", &values);
    for (role, engines) in [
        ("gateway", &["redis"][..]),
        ("ingest", &["dynamodb", "kafka", "redis"]),
        ("fanout", &["dynamodb", "kafka consumer", "redis"]),
        ("api", &["dynamodb", "kafka", "redis"]),
    ] {
        let (_files, process) = start_pod(&objects, workload(&objects, Some(role)), &tables.environment());
        process.check_metrics(true).await;
        process.check_engines(engines).await;
    }
}
