use std::process::Command;

use serde_json::Value;

use crate::{root, said};

/// A workflow of the hosting service, as JSON.
fn workflow(name: &str) -> Value {
    let file = root().join(".github/workflows").join(name);
    let lines = said(Command::new(engines::chart_render()).arg("--json").arg(file));
    serde_json::from_str(lines.trim()).unwrap()
}

/// The commands of a job.
fn commands(job: &Value) -> Vec<&str> {
    job["steps"].as_array().unwrap().iter().filter_map(|step| step["run"].as_str()).collect()
}

#[test]
fn ci_runs_the_whole_check_of_the_tree() {
    let ci = workflow("ci.yml");
    assert!(commands(&ci["jobs"]["check"]).contains(&".ci/run"), "{ci}");
    let of_on = ci["on"].as_object().unwrap();
    assert!(of_on.contains_key("pull_request") && of_on.contains_key("workflow_call"), "{ci}");
}

#[test]
fn a_release_follows_the_check_and_is_packed_by_xtask() {
    let release = workflow("release.yml");
    assert_eq!(release["on"]["push"]["tags"], serde_json::json!(["v*"]));
    let jobs = release["jobs"].as_object().unwrap();
    assert_eq!(jobs["check"]["uses"], "./.github/workflows/ci.yml");
    for job in ["archive", "sbom"] {
        assert_eq!(jobs[job]["needs"], "check", "{job}");
    }
    assert_eq!(jobs["image"]["needs"], serde_json::json!(["check", "advisories"]), "the job publishes the image");
    let builds = jobs["archive"]["strategy"]["matrix"]["include"].as_array().unwrap();
    let targets: Vec<_> = builds.iter().map(|build| build["target"].as_str().unwrap()).collect();
    assert_eq!(targets, ["x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu"]);
    let starts = |job: &str, start: &str| commands(&jobs[job]).iter().any(|command| command.starts_with(start));
    assert!(starts("archive", "cargo xtask release --tag \"$GITHUB_REF_NAME\" --target "));
    assert!(starts("sbom", "cargo xtask sbom"));
    assert!(starts("advisories", "cargo xtask audit"));
    assert!(commands(&jobs["image"]).iter().any(|command| command.contains("deploy/container/Containerfile")));
    assert_eq!(jobs["publish"]["needs"], serde_json::json!(["advisories", "archive", "sbom", "image"]));
}
