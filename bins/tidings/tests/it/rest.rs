use std::fmt::Write as _;

use expect_test::expect;
use reqwest::Method;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::rules::rules;
use crate::server::{RestResponse, TestDevice, TestServer};

rules!(
    signing_in_and_staying_so,
    a_first_sign_in_makes_a_user_and_a_later_one_finds_them,
    users,
    chats_and_their_members,
    messages_and_their_delivery_state,
    history_is_walked_by_its_cursors_to_the_first_message,
    a_repeated_post_with_its_idempotency_key_is_answered_by_the_first_answer,
    a_body_over_64_kib_is_refused,
);

/// Calls and their responses, one line each, with fixed names for generated values.
struct Tour {
    names: Vec<(String, &'static str)>,
    lines: String,
}

impl Tour {
    fn new<const N: usize>(devices: [(&TestDevice, &'static str); N]) -> Self {
        let names = devices.iter().flat_map(|(device, name)| {
            [
                (device.user_id.clone(), *name),
                (device.device_id.to_string(), "device"),
                (device.phone_number.clone(), "phone"),
            ]
        });
        Self { names: names.collect(), lines: String::new() }
    }

    /// Names an id in all later lines.
    fn name(&mut self, id: &Value, name: &'static str) {
        self.names.push((id.as_str().unwrap().to_owned(), name));
    }

    async fn call(&mut self, device: &TestDevice, method: Method, path: &str, body: Option<Value>) -> Value {
        let request = device.request(method.clone(), path);
        let answer = RestResponse::of(if let Some(body) = body { request.json(&body) } else { request }).await;
        assert_eq!(answer.header("x-request-id").len(), 26, "{answer:?}");
        self.note(&method, path, &answer);
        answer.body["data"].clone()
    }

    fn note(&mut self, method: &Method, path: &str, answer: &RestResponse) {
        let mut body = answer.body.clone();
        self.redact("", &mut body);
        let named = self.names.iter().fold(path.to_owned(), |path, (id, name)| path.replace(id, name));
        writeln!(self.lines, "{method} {named} {} {body}", answer.status.as_u16()).unwrap();
    }

    fn redact(&self, key: &str, value: &mut Value) {
        match value {
            Value::Array(values) => values.iter_mut().for_each(|value| self.redact(key, value)),
            Value::Object(fields) => fields.iter_mut().for_each(|(key, value)| self.redact(key, value)),
            Value::String(text) => {
                let named = self.names.iter().find(|(id, _)| id == text).map(|(_, name)| *name);
                let is_time = text.len() == 24 && text.ends_with('Z') && text.as_bytes()[10] == b'T';
                match key {
                    "access_token" | "refresh_token" | "ticket" | "next_cursor" | "request_id" => {
                        *text = "…".to_owned()
                    }
                    _ if is_time => *text = "time".to_owned(),
                    _ => *text = named.unwrap_or(text).to_owned(),
                }
            }
            _ => {}
        }
    }
}

async fn signing_in_and_staying_so(server: &TestServer) {
    let ann = server.sign_up("Ann").await;
    let laptop = server.another_device(&ann).await;
    let mut tour = Tour::new([(&ann, "ann"), (&laptop, "ann")]);
    tour.name(&json!(ann.session_id), "phone's session");
    tour.name(&json!(laptop.session_id), "laptop's session");
    let phone_number = json!({ "phone_number": ann.phone_number });
    tour.call(&ann, Method::POST, "/auth/request-otp", Some(phone_number)).await;
    tour.call(&ann, Method::POST, "/auth/request-otp", Some(json!({ "phone_number": "12" }))).await;
    let verify = |otp: &str| json!({ "phone_number": ann.phone_number, "otp": otp, "device_id": ann.device_id });
    tour.call(&ann, Method::POST, "/auth/verify-otp", Some(verify("123456"))).await;
    let refresh = json!({ "refresh_token": laptop.refresh_token, "device_id": laptop.device_id });
    tour.call(&laptop, Method::POST, "/auth/refresh", Some(refresh)).await;
    tour.call(&ann, Method::POST, "/auth/ws-ticket", None).await;
    tour.call(&ann, Method::GET, "/sessions", None).await;
    tour.call(&ann, Method::DELETE, &format!("/sessions/{}", laptop.session_id), None).await;
    tour.call(&ann, Method::DELETE, "/sessions", None).await;
    tour.call(&ann, Method::POST, "/auth/logout", None).await;
    tour.call(&ann, Method::GET, "/sessions", None).await;
    expect![[r#"
        POST /auth/request-otp 200 {"data":{"expires_at":"time","phone_number":"phone","retry_after_seconds":0}}
        POST /auth/request-otp 400 {"error":{"code":"VALIDATION_ERROR","details":{"field_errors":[{"field":"phone_number","message":"the phone number is not a valid E.164 number"}]},"message":"phone_number: the phone number is not a valid E.164 number","request_id":"…"}}
        POST /auth/verify-otp 401 {"error":{"code":"UNAUTHORIZED","message":"the code is wrong or has expired","request_id":"…"}}
        POST /auth/refresh 200 {"data":{"tokens":{"access_token":"…","expires_in":3600,"refresh_token":"…","token_type":"Bearer"}}}
        POST /auth/ws-ticket 200 {"data":{"expires_at":"time","ticket":"…"}}
        GET /sessions 200 {"data":{"sessions":[{"created_at":"time","device_id":"device","expires_at":"time","is_current":true,"last_active_at":"time","session_id":"phone's session"},{"created_at":"time","device_id":"device","expires_at":"time","is_current":false,"last_active_at":"time","session_id":"laptop's session"}]}}
        DELETE /sessions/laptop's session 204 null
        DELETE /sessions 200 {"data":{"revoked_count":0}}
        POST /auth/logout 204 null
        GET /sessions 401 {"error":{"code":"UNAUTHORIZED","message":"the session of this token has ended","request_id":"…"}}
    "#]].assert_eq(&tour.lines);
}

async fn a_first_sign_in_makes_a_user_and_a_later_one_finds_them(server: &TestServer) {
    for (status, is_new_user) in [(201, true), (200, false)] {
        let phone_number = "+14155550100";
        let post = async |path: &str, body: Value| server.call(Method::POST, path, Some(&body)).await;
        post("/api/v1/auth/request-otp", json!({ "phone_number": phone_number })).await.data(200);
        let mut body = json!({ "phone_number": phone_number, "otp": "000000", "device_id": Uuid::new_v4() });
        body["display_name"] = json!("Ann");
        let data = post("/api/v1/auth/verify-otp", body).await.data(status);
        assert_eq!(data["is_new_user"], is_new_user);
        assert_eq!(
            (&data["user"]["display_name"], &data["user"]["phone_number"]),
            (&json!("Ann"), &json!(phone_number))
        );
        assert_eq!((&data["tokens"]["token_type"], &data["tokens"]["expires_in"]), (&json!("Bearer"), &json!(3600)));
        assert_eq!(data["session"]["is_current"], true);
    }
}

async fn users(server: &TestServer) {
    let [ann, bob] = server.sign_up_all(["Ann", "Bob"]).await;
    let mut tour = Tour::new([(&ann, "ann"), (&bob, "bob")]);
    tour.call(&ann, Method::GET, "/users/me", None).await;
    let update = json!({ "display_name": "Anna", "presence_visibility": "everyone" });
    tour.call(&ann, Method::PATCH, "/users/me", Some(update)).await;
    tour.call(&ann, Method::PATCH, "/users/me", Some(json!({ "display_name": "" }))).await;
    tour.call(&bob, Method::GET, &format!("/users/{}", ann.user_id), None).await;
    tour.call(&bob, Method::GET, "/users/user_01ARZ3NDEKTSV4RRFFQ69G5FAV", None).await;
    let lookup = json!({ "phone_numbers": ["+14155550199", bob.phone_number] });
    tour.call(&ann, Method::POST, "/users/lookup", Some(lookup)).await;
    expect![[r#"
        GET /users/me 200 {"data":{"created_at":"time","display_name":"Ann","group_invites":"everyone","phone_number":"phone","presence_visibility":"contacts_only","updated_at":"time","user_id":"ann"}}
        PATCH /users/me 200 {"data":{"created_at":"time","display_name":"Anna","group_invites":"everyone","phone_number":"phone","presence_visibility":"everyone","updated_at":"time","user_id":"ann"}}
        PATCH /users/me 400 {"error":{"code":"VALIDATION_ERROR","details":{"field_errors":[{"field":"display_name","message":"name is empty"}]},"message":"display_name: name is empty","request_id":"…"}}
        GET /users/ann 200 {"data":{"created_at":"time","display_name":"Anna","user_id":"ann"}}
        GET /users/user_01ARZ3NDEKTSV4RRFFQ69G5FAV 404 {"error":{"code":"NOT_FOUND","message":"no such user","request_id":"…"}}
        POST /users/lookup 200 {"data":{"results":[null,{"created_at":"time","display_name":"Bob","user_id":"bob"}]}}
    "#]].assert_eq(&tour.lines);
}

async fn chats_and_their_members(server: &TestServer) {
    let [ann, bob, cy] = server.sign_up_all(["Ann", "Bob", "Cy"]).await;
    let mut tour = Tour::new([(&ann, "ann"), (&bob, "bob"), (&cy, "cy")]);
    let direct = json!({ "type": "direct", "member_ids": [bob.user_id] });
    let chat_id = ann.post("/chats", direct.clone()).await.data(201)["chat_id"].clone();
    tour.name(&chat_id, "direct");
    tour.call(&ann, Method::POST, "/chats", Some(direct)).await;
    let group = json!({ "type": "group", "name": "Club", "member_ids": [bob.user_id] });
    let chat_id = ann.post("/chats", group).await.data(201)["chat_id"].clone();
    tour.name(&chat_id, "group");
    let group = format!("/chats/{}", chat_id.as_str().unwrap());
    tour.call(&ann, Method::POST, &format!("{group}/members"), Some(json!({ "user_id": cy.user_id }))).await;
    tour.call(&ann, Method::POST, &format!("{group}/members"), Some(json!({ "user_id": cy.user_id }))).await;
    tour.call(&cy, Method::PATCH, &group, Some(json!({ "name": "Mine" }))).await;
    tour.call(&ann, Method::PATCH, &group, Some(json!({ "name": "Den" }))).await;
    tour.call(&ann, Method::PATCH, &format!("{group}/members/{}", bob.user_id), Some(json!({ "role": "owner" }))).await;
    tour.call(&bob, Method::POST, &format!("{group}/leave"), None).await;
    tour.call(&bob, Method::DELETE, &format!("{group}/members/{}", cy.user_id), None).await;
    tour.call(&cy, Method::GET, &group, None).await;
    tour.call(&ann, Method::POST, &format!("{group}/mute"), Some(json!({}))).await;
    tour.call(&ann, Method::POST, &format!("{group}/mute"), Some(json!({ "duration_seconds": 60 }))).await;
    tour.call(&ann, Method::POST, &format!("{group}/unmute"), None).await;
    tour.call(&ann, Method::POST, &format!("{group}/leave"), None).await;
    tour.call(&ann, Method::GET, "/chats/chat_01ARZ3NDEKTSV4RRFFQ69G5FAV", None).await;
    tour.call(&bob, Method::GET, &group, None).await;
    expect![[r#"
        POST /chats 200 {"data":{"chat_id":"direct","created_at":"time","head_sequence":0,"last_message":null,"last_message_at":null,"member_count":2,"members":[{"display_name":"Ann","joined_at":"time","role":"member","user_id":"ann"},{"display_name":"Bob","joined_at":"time","role":"member","user_id":"bob"}],"message_ttl_seconds":null,"my_delivered_sequence":0,"my_membership":{"muted_until":null,"role":"member"},"my_read_sequence":0,"name":null,"other_participants":[{"created_at":"time","display_name":"Bob","user_id":"bob"}],"type":"direct","unread_count":0}}
        POST /chats/group/members 201 {"data":{"display_name":"Cy","joined_at":"time","role":"member","user_id":"cy"}}
        POST /chats/group/members 409 {"error":{"code":"ALREADY_A_MEMBER","message":"that user is a member already","request_id":"…"}}
        PATCH /chats/group 403 {"error":{"code":"FORBIDDEN","message":"your role in this chat does not allow this","request_id":"…"}}
        PATCH /chats/group 200 {"data":{"chat_id":"group","created_at":"time","head_sequence":0,"last_message":null,"last_message_at":null,"member_count":3,"members":[{"display_name":"Ann","joined_at":"time","role":"owner","user_id":"ann"},{"display_name":"Bob","joined_at":"time","role":"member","user_id":"bob"},{"display_name":"Cy","joined_at":"time","role":"member","user_id":"cy"}],"message_ttl_seconds":null,"my_delivered_sequence":0,"my_membership":{"muted_until":null,"role":"owner"},"my_read_sequence":0,"name":"Den","other_participants":[{"created_at":"time","display_name":"Bob","user_id":"bob"},{"created_at":"time","display_name":"Cy","user_id":"cy"}],"type":"group","unread_count":0}}
        PATCH /chats/group/members/bob 200 {"data":{"display_name":"Bob","joined_at":"time","role":"owner","user_id":"bob"}}
        POST /chats/group/leave 400 {"error":{"code":"INVALID_OPERATION","message":"the owner hands the group over before leaving it or changing role","request_id":"…"}}
        DELETE /chats/group/members/cy 204 null
        GET /chats/group 403 {"error":{"code":"NOT_A_MEMBER","message":"you are not a member of this chat","request_id":"…"}}
        POST /chats/group/mute 200 {"data":{"chat_id":"group","muted":true}}
        POST /chats/group/mute 200 {"data":{"chat_id":"group","muted":true,"muted_until":"time"}}
        POST /chats/group/unmute 200 {"data":{"chat_id":"group","muted":false}}
        POST /chats/group/leave 204 null
        GET /chats/chat_01ARZ3NDEKTSV4RRFFQ69G5FAV 404 {"error":{"code":"NOT_FOUND","message":"no such chat","request_id":"…"}}
        GET /chats/group 200 {"data":{"chat_id":"group","created_at":"time","head_sequence":0,"last_message":null,"last_message_at":null,"member_count":1,"members":[{"display_name":"Bob","joined_at":"time","role":"owner","user_id":"bob"}],"message_ttl_seconds":null,"my_delivered_sequence":0,"my_membership":{"muted_until":null,"role":"owner"},"my_read_sequence":0,"name":"Den","other_participants":[],"type":"group","unread_count":0}}
    "#]].assert_eq(&tour.lines);
}

async fn messages_and_their_delivery_state(server: &TestServer) {
    let [ann, bob] = server.sign_up_all(["Ann", "Bob"]).await;
    let mut tour = Tour::new([(&ann, "ann"), (&bob, "bob")]);
    let chat_id = ann.direct_chat(&bob).await;
    tour.name(&json!(chat_id), "chat");
    let messages = format!("/chats/{chat_id}/messages");
    let client_message_id = Uuid::new_v4();
    tour.name(&json!(client_message_id), "send 1");
    let body = json!({ "client_message_id": client_message_id, "content": "hello" });
    // The id is named before the call is recorded.
    let first = ann.post(&messages, body.clone()).await.data(201);
    tour.name(&first["message_id"], "message 1");
    tour.call(&ann, Method::POST, &messages, Some(body.clone())).await;
    let reused = json!({ "client_message_id": client_message_id, "content": "bye" });
    tour.call(&ann, Method::POST, &messages, Some(reused)).await;
    tour.call(&ann, Method::POST, &messages, Some(json!({ "client_message_id": client_message_id, "content": "" })))
        .await;
    tour.call(&bob, Method::POST, &format!("/chats/{chat_id}/read"), Some(json!({ "last_read_sequence": 2 }))).await;
    for content in ["two", "three"] {
        let sent = bob.send(&chat_id, content).await;
        tour.name(&sent["message_id"], if content == "two" { "message 2" } else { "message 3" });
        tour.name(&sent["client_message_id"], "another send");
    }
    tour.call(&bob, Method::POST, &format!("/chats/{chat_id}/read"), Some(json!({ "last_read_sequence": 1 }))).await;
    tour.call(&ann, Method::GET, &format!("{messages}?limit=2"), None).await;
    tour.call(&ann, Method::GET, &format!("{messages}?before=2"), None).await;
    tour.call(&ann, Method::GET, &format!("{messages}?after=2"), None).await;
    tour.call(&ann, Method::GET, &format!("{messages}?limit=0"), None).await;
    tour.call(&ann, Method::GET, &format!("{messages}/around/2?limit=2"), None).await;
    tour.call(&bob, Method::GET, &format!("/messages/{}", first["message_id"].as_str().unwrap()), None).await;
    tour.call(&ann, Method::GET, &format!("/chats/{chat_id}/receipts?sequence=1"), None).await;
    tour.call(&ann, Method::GET, &format!("/chats/{chat_id}"), None).await;
    tour.call(&ann, Method::GET, "/chats?limit=1", None).await;
    expect![[r#"
        POST /chats/chat/messages 200 {"data":{"chat_id":"chat","client_message_id":"send 1","created_at":"time","deduplicated":true,"message_id":"message 1","sequence":1}}
        POST /chats/chat/messages 409 {"error":{"code":"IDEMPOTENCY_KEY_REUSED","message":"this client_message_id was used for a message with other content, content type or ttl","request_id":"…"}}
        POST /chats/chat/messages 400 {"error":{"code":"VALIDATION_ERROR","details":{"field_errors":[{"field":"content","message":"content is empty"}]},"message":"content is empty","request_id":"…"}}
        POST /chats/chat/read 422 {"error":{"code":"INVALID_SEQUENCE","details":{"head_sequence":1},"message":"sequence is above the head of the chat, 1","request_id":"…"}}
        POST /chats/chat/read 200 {"data":{"chat_id":"chat","delivered_sequence":1,"read_sequence":1}}
        GET /chats/chat/messages?limit=2 200 {"data":{"head_sequence":3,"messages":[{"chat_id":"chat","content":"three","content_type":"text/plain","created_at":"time","message_id":"message 3","sender_id":"bob","sequence":3},{"chat_id":"chat","content":"two","content_type":"text/plain","created_at":"time","message_id":"message 2","sender_id":"bob","sequence":2}]},"pagination":{"has_more":true,"next_cursor":"…"}}
        GET /chats/chat/messages?before=2 200 {"data":{"head_sequence":3,"messages":[{"chat_id":"chat","client_message_id":"send 1","content":"hello","content_type":"text/plain","created_at":"time","message_id":"message 1","sender_id":"ann","sequence":1,"status":"read"}]},"pagination":{"has_more":false,"next_cursor":null}}
        GET /chats/chat/messages?after=2 200 {"data":{"head_sequence":3,"messages":[{"chat_id":"chat","content":"three","content_type":"text/plain","created_at":"time","message_id":"message 3","sender_id":"bob","sequence":3}]},"pagination":{"has_more":false,"next_cursor":null}}
        GET /chats/chat/messages?limit=0 400 {"error":{"code":"VALIDATION_ERROR","details":{"field_errors":[{"field":"limit","message":"is 0, it must be 1 or more"}]},"message":"limit: is 0, it must be 1 or more","request_id":"…"}}
        GET /chats/chat/messages/around/2?limit=2 200 {"data":{"has_more_after":true,"has_more_before":false,"head_sequence":3,"messages":[{"chat_id":"chat","client_message_id":"send 1","content":"hello","content_type":"text/plain","created_at":"time","message_id":"message 1","sender_id":"ann","sequence":1,"status":"read"},{"chat_id":"chat","content":"two","content_type":"text/plain","created_at":"time","message_id":"message 2","sender_id":"bob","sequence":2}],"target_sequence":2}}
        GET /messages/message 1 200 {"data":{"chat_id":"chat","content":"hello","content_type":"text/plain","created_at":"time","message_id":"message 1","sender_id":"ann","sequence":1}}
        GET /chats/chat/receipts?sequence=1 200 {"data":{"chat_id":"chat","delivered_count":1,"member_count":2,"members":[{"delivered_sequence":0,"read_sequence":0,"user_id":"ann"},{"delivered_at":"time","delivered_sequence":1,"read_at":"time","read_sequence":1,"user_id":"bob"}],"read_count":1,"sequence":1}}
        GET /chats/chat 200 {"data":{"chat_id":"chat","created_at":"time","head_sequence":3,"last_message":{"created_at":"time","message_id":"message 3","preview":"three","sender_id":"bob","sequence":3},"last_message_at":"time","member_count":2,"members":[{"display_name":"Ann","joined_at":"time","role":"member","user_id":"ann"},{"display_name":"Bob","joined_at":"time","role":"member","user_id":"bob"}],"message_ttl_seconds":null,"my_delivered_sequence":0,"my_membership":{"muted_until":null,"role":"member"},"my_read_sequence":0,"name":null,"other_participants":[{"created_at":"time","display_name":"Bob","user_id":"bob"}],"type":"direct","unread_count":2}}
        GET /chats?limit=1 200 {"data":{"chats":[{"chat_id":"chat","created_at":"time","head_sequence":3,"last_message":{"created_at":"time","message_id":"message 3","preview":"three","sender_id":"bob","sequence":3},"last_message_at":"time","member_count":2,"message_ttl_seconds":null,"my_delivered_sequence":0,"my_membership":{"muted_until":null,"role":"member"},"my_read_sequence":0,"name":null,"other_participants":[{"created_at":"time","display_name":"Bob","user_id":"bob"}],"type":"direct","unread_count":2}]},"pagination":{"has_more":false,"next_cursor":null}}
    "#]].assert_eq(&tour.lines);
}

async fn history_is_walked_by_its_cursors_to_the_first_message(server: &TestServer) {
    let ann = server.sign_up("Ann").await;
    let chat_id = ann.group("Notes", &[]).await;
    for n in 1..=5 {
        ann.send(&chat_id, &n.to_string()).await;
    }
    let mut contents = Vec::new();
    let mut query = "limit=2".to_owned();
    loop {
        let answer = ann.get(&format!("/chats/{chat_id}/messages?{query}")).await;
        let messages = answer.body["data"]["messages"].as_array().unwrap();
        contents.extend(messages.iter().map(|message| message["content"].as_str().unwrap().to_owned()));
        let pagination = &answer.body["pagination"];
        assert_eq!(pagination["has_more"], pagination["next_cursor"].is_string());
        match pagination["next_cursor"].as_str() {
            Some(cursor) => query = format!("limit=2&cursor={cursor}"),
            None => break,
        }
    }
    assert_eq!(contents, ["5", "4", "3", "2", "1"]);
}

async fn a_repeated_post_with_its_idempotency_key_is_answered_by_the_first_answer(server: &TestServer) {
    let [ann, bob] = server.sign_up_all(["Ann", "Bob"]).await;
    let key = Uuid::new_v4().to_string();
    let create = async |name: &str| {
        let body = json!({ "type": "group", "name": name, "member_ids": [bob.user_id] });
        RestResponse::of(ann.request(Method::POST, "/chats").header("idempotency-key", &key).json(&body)).await
    };
    let first = create("Club").await;
    let again = create("Club").await;
    assert_eq!((first.header("x-idempotent-replay"), again.header("x-idempotent-replay")), ("", "true"));
    assert_eq!(first.data(201), again.data(201));
    create("Den").await.refused(409, "IDEMPOTENCY_KEY_REUSED");
    assert_eq!(ann.get("/chats").await.data(200)["chats"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn the_service_describes_itself() {
    let server = TestServer::start_with(&[("TIDINGS_NOTIFY__WEBPUSH__ENABLED", "false")]).await;
    let ann = server.sign_up("Ann").await;
    let mut tour = Tour::new([(&ann, "ann")]);
    for (method, path) in [
        (Method::GET, "/healthz"),
        (Method::GET, "/api/v1"),
        (Method::GET, "/api/v1/nothing"),
        (Method::PUT, "/api/v1/chats"),
        (Method::GET, "/api/v1/chats"),
    ] {
        let answer = server.call(method.clone(), path, None).await;
        tour.note(&method, path, &answer);
    }
    expect![[r#"
        GET /healthz 200 {"status":"ok"}
        GET /api/v1 200 {"data":{"content_types":["text/plain","text/markdown","application/json","application/vnd.tidings.encrypted"],"limits":{"body_bytes_max":65536,"chat_name_chars_max":128,"content_bytes_max":4096,"display_name_chars_max":64,"frame_bytes_max":65536,"group_members_max":1000,"history_page_max":100,"lookup_numbers_max":100,"metadata_bytes_max":1024,"reaction_bytes_max":64,"reaction_kinds_max":20,"reactions_per_user_max":10,"sync_page_max":500,"ttl_seconds_max":31536000,"update_window_seconds":172800},"name":"tidings","passkeys":true,"protocol_version":1,"version":"0.2.0","web_push_public_key":null,"websocket_path":"/v1/ws"}}
        GET /api/v1/nothing 404 {"error":{"code":"NOT_FOUND","message":"there is nothing at `/api/v1/nothing`","request_id":"…"}}
        PUT /api/v1/chats 405 {"error":{"code":"METHOD_NOT_ALLOWED","message":"this route does not take `PUT`","request_id":"…"}}
        GET /api/v1/chats 401 {"error":{"code":"UNAUTHORIZED","message":"the request has no `Authorization: Bearer` header","request_id":"…"}}
    "#]].assert_eq(&tour.lines);

    let ready = server.call(Method::GET, "/readyz", None).await;
    assert_eq!((ready.status.as_u16(), &ready.body["status"]), (200, &json!("ready")));
    let stands_on: serde_json::Map<_, _> =
        TestServer::STANDS_ON.iter().map(|name| ((*name).to_owned(), json!({ "status": "ok" }))).collect();
    assert_eq!(ready.body["dependencies"], Value::Object(stands_on));
    let jwks = server.call(Method::GET, "/.well-known/jwks.json", None).await.body;
    let key = &jwks["keys"][0];
    assert!(key["kid"].is_string() && key["kty"].is_string() && key.get("d").is_none(), "{jwks}");
    let openapi = server.call(Method::GET, "/openapi.json", None).await.body;
    assert!(openapi["paths"]["/api/v1/chats/{chat_id}/messages"]["post"].is_object());
    let _socket = ann.connect().await;
    assert!(server.metrics().await.contains("tidings_gateway_connections 1"));
}

async fn a_body_over_64_kib_is_refused(server: &TestServer) {
    let ann = server.sign_up("Ann").await;
    let body = json!({ "display_name": "x".repeat(65 * 1024) });
    ann.patch("/users/me", body).await.refused(413, "MESSAGE_TOO_LARGE");
}
