//! Named operators, their tokens and the audit log of their actions and reads: the real binary.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use reqwest::Method;
use serde_json::{Value, json};
use tokio::process::Command;

use crate::server::{RestResponse, TestServer};
use crate::webhook::{said, tidings};

/// Runs a command with a token from a file; without one it would be that of `root`.
async fn as_operator(server: &TestServer, token_file: &Path, arguments: &[&str]) -> Output {
    tidings(server, &[arguments, &["--token-file", token_file.to_str().unwrap()]].concat()).await
}

/// Runs a command that calls no service.
async fn offline(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidings"));
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.as_encoded_bytes().starts_with(b"TIDINGS_")) {
        command.env_remove(name);
    }
    command.args(arguments).output().await.unwrap()
}

async fn add(server: &TestServer, name: &str, role: &str) -> String {
    said(&tidings(server, &["admin", "operator", "add", name, "--role", role]).await).trim().to_owned()
}

async fn call(server: &TestServer, method: Method, path: &str, token: &str) -> RestResponse {
    let url = format!("{}/admin/v1{path}", server.admin_url());
    RestResponse::of(reqwest::Client::new().request(method, url).bearer_auth(token)).await
}

async fn status(server: &TestServer, path: &str, token: &str) -> u16 {
    call(server, Method::GET, path, token).await.status.as_u16()
}

/// The operator that always exists.
const ROOT: &str = "root";

fn root_token(server: &TestServer) -> String {
    let file: Value = serde_json::from_slice(&fs::read(server.data_dir().join("admin.json")).unwrap()).unwrap();
    file["token"].as_str().unwrap().to_owned()
}

fn trail(server: &TestServer) -> PathBuf {
    server.data_dir().join("admin-audit.jsonl")
}

