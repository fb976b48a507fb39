//! The health checks of the shipped deployments: read from their files, and made as Kubernetes, ECS and its load
//! balancer make them.

use std::path::Path;
use std::pin::Pin;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use ports::ProcessRole;
use serde_json::Value;
use tokio::task::JoinHandle;
use tokio::time::{interval, timeout};

use crate::process::{TestServer as Process, this_release};

/// How often a check is made, and how many equal answers in a row change its verdict.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CheckSettings {
    period: Duration,
    timeout: Duration,
    failures: usize,
    successes: usize,
}

/// The reaction of a deployment to a failed check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CheckAction {
    /// Takes it out of rotation.
    Remove,
    /// Restarts or replaces it, and takes it out of rotation.
    Restart,
}

/// Asks a process once.
type HealthQuestion = Box<dyn Fn() -> Pin<Box<dyn Future<Output = bool> + Send>> + Send + Sync>;

/// A check that is being made. It begins with the verdict that the process is healthy, and ends when it is dropped.
pub(crate) struct HealthCheck {
    pub(crate) name: String,
    pub(crate) action: CheckAction,
    settings: CheckSettings,
    verdict: Arc<CheckVerdict>,
    asking: JoinHandle<()>,
}

#[derive(Default)]
struct CheckVerdict {
    is_failed: AtomicBool,
    /// The number of answers so far.
    answers: AtomicUsize,
}

impl HealthCheck {
    fn start(name: String, action: CheckAction, settings: CheckSettings, ask: HealthQuestion) -> Self {
        let verdict = Arc::new(CheckVerdict::default());
        let theirs = verdict.clone();
        let asking = tokio::spawn(async move {
            let mut ticks = interval(settings.period);
            // Answers in a row that contradict the verdict.
            let mut contrary = 0;
            loop {
                ticks.tick().await;
                let is_well = timeout(settings.timeout, ask()).await.unwrap_or(false);
                let is_failed = theirs.is_failed.load(Ordering::Relaxed);
                contrary = if is_well == is_failed { contrary + 1 } else { 0 };
                if contrary >= if is_failed { settings.successes } else { settings.failures } {
                    theirs.is_failed.store(!is_failed, Ordering::Relaxed);
                    contrary = 0;
                }
                theirs.answers.fetch_add(1, Ordering::Relaxed);
            }
        });
        Self { name, action, settings, verdict, asking }
    }

    pub(crate) fn is_failed(&self) -> bool {
        self.verdict.is_failed.load(Ordering::Relaxed)
    }

    pub(crate) fn answers(&self) -> usize {
        self.verdict.answers.load(Ordering::Relaxed)
    }

    /// The number of answers after which a process that has failed is found.
    pub(crate) fn answers_to_decide(&self) -> usize {
        // The first answer may belong to a question from before.
        self.settings.failures + 1
    }
}

impl Drop for HealthCheck {
    fn drop(&mut self) {
        self.asking.abort();
    }
}

/// The documents of a file in `deploy/`.
fn documents(file: &str) -> Vec<Value> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy").join(file);
    let output = Command::new(engines::chart_render()).arg("--json").arg(path).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn seconds(value: &Value) -> Duration {
    Duration::from_secs(value.as_u64().unwrap_or_else(|| panic!("`{value}` is no number of seconds")))
}

fn count(value: &Value) -> usize {
    value.as_u64().unwrap_or_else(|| panic!("`{value}` is no number")) as usize
}

/// A check over HTTP: ready if the answer is 200.
fn get(url: String) -> HealthQuestion {
    let http = reqwest::Client::builder().pool_max_idle_per_host(0).build().unwrap();
    Box::new(move || {
        let request = http.get(&url).send();
        Box::pin(async move { request.await.is_ok_and(|answer| answer.status() == 200) })
    })
}

/// The target groups of the load balancer in the template for AWS.
pub(crate) struct TargetGroups(Value);

