use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use expect_test::expect_file;
use serde_json::{Map, Value};

use crate::pod::service_links;
use crate::{root, said};

/// Custom resource kinds, which the schemas of Kubernetes do not cover.
const OTHERS: [&str; 1] = ["ServiceMonitor"];

fn chart() -> PathBuf {
    root().join("deploy/helm/tidings")
}

fn values(name: &str) -> PathBuf {
    chart().join("ci").join(name).with_extension("yaml")
}

fn render(name: &str) -> String {
    render_with(name, &[])
}

/// Renders the chart with values over those of a file.
fn render_with(name: &str, more: &[PathBuf]) -> String {
    let mut command = Command::new(engines::chart_render());
    said(command.arg(chart()).args(["tidings", "tidings"]).arg(values(name)).args(more))
}

/// The documents of a file.
fn documents(file: &Path) -> Vec<Value> {
    let lines = said(Command::new(engines::chart_render()).arg("--json").arg(file));
    lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The objects that the chart renders from some values.
pub(crate) fn rendered(name: &str) -> Vec<Value> {
    rendered_with(name, &Value::Object(Map::new()))
}

/// The objects that the chart renders from some values, and others over them.
pub(crate) fn rendered_with(name: &str, more: &Value) -> Vec<Value> {
    let directory = tempfile::tempdir().unwrap();
    let [values, file] = ["values.yaml", "rendered.yaml"].map(|name| directory.path().join(name));
    // JSON is YAML.
    fs::write(&values, more.to_string()).unwrap();
    fs::write(&file, render_with(name, &[values])).unwrap();
    documents(&file)
}

/// The settings in the values of a fleet.
pub(crate) fn fleet_config() -> String {
    documents(&values("fleet"))[0]["config"].as_str().unwrap().to_owned()
}

/// Renders the chart, validates it against the schemas of Kubernetes, and returns the objects.
fn validated(name: &str) -> Vec<Value> {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("rendered.yaml");
    let rendered = render(name);
    fs::write(&file, &rendered).unwrap();
    let objects = documents(&file);
    let is_others = |document: &&str| OTHERS.iter().any(|kind| document.contains(&format!("\nkind: {kind}\n")));
    let ours: Vec<&str> = rendered.split("\n---\n").filter(|document| !is_others(document)).collect();
    fs::write(&file, ours.join("\n---\n")).unwrap();
    let passed = said(Command::new(engines::kubernetes_validate()).args(["--strict", "--no-warn"]).arg(&file));
    let looked_at = passed.lines().filter(|line| line.contains(" passed for resource ")).count();
    assert_eq!(looked_at, ours.len(), "{passed}");
    objects
}

fn kinds(objects: &[Value]) -> BTreeSet<&str> {
    objects.iter().map(|object| object["kind"].as_str().unwrap()).collect()
}

#[test]
fn the_manifests_are_the_rendered_chart() {
    expect_file!["../../../../deploy/kubernetes/single.yaml"].assert_eq(&render("single"));
    expect_file!["../../../../deploy/kubernetes/fleet.yaml"].assert_eq(&render("fleet"));
}

#[test]
fn kubernetes_takes_one_pod_on_a_volume() {
    let objects = validated("single");
    let expected = ["ConfigMap", "NetworkPolicy", "Service", "ServiceAccount", "StatefulSet"];
    assert_eq!(kinds(&objects), BTreeSet::from(expected));
}

#[test]
fn kubernetes_takes_a_fleet_of_four_roles() {
    let objects = validated("fleet");
    for kind in ["Deployment", "Service", "PodDisruptionBudget", "HorizontalPodAutoscaler", "ServiceAccount"] {
        assert_eq!(objects.iter().filter(|object| object["kind"] == kind).count(), 4, "{kind}");
    }
    let monitor = objects.iter().find(|object| object["kind"] == "ServiceMonitor").unwrap();
    assert_eq!(monitor["spec"]["endpoints"][0]["port"], "admin");
}

#[test]
fn a_fleet_is_not_rendered_without_a_sender_of_codes() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("values.yaml");
    let rendered = |otp: &str| {
        fs::write(&file, format!("otp: {otp}")).unwrap();
        let mut render = Command::new(engines::chart_render());
        let output = render.arg(chart()).args(["tidings", "tidings"]).arg(values("fleet")).arg(&file).output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        if output.status.success() { Ok(text(output.stdout)) } else { Err(text(output.stderr)) }
    };
    let refused = rendered(r#"{ sender: "" }"#).unwrap_err();
    assert!(refused.contains("set otp.webhookUrl; or otp.sender to `config`"), "{refused}");
    assert!(!rendered("{ sender: config }").unwrap().contains("AUTH__OTP__SENDER"));
    let senders = |otp| rendered(otp).unwrap().matches("TIDINGS_AUTH__OTP__SENDER, value: log").count();
    assert_eq!(senders("{ sender: log }"), 1, "only `api` sends codes");
}

#[test]
fn kubernetes_takes_every_branch_of_the_chart() {
    let objects = validated("everything");
    assert!(kinds(&objects).contains("Ingress") && !kinds(&objects).contains("NetworkPolicy"));
    let scaled = objects.iter().find(|object| object["kind"] == "HorizontalPodAutoscaler").unwrap();
    assert_eq!(scaled["spec"]["metrics"][0]["pods"]["metric"]["name"], "tidings_gateway_connections");
}

#[test]
fn pods_are_restricted_probed_and_drained_before_they_end() {
    for name in ["single", "fleet", "everything"] {
        let objects = validated(name);
        let pods: Vec<&Value> =
            objects.iter().map(|object| &object["spec"]["template"]["spec"]).filter(|pod| pod.is_object()).collect();
        assert!(!pods.is_empty());
        for pod in pods {
            assert_eq!(pod["enableServiceLinks"], false);
            let (security, container) = (&pod["securityContext"], &pod["containers"][0]);
            assert_eq!(
                (&security["runAsNonRoot"], &security["seccompProfile"]["type"]),
                (&true.into(), &"RuntimeDefault".into())
            );
            let restricted = &container["securityContext"];
            assert_eq!(restricted["allowPrivilegeEscalation"], false);
            assert_eq!(restricted["readOnlyRootFilesystem"], true);
            assert_eq!(restricted["capabilities"]["drop"][0], "ALL");
            assert_eq!(container["livenessProbe"]["httpGet"]["path"], "/healthz");
            assert_eq!(container["readinessProbe"]["httpGet"]["path"], "/readyz");
            for probe in ["startupProbe", "livenessProbe", "readinessProbe"] {
                assert_eq!(container[probe]["httpGet"]["port"], "admin", "clients cannot overload it");
            }
            let drain: Vec<&str> = container["lifecycle"]["preStop"]["exec"]["command"]
                .as_array()
                .unwrap()
                .iter()
                .filter_map(Value::as_str)
                .collect();
            let ["/usr/bin/tidings", "admin", "drain", "--config", _, "--timeout", seconds] = drain[..] else {
                panic!("{drain:?}")
            };
            // The shutdown of a process takes 10 s more.
            let grace = pod["terminationGracePeriodSeconds"].as_u64().unwrap();
            assert!(grace > seconds.parse::<u64>().unwrap() + 10);
            assert!(
                container["resources"]["limits"]["memory"].is_string()
                    && container["resources"]["requests"]["cpu"].is_string()
            );
        }
    }
}

#[test]
fn pods_of_a_role_get_the_secrets_of_that_role_alone() {
    let objects = rendered("fleet");
    for (role, expected) in [
        ("gateway", "rpc.gateway.secret rpc.callers redis.password"),
        ("ingest", "assertion.secret rpc.ingest.secret rpc.callers kafka.password redis.password"),
        ("fanout", "rpc.fanout.secret rpc.callers kafka.password redis.password"),
        ("api", "auth.secret assertion.secret rpc.api.secret rpc.callers kafka.password redis.password"),
    ] {
        let is_of_role = |object: &&Value| object["metadata"]["labels"]["app.kubernetes.io/component"] == role;
        let deployment = objects.iter().filter(is_of_role).find(|object| object["kind"] == "Deployment").unwrap();
        let volumes = deployment["spec"]["template"]["spec"]["volumes"].as_array().unwrap();
        let secrets = volumes.iter().find(|volume| volume["name"] == "secrets").unwrap();
        let items = secrets["secret"]["items"].as_array().unwrap();
        let entries: Vec<&str> = items.iter().map(|item| item["key"].as_str().unwrap()).collect();
        assert_eq!(entries.join(" "), expected, "{role}");
    }
}

#[test]
fn values_satisfy_their_schema_and_mistakes_do_not() {
    let schema: Value = serde_json::from_str(&fs::read_to_string(chart().join("values.schema.json")).unwrap()).unwrap();
    let schema = jsonschema::validator_for(&schema).unwrap();
    let all = documents(&chart().join("values.yaml")).remove(0);
    for name in ["single", "fleet", "everything"] {
        let mut merged = all.clone();
        merge(&mut merged, &documents(&values(name))[0]);
        let wrong: Vec<String> = schema.iter_errors(&merged).map(|error| error.to_string()).collect();
        assert_eq!(wrong, [""; 0], "{name}");
    }
    for (key, value) in [("shape", Value::from("both")), ("drainSeconds", "45".into()), ("replicas", 3.into())] {
        let mut wrong = all.clone();
        wrong[key] = value;
        assert!(!schema.is_valid(&wrong), "{key}");
    }
}

/// Merges values over existing ones, as Helm does.
fn merge(into: &mut Value, more: &Value) {
    match (into, more) {
        (Value::Object(into), Value::Object(more)) => {
            for (key, value) in more {
                merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (into, more) => *into = more.clone(),
    }
}

#[test]
fn the_binary_takes_the_settings_that_pods_are_given() {
    let directory = tempfile::tempdir().unwrap();
    for (name, pods) in [("single", 1), ("fleet", 4)] {
        let objects = rendered(name);
        let config = objects.iter().find(|object| object["kind"] == "ConfigMap").unwrap();
        let settings = directory.path().join("tidings.toml");
        fs::write(&settings, config["data"]["tidings.toml"].as_str().unwrap()).unwrap();
        let mut taken = 0;
        for object in objects.iter().filter(|object| object["spec"]["template"].is_object()) {
            let environment = object["spec"]["template"]["spec"]["containers"][0]["env"].as_array().unwrap();
            let mut tidings = Command::new(env!("CARGO_BIN_EXE_tidings"));
            tidings.args(["store", "schema", "show", "--config"]).arg(&settings).env_clear();
            for variable in environment.iter().filter(|variable| variable["value"].is_string()) {
                tidings.env(variable["name"].as_str().unwrap(), variable["value"].as_str().unwrap());
            }
            // A custom manifest may leave service links on.
            tidings.envs(service_links(&objects));
            assert!(said(&mut tidings).contains("chat_counters"));
            taken += 1;
        }
        assert_eq!(taken, pods);
    }
}
