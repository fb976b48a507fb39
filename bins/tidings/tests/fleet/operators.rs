//! Named operators of a fleet: one file that is mounted everywhere. `roles` runs the rule on its fleet.

use std::fs;
use std::ops::Deref;
use std::path::Path;

use reqwest::Method;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::process::Command;

use crate::process::{TestServer as Process, this_release};
use crate::server::{RestResponse, TestServer};

/// A fleet whose processes have the operators of one file.
pub(crate) struct OperatedFleet {
    server: TestServer,
    directory: TempDir,
    /// The token of an operator with the role `viewer`, and of one with the role `admin`.
    viewer: String,
    admin: String,
}

impl OperatedFleet {
    pub(crate) async fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let viewer = edit(directory.path(), &["add", "ann", "--role", "viewer"]).await;
        let admin = edit(directory.path(), &["add", "bea", "--role", "admin"]).await;
        let file = directory.path().join(FILE);
        let server = TestServer::start_with(&[("TIDINGS_ADMIN__OPERATORS_FILE", file.to_str().unwrap())]).await;
        Self { server, directory, viewer, admin }
    }
}

impl Deref for OperatedFleet {
    type Target = TestServer;

    fn deref(&self) -> &TestServer {
        &self.server
    }
}

const FILE: &str = "operators.json";

/// Changes the file of operators, and returns the output of the command.
async fn edit(directory: &Path, arguments: &[&str]) -> String {
    let mut command = Command::new(this_release());
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.as_encoded_bytes().starts_with(b"TIDINGS_")) {
        command.env_remove(name);
    }
    command.args(["admin", "operator"]).args(arguments).arg("--file").arg(directory.join(FILE));
    let output = command.output().await.unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

async fn call(process: &Process, method: Method, path: &str, token: &str) -> RestResponse {
    let url = format!("{}/admin/v1{path}", process.admin_url());
    RestResponse::of(reqwest::Client::new().request(method, url).bearer_auth(token).json(&json!({}))).await
}

/// Operators that the audit log of a process names, with their actions.
fn actions(process: &Process) -> Vec<Value> {
    let text = fs::read_to_string(process.data_dir().join("admin-audit.jsonl")).unwrap();
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    lines.map(|line| json!([line["by"]["operator"], line["action"]])).collect()
}

pub(crate) async fn operators_of_a_mounted_file_have_their_roles_at_every_process(fleet: &OperatedFleet) {
    let OperatedFleet { viewer, admin, .. } = fleet;
    for (role, n, process) in fleet.fleet.members() {
        let outcome =
            async |method: Method, path: &str, token: &str| call(process, method, path, token).await.outcome();
        assert_eq!(outcome(Method::GET, "/nodes", viewer).await, "200", "{role} {n}");
        assert_eq!(call(process, Method::GET, "/nodes", "of nobody").await.status, 401, "{role} {n}");
        let refused = call(process, Method::GET, "/operators", viewer).await.refused(403, "FORBIDDEN");
        assert_eq!(refused["details"]["needed_role"], "admin", "{role} {n}");
        assert_eq!(outcome(Method::PUT, "/log-level", viewer).await, "403 FORBIDDEN", "{role} {n}");
        let listed = call(process, Method::GET, "/operators", admin).await.body;
        let names: Vec<_> = listed["operators"].as_array().unwrap().iter().map(|it| &it["name"]).collect();
        assert_eq!(names, ["root", "ann", "bea"], "{role} {n}");
        // A process does not write the mounted file.
        assert_eq!(outcome(Method::DELETE, "/operators/ann", admin).await, "400 INVALID_OPERATION", "{role} {n}");
        let recorded = actions(process);
        for expected in [json!(["ann", "PUT /log-level"]), json!(["bea", "DELETE /operators/{name}"])] {
            assert!(recorded.contains(&expected), "{role} {n}: {recorded:?}");
        }
    }

    edit(fleet.directory.path(), &["remove", "ann"]).await;
    let rotated = edit(fleet.directory.path(), &["rotate", "bea"]).await;
    for process in fleet.fleet.processes() {
        let statuses = async || {
            let status = async |token: &str| call(process, Method::GET, "/nodes", token).await.status.as_u16();
            [status(viewer).await, status(admin).await, status(&rotated).await]
        };
        fleet.until(async || statuses().await == [401, 401, 200]).await;
    }
}
