use std::time::Duration;

use domain::{Report, ReportReason, Resolution, Timestamp};
use ports::{Clock, ReportState, ReportStore, Resolved};
use serde_json::{Value, json};

use crate::world::{NOBODY, World};

/// The reports that operators see.
async fn open(world: &World) -> Vec<Report> {
    world.store.reports(ReportState::Open, None, 100, world.clock.now()).await.unwrap()
}

#[tokio::test]
async fn a_reported_message_is_kept_as_its_reporter_could_read_it() {
    let world = World::new();
    let (ann, bob) = (world.person("Ann").await, world.person("Bob").await);
    let chat_id = world.direct(&ann, &bob).await;
    let sent = world.say(&bob, &chat_id, "buy now").await;
    let body = json!({ "message_id": sent["message_id"], "reason": "spam", "comment": "every day" });
    let answer = world.post(&ann, "/reports", body).await;
    assert_eq!(answer.status, 201, "{answer:?}");
    let report = open(&world).await.remove(0);
    assert_eq!(answer.data(), &json!({ "report_id": report.report_id, "created_at": report.created_at }));
    assert!(report.report_id.to_string().starts_with("rep_"));
    assert_eq!(report.reason, ReportReason::Spam);
    assert_eq!(report.comment.unwrap().as_str(), "every day");
    assert_eq!(report.reporter_id.to_string(), ann.user_id);
    assert_eq!(report.user_id.unwrap().to_string(), bob.user_id, "the sender is added");
    assert_eq!(report.chat_id.unwrap().to_string(), chat_id, "and the chat");
    let evidence = report.evidence.unwrap();
    assert_eq!((evidence.content.as_str(), evidence.sequence.0), ("buy now", 1));
    assert_eq!(evidence.expires_at, None::<Timestamp>);
}

#[tokio::test]
async fn neither_an_edit_nor_a_deletion_for_everyone_changes_the_copy_of_a_reported_message() {
    let world = World::new();
    let (ann, bob) = (world.person("Ann").await, world.person("Bob").await);
    let chat_id = world.direct(&ann, &bob).await;
    let sent = world.say(&bob, &chat_id, "buy now").await;
    world.post(&ann, "/reports", json!({ "message_id": sent["message_id"], "reason": "spam" })).await.data();
    let path = format!("/chats/{chat_id}/messages/1");
    let edit = json!({ "client_message_id": world.uuid(), "content": "good morning" });
    assert_eq!(world.patch(&bob, &path, edit).await.status, 200);
    assert_eq!(world.delete(&bob, &path).await.status, 200);
    world.store.purge_expired(world.clock.now());
    let again = world.post(&ann, "/reports", json!({ "message_id": sent["message_id"], "reason": "spam" })).await;
    assert_eq!(again.failure(), (404, "NOT_FOUND"), "a deleted message cannot be reported");

    let words = |report: &Report| report.evidence.as_ref().map(|evidence| evidence.content.as_str().to_owned());
    let filed = open(&world).await.remove(0);
    assert_eq!(words(&filed).as_deref(), Some("buy now"));
    let note = "warned".to_owned().try_into().unwrap();
    let resolution = Resolution { resolved_at: world.clock.now(), note };
    let resolved = world.store.resolve(filed.report_id, resolution).await.unwrap();
    assert!(matches!(resolved, Resolved::Now(report) if words(&report).as_deref() == Some("buy now")));
    let later = |days: u64| world.clock.now() + Duration::from_secs(days * 24 * 3600);
    let found = async |at| world.store.report(filed.report_id, at).await.unwrap();
    assert_eq!(found(later(89)).await.as_ref().and_then(words).as_deref(), Some("buy now"));
    assert_eq!(found(later(90)).await, None);
}

