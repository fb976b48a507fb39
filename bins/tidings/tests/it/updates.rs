//! Updates of messages: edits, deletions for everyone, and reactions.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use uuid::Uuid;

use crate::receiver::WebhookReceiver;
use crate::rules::rules;
use crate::server::{TestDevice, TestServer, TestSocket, sequences};
use crate::webhook;

rules!(
    an_edit_over_both_ways_is_seen_live_in_sync_in_history_and_in_the_inbox,
    a_deletion_hides_the_message_from_every_read_and_is_announced_twice,
    reactions_have_counts_and_mine_and_their_members_are_paged,
    a_retried_update_has_its_first_outcome_and_its_id_names_no_other_send,
    updates_do_not_count_as_unread_and_a_deleted_message_no_longer_does,
    a_client_that_was_away_and_one_that_saw_the_changes_have_the_same_messages,
    a_client_that_knows_no_updates_loses_no_message_and_reaches_the_head,
    every_refused_update_changes_nothing,
    a_message_takes_ten_reactions_of_a_member_and_twenty_kinds,
    in_a_blocked_direct_chat_nobody_updates,
);

const THUMB: &str = "👍";
const THUMB_IN_PATH: &str = "%F0%9F%91%8D";

pub(crate) fn update(chat_id: &str, sequence: u64, action: &str) -> Value {
    json!({ "client_message_id": Uuid::new_v4(), "chat_id": chat_id, "sequence": sequence, "action": action })
}

pub(crate) fn edit(chat_id: &str, sequence: u64, content: &str) -> Value {
    let mut payload = update(chat_id, sequence, "edit");
    payload["content"] = json!(content);
    payload
}

pub(crate) fn react(chat_id: &str, sequence: u64, reaction: &str) -> Value {
    let mut payload = update(chat_id, sequence, "react");
    payload["reaction"] = json!(reaction);
    payload
}

/// Makes an update over a socket, and returns the acknowledgement.
pub(crate) async fn done(socket: &mut TestSocket, payload: Value) -> Value {
    let mut answer = socket.ask("update_message", payload).await;
    assert_eq!(answer["type"], "send_message_ack", "{answer}");
    answer["payload"].take()
}

/// The code and the reason of a refused update.
async fn refused(socket: &mut TestSocket, payload: Value) -> (String, String) {
    let answer = socket.ask("update_message", payload).await;
    assert_eq!(answer["type"], "error", "{answer}");
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    (text(&answer["payload"]["code"]), text(&answer["payload"]["details"]["reason"]))
}

/// The push of the update with a sequence.
async fn pushed(socket: &mut TestSocket, sequence: u64) -> Value {
    let is_it =
        |frame: &Value| frame["type"] == "message_updated" && frame["payload"]["update"]["sequence"] == sequence;
    socket.find(is_it).await["payload"].take()
}

pub(crate) async fn history(device: &TestDevice, chat_id: &str) -> Value {
    device.get(&format!("/chats/{chat_id}/messages")).await.data(200)
}

async fn summary(device: &TestDevice, chat_id: &str) -> Value {
    device.get(&format!("/chats/{chat_id}")).await.data(200)
}

async fn sync(socket: &mut TestSocket, chat_id: &str, after: u64) -> Value {
    let cursor = json!({ "chat_id": chat_id, "last_acked_sequence": after, "limit": 500 });
    socket.ask("sync_request", cursor).await["payload"].take()
}

/// A field of each entry of a list.
fn each(page: &Value, list: &str, field: &str) -> Vec<Value> {
    page[list].as_array().into_iter().flatten().map(|entry| entry[field].clone()).collect()
}

