//! A crash in the middle of the deletion of an account.

use serde_json::{Value, json};

use crate::server::{RestResponse, TestServer};
use crate::webhook::{said, tidings};

#[tokio::test]
async fn a_deletion_that_a_crash_cuts_short_is_finished_after_it() {
    let mut server = TestServer::start().await;
    let over = "an account was deleted";
    // On a busy machine a deletion may be over before the kill. A larger one is not.
    let mut count = 40;
    let (ann, bob, groups) = loop {
        let [ann, bob] = server.sign_up_all(["Ann", "Bob"]).await;
        // Each takes commits of its own, so that many are pending when the process dies.
        let mut groups = vec![];
        for _ in 0..count {
            let group = ann.group("Sailing", &[&bob]).await;
            ann.send(&group, "goes").await;
            groups.push(group);
        }
        let request = ann.request(reqwest::Method::DELETE, "/users/me");
        let body = json!({ "confirm": ann.user_id, "erase_messages": true });
        RestResponse::of(request.json(&body)).await.data(202);
        server.kill().await;
        let is_cut_short = !server.last_log().contains(over);
        server.restart().await;
        if is_cut_short {
            break (ann, bob, groups);
        }
        count *= 2;
        assert!(count <= 640, "no deletion is cut short");
    };

    let left = async |group: &String| {
        let chat = bob.get(&format!("/chats/{group}")).await.data(200);
        chat["member_count"] == 1 && chat["my_membership"]["role"] == "owner"
    };
    for group in &groups {
        server.until(async || left(group).await).await;
        assert_eq!(bob.get(&format!("/chats/{group}/messages")).await.data(200)["messages"], json!([]));
    }
    server.until(async || server.last_log().contains(over)).await;
    let show = ["admin", "user", "show", &ann.user_id, "--json"];
    let user = async || -> Value { serde_json::from_str(said(&tidings(&server, &show).await)).unwrap() };
    server.until(async || user().await["deletion"].is_null()).await;
    assert_ne!(server.sign_in(&ann.phone_number, "Ann again").await.user_id, ann.user_id);
}
