//! Visibility of presence by query, by subscription and by push.

use reqwest::Method;
use serde_json::{Value, json};

use crate::rules::rules;
use crate::server::{RestResponse, TestDevice, TestServer, TestSocket};

rules!(
    hiding_presence_notifies_subscribers_at_once_and_showing_it_restores_it,
    contacts_see_each_other_while_both_list_each_other,
    a_disconnect_ends_the_typing_indicator,
    a_user_is_online_until_the_last_device_disconnects,
);

/// The presence of a user, queried by another.
async fn seen(viewer: &TestDevice, user: &TestDevice) -> Value {
    let one = viewer.get(&format!("/users/{}/presence", user.user_id)).await.data(200);
    let many = viewer.post("/presence/query", json!({ "user_ids": [user.user_id] })).await.data(200);
    assert_eq!(many, json!({ "presences": [one] }), "both ways of asking say the same");
    one
}

async fn subscribe(socket: &mut TestSocket, users: &[&TestDevice]) -> Value {
    let user_ids: Vec<_> = users.iter().map(|user| &user.user_id).collect();
    let mut snapshot = socket.ask("presence_subscribe", json!({ "user_ids": user_ids })).await;
    assert_eq!(snapshot["type"], "presence_snapshot", "{snapshot}");
    snapshot["payload"]["presences"].take()
}

/// Waits for the push of a user's status to a socket, and returns the payload.
async fn pushed(socket: &mut TestSocket, user: &TestDevice, status: &str) -> Value {
    let is_it = |frame: &Value| {
        let payload = &frame["payload"];
        frame["type"] == "presence_changed" && payload["user_id"] == user.user_id && payload["status"] == status
    };
    socket.find(is_it).await["payload"].take()
}

/// All presence pushes of a user to a socket.
async fn pushes_of(socket: &mut TestSocket, user: &TestDevice) -> Vec<Value> {
    let heard = socket.heard_so_far().await.into_iter();
    let of_user =
        heard.filter(|frame| frame["type"] == "presence_changed" && frame["payload"]["user_id"] == user.user_id);
    of_user.map(|mut frame| frame["payload"].take()).collect()
}

async fn set_visibility(user: &TestDevice, visibility: &str) {
    user.patch("/users/me", json!({ "presence_visibility": visibility })).await.data(200);
}

async fn list(user: &TestDevice, contact: &TestDevice) -> RestResponse {
    RestResponse::of(user.request(Method::PUT, &format!("/contacts/{}", contact.user_id))).await
}

async fn befriend(one: &TestDevice, other: &TestDevice) {
    list(one, other).await.data(200);
    list(other, one).await.data(200);
}

/// Number of announcements with this status.
async fn announced(server: &TestServer, status: &str) -> u64 {
    let metrics = server.metrics().await;
    let series = format!("tidings_presence_transitions_total{{status=\"{status}\"}} ");
    metrics.lines().find_map(|line| line.strip_prefix(&*series)).map_or(0, |count| count.parse().unwrap())
}

/// Connects a user, and waits until that is announced.
async fn come(server: &TestServer, user: &TestDevice) -> TestSocket {
    let before = announced(server, "online").await;
    let socket = user.connect().await;
    server.until(async || announced(server, "online").await > before).await;
    socket
}

/// Disconnects a user, and waits until that is announced.
async fn go(server: &TestServer, socket: TestSocket) {
    let before = announced(server, "offline").await;
    socket.leave().await;
    server.until(async || announced(server, "offline").await > before).await;
}

/// Connects and disconnects a marker that all sockets have subscribed to: its push follows all earlier announcements.
async fn come_and_go(server: &TestServer, marker: &TestDevice, sockets: &mut [TestSocket]) {
    let socket = come(server, marker).await;
    for watching in &mut *sockets {
        pushed(watching, marker, "online").await;
    }
    go(server, socket).await;
    for watching in sockets {
        pushed(watching, marker, "offline").await;
    }
}

