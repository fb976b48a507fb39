use reqwest::Method;
use serde_json::{Value, json};
use uuid::Uuid;

use super::stage::{AuthorizationStage, TestCaller};
use crate::server::{RestResponse, TestDevice};

pub(super) async fn a_cursor_is_good_for_the_list_and_the_user_it_was_given_to(stage: &AuthorizationStage) {
    let (member, admin) = (stage.device(TestCaller::Member), stage.device(TestCaller::Admin));
    for _ in 0..3 {
        let scene = stage.scene().await;
        stage.owner.send(&scene.chat_id, "one more").await;
    }
    let cursor = async |device: &TestDevice, path: &str| {
        let answer = device.get(path).await;
        answer.body["pagination"]["next_cursor"].as_str().unwrap().to_owned()
    };
    let chats = member.get("/chats").await.data(200);
    let chat = |n: usize| chats["chats"][n]["chat_id"].as_str().unwrap();
    let inbox = cursor(member, "/chats?limit=1").await;
    let history = cursor(member, &format!("/chats/{}/messages?limit=1", chat(0))).await;
    let on = |path: &str, cursor: &str| format!("{path}?cursor={cursor}");
    assert_eq!(member.get(&on("/chats", &inbox)).await.status, 200);
    for (device, path) in [
        (admin, on("/chats", &inbox)),
        (member, on("/contacts", &inbox)),
        (member, on("/chats", &history)),
        (member, on(&format!("/chats/{}/messages", chat(1)), &history)),
    ] {
        let refused = device.get(&path).await;
        assert_eq!(refused.outcome(), "400 VALIDATION_ERROR", "{path}");
        assert_eq!(refused.body["error"]["details"]["field_errors"][0]["field"], "cursor");
    }
}

pub(super) async fn an_idempotency_key_is_its_users_own(stage: &AuthorizationStage) {
    let key = Uuid::new_v4().to_string();
    let create = async |actor| {
        let request = stage.device(actor).request(Method::POST, "/chats").header("idempotency-key", &key);
        RestResponse::of(request.json(&json!({ "type": "group", "name": "Mine", "member_ids": [] }))).await
    };
    let (first, again, others) =
        (create(TestCaller::Owner).await, create(TestCaller::Owner).await, create(TestCaller::Outsider).await);
    assert_eq!(again.header("x-idempotent-replay"), "true");
    assert_eq!(others.header("x-idempotent-replay"), "");
    let chat_id = |answer: &RestResponse| answer.body["data"]["chat_id"].clone();
    assert_eq!(chat_id(&first), chat_id(&again));
    assert_ne!(chat_id(&first), chat_id(&others), "the chat of another user is not returned");
}

pub(super) async fn the_client_message_id_of_another_user_reveals_nothing(stage: &AuthorizationStage) {
    let scene = stage.scene().await;
    let send = async |actor, content: &str, client_message_id: Uuid| {
        let body = json!({ "client_message_id": client_message_id, "content": content });
        stage.device(actor).post(&format!("/chats/{}/messages", scene.chat_id), body).await
    };
    let id = Uuid::new_v4();
    let first = send(TestCaller::Owner, "mine", id).await.data(201);
    let others = send(TestCaller::Member, "mine", id).await.data(201);
    assert_eq!(others["deduplicated"], false);
    assert_ne!(first["message_id"], others["message_id"]);
}

pub(super) async fn an_id_of_another_kind_names_nothing(stage: &AuthorizationStage) {
    let scene = stage.scene().await;
    let owner = &stage.owner;
    let (chat, message, user) = (&scene.chat_id, &scene.message_id, &owner.user_id);
    let bare = chat.split_once('_').unwrap().1;
    for path in [
        format!("/chats/{message}"),
        format!("/chats/{user}"),
        format!("/chats/{bare}"),
        format!("/chats/user_{bare}"),
        format!("/messages/{chat}"),
        format!("/users/{chat}"),
        format!("/users/{}", owner.session_id),
        format!("/chats/{chat}%00"),
        format!("/chats/{chat}%20"),
    ] {
        assert_eq!(owner.get(&path).await.outcome(), "404 NOT_FOUND", "{path}");
    }
}

pub(super) async fn phone_numbers_and_sessions_of_others_are_never_returned(stage: &AuthorizationStage) {
    let scene = stage.scene().await;
    let target = &stage.target;
    let digits = target.phone_number.trim_start_matches('+');
    for actor in [TestCaller::Member, TestCaller::Admin, TestCaller::Owner] {
        let device = stage.device(actor);
        let mut answers = vec![
            device.post("/users/lookup", json!({ "phone_numbers": [target.phone_number] })).await,
            device.put(&format!("/contacts/{}", target.user_id), json!({})).await,
        ];
        for path in [
            format!("/users/{}", target.user_id),
            format!("/chats/{}", scene.chat_id),
            format!("/chats/{}/receipts", scene.chat_id),
            "/chats".to_owned(),
            "/contacts".to_owned(),
            "/sessions".to_owned(),
        ] {
            answers.push(device.get(&path).await);
        }
        for answer in answers {
            assert_eq!(answer.status, 200, "{}", answer.body);
            let said = answer.body.to_string();
            assert!(!said.contains(digits) && !said.contains(&target.session_id), "{actor:?}: {said}");
        }
    }
    let unknown = stage.owner.post("/users/lookup", json!({ "phone_numbers": ["+14155550000"] })).await;
    assert_eq!(unknown.data(200)["results"], json!([Value::Null]));
}