async fn an_edit_over_both_ways_is_seen_live_in_sync_in_history_and_in_the_inbox(server: &TestServer) {
    let [ann, bob] = server.sign_up_all(["Ann", "Bob"]).await;
    let chat_id = ann.direct_chat(&bob).await;
    let (mut anns, mut bobs) = (ann.connect().await, bob.connect().await);
    anns.send_message(&chat_id, "frist").await;

    let over_socket = edit(&chat_id, 1, "first");
    let ack = done(&mut anns, over_socket.clone()).await;
    assert_eq!((&ack["sequence"], &ack["deduplicated"]), (&json!(2), &json!(false)), "{ack}");
    let mut expected = json!({
        "chat_id": chat_id, "sequence": 2, "target_sequence": 1, "user_id": ann.user_id, "kind": "edited",
        "created_at": ack["created_at"],
    });
    let live = pushed(&mut bobs, 2).await;
    assert_eq!(live["update"], expected);
    let state = json!({ "revision": 2, "edited_at": ack["created_at"], "edit_count": 1 });
    assert_eq!((&live["message"]["content"], &live["message"]["state"]), (&json!("first"), &state));
    // The connection that made the update receives it too, with the id that it gave.
    expected["client_message_id"] = over_socket["client_message_id"].clone();
    assert_eq!(pushed(&mut anns, 2).await["update"], expected);

    let over_rest = json!({ "client_message_id": Uuid::new_v4(), "content": "*1st*", "content_type": "text/markdown" });
    let ack = ann.patch(&format!("/chats/{chat_id}/messages/1"), over_rest).await.data(200);
    assert_eq!(ack["sequence"], 3);
    assert_eq!(pushed(&mut bobs, 3).await["message"]["content"], "*1st*");

    let away = sync(&mut bobs, &chat_id, 1).await;
    assert_eq!((sequences(&away), &away["head_sequence"]), (vec![], &json!(3)));
    assert_eq!(each(&away, "updates", "sequence"), [2, 3]);
    assert_eq!(each(&away, "updated_messages", "content"), ["*1st*"], "once, in its current state");
    let from_start = sync(&mut bobs, &chat_id, 0).await;
    assert_eq!(each(&from_start, "messages", "content"), ["*1st*"]);
    assert_eq!(from_start["updated_messages"], Value::Null, "the message is in the page already");

    let page = history(&bob, &chat_id).await;
    assert_eq!((each(&page, "messages", "content"), &page["head_sequence"]), (vec![json!("*1st*")], &json!(3)));
    assert_eq!(each(&page, "messages", "content_type"), ["text/markdown"]);
    assert_eq!(page["messages"][0]["state"]["edit_count"], 2);
    let last = summary(&bob, &chat_id).await["last_message"].take();
    assert_eq!((&last["sequence"], &last["preview"]), (&json!(1), &json!("*1st*")));
}

async fn a_deletion_hides_the_message_from_every_read_and_is_announced_twice(server: &TestServer) {
    let [ann, bob] = server.sign_up_all(["Ann", "Bob"]).await;
    let chat_id = bob.group("Team", &[&ann]).await;
    let (mut anns, mut bobs) = (ann.connect().await, bob.connect().await);
    anns.send_message(&chat_id, "stays").await;
    let message_id = anns.send_message(&chat_id, "a secret").await["message_id"].as_str().unwrap().to_owned();
    anns.send_message(&chat_id, "another secret").await;
    bobs.find(|frame| frame["payload"]["content"] == "another secret").await;
    // Ann deletes her own message; Bob, the owner of the group, deletes another of hers.
    done(&mut anns, update(&chat_id, 2, "delete")).await;
    let path = format!("/chats/{chat_id}/messages/3");
    assert_eq!(bob.delete(&path).await.data(200)["sequence"], 5);

    for (sequence, target, by) in [(4, 2, &ann), (5, 3, &bob)] {
        let live = pushed(&mut bobs, sequence).await;
        let update = &live["update"];
        assert_eq!((&update["kind"], &update["target_sequence"]), (&json!("deleted"), &json!(target)));
        assert_eq!((&update["user_id"], &live["message"]), (&json!(by.user_id), &Value::Null));
    }
    // Clients that know no updates remove it as an expired message.
    let mut expired = vec![];
    while expired.len() < 2 {
        let push = bobs.next_of("message_expired").await;
        expired.extend(push["payload"]["sequences"].as_array().unwrap().iter().map(|one| one.as_u64().unwrap()));
    }
    expired.sort_unstable();
    assert_eq!(expired, [2, 3]);

    let page = history(&bob, &chat_id).await;
    assert_eq!((sequences(&page), &page["head_sequence"]), (vec![1], &json!(5)));
    bob.get(&format!("/messages/{message_id}")).await.refused(404, "NOT_FOUND");
    let around = bob.get(&format!("/chats/{chat_id}/messages/around/2")).await.data(200);
    assert_eq!(sequences(&around), [1]);
    bob.get(&format!("{path}/reactions")).await.refused(404, "NOT_FOUND");
    let synced = sync(&mut bobs, &chat_id, 0).await;
    assert_eq!(
        (sequences(&synced), each(&synced, "updates", "kind")),
        (vec![1], vec![json!("deleted"), json!("deleted")])
    );
    assert_eq!(synced["updated_messages"], Value::Null);
    let last = summary(&bob, &chat_id).await["last_message"].take();
    assert_eq!((&last["sequence"], &last["preview"]), (&json!(1), &json!("stays")));
    for read in ["/chats".to_owned(), "/users/me/export".to_owned(), format!("/chats/{chat_id}")] {
        let body = ann.get(&read).await.body.to_string();
        assert!(body.contains("stays") && !body.contains("secret"), "{read}: {body}");
    }
}