/// The matrix: under each setting, the view of a contact, a one-sided contact, a stranger and the user themselves, by
/// query, by subscription and by push, and of the time last seen.
#[tokio::test]
async fn privacy_enforced() {
    let server = TestServer::start().await;
    let [contact, one_sided, stranger, marker] =
        server.sign_up_all(["Contact", "One-sided", "Stranger", "Marker"]).await;
    set_visibility(&marker, "everyone").await;
    let viewers = [&contact, &one_sided, &stranger];
    marker.group("All", &viewers).await;

    for (visibility, admitted) in
        [("everyone", [true, true, true]), ("contacts_only", [true, false, false]), ("nobody", [false, false, false])]
    {
        let user = server.sign_up("User").await;
        set_visibility(&user, visibility).await;
        befriend(&user, &contact).await;
        list(&one_sided, &user).await.data(200);
        let chat_id = user.group("Us", &viewers).await;
        user.send(&chat_id, "hello").await;
        let unknown = json!({ "user_id": user.user_id, "status": "unknown" });
        let or_unknown = |is_admitted: bool, seen: Value| if is_admitted { seen } else { unknown.clone() };

        // Before the user's first connection: the query, and the initial state of a subscription.
        let mut sockets = [contact.connect().await, one_sided.connect().await, stranger.connect().await];
        let never = json!({ "user_id": user.user_id, "status": "offline" });
        for ((viewer, socket), is_admitted) in viewers.iter().zip(&mut sockets).zip(admitted) {
            let expected = or_unknown(is_admitted, never.clone());
            assert_eq!(seen(viewer, &user).await, expected, "{visibility}, offline");
            assert_eq!(subscribe(socket, &[&user, &marker]).await[0], expected, "{visibility}, subscribed");
        }

        // Online.
        let online = json!({ "user_id": user.user_id, "status": "online" });
        let mut own = come(&server, &user).await;
        assert_eq!(subscribe(&mut own, &[&user]).await, json!([online]), "{visibility}, oneself");
        assert_eq!(seen(&user, &user).await, online, "{visibility}, oneself");
        for (viewer, is_admitted) in viewers.iter().zip(admitted) {
            assert_eq!(seen(viewer, &user).await, or_unknown(is_admitted, online.clone()), "{visibility}, online");
        }
        come_and_go(&server, &marker, &mut sockets).await;
        for (socket, is_admitted) in sockets.iter_mut().zip(admitted) {
            let expected = is_admitted.then(|| online.clone());
            assert_eq!(pushes_of(socket, &user).await, Vec::from_iter(expected), "{visibility}, pushed once");
        }
        assert_eq!(
            pushes_of(&mut own, &user).await,
            [Value::Null; 0],
            "{visibility}, users are not notified of themselves"
        );

        // Offline.
        go(&server, own).await;
        come_and_go(&server, &marker, &mut sockets).await;
        let gone = seen(&user, &user).await;
        assert!(gone["last_seen"].is_string(), "{gone}");
        for ((viewer, mut socket), is_admitted) in viewers.iter().zip(sockets).zip(admitted) {
            assert_eq!(seen(viewer, &user).await, or_unknown(is_admitted, gone.clone()), "{visibility}, last seen");
            let expected = is_admitted.then(|| gone.clone());
            assert_eq!(pushes_of(&mut socket, &user).await, Vec::from_iter(expected), "{visibility}, last seen pushed");
            socket.leave().await;
        }
    }
}

#[tokio::test]
async fn subscribers_without_a_common_chat_are_notified_until_they_unsubscribe() {
    let server = TestServer::start().await;
    let [ann, bob, marker] = server.sign_up_all(["Ann", "Bob", "Marker"]).await;
    for user in [&bob, &marker] {
        set_visibility(user, "everyone").await;
    }
    let mut anns = ann.connect().await;
    subscribe(&mut anns, &[&bob, &marker]).await;
    let bobs = bob.connect().await;
    pushed(&mut anns, &bob, "online").await;
    bobs.leave().await;
    let gone = pushed(&mut anns, &bob, "offline").await;
    assert_eq!(gone, seen(&ann, &bob).await);

    anns.send(json!({ "type": "presence_unsubscribe", "payload": { "user_ids": [bob.user_id] } })).await;
    anns.ask("heartbeat", json!({})).await;
    go(&server, come(&server, &bob).await).await;
    come_and_go(&server, &marker, std::slice::from_mut(&mut anns)).await;
    assert_eq!(pushes_of(&mut anns, &bob).await, [Value::Null; 0]);
}

