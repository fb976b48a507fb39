//! Every operation of the OpenAPI document, tested by `schemathesis` with valid and invalid requests.

use std::process::Command;

use reqwest::Method;
use serde_json::json;
use tempfile::TempDir;

use crate::rules::rules;
use crate::server::{TestDevice, TestServer};

rules!(every_answer_is_one_that_the_document_describes_and_nothing_is_taken_that_it_forbids);

/// A fixed seed, to make failures reproducible.
const SEED: &str = "1";
/// Generated requests per operation, in addition to those derived from the bounds in the document.
const EXAMPLES: &str = "10";
/// Operations that end the caller's session or membership, which the other operations need.
const ENDING: &str = "^(logout|leave_chat|revoke_session|revoke_sessions)$";

/// A run of `schemathesis` as one device, with the ids of existing objects.
struct Run<'a> {
    server: &'a TestServer,
    device: &'a TestDevice,
    parameters: String,
}

impl Run<'_> {
    /// Tests the operations that match `filter`, and fails unless `expected` of them were tested.
    ///
    /// All checks are on but one: a request that fits the schemas may still be refused, because a schema does not know
    /// that a sequence is above the head of its chat, that a phone number cannot exist, or that an owner cannot leave.
    async fn of(self, filter: [&str; 2], expected: usize) {
        let directory = TempDir::new().unwrap();
        let config = directory.path().join("schemathesis.toml");
        std::fs::write(&config, format!("[parameters]\n{}", self.parameters)).unwrap();
        let mut command = Command::new(engines::schemathesis());
        command.arg("--config-file").arg(config).args(["run", "--no-color", "--continue-on-failure"]);
        command.args(["--checks", "all", "--exclude-checks", "positive_data_acceptance"]);
        command.args(["--seed", SEED, "--max-examples", EXAMPLES, "--generation-database", "none"]);
        command.args([
            "--request-timeout",
            "10",
            "--header",
            &format!("Authorization: Bearer {}", self.device.access_token),
        ]);
        command.args(filter).arg(format!("{}/openapi.json", self.server.base_url())).current_dir(&directory);
        let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
        assert!(said.contains(&format!("Tested: {expected}\n")), "not all operations were tried: {said}");
    }
}

async fn every_answer_is_one_that_the_document_describes_and_nothing_is_taken_that_it_forbids(server: &TestServer) {
    let [ada, bea, cem] = server.sign_up_all(["Ada", "Bea", "Cem"]).await;
    let chat_id = ada.group("team", &[&bea, &cem]).await;
    let sent = ada.send(&chat_id, "hello").await;
    for text in ["how", "are", "you"] {
        ada.send(&chat_id, text).await;
    }
    let parameters = json!({
        "path.chat_id": chat_id,
        "path.user_id": bea.user_id,
        "path.message_id": sent["message_id"],
        "path.device_id": ada.device_id,
        "path.sequence": 2,
    });
    let parameters: String =
        parameters.as_object().unwrap().iter().map(|(name, value)| format!("\"{name}\" = {value}\n")).collect();

    let documented = documented(server).await;
    let run = Run { server, device: &ada, parameters: parameters.clone() };
    run.of(["--exclude-operation-id-regex", ENDING], documented - 4).await;
    // Runs as Cem: once his session or membership has ended, further requests are refused legitimately.
    let run = Run { server, device: &cem, parameters };
    run.of(["--include-operation-id-regex", ENDING], 4).await;
    assert_eq!(server.call(Method::GET, "/healthz", None).await.status, 200);
    assert!(!server.log().contains("panicked"), "a request panicked");
}

/// Number of documented operations.
async fn documented(server: &TestServer) -> usize {
    let document = server.call(Method::GET, "/openapi.json", None).await.body;
    document["paths"].as_object().unwrap().values().map(|item| item.as_object().unwrap().len()).sum()
}