async fn reactions_have_counts_and_mine_and_their_members_are_paged(server: &TestServer) {
    let [ann, bob, cem] = server.sign_up_all(["Ann", "Bob", "Cem"]).await;
    let chat_id = ann.group("Team", &[&bob, &cem]).await;
    let (mut anns, mut bobs) = (ann.connect().await, bob.connect().await);
    anns.send_message(&chat_id, "good news").await;
    let place = format!("/chats/{chat_id}/messages/1/reactions");
    done(&mut bobs, react(&chat_id, 1, THUMB)).await;
    ann.put(&format!("{place}/{THUMB_IN_PATH}"), json!({})).await.data(200);
    done(&mut bobs, react(&chat_id, 1, "party")).await;

    let live = pushed(&mut anns, 4).await;
    assert_eq!((&live["update"]["kind"], &live["update"]["reaction"]), (&json!("reacted"), &json!("party")));
    let counts = json!([{ "reaction": THUMB, "count": 2 }, { "reaction": "party", "count": 1 }]);
    assert_eq!(live["message"]["state"], json!({ "revision": 4, "reactions": counts }));
    let message_id = live["message"]["message_id"].as_str().unwrap();
    for (device, mine) in [(&ann, [true, false]), (&bob, [true, true]), (&cem, [false, false])] {
        let expected = json!([
            { "reaction": THUMB, "count": 2, "mine": mine[0] },
            { "reaction": "party", "count": 1, "mine": mine[1] },
        ]);
        assert_eq!(history(device, &chat_id).await["messages"][0]["state"]["reactions"], expected);
        let one = device.get(&format!("/messages/{message_id}")).await.data(200);
        let around = device.get(&format!("/chats/{chat_id}/messages/around/1")).await.data(200);
        assert_eq!((&one["state"]["reactions"], &around["messages"][0]["state"]["reactions"]), (&expected, &expected));
    }

    let mut members = BTreeMap::new();
    let mut path = format!("{place}?limit=1");
    loop {
        let page = cem.get(&path).await;
        assert_eq!(page.status, 200, "{}", page.body);
        for member in page.body["data"]["members"].as_array().unwrap() {
            members.insert(member["user_id"].as_str().unwrap().to_owned(), member["reactions"].clone());
        }
        match page.body["pagination"]["next_cursor"].as_str() {
            Some(cursor) => path = format!("{place}?limit=1&cursor={cursor}"),
            None => break,
        }
    }
    let expected = [(ann.user_id.clone(), json!([THUMB])), (bob.user_id.clone(), json!([THUMB, "party"]))];
    assert_eq!(members, BTreeMap::from(expected));

    bob.delete(&format!("{place}/{THUMB_IN_PATH}")).await.data(200);
    let mut gone = update(&chat_id, 1, "unreact");
    gone["reaction"] = json!(THUMB);
    done(&mut anns, gone).await;
    let left = json!([{ "reaction": "party", "count": 1, "mine": true }]);
    assert_eq!(history(&bob, &chat_id).await["messages"][0]["state"]["reactions"], left);
    let live = pushed(&mut bobs, 6).await;
    assert_eq!((&live["update"]["kind"], &live["update"]["reaction"]), (&json!("unreacted"), &json!(THUMB)));
}