async fn a_user_is_online_until_the_last_device_disconnects(server: &TestServer) {
    let [ann, bob, marker] = server.sign_up_all(["Ann", "Bob", "Marker"]).await;
    for user in [&bob, &marker] {
        set_visibility(user, "everyone").await;
    }
    let mut anns = ann.connect().await;
    subscribe(&mut anns, &[&bob, &marker]).await;
    let phone = bob.connect().await;
    pushed(&mut anns, &bob, "online").await;
    let laptop = server.another_device(&bob).await.connect().await;
    phone.leave().await;
    come_and_go(server, &marker, std::slice::from_mut(&mut anns)).await;
    assert_eq!(seen(&ann, &bob).await["status"], "online");
    assert_eq!(pushes_of(&mut anns, &bob).await, [Value::Null; 0], "neither the second device nor its end is news");
    laptop.leave().await;
    pushed(&mut anns, &bob, "offline").await;
}

async fn hiding_presence_notifies_subscribers_at_once_and_showing_it_restores_it(server: &TestServer) {
    let [ann, bob, cy] = server.sign_up_all(["Ann", "Bob", "Cy"]).await;
    set_visibility(&bob, "everyone").await;
    let chat_id = bob.group("Us", &[&cy]).await;
    bob.send(&chat_id, "hello").await;
    // Ann has subscribed, and Cy is in a chat with Bob.
    let (mut anns, mut cys) = (ann.connect().await, cy.connect().await);
    subscribe(&mut anns, &[&bob]).await;
    let _bobs = bob.connect().await;
    pushed(&mut anns, &bob, "online").await;
    pushed(&mut cys, &bob, "online").await;

    set_visibility(&bob, "nobody").await;
    for (viewer, socket) in [(&ann, &mut anns), (&cy, &mut cys)] {
        let hidden = pushed(socket, &bob, "offline").await;
        assert_eq!(hidden, json!({ "user_id": bob.user_id, "status": "offline" }), "the time last seen is hidden");
        assert_eq!(seen(viewer, &bob).await["status"], "unknown");
    }
    set_visibility(&bob, "everyone").await;
    pushed(&mut anns, &bob, "online").await;
    pushed(&mut cys, &bob, "online").await;
}

async fn contacts_see_each_other_while_both_list_each_other(server: &TestServer) {
    let [ann, bob] = server.sign_up_all(["Ann", "Bob"]).await;
    let mut anns = ann.connect().await;
    let _bobs = bob.connect().await;
    assert_eq!(subscribe(&mut anns, &[&bob]).await[0]["status"], "unknown");
    list(&ann, &bob).await.data(200);
    assert_eq!(seen(&ann, &bob).await["status"], "unknown", "one side is not enough");
    list(&bob, &ann).await.data(200);
    pushed(&mut anns, &bob, "online").await;
    assert_eq!(seen(&ann, &bob).await["status"], "online");

    bob.delete(&format!("/contacts/{}", ann.user_id)).await.data(204);
    pushed(&mut anns, &bob, "offline").await;
    assert_eq!(seen(&ann, &bob).await, json!({ "user_id": bob.user_id, "status": "unknown" }));
}

#[tokio::test]
async fn the_time_last_seen_survives_a_crash_of_every_process() {
    let mut server = TestServer::start().await;
    let [ann, bob] = server.sign_up_all(["Ann", "Bob"]).await;
    set_visibility(&bob, "everyone").await;
    let mut anns = ann.connect().await;
    subscribe(&mut anns, &[&bob]).await;
    let bobs = bob.connect().await;
    pushed(&mut anns, &bob, "online").await;
    bobs.leave().await;
    let gone = pushed(&mut anns, &bob, "offline").await;
    server.kill().await;
    server.restart().await;
    assert_eq!(seen(&ann, &bob).await, gone);
}

async fn a_disconnect_ends_the_typing_indicator(server: &TestServer) {
    let [ann, bob] = server.sign_up_all(["Ann", "Bob"]).await;
    let chat_id = ann.direct_chat(&bob).await;
    let (mut anns, mut bobs) = (ann.connect().await, bob.connect().await);
    bobs.send(json!({ "type": "typing_start", "payload": { "chat_id": chat_id } })).await;
    assert_eq!(anns.next_of("typing_indicator").await["payload"]["is_typing"], true);
    drop(bobs);
    assert_eq!(anns.next_of("typing_indicator").await["payload"]["is_typing"], false);
}
