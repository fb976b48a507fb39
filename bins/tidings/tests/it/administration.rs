//! Administration of users, chats and sessions: the operator commands of the real binary.

use std::process::Output;

use expect_test::{Expect, expect};
use serde_json::{Value, json};

use crate::names::DECEITFUL;
use crate::rules::rules;
use crate::server::{TestDevice, TestServer};
use crate::webhook::{said, tidings};

rules!(
    users_are_found_shown_made_and_renamed,
    an_account_is_exported_and_deleted_and_the_store_stays_consistent,
    chats_are_shown_and_looked_after_in_the_owners_place,
    operators_cannot_give_a_name_that_deceives_readers,
    retention_is_for_messages_of_the_past_too,
    sessions_are_listed_and_ended,
);

/// An operator; replaces ids and times that differ between runs by fixed names.
struct CommandOperator<'a> {
    server: &'a TestServer,
    names: Vec<(String, &'static str)>,
}

impl CommandOperator<'_> {
    /// Runs a command and compares its readable output.
    async fn says(&self, arguments: &[&str], expected: Expect) {
        let output = tidings(self.server, arguments).await;
        expected.assert_eq(&self.masked(said(&output)));
    }

    /// Runs a command that must be refused, and compares the reason.
    async fn refused(&self, arguments: &[&str], expected: Expect) {
        let output = tidings(self.server, arguments).await;
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        expected.assert_eq(&self.masked(std::str::from_utf8(&output.stderr).unwrap()));
    }

    async fn json(&self, arguments: &[&str]) -> Value {
        json_of(&tidings(self.server, &[arguments, &["--json"]].concat()).await)
    }

    fn masked(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (id, name) in &self.names {
            text = text.replace(id, name);
        }
        let words = text.split_inclusive([' ', '\n', ',', ';']);
        words
            .map(|word| match word.trim_end_matches([' ', '\n', ',', ';']) {
                time if time.len() == 24 && time.ends_with('Z') => word.replace(time, "TIME"),
                _ => word.to_owned(),
            })
            .collect()
    }
}

fn json_of(output: &Output) -> Value {
    serde_json::from_str(said(output)).unwrap()
}

fn named(devices: &[(&TestDevice, &'static str)], others: &[(&str, &'static str)]) -> Vec<(String, &'static str)> {
    let users = devices.iter().map(|(device, name)| (device.user_id.clone(), *name));
    users.chain(others.iter().map(|(id, name)| ((*id).to_owned(), *name))).collect()
}