async fn a_retried_update_has_its_first_outcome_and_its_id_names_no_other_send(server: &TestServer) {
    let [ann, bob] = server.sign_up_all(["Ann", "Bob"]).await;
    let chat_id = ann.direct_chat(&bob).await;
    let mut anns = ann.connect().await;
    anns.send_message(&chat_id, "one").await;
    let reaction = react(&chat_id, 1, "ok");
    let deletion = update(&chat_id, 1, "delete");
    for (payload, sequence) in [(edit(&chat_id, 1, "two"), 2), (reaction.clone(), 3), (deletion.clone(), 4)] {
        let first = done(&mut anns, payload.clone()).await;
        assert_eq!((&first["sequence"], &first["deduplicated"]), (&json!(sequence), &json!(false)));
        let mut again = done(&mut anns, payload).await;
        assert_eq!(again["deduplicated"], true);
        again["deduplicated"] = json!(false);
        assert_eq!(again, first);
    }
    // Over REST, with the id of the frame.
    let id = |payload: &Value| payload["client_message_id"].as_str().unwrap().to_owned();
    let path =
        |rest: &str, payload: &Value| format!("/chats/{chat_id}/messages/1{rest}?client_message_id={}", id(payload));
    let again = ann.put(&path("/reactions/ok", &reaction), json!({})).await.data(200);
    assert_eq!((&again["sequence"], &again["deduplicated"]), (&json!(3), &json!(true)));
    let again = ann.delete(&path("", &deletion)).await.data(200);
    assert_eq!((&again["sequence"], &again["deduplicated"]), (&json!(4), &json!(true)));

    ann.put(&path("/reactions/other", &reaction), json!({})).await.refused(409, "IDEMPOTENCY_KEY_REUSED");
    let message = json!({ "client_message_id": id(&reaction), "content": "hi" });
    ann.post(&format!("/chats/{chat_id}/messages"), message).await.refused(409, "IDEMPOTENCY_KEY_REUSED");
    assert_eq!(history(&bob, &chat_id).await["head_sequence"], 4);
}

async fn updates_do_not_count_as_unread_and_a_deleted_message_no_longer_does(server: &TestServer) {
    let [ann, bob] = server.sign_up_all(["Ann", "Bob"]).await;
    let chat_id = ann.direct_chat(&bob).await;
    ann.send(&chat_id, "one").await;
    ann.send(&chat_id, "two").await;
    let body = json!({ "client_message_id": Uuid::new_v4(), "content": "2" });
    ann.patch(&format!("/chats/{chat_id}/messages/2"), body).await.data(200);
    assert_eq!(summary(&bob, &chat_id).await["unread_count"], 2);
    ann.delete(&format!("/chats/{chat_id}/messages/1")).await.data(200);
    assert_eq!(summary(&bob, &chat_id).await["unread_count"], 1);
    let read = json!({ "last_read_sequence": 4 });
    let marks = bob.post(&format!("/chats/{chat_id}/read"), read).await.data(200);
    assert_eq!(marks["read_sequence"], 4, "a watermark may be at an update");
    assert_eq!(summary(&bob, &chat_id).await["unread_count"], 0);
}

/// The messages of a chat as a client keeps them: of two copies the one with the higher revision.
#[derive(Debug, Default, PartialEq)]
struct ClientCopy(BTreeMap<u64, (Value, Value)>);

impl ClientCopy {
    fn message(&mut self, message: &Value) {
        let revision = |state: &Value| state["revision"].as_u64().unwrap_or_default();
        let new = (message["content"].clone(), message["state"].clone());
        let known = self.0.entry(message["sequence"].as_u64().unwrap()).or_insert_with(|| new.clone());
        if revision(&new.1) > revision(&known.1) {
            *known = new;
        }
    }

    fn update(&mut self, update: &Value) {
        if update["kind"] == "deleted" {
            self.0.remove(&update["target_sequence"].as_u64().unwrap());
        }
    }
}