/// The lines of the audit log.
fn lines(server: &TestServer) -> Vec<Value> {
    let text = fs::read_to_string(trail(server)).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[tokio::test]
async fn operators_are_added_rotated_and_removed_while_the_service_runs() {
    let server = TestServer::start().await;
    let first = add(&server, "ann", "viewer").await;
    assert_eq!(status(&server, "/reports", &first).await, 200);
    let file = server.data_dir().join("operators.json");
    assert!(!fs::read_to_string(&file).unwrap().contains(&first), "digests only");
    assert!(!fs::read_to_string(trail(&server)).unwrap().contains(&first));
    assert!(!server.log().contains(&first));
    let again = tidings(&server, &["admin", "operator", "add", "ann", "--role", "admin"]).await;
    assert_eq!(again.status.code(), Some(1), "{again:?}");

    let rotate = ["admin", "operator", "rotate", "ann"];
    let second = said(&tidings(&server, &[&rotate[..], &["--overlap", "1h"]].concat()).await).trim().to_owned();
    assert_eq!([status(&server, "/reports", &first).await, status(&server, "/reports", &second).await], [200, 200]);
    let third = said(&tidings(&server, &rotate).await).trim().to_owned();
    let all = [&first, &second, &third];
    let mut statuses = Vec::new();
    for token in all {
        statuses.push(status(&server, "/reports", token).await);
    }
    assert_eq!(statuses, [401, 401, 200]);

    let listed = said(&tidings(&server, &["admin", "operator", "list", "--json"]).await).to_owned();
    let listed: Value = serde_json::from_str(&listed).unwrap();
    let names: Vec<_> = listed["operators"].as_array().unwrap().iter().map(|it| (&it["name"], &it["role"])).collect();
    assert_eq!(names, [(&json!("root"), &json!("admin")), (&json!("ann"), &json!("viewer"))]);

    said(&tidings(&server, &["admin", "operator", "remove", "ann"]).await);
    assert_eq!(status(&server, "/reports", &third).await, 401);
    call(&server, Method::DELETE, "/operators/root", &root_token(&server)).await.refused(400, "INVALID_OPERATION");
}

#[tokio::test]
async fn operators_survive_a_restart() {
    let mut server = TestServer::start().await;
    let ann = add(&server, "ann", "viewer").await;
    server.kill().await;
    server.restart().await;
    assert_eq!(status(&server, "/reports", &ann).await, 200);
}

#[tokio::test]
async fn the_token_of_root_is_rotated_and_stays_in_its_file() {
    let server = TestServer::start().await;
    let old = root_token(&server);
    let admin = add(&server, "bea", "admin").await;
    let path = &format!("/operators/{ROOT}/rotate");
    let url = format!("{}/admin/v1{path}", server.admin_url());
    let request = reqwest::Client::new().post(url).bearer_auth(&admin).json(&json!({}));
    let answer = RestResponse::of(request).await;
    let new = root_token(&server);
    assert_ne!(new, old);
    assert_eq!(answer.body, json!({ "name": "root", "token_file": "admin.json" }), "no operator is given it");
    assert_eq!([status(&server, "/nodes", &old).await, status(&server, "/nodes", &new).await], [401, 200]);
    // Commands find the new token where they found the old one.
    let said = said(&tidings(&server, &["admin", "operator", "rotate", "root"]).await).to_owned();
    assert!(said.contains("admin.json") && !said.contains(&root_token(&server)), "{said}");
    assert_eq!(status(&server, "/nodes", &new).await, 401);
}

#[tokio::test]
async fn a_mounted_file_of_operators_is_followed_and_not_written() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("operators.json");
    let path = file.to_str().unwrap();
    let edit = async |arguments: &[&str]| {
        let output = offline(&[&["admin", "operator"], arguments, &["--file", path]].concat()).await;
        said(&output).trim().to_owned()
    };
    let ann = edit(&["add", "ann", "--role", "support"]).await;
    let server = TestServer::start_with(&[("TIDINGS_ADMIN__OPERATORS_FILE", path)]).await;
    assert_eq!(status(&server, "/reports", &ann).await, 200);
    let body = json!({ "name": "cem", "role": "viewer" });
    let url = format!("{}/admin/v1/operators", server.admin_url());
    let request = reqwest::Client::new().post(url).bearer_auth(root_token(&server)).json(&body);
    let refused = RestResponse::of(request).await.refused(400, "INVALID_OPERATION");
    assert!(refused["message"].as_str().unwrap().contains("admin.operators_file"), "{refused}");

    let bob = edit(&["add", "bob", "--role", "viewer"]).await;
    server.until(async || status(&server, "/reports", &bob).await == 200).await;
    edit(&["remove", "ann"]).await;
    server.until(async || status(&server, "/reports", &ann).await == 401).await;
    // A file that cannot be read locks out no operator.
    fs::write(&file, "{").unwrap();
    server.until(async || server.log().contains("could not read the operators; keeping the current ones")).await;
    assert_eq!(status(&server, "/reports", &bob).await, 200);
}