impl TargetGroups {
    pub(crate) fn read() -> Self {
        let template = documents("cloudformation/fleet.yaml").remove(0);
        let groups = &template["Resources"]["Fn::ForEach::Targets"];
        assert_eq!(groups[1], serde_json::json!(["Gateway", "Api"]), "the roles behind the load balancer");
        Self(groups[2]["${Role}Targets"]["Properties"].clone())
    }

    /// Checks a target, whose port for clients is at this base URL. ECS replaces a task that fails.
    pub(crate) fn check(&self, name: String, base_url: &str) -> HealthCheck {
        let group = &self.0;
        let settings = CheckSettings {
            period: seconds(&group["HealthCheckIntervalSeconds"]),
            timeout: seconds(&group["HealthCheckTimeoutSeconds"]),
            failures: count(&group["UnhealthyThresholdCount"]),
            successes: count(&group["HealthyThresholdCount"]),
        };
        let path = group["HealthCheckPath"].as_str().unwrap();
        HealthCheck::start(name, CheckAction::Restart, settings, get(format!("{base_url}{path}")))
    }
}

/// Every check that the shipped deployments make of a process of this role.
pub(crate) fn shipped_checks(role: ProcessRole, number: usize, process: &Process) -> Vec<HealthCheck> {
    let mut checks = vec![container_check(role, number, process)];
    let manifests = documents("kubernetes/fleet.yaml");
    let is_of_role = |object: &&Value| {
        object["kind"] == "Deployment" && object["metadata"]["labels"]["app.kubernetes.io/component"] == role.name()
    };
    let deployment = manifests.iter().find(is_of_role).expect("the role has a Deployment");
    let container = &deployment["spec"]["template"]["spec"]["containers"][0];
    for (key, action) in [("readinessProbe", CheckAction::Remove), ("livenessProbe", CheckAction::Restart)] {
        let probe = &container[key];
        assert_eq!(probe["httpGet"]["port"], "admin");
        let settings = CheckSettings {
            period: seconds(&probe["periodSeconds"]),
            timeout: seconds(&probe["timeoutSeconds"]),
            failures: count(&probe["failureThreshold"]),
            // The default of Kubernetes.
            successes: probe.get("successThreshold").map_or(1, count),
        };
        let url = format!("{}{}", process.admin_url(), probe["httpGet"]["path"].as_str().unwrap());
        checks.push(HealthCheck::start(format!("{role} {number}: {key}"), action, settings, get(url)));
    }
    if matches!(role, ProcessRole::Gateway | ProcessRole::Api) {
        checks.push(TargetGroups::read().check(format!("{role} {number}: target group"), &process.base_url()));
    }
    checks
}

/// The health check of the container on ECS, which replaces a task that fails it.
fn container_check(role: ProcessRole, number: usize, process: &Process) -> HealthCheck {
    let template = documents("cloudformation/fleet.yaml").remove(0);
    let task = &template["Resources"]["Fn::ForEach::Roles"][2]["${Role}Task"]["Properties"];
    let containers = task["ContainerDefinitions"].as_array().unwrap();
    let container = containers.iter().find(|container| container["Name"] == "tidings").unwrap();
    let check = &container["HealthCheck"];
    let words: Vec<String> = serde_json::from_value(check["Command"].clone()).unwrap();
    let ["CMD", "/usr/bin/tidings", arguments @ ..] = &*words.iter().map(|word| &**word).collect::<Vec<_>>() else {
        panic!("{words:?}")
    };
    let arguments: Vec<String> = arguments.iter().map(|&word| word.to_owned()).collect();
    let admin_listen = process.admin_url().trim_start_matches("http://").to_owned();
    let ask: HealthQuestion = Box::new(move || {
        let mut command = tokio::process::Command::new(this_release());
        command.args(&arguments).env("TIDINGS_ADMIN__LISTEN", &admin_listen);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
        Box::pin(async move { command.status().await.is_ok_and(|status| status.success()) })
    });
    let settings = CheckSettings {
        period: seconds(&check["Interval"]),
        timeout: seconds(&check["Timeout"]),
        failures: count(&check["Retries"]),
        successes: 1,
    };
    HealthCheck::start(format!("{role} {number}: container"), CheckAction::Restart, settings, ask)
}
