use std::collections::BTreeMap;
use std::process::Command;

use expect_test::expect_file;
use serde_json::Value;

use crate::container::image_environment;
use crate::shipped::{ContainerRoot, DeployedEngines, DeployedTables, ShippedProcess, secret};
use crate::stack::Stack;
use crate::{root, said};

/// The required parameters. Nothing listens at these addresses; a test with engines sets its own.
const PARAMETERS: [(&str, &str); 9] = [
    ("LoadBalancerNetworks", "127.0.0.0/8"),
    ("KafkaBrokers", "127.0.0.1:1"),
    ("RedisUrl", "redis://127.0.0.1:1"),
    ("AuthSecretArn", "arn:aws:secretsmanager:eu-central-1:1:secret:auth"),
    ("AssertionSecretArn", "arn:aws:secretsmanager:eu-central-1:1:secret:assertion"),
    ("RpcSecretArn", "arn:aws:secretsmanager:eu-central-1:1:secret:rpc"),
    ("KafkaPasswordArn", "arn:aws:secretsmanager:eu-central-1:1:secret:kafka"),
    ("RedisPasswordArn", "arn:aws:secretsmanager:eu-central-1:1:secret:redis"),
    ("AllowedOrigins", "https://app.example"),
];

/// The optional parameters.
const MORE: [(&str, &str); 6] = [
    ("OtpWebhookUrl", "https://127.0.0.1:1/codes"),
    ("OtpSecretArn", "arn:aws:secretsmanager:eu-central-1:1:secret:otp"),
    ("WebhookUrl", "https://127.0.0.1:1/events"),
    ("WebhookSecretArn", "arn:aws:secretsmanager:eu-central-1:1:secret:webhook"),
    ("OtlpEndpoint", "http://127.0.0.1:1"),
    ("MonitoringSecurityGroup", "sg-0123"),
];

#[test]
fn cfn_lint_finds_nothing_wrong_with_the_fleet() {
    let template = root().join("deploy/cloudformation/fleet.yaml");
    said(Command::new(engines::cfn_lint()).args(["--include-checks", "I", "--"]).arg(template));
}

#[test]
fn the_alarms_are_generated_from_the_schema() {
    let mut show = Command::new(env!("CARGO_BIN_EXE_tidings"));
    let alarms = said(show.args(["store", "schema", "show", "--format", "alarms"]).env_clear());
    expect_file!["../../../../deploy/cloudformation/alarms.json"].assert_eq(&alarms);
    let template = root().join("deploy/cloudformation/alarms.json");
    said(Command::new(engines::cfn_lint()).args(["--include-checks", "I", "--"]).arg(template));
}

/// The contents of Secrets Manager, as docs/deploy.md describes them: a role finds only its own entries.
fn secret_value(value_from: &str) -> String {
    let (_, name) = value_from.split_once(":secret:").unwrap_or_else(|| panic!("{value_from}"));
    let (name, entry) = name.split_once(':').unwrap_or((name, ""));
    match (name, entry.trim_end_matches(':')) {
        ("rpc", "callers") => secret("rpc.callers"),
        ("rpc", role) => secret(&format!("rpc.{role}.secret")),
        ("assertion", "api" | "ingest") | ("auth" | "otp" | "webhook", "api") => secret(&format!("{name}.secret")),
        ("kafka", user @ ("ingest" | "fanout" | "api")) => secret(&format!("kafka.{user}.password")),
        ("redis", "") => secret("redis.password"),
        ("auth" | "assertion" | "otp" | "webhook" | "kafka", "gateway" | "ingest" | "fanout") => String::new(),
        _ => panic!("{value_from}"),
    }
}

fn pairs(list: &Value, value: &str) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_else(|| panic!("{value} is no text")).to_owned();
    list.as_array().unwrap().iter().map(|pair| (text(&pair["Name"]), text(&pair[value]))).collect()
}

fn words(list: &Value) -> Vec<String> {
    serde_json::from_value(list.clone()).unwrap()
}

/// Runs the containers of a task in their order: the one that writes the files of secrets, then the service.
fn start_task(stack: &Stack, role: &str, platform: &[(String, String)]) -> (ContainerRoot, ShippedProcess) {
    let task = stack.of_role(role, "Task");
    let containers = task["Properties"]["ContainerDefinitions"].as_array().unwrap();
    let container = |name: &str| containers.iter().find(|container| container["Name"] == name).unwrap();
    let files = ContainerRoot::new();
    let command = words(&container("secrets")["Command"]);
    let secrets = pairs(&container("secrets")["Secrets"], "ValueFrom");
    let mut writing = Command::new(&command[0]);
    writing.args(command[1..].iter().map(|word| files.placed(word)));
    said(writing.envs(secrets.into_iter().map(|(name, from)| (name, secret_value(&from)))));

    let service = container("tidings");
    let mut environment: BTreeMap<String, String> = image_environment();
    environment.extend(pairs(&service["Environment"], "Value"));
    environment.extend(platform.iter().cloned());
    let environment: Vec<_> = environment.into_iter().collect();
    let process = ShippedProcess::start(&files, &words(&service["Command"]), &environment);
    (files, process)
}

#[tokio::test(flavor = "multi_thread")]
async fn tasks_of_every_role_reach_their_engines_deliver_codes_and_push_messages_with_all_parameters() {
    let engines = DeployedEngines::start().await;
    let mut codes = engines.code_receiver().await;
    let own = engines.parameters(&codes);
    let own = own.each_ref().map(|(name, value)| (*name, &**value));
    let stack = Stack::of(&[&PARAMETERS[..], &MORE[..], &own[..]].concat());
    assert_eq!(stack.violated_rules(), [""; 0]);
    assert!(stack.has("Monitoring"), "Prometheus is let in");
    let environment = engines.environment();
    let mut tasks = vec![];
    for (role, engines) in [
        ("Gateway", &["redis"][..]),
        ("Ingest", &["dynamodb", "kafka", "redis"]),
        ("Fanout", &["dynamodb", "kafka consumer", "redis"]),
        ("Api", &["dynamodb", "kafka", "redis"]),
    ] {
        let (files, process) = start_task(&stack, role, &environment);
        process.check_metrics(true).await;
        process.check_engines(engines).await;
        tasks.push((files, process));
    }
    let (gateway, api) = (&tasks[0].1, &tasks[3].1);
    let (ann, bob) = (api.sign_up("Ann", 1, &mut codes).await, api.sign_up("Bob", 2, &mut codes).await);
    api.check_push(gateway, &ann, &bob).await;
    for (_, process) in &tasks {
        process.check_ready().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_limits_codes_for_each_client_of_the_load_balancer() {
    let tables = DeployedTables::start().await;
    let stack = Stack::of(&[&PARAMETERS[..], &[("OtpSender", "log")]].concat());
    assert!(!stack.has("Monitoring"), "nobody is let in");
    let (_files, process) = start_task(&stack, "Api", &tables.environment());
    process.check_metrics(false).await;
    process.check_codes_per_client().await;
    assert_eq!(process.allowed_origin("https://app.example").await.as_deref(), Some("https://app.example"));
    assert_eq!(process.allowed_origin("https://other.example").await, None);
}