async fn a_client_that_was_away_and_one_that_saw_the_changes_have_the_same_messages(server: &TestServer) {
    let [ann, bob] = server.sign_up_all(["Ann", "Bob"]).await;
    let chat_id = ann.direct_chat(&bob).await;
    let (mut anns, mut live) = (ann.connect().await, bob.connect().await);
    let mut away = ClientCopy::default();
    for content in ["one", "two", "three", "four"] {
        anns.send_message(&chat_id, content).await;
    }
    let before = sync(&mut live, &chat_id, 0).await;
    before["messages"].as_array().unwrap().iter().for_each(|message| away.message(message));

    for payload in [
        edit(&chat_id, 1, "uno"),
        react(&chat_id, 2, "ok"),
        edit(&chat_id, 2, "dos"),
        update(&chat_id, 3, "delete"),
        edit(&chat_id, 1, "ein"),
        react(&chat_id, 4, "ok"),
    ] {
        done(&mut anns, payload).await;
    }
    anns.send_message(&chat_id, "five").await;
    done(&mut anns, edit(&chat_id, 11, "cinco")).await;
    let mut of_live = ClientCopy::default();
    let mut seen = 0;
    while seen < 12 {
        let frame = live.find(|frame| ["message", "message_updated"].iter().any(|kind| frame["type"] == *kind)).await;
        let payload = &frame["payload"];
        if frame["type"] == "message" {
            of_live.message(payload);
            seen = payload["sequence"].as_u64().unwrap();
            continue;
        }
        if !payload["message"].is_null() {
            of_live.message(&payload["message"]);
        }
        of_live.update(&payload["update"]);
        seen = payload["update"]["sequence"].as_u64().unwrap();
    }
    // In pages of two entries, as after a long absence.
    let mut after = 4;
    loop {
        let cursor = json!({ "chat_id": chat_id, "last_acked_sequence": after, "limit": 2 });
        let page = live.ask("sync_request", cursor).await["payload"].take();
        for list in ["messages", "updated_messages"] {
            page[list].as_array().into_iter().flatten().for_each(|message| away.message(message));
        }
        page["updates"].as_array().into_iter().flatten().for_each(|update| away.update(update));
        match page["next_sequence"].as_u64() {
            Some(next) => after = next - 1,
            None => break,
        }
    }
    assert_eq!(away, of_live);
    let contents: Vec<_> = away.0.values().map(|(content, _)| content.clone()).collect();
    assert_eq!(contents, ["ein", "dos", "four", "cinco"]);
    let stored = sync(&mut live, &chat_id, 0).await;
    let mut from_start = ClientCopy::default();
    stored["messages"].as_array().unwrap().iter().for_each(|message| from_start.message(message));
    assert_eq!(from_start, of_live, "and so has a new client");
}

async fn a_client_that_knows_no_updates_loses_no_message_and_reaches_the_head(server: &TestServer) {
    let [ann, bob] = server.sign_up_all(["Ann", "Bob"]).await;
    let chat_id = ann.direct_chat(&bob).await;
    let (mut anns, mut old) = (ann.connect().await, bob.connect().await);
    anns.send_message(&chat_id, "one").await;
    for n in 0..3 {
        done(&mut anns, edit(&chat_id, 1, &n.to_string())).await;
    }
    anns.send_message(&chat_id, "two").await;
    // It sees message 1 and then message 5: a gap, so it asks for what is missing.
    let live = old.find(|frame| frame["type"] == "message" && frame["payload"]["sequence"] == 5).await;
    assert_eq!(live["payload"]["content"], "two");
    let (mut after, mut got, mut pages) = (1, vec![], 0);
    loop {
        let cursor = json!({ "chat_id": chat_id, "last_acked_sequence": after, "limit": 1 });
        let page = old.ask("sync_request", cursor).await["payload"].take();
        got.extend(sequences(&page));
        pages += 1;
        match page["next_sequence"].as_u64() {
            Some(next) => after = next - 1,
            None => {
                after = page["head_sequence"].as_u64().unwrap();
                break;
            }
        }
    }
    assert_eq!((got, after), (vec![5], 5));
    assert!(pages <= 4, "each page covers at least one entry: {pages}");
    old.send(json!({ "type": "ack", "payload": { "chat_id": chat_id, "last_acked_sequence": after } })).await;
    assert!(old.heard_so_far().await.iter().all(|frame| frame["type"] != "error"));
    server.until(async || summary(&bob, &chat_id).await["my_delivered_sequence"] == 5).await;

    // An update at the end: the head is ahead of the last message, and a sync proves that nothing is missing.
    done(&mut anns, react(&chat_id, 5, "ok")).await;
    let page = sync(&mut old, &chat_id, 5).await;
    assert_eq!((sequences(&page), &page["has_more"], &page["head_sequence"]), (vec![], &json!(false), &json!(6)));
    // The next message is again the next one for it.
    anns.send_message(&chat_id, "three").await;
    old.find(|frame| frame["type"] == "message" && frame["payload"]["sequence"] == 7).await;
}

