//! Reports by users, and their handling by operators.

use serde_json::{Value, json};
use uuid::Uuid;

use crate::rules::rules;
use crate::server::{TestServer, next_millisecond};
use crate::webhook::{said, tidings};

// In this order: the first rule lists all open reports.
rules!(
    on crate::server::TestServer::start_with(&[("TIDINGS_LOG__LEVEL", "trace")]);
    operators_read_a_report_end_it_and_leave_a_trace,
    reported_content_never_reaches_a_log,
);

/// The JSON output of a command.
async fn answer(server: &TestServer, arguments: &[&str]) -> Value {
    let output = tidings(server, &[arguments, &["--json"]].concat()).await;
    serde_json::from_str(said(&output)).unwrap()
}

async fn operators_read_a_report_end_it_and_leave_a_trace(server: &TestServer) {
    let [ann, bob] = server.sign_up_all(["Ann", "Bob"]).await;
    let direct = ann.direct_chat(&bob).await;
    let sent = bob.send(&direct, "buy now").await;
    let soon_gone = json!({ "client_message_id": Uuid::new_v4(), "content": "buy at once", "ttl_seconds": 3600 });
    let expiring = bob.post(&format!("/chats/{direct}/messages"), soon_gone).await.data(201);
    let report = async |message: &Value| {
        let body = json!({ "message_id": message["message_id"], "reason": "spam", "comment": "every day" });
        ann.post("/reports", body).await.data(201)["report_id"].as_str().unwrap().to_owned()
    };
    let lasting = report(&sent).await;
    // The list is ordered by id.
    next_millisecond().await;
    let passing = report(&expiring).await;
    assert!(server.metrics().await.contains("tidings_reports_total{reason=\"spam\"} 2"));

    let listed = answer(server, &["admin", "report", "list"]).await;
    let ids: Vec<_> = listed.as_array().unwrap().iter().map(|report| report["report_id"].clone()).collect();
    assert_eq!(ids, [json!(lasting), json!(passing)]);
    assert_eq!(listed[0]["user_id"], bob.user_id);
    assert!(!listed.to_string().contains("buy"), "a list shows nothing that anybody wrote: {listed}");
    let shown = answer(server, &["admin", "report", "show", &lasting]).await;
    assert_eq!((&shown["evidence"]["content"], &shown["comment"]), (&json!("buy now"), &json!("every day")));
    let text = tidings(server, &["admin", "report", "show", &passing]).await;
    assert!(said(&text).contains("content      buy at once\n"), "{text:?}");

    for id in [&lasting, &passing] {
        let done = tidings(server, &["admin", "report", "resolve", id, "--note", "warned"]).await;
        assert_eq!(said(&done), format!("`{id}` is resolved\n"));
    }
    assert_eq!(said(&tidings(server, &["admin", "report", "list"]).await), "no report is open\n");
    let resolved = answer(server, &["admin", "report", "list", "--state", "resolved"]).await;
    assert_eq!(resolved.as_array().unwrap().len(), 2);
    let shown = answer(server, &["admin", "report", "show", &lasting]).await;
    assert_eq!((&shown["evidence"]["content"], &shown["note"]), (&json!("buy now"), &json!("warned")));
    let shown = answer(server, &["admin", "report", "show", &passing]).await;
    assert_eq!(shown["evidence"], Value::Null, "what was to expire is gone");

    let again = tidings(server, &["admin", "report", "resolve", &lasting, "--note", "again"]).await;
    assert!(!again.status.success());
    assert_eq!(String::from_utf8_lossy(&again.stderr), format!("error: `{lasting}` is resolved already\n"));
    let unknown = format!("rep_{}", &lasting["rep_".len()..].chars().rev().collect::<String>());
    assert!(!tidings(server, &["admin", "report", "show", &unknown]).await.status.success());

    let trail = std::fs::read_to_string(server.data_dir().join("admin-audit.jsonl")).unwrap();
    let actions: Vec<Value> = trail.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let looked = actions.iter().filter(|action| action["action"] == "GET /reports/{id}").count();
    let ended = actions.iter().filter(|action| action["action"] == "POST /reports/{id}/resolve").count();
    assert_eq!((looked, ended), (5, 3), "looking is an action: {trail}");
    assert!(!trail.contains("buy"), "{trail}");
}

async fn reported_content_never_reaches_a_log(server: &TestServer) {
    let [ann, bob] = server.sign_up_all(["Ann", "Bob"]).await;
    let sent = bob.send(&ann.direct_chat(&bob).await, "a very peculiar content").await;
    let body = json!({ "message_id": sent["message_id"], "reason": "abuse", "comment": "a very peculiar comment" });
    ann.post("/reports", body).await.data(201);
    answer(server, &["admin", "report", "list"]).await;
    assert!(!server.log().contains("a very peculiar"), "{}", server.log());
}
