use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use crate::ServerChild;
use crate::chart::rendered;

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