async fn every_refused_update_changes_nothing(server: &TestServer) {
    let [ann, bob, eve] = server.sign_up_all(["Ann", "Bob", "Eve"]).await;
    let chat_id = ann.direct_chat(&bob).await;
    let (mut anns, mut bobs, mut eves) = (ann.connect().await, bob.connect().await, eve.connect().await);
    anns.send_message(&chat_id, "one").await;
    anns.send_message(&chat_id, "deleted").await;
    let short = json!({
        "client_message_id": Uuid::new_v4(), "chat_id": chat_id, "content": "expired", "ttl_seconds": 1,
    });
    anns.ask("send_message", short).await;
    done(&mut anns, update(&chat_id, 2, "delete")).await;
    done(&mut bobs, react(&chat_id, 1, "ok")).await;
    server.until(async || sequences(&history(&bob, &chat_id).await) == [1]).await;
    let before = history(&ann, &chat_id).await;
    assert_eq!(before["head_sequence"], 5);

    let mut unreact = react(&chat_id, 1, "other");
    unreact["action"] = json!("unreact");
    let not_found = ("NOT_FOUND", "message_not_found");
    let cases = [
        (1, edit(&chat_id, 1, "of another"), ("FORBIDDEN", "not_the_author")),
        (1, update(&chat_id, 1, "delete"), ("FORBIDDEN", "may_not_delete")),
        (1, react(&chat_id, 1, "ok"), ("CONFLICT", "already_reacted")),
        (1, unreact, ("NOT_FOUND", "not_reacted")),
        (0, edit(&chat_id, 2, "deleted"), not_found),
        (0, update(&chat_id, 2, "delete"), not_found),
        (0, edit(&chat_id, 3, "expired"), not_found),
        (0, react(&chat_id, 3, "ok"), not_found),
        (0, edit(&chat_id, 4, "an update"), not_found),
        (0, update(&chat_id, 5, "delete"), not_found),
        (0, edit(&chat_id, 6, "above the head"), not_found),
        (0, react(&chat_id, 0, "ok"), not_found),
        (2, react(&chat_id, 1, "ok"), ("NOT_A_MEMBER", "")),
        (0, update(&chat_id, 1, "edit"), ("INVALID_MESSAGE", "")),
        (0, update(&chat_id, 1, "react"), ("INVALID_MESSAGE", "")),
        (0, update(&chat_id, 1, "pin"), ("INVALID_MESSAGE", "")),
        (0, react(&chat_id, 1, "two words"), ("INVALID_MESSAGE", "")),
        (0, react(&chat_id, 1, &"x".repeat(65)), ("INVALID_MESSAGE", "")),
        (0, edit(&chat_id, 1, &"x".repeat(4097)), ("MESSAGE_TOO_LARGE", "")),
    ];
    for (by, payload, (code, reason)) in cases {
        let socket = &mut [&mut anns, &mut bobs, &mut eves][by];
        let answer = socket.ask("update_message", payload.clone()).await;
        assert_eq!(answer["payload"]["code"], code, "{payload} {answer}");
        let found = answer["payload"]["details"]["reason"].as_str().unwrap_or_default();
        assert_eq!(found, reason, "{payload}");
        assert_eq!(history(&ann, &chat_id).await, before, "{payload}");
    }
    eve.get(&format!("/chats/{chat_id}/messages/1/reactions")).await.refused(403, "NOT_A_MEMBER");
    ann.put(&format!("/chats/{chat_id}/messages/1/reactions/a%20b"), json!({})).await.refused(400, "VALIDATION_ERROR");
    let members = bob.get(&format!("/chats/{chat_id}/messages/1/reactions")).await.data(200)["members"].take();
    assert_eq!(members, json!([{ "user_id": bob.user_id, "reactions": ["ok"] }]));
}

async fn a_message_takes_ten_reactions_of_a_member_and_twenty_kinds(server: &TestServer) {
    let [ann, bob, cem] = server.sign_up_all(["Ann", "Bob", "Cem"]).await;
    let chat_id = ann.group("Team", &[&bob, &cem]).await;
    let mut sockets = [ann.connect().await, bob.connect().await, cem.connect().await];
    sockets[0].send_message(&chat_id, "vote").await;
    for (member, first) in [(0, 0), (1, 10)] {
        for kind in first..first + 10 {
            done(&mut sockets[member], react(&chat_id, 1, &format!("kind-{kind}"))).await;
        }
    }
    let limit = |reason: &str| ("INVALID_OPERATION".to_owned(), reason.to_owned());
    assert_eq!(refused(&mut sockets[0], react(&chat_id, 1, "kind-10")).await, limit("too_many_reactions"));
    assert_eq!(refused(&mut sockets[2], react(&chat_id, 1, "kind-20")).await, limit("too_many_kinds"));
    done(&mut sockets[2], react(&chat_id, 1, "kind-19")).await;
    let page = history(&ann, &chat_id).await;
    let reactions = page["messages"][0]["state"]["reactions"].as_array().unwrap();
    assert_eq!((reactions.len(), &reactions[19]["count"]), (20, &json!(2)));
    assert_eq!(page["head_sequence"], 22);
}