#[tokio::test]
async fn users_and_chats_are_reported_without_a_message() {
    let world = World::new();
    let (ann, bob) = (world.person("Ann").await, world.person("Bob").await);
    let chat_id = world.group(&bob, &[&ann]).await;
    for body in [
        json!({ "user_id": bob.user_id, "reason": "abuse" }),
        json!({ "chat_id": chat_id, "reason": "illegal" }),
        json!({ "chat_id": chat_id, "user_id": bob.user_id, "reason": "other" }),
    ] {
        assert_eq!(world.post(&ann, "/reports", body).await.status, 201);
    }
    let reports = open(&world).await;
    assert!(reports.iter().all(|report| report.evidence.is_none() && report.message_id.is_none()));
    let named: Vec<_> = reports.iter().map(|report| (report.user_id.is_some(), report.chat_id.is_some())).collect();
    assert_eq!(named, [(true, false), (false, true), (true, true)]);
}

#[tokio::test]
async fn reports_of_unreadable_or_unknown_targets_are_refused() {
    let world = World::new();
    let (ann, bob, eve) = (world.person("Ann").await, world.person("Bob").await, world.person("Eve").await);
    let (shared, foreign) = (world.direct(&ann, &bob).await, world.direct(&bob, &eve).await);
    let message_id = |sent: Value| sent["message_id"].clone();
    let shared_message = message_id(world.say(&bob, &shared, "hello").await);
    let own = message_id(world.say(&ann, &shared, "hello").await);
    let foreign_message = message_id(world.say(&bob, &foreign, "hello").await);
    let nothing = format!("msg_{}", NOBODY.strip_prefix("user_").unwrap());
    let cases = [
        (json!({ "message_id": nothing }), (404, "NOT_FOUND")),
        (json!({ "message_id": foreign_message }), (403, "NOT_A_MEMBER")),
        (json!({ "chat_id": foreign }), (403, "NOT_A_MEMBER")),
        (json!({ "user_id": NOBODY }), (400, "VALIDATION_ERROR")),
        (json!({}), (400, "VALIDATION_ERROR")),
        (json!({ "user_id": ann.user_id }), (400, "INVALID_OPERATION")),
        (json!({ "message_id": own }), (400, "INVALID_OPERATION")),
        (json!({ "message_id": shared_message, "chat_id": foreign }), (400, "VALIDATION_ERROR")),
        (json!({ "message_id": shared_message, "user_id": eve.user_id }), (400, "VALIDATION_ERROR")),
        (json!({ "user_id": bob.user_id, "reason": "boring" }), (400, "VALIDATION_ERROR")),
        (json!({ "user_id": bob.user_id, "comment": "x".repeat(1001) }), (400, "VALIDATION_ERROR")),
        (json!({ "user_id": bob.user_id, "comment": " " }), (400, "VALIDATION_ERROR")),
    ];
    for (mut body, failure) in cases {
        if body["reason"].is_null() {
            body["reason"] = json!("other");
        }
        assert_eq!(world.post(&ann, "/reports", body.clone()).await.failure(), failure, "{body}");
    }
    assert_eq!(open(&world).await, []);
}

#[tokio::test]
async fn a_report_that_is_repeated_with_its_key_is_filed_once() {
    let world = World::new();
    let (ann, bob) = (world.person("Ann").await, world.person("Bob").await);
    let (key, body) = (world.uuid(), json!({ "user_id": bob.user_id, "reason": "spam" }));
    let first = world.post_once(&ann, "/reports", &key, body.clone()).await;
    let again = world.post_once(&ann, "/reports", &key, body).await;
    assert_eq!((first.status, again.status, first.data()), (201, 201, again.data()));
    assert_eq!(open(&world).await.len(), 1);
}

#[tokio::test]
async fn the_twenty_first_open_report_of_a_day_waits_for_the_next() {
    let world = World::new();
    let (ann, bob) = (world.person("Ann").await, world.person("Bob").await);
    let body = || json!({ "user_id": bob.user_id, "reason": "spam" });
    for _ in 0..20 {
        assert_eq!(world.post(&ann, "/reports", body()).await.status, 201);
    }
    let refused = world.post(&ann, "/reports", body()).await;
    assert_eq!(refused.failure(), (429, "RATE_LIMITED"));
    assert_eq!(refused.body["error"]["details"], json!({ "limit": "open_reports", "retry_after_seconds": 86_400 }));
    assert_eq!(refused.header("retry-after"), Some("86400"));
    assert_eq!(open(&world).await.len(), 20);
}