async fn users_are_found_shown_made_and_renamed(server: &TestServer) {
    let ann = server.sign_up("Ann").await;
    let group = ann.group("Sailing", &[]).await;
    ann.send(&group, "hush").await;
    let device = ann.device_id.to_string();
    let names = named(&[(&ann, "ANN")], &[(&group, "GROUP"), (&ann.session_id, "SESSION"), (&device, "DEVICE")]);
    let operator = CommandOperator { server, names };

    operator
        .says(
            &["admin", "user", "find", &ann.phone_number],
            expect![[r#"
        ANN  Ann
    "#]],
        )
        .await;
    operator.says(&["admin", "user", "show", &ann.phone_number], expect![[r#"
        ANN  Ann  since TIME  last seen -

        sessions: 1
        session                          device                                last active               connected  notified
        SESSION  DEVICE  TIME  false      false

        chats: 1
        chat                             type   name     role   head  delivered  read
        GROUP  group  Sailing  owner  1     0          0
    "#]]).await;
    operator
        .says(
            &["admin", "user", "rename", &ann.user_id, "Countess"],
            expect![[r#"
        ANN is called Countess now
    "#]],
        )
        .await;
    assert_eq!(ann.get("/users/me").await.data(200)["display_name"], "Countess");

    let create = ["admin", "user", "create", "--phone", "+14155550199", "--name", "Dee"];
    let made = operator.json(&create).await;
    assert_eq!((&made["display_name"], &made["is_new"]), (&json!("Dee"), &json!(true)));
    let dee = server.sign_in("+14155550199", "another name").await;
    assert_eq!(made["user_id"], dee.user_id);
    assert_eq!(operator.json(&create).await["is_new"], false);
    operator
        .refused(
            &["admin", "user", "create", "--phone", "12", "--name", "X"],
            expect![[r#"
        error: phone number is not in E.164 form (+ and 7 to 15 digits)
    "#]],
        )
        .await;
    operator
        .refused(
            &["admin", "user", "show", "+14155550198"],
            expect![[r#"
        error: there is no user `+14155550198`; name an id like user_…, a phone number like +14155550101, or the user's id at the identity provider
    "#]],
        )
        .await;
    let nobody = tidings(server, &["admin", "user", "find", "+14155550198"]).await;
    assert_eq!(nobody.status.code(), Some(1));
    let trail = std::fs::read_to_string(server.data_dir().join("admin-audit.jsonl")).unwrap();
    assert!(trail.contains("POST /users") && trail.contains("PATCH /users/{id}"), "{trail}");
    assert!(!trail.contains("4155550199"), "no phone number is kept: {trail}");
}

async fn an_account_is_exported_and_deleted_and_the_store_stays_consistent(server: &TestServer) {
    let [ann, bob] = server.sign_up_all(["Ann", "Bob"]).await;
    let (group, direct) = (ann.group("Sailing", &[&bob]).await, ann.direct_chat(&bob).await);
    for chat_id in [&group, &direct] {
        ann.send(chat_id, "mine").await;
        bob.send(chat_id, "theirs").await;
    }
    let operator = CommandOperator { server, names: named(&[(&ann, "ANN"), (&bob, "BOB")], &[(&direct, "DIRECT")]) };
    let file = server.data_dir().join("ann.json");
    let path = file.to_str().unwrap();
    said(&tidings(server, &["admin", "user", "export", &ann.user_id, "--output", path]).await);
    let exported: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    let own =
        exported["data"]["chats"].as_array().unwrap().iter().map(|chat| chat["messages"].as_array().unwrap().len());
    assert_eq!((own.collect::<Vec<_>>(), &exported["data"]["is_complete"]), (vec![1, 1], &json!(true)));

    operator.refused(&["admin", "user", "delete", &ann.user_id, "--erase-messages"], expect![[r#"
        error: the account of Ann (ANN) will be deleted for good: they are signed out of 1 session, leave 1 group, and their messages expire at once; pass --yes where no terminal can ask
    "#]]).await;
    assert_eq!(ann.get("/users/me").await.status, 200, "nothing happens without a confirmation");
    operator
        .says(
            &["admin", "user", "delete", &ann.user_id, "--erase-messages", "--yes"],
            expect![[r#"
                ANN is signed out and deleted; the rest follows in the background
                `tidings admin user show ANN` shows when it is done
            "#]],
        )
        .await;
    ann.get("/users/me").await.refused(401, "UNAUTHORIZED");
    let show = async || operator.json(&["admin", "user", "show", &ann.user_id]).await;
    server.until(async || show().await["deletion"].is_null()).await;
    operator
        .says(
            &["admin", "user", "show", &ann.user_id],
            expect![[r#"
                ANN  Deleted account  since TIME  last seen -
                the account was deleted at TIME

                sessions: 0

                chats: 1
                chat                             type    name  role    head  delivered  read
                DIRECT  direct  -     member  2     0          0
            "#]],
        )
        .await;
    for chat_id in [&group, &direct] {
        let page = bob.get(&format!("/chats/{chat_id}/messages")).await.data(200);
        assert_eq!(page["messages"].as_array().unwrap().len(), 1, "{page}");
    }
    operator
        .refused(
            &["admin", "user", "rename", &ann.user_id, "Ann"],
            expect![[r#"
        error: the account of `ANN` is deleted
    "#]],
        )
        .await;

    server.verify_store().await;
}

async fn chats_are_shown_and_looked_after_in_the_owners_place(server: &TestServer) {
    let [ann, bob, cem] = server.sign_up_all(["Ann", "Bob", "Cem"]).await;
    let group = ann.group("Sailing", &[&bob, &cem]).await;
    let sent = ann.send(&group, "hush").await;
    let message_id = sent["message_id"].as_str().unwrap();
    let names = named(&[(&ann, "ANN"), (&bob, "BOB"), (&cem, "CEM")], &[(&group, "GROUP"), (message_id, "MESSAGE")]);
    let operator = CommandOperator { server, names };
    let is_published = async || operator.json(&["admin", "chat", "show", &group]).await["published_sequence"] == 1;
    server.until(is_published).await;

    operator
        .says(
            &["admin", "chat", "show", &group],
            expect![[r#"
                GROUP  group  Sailing  since TIME
                head at 1, log at 1, last message at TIME; messages never expire

                member                           name  role    joined                    delivered  read  connected
                ANN  Ann   owner   TIME  0          0     false
                BOB  Bob   member  TIME  0          0     false
                CEM  Cem   member  TIME  0          0     false
            "#]],
        )
        .await;
    operator
        .says(
            &["admin", "chat", "timeline", &group],
            expect![[r#"
        at                        what     who                              detail
        TIME  message  Ann                              sequence 1  MESSAGE  4 bytes  delivered to 0 of 2, read by 0
        TIME  joined   Ann                              as owner
        TIME  joined   Bob                              as member
        TIME  joined   Cem                              as member
        TIME  created  ANN
    "#]],
        )
        .await;
    operator.says(&["admin", "message", "show", message_id], expect![[r#"
        MESSAGE  sequence 1 of GROUP  from Ann
        It was committed at TIME as message 1 of its chat, and is in the log. It has reached none of 2 other members. Bob: has never been connected, and no device is registered for notifications. Cem: has never been connected, and no device is registered for notifications.

        member                           name  role    reach    why
        ANN  Ann   owner   sender   -
        BOB  Bob   member  waiting  has never been connected, and no device is registered for notifications
        CEM  Cem   member  waiting  has never been connected, and no device is registered for notifications
    "#]]).await;
    operator
        .says(
            &["admin", "chat", "set-owner", &group, &bob.user_id, "--yes"],
            expect![[r#"
        BOB owns GROUP
    "#]],
        )
        .await;
    operator
        .says(
            &["admin", "chat", "remove-member", &group, &cem.user_id, "--yes"],
            expect![[r#"
        CEM was removed from GROUP
    "#]],
        )
        .await;
    let members = operator.json(&["admin", "chat", "members", &group]).await;
    let roles: Vec<_> = members.as_array().unwrap().iter().map(|it| (&it["display_name"], &it["role"])).collect();
    assert_eq!(roles, [(&json!("Ann"), &json!("admin")), (&json!("Bob"), &json!("owner"))]);
    cem.get(&format!("/chats/{group}")).await.refused(403, "NOT_A_MEMBER");
    // After the removal of the owner, the group passes to its longest-standing admin.
    operator
        .says(
            &["admin", "chat", "remove-member", &group, &bob.user_id, "--yes"],
            expect![[r#"
        BOB was removed from GROUP
    "#]],
        )
        .await;
    assert_eq!(ann.get(&format!("/chats/{group}")).await.data(200)["my_membership"]["role"], "owner");
    operator
        .refused(
            &["admin", "chat", "remove-member", &group, &cem.user_id, "--yes"],
            expect![[r#"
        error: that user is not a member of this chat
    "#]],
        )
        .await;
    operator
        .refused(
            &["admin", "chat", "set-owner", &group, &bob.user_id],
            expect![[r#"
        error: BOB will own GROUP, and its present owner becomes an admin; pass --yes where no terminal can ask
    "#]],
        )
        .await;
}

async fn operators_cannot_give_a_name_that_deceives_readers(server: &TestServer) {
    let ann = server.sign_up("Ann").await;
    for (name, character) in DECEITFUL {
        for arguments in [
            ["admin", "user", "rename", &ann.user_id, name].as_slice(),
            &["admin", "user", "create", "--phone", "+14155550198", "--name", name],
        ] {
            let output = tidings(server, arguments).await;
            let stderr = String::from_utf8_lossy(&output.stderr);
            assert!(!output.status.success() && stderr.contains(character), "{output:?}");
        }
    }
    assert_eq!(ann.get("/users/me").await.data(200)["display_name"], "Ann");
}

async fn retention_is_for_messages_of_the_past_too(server: &TestServer) {
    let ann = server.sign_up("Ann").await;
    let group = ann.group("Sailing", &[]).await;
    ann.send(&group, "before").await;
    let operator = CommandOperator { server, names: named(&[], &[(&group, "GROUP")]) };
    let ends = async || {
        let page = ann.get(&format!("/chats/{group}/messages")).await.data(200);
        let messages = page["messages"].as_array().unwrap().clone();
        messages.iter().map(|message| message["expires_at"].is_string()).collect::<Vec<_>>()
    };
    assert_eq!(ends().await, [false]);
    operator
        .says(
            &["admin", "chat", "retention", &group, "--days", "1", "--yes"],
            expect![[r#"
                messages of GROUP live 1 day; shortened: 1
            "#]],
        )
        .await;
    ann.send(&group, "after").await;
    assert_eq!(ends().await, [true, true]);
    assert_eq!(ann.get(&format!("/chats/{group}")).await.data(200)["message_ttl_seconds"], 86_400);
    operator
        .says(
            &["admin", "chat", "retention", &group, "--days", "off", "--yes"],
            expect![[r#"
        new messages of GROUP never expire
    "#]],
        )
        .await;
    ann.send(&group, "for ever").await;
    assert_eq!(ends().await, [false, true, true]);
}

async fn sessions_are_listed_and_ended(server: &TestServer) {
    let phone = server.sign_up("Ann").await;
    let laptop = server.another_device(&phone).await;
    let operator = CommandOperator { server, names: named(&[(&phone, "ANN")], &[(&laptop.session_id, "LAPTOP")]) };
    let listed = operator.json(&["admin", "session", "list", &phone.phone_number]).await;
    let listed: Vec<_> = listed.as_array().unwrap().iter().map(|session| &session["session_id"]).collect();
    assert_eq!(listed, [&json!(phone.session_id), &json!(laptop.session_id)]);
    operator
        .refused(
            &["admin", "session", "revoke", &phone.user_id, &laptop.session_id],
            expect![[r#"
        error: session LAPTOP of ANN will end, and its sockets close; pass --yes where no terminal can ask
    "#]],
        )
        .await;
    operator
        .says(
            &["admin", "session", "revoke", &phone.user_id, &laptop.session_id, "--yes"],
            expect![[r#"
                signed out of 1 session
            "#]],
        )
        .await;
    laptop.get("/users/me").await.refused(401, "UNAUTHORIZED");
    operator
        .says(
            &["admin", "session", "revoke", &phone.user_id, "--all", "--yes"],
            expect![[r#"
                signed out of 1 session
            "#]],
        )
        .await;
    phone.get("/users/me").await.refused(401, "UNAUTHORIZED");
    operator
        .says(
            &["admin", "session", "list", &phone.user_id],
            expect![[r#"
        `ANN` is signed in nowhere
    "#]],
        )
        .await;
}