async fn in_a_blocked_direct_chat_nobody_updates(server: &TestServer) {
    let [ann, bob] = server.sign_up_all(["Ann", "Bob"]).await;
    let chat_id = ann.direct_chat(&bob).await;
    let (mut anns, mut bobs) = (ann.connect().await, bob.connect().await);
    bobs.send_message(&chat_id, "before").await;
    ann.put(&format!("/blocks/{}", bob.user_id), json!({})).await.data(204);
    let before = history(&ann, &chat_id).await;
    let at_blocked = ("FORBIDDEN".to_owned(), "not_reachable".to_owned());
    let at_blocker = ("INVALID_OPERATION".to_owned(), "blocked_by_you".to_owned());
    for payload in [edit(&chat_id, 1, "after"), update(&chat_id, 1, "delete"), react(&chat_id, 1, "ok")] {
        assert_eq!(refused(&mut bobs, payload).await, at_blocked);
    }
    assert_eq!(refused(&mut anns, react(&chat_id, 1, "ok")).await, at_blocker);
    assert_eq!(history(&ann, &chat_id).await, before);
}

#[tokio::test]
async fn authors_update_within_the_window_of_the_service_and_admins_at_any_time() {
    let server = TestServer::start_with(&[("TIDINGS_MESSAGES__UPDATE_WINDOW_SECONDS", "1")]).await;
    let [ann, bob] = server.sign_up_all(["Ann", "Bob"]).await;
    let service = server.call(reqwest::Method::GET, "/api/v1", None).await.data(200);
    assert_eq!(service["limits"]["update_window_seconds"], 1);
    let chat_id = ann.group("Team", &[&bob]).await;
    let mut bobs = bob.connect().await;
    bobs.send_message(&chat_id, "old").await;
    let path = format!("/chats/{chat_id}/messages/1");
    let too_late = async || {
        let body = json!({ "client_message_id": Uuid::new_v4(), "content": "edited" });
        bob.patch(&path, body).await.status == 400
    };
    server.until(too_late).await;
    let before = history(&ann, &chat_id).await;
    for payload in [edit(&chat_id, 1, "later"), update(&chat_id, 1, "delete")] {
        assert_eq!(refused(&mut bobs, payload).await, ("INVALID_OPERATION".to_owned(), "too_old".to_owned()));
    }
    assert_eq!(history(&ann, &chat_id).await, before);
    done(&mut bobs, react(&chat_id, 1, "ok")).await;
    ann.delete(&path).await.data(200);
    assert_eq!(sequences(&history(&bob, &chat_id).await), [0; 0]);
}

#[tokio::test]
async fn the_webhook_gets_updates_in_the_order_of_their_chat() {
    let mut receiver = WebhookReceiver::start().await;
    let secret = webhook::secret_file();
    let server = webhook::server(&receiver.url(), &secret).await;
    let ann = server.sign_up("Ann").await;
    let chat_id = webhook::group_with(&ann, &["frist"]).await;
    webhook::heard(&mut receiver, 2).await;
    let body = json!({ "client_message_id": Uuid::new_v4(), "content": "first" });
    ann.patch(&format!("/chats/{chat_id}/messages/1"), body).await.data(200);
    let edited = webhook::heard(&mut receiver, 1).await.remove(0);
    assert_eq!((&edited["event_type"], &edited["event_number"]), (&json!("MessageUpdated"), &json!(3)));
    let payload = &edited["payload"];
    assert_eq!(
        (&payload["kind"], &payload["sequence"], &payload["target_sequence"]),
        (&json!("edited"), &json!(2), &json!(1))
    );
    assert_eq!((&payload["user_id"], &payload["message"]["content"]), (&json!(ann.user_id), &json!("first")));

    ann.delete(&format!("/chats/{chat_id}/messages/1")).await.data(200);
    let deleted = webhook::heard(&mut receiver, 1).await.remove(0);
    assert_eq!((&deleted["payload"]["kind"], &deleted["event_number"]), (&json!("deleted"), &json!(4)));
    assert_eq!(deleted["payload"]["message"], Value::Null);
}