#[tokio::test]
async fn every_read_is_recorded_with_its_operator_and_without_phone_numbers() {
    let server = TestServer::start().await;
    let user = server.sign_up("Ulf").await;
    let token = add(&server, "ann", "viewer").await;
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("ann.token");
    fs::write(&file, format!("{token}\n")).unwrap();
    let begun = lines(&server).len();
    said(&as_operator(&server, &file, &["admin", "user", "find", &user.phone_number]).await);
    said(&as_operator(&server, &file, &["admin", "user", "show", &user.user_id]).await);
    let refused = as_operator(&server, &file, &["admin", "user", "export", &user.user_id]).await;
    let reason = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(reason.contains("it needs the role `support`, and `ann` has the role `viewer`"), "{reason}");
    // These name no user, and the console asks for them every other second.
    for path in ["/pulse", "/nodes", "/gateways"] {
        assert_eq!(status(&server, path, &token).await, 200);
    }

    let recorded = lines(&server).split_off(begun);
    let facts: Vec<_> = recorded.iter().map(|line| json!([line["action"], line["request"], line["status"]])).collect();
    let shown = json!(["GET /users/{id}", null, 200]);
    assert_eq!(
        facts,
        [
            json!(["GET /search", { "q": "a phone number", "user_id": user.user_id }, 200]),
            shown,
            json!(["POST /users/{id}/export", null, 403]),
        ]
    );
    for line in &recorded {
        assert_eq!((&line["by"]["operator"], &line["read"]), (&json!("ann"), &json!(true)), "{line}");
    }
    assert_eq!(recorded[1]["target"], format!("/users/{}", user.user_id));
    let text = fs::read_to_string(trail(&server)).unwrap();
    assert!(!text.contains(&user.phone_number[1..]) && !text.contains(&token), "{text}");

    let asked = async |query: &str| {
        let answer = call(&server, Method::GET, &format!("/audit{query}"), &token).await.body;
        let actions = answer["actions"].as_array().unwrap().clone();
        actions.iter().map(|action| action["action"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(asked("").await, ["POST /operators"], "actions");
    let latest = ["GET /audit", "POST /users/{id}/export", "GET /users/{id}", "GET /search"];
    assert_eq!(asked("?reads=true&limit=4").await, latest);
}

#[tokio::test]
async fn an_audit_line_that_was_changed_or_removed_is_named() {
    let mut server = TestServer::start().await;
    let root = root_token(&server);
    let suspend = async |server: &TestServer| {
        add(server, "ann", "viewer").await;
        said(&tidings(server, &["admin", "operator", "remove", "ann"]).await);
    };
    suspend(&server).await;
    assert_eq!(status(&server, "/reports", &root).await, 200);
    // The chain continues after a crash, and a line that the crash has truncated is distinguished from a changed one.
    server.kill().await;
    let path = trail(&server);
    let whole = fs::read(&path).unwrap();
    fs::write(&path, [&whole[..], br#"{"id":"01M7G2"#].concat()).unwrap();
    server.restart().await;
    suspend(&server).await;
    let log = server.log();
    let (_, last_hash) = log.rsplit_once("audit_hash=").unwrap();
    let last_hash: String = last_hash.chars().filter(|c| *c != '"').take(64).collect();

    let text = fs::read_to_string(&path).unwrap();
    let copy = server.data_dir().join("copy.jsonl");
    let verify = async |text: &str, expect: &[&str]| {
        fs::write(&copy, text).unwrap();
        let output = offline(&[&["admin", "audit", "verify", copy.to_str().unwrap()], expect].concat()).await;
        (output.status.code(), String::from_utf8(output.stdout).unwrap())
    };
    let (code, verdict) = verify(&text, &["--expect", &last_hash]).await;
    assert_eq!(code, Some(0), "{verdict}");
    let all: Vec<&str> = text.lines().collect();
    assert!(verdict.contains("line 7: cut short by a crash") && verdict.contains("12 lines verified"), "{verdict}");
    let own = offline(&["admin", "audit", "verify", "--data-dir", server.data_dir().to_str().unwrap()]).await;
    assert_eq!(own.status.code(), Some(0), "{own:?}");

    let (code, verdict) = verify(&text.replacen("\"ann\"", "\"eve\"", 1), &[]).await;
    assert!(code == Some(1) && verdict.contains("line 2: it was changed"), "{verdict}");
    let without: Vec<_> = all.iter().enumerate().filter(|(at, _)| *at != 3).map(|(_, line)| *line).collect();
    let (code, verdict) = verify(&(without.join("\n") + "\n"), &[]).await;
    assert!(
        code == Some(1) && verdict.contains("line 4: it was changed, or lines before it were removed"),
        "{verdict}"
    );
    let cut = all[..all.len() - 2].join("\n") + "\n";
    assert_eq!(verify(&cut, &[]).await.0, Some(0), "the end can be cut off");
    let (code, verdict) = verify(&cut, &["--expect", &last_hash]).await;
    assert!(code == Some(1) && verdict.contains("the expected hash is in no line"), "{verdict}");
}
