//! The requests and actions of the operator's console: the admin API of the real binary.

use std::fs;
use std::time::{Duration, Instant};

use reqwest::Method;
use serde_json::{Value, json};

use crate::server::{BUSY, RestResponse, TestDevice, TestServer};

/// An operator with the admin token.
struct ConsoleOperator<'a> {
    server: &'a TestServer,
    http: reqwest::Client,
    base_url: String,
    token: String,
}

impl<'a> ConsoleOperator<'a> {
    fn of(server: &'a TestServer) -> Self {
        let file = fs::read(server.data_dir().join("admin.json")).unwrap();
        let file: Value = serde_json::from_slice(&file).unwrap();
        let token = file["token"].as_str().unwrap().to_owned();
        Self { server, http: reqwest::Client::new(), base_url: format!("{}/admin/v1", server.admin_url()), token }
    }

    async fn call(&self, method: Method, path: &str) -> RestResponse {
        RestResponse::of(self.http.request(method, format!("{}{path}", self.base_url)).bearer_auth(&self.token)).await
    }

    #[track_caller]
    fn ok(answer: RestResponse) -> Value {
        assert_eq!(answer.status, 200, "{}", answer.body);
        answer.body
    }

    async fn get(&self, path: &str) -> Value {
        Self::ok(self.call(Method::GET, path).await)
    }

    async fn post(&self, path: &str) -> Value {
        Self::ok(self.call(Method::POST, path).await)
    }

    async fn delete(&self, path: &str) -> Value {
        Self::ok(self.call(Method::DELETE, path).await)
    }

    /// The latest audit entries, without values that differ between runs.
    async fn audited(&self) -> Vec<Value> {
        let mut actions = self.get("/audit").await["actions"].take();
        let fact =
            |action: &mut Value| json!([action["action"], action["target"], action["outcome"], action["status"]]);
        actions.as_array_mut().unwrap().iter_mut().map(fact).collect()
    }

    async fn connections(&self, device: &TestDevice) -> Vec<Value> {
        let user = self.get(&format!("/users/{}", device.user_id)).await;
        user["connections"].as_array().unwrap().clone()
    }
}

#[tokio::test]
async fn nothing_is_answered_or_changed_without_the_token() {
    let server = TestServer::start().await;
    let base_url = format!("{}/admin/v1", server.admin_url());
    let http = reqwest::Client::new();
    let asked = [
        (Method::GET, "/pulse"),
        (Method::GET, "/nodes"),
        (Method::GET, "/search?q=x"),
        (Method::GET, "/users/x"),
        (Method::GET, "/chats/x"),
        (Method::GET, "/chats/x/timeline"),
        (Method::GET, "/messages/x"),
        (Method::GET, "/audit"),
        (Method::DELETE, "/users/x/sessions"),
        (Method::DELETE, "/users/x/sessions/y"),
        (Method::DELETE, "/connections/x"),
        (Method::POST, "/gateways/local/drain"),
        (Method::POST, "/gateways/local/resume"),
    ];
    for (method, path) in asked {
        for token in [None, Some("wrong")] {
            let mut request = http.request(method.clone(), format!("{base_url}{path}"));
            if let Some(token) = token {
                request = request.bearer_auth(token);
            }
            let answer = RestResponse::of(request).await;
            assert_eq!((answer.status.as_u16(), path), (401, path));
            answer.refused(401, "UNAUTHORIZED");
        }
    }
    assert!(!server.data_dir().join("admin-audit.jsonl").exists(), "a refused request leaves no audit entry");
    assert_eq!(ConsoleOperator::of(&server).get("/nodes").await["nodes"][0]["draining"], false);
}

#[tokio::test]
async fn the_pulse_shows_sends_as_they_happen() {
    let server = TestServer::start().await;
    let operator = ConsoleOperator::of(&server);
    let [ann, bob] = server.sign_up_all(["Ann", "Bob"]).await;
    let chat_id = ann.direct_chat(&bob).await;
    let mut on_bob = bob.connect().await;
    let mut on_ann = ann.connect().await;
    for _ in 0..10 {
        on_ann.send_message(&chat_id, "hush").await;
        on_bob.next_of("message").await;
    }
    let refused = json!({ "chat_id": "chat_01ARZ3NDEKTSV4RRFFQ69G5FAV", "last_acked_sequence": 0 });
    assert_eq!(on_ann.ask("sync_request", refused).await["payload"]["code"], "NOT_FOUND");

    // A sample may be taken between two sends. The refused sync is last, so the sample that counts it follows all sends.
    let samples = async || operator.get("/pulse").await["samples"].as_array().unwrap().clone();
    let is_refusal = |sample: &Value| sample["errors_per_second"]["NOT_FOUND"].as_f64() > Some(0.0);
    server.until(async || samples().await.iter().any(is_refusal)).await;
    let samples = samples().await;
    for rate in ["sends_per_second", "acks_per_second", "pushes_per_second"] {
        assert!(samples.iter().any(|sample| sample[rate].as_f64() > Some(0.0)), "{rate} of {samples:?}");
    }
    for percentile in ["ack_p50_ms", "ack_p99_ms", "push_p50_ms", "push_p99_ms"] {
        assert!(samples.iter().any(|sample| sample[percentile].as_f64() > Some(0.0)), "{percentile} of {samples:?}");
    }
    let last = samples.last().unwrap();
    assert_eq!((&last["connections"], &last["ingest_queue"]), (&json!(2.0), &json!(0.0)), "{last}");
    assert!(last["memory_bytes"].as_u64().unwrap() > 1 << 20, "{last}");
    assert!(last["cpu_cores"].as_f64().unwrap() >= 0.0, "{last}");
    let has_disk =
        |sample: &Value| sample["disk_free_bytes"].as_f64() > Some(0.0) && sample["disk_used_bytes"].is_number();
    server.until(async || operator.get("/pulse").await["samples"].as_array().unwrap().iter().any(has_disk)).await;
    assert!(last["lag_events"]["fanout"].is_number() && last["lag_events"]["notify"].is_number(), "{last}");
    assert_eq!(last["violations"], json!({}));

    let newest = last["at"].as_str().unwrap();
    let later = operator.get(&format!("/pulse?since={newest}")).await;
    assert!(later["samples"].as_array().unwrap().iter().all(|sample| sample["at"].as_str().unwrap() > newest));
    operator.call(Method::GET, "/pulse?since=yesterday").await.refused(400, "VALIDATION_ERROR");
}

#[tokio::test]
async fn a_search_resolves_ids_and_phone_numbers() {
    let server = TestServer::start().await;
    let operator = ConsoleOperator::of(&server);
    let [ann, bob] = server.sign_up_all(["Ann", "Bob"]).await;
    let chat_id = ann.direct_chat(&bob).await;
    let mut socket = ann.connect().await;
    let sent = socket.send_message(&chat_id, "hush").await;
    let connection_id = operator.connections(&ann).await[0]["connection_id"].as_str().unwrap().to_owned();
    let found = async |text: &str| {
        let query = text.replace('+', "%2B");
        operator.get(&format!("/search?q={query}")).await["results"].as_array().unwrap().clone()
    };

    let user = json!({ "kind": "user", "user_id": ann.user_id, "display_name": "Ann" });
    assert_eq!(found(&ann.user_id).await, [user]);
    let phone = &ann.phone_number;
    let masked = format!("{}{}", "•".repeat(phone.len() - 3), &phone[phone.len() - 3..]);
    let by_phone = json!({ "kind": "user", "user_id": ann.user_id, "display_name": "Ann", "phone_number": masked });
    assert_eq!(found(phone).await, [by_phone]);
    let chat = json!({ "kind": "chat", "chat_id": chat_id, "type": "direct", "name": null, "member_count": 2 });
    assert_eq!(found(&chat_id).await, [chat]);
    let message = &found(sent["message_id"].as_str().unwrap()).await[0];
    assert_eq!((&message["kind"], &message["chat_id"]), (&json!("message"), &json!(chat_id)));
    let session = &found(&ann.session_id).await[0];
    assert_eq!((&session["kind"], &session["user_id"]), (&json!("session"), &json!(ann.user_id)));
    let connection = &found(&connection_id).await[0];
    assert_eq!((&connection["kind"], &connection["display_name"]), (&json!("connection"), &json!("Ann")));

    assert_eq!(found("user_01ARZ3NDEKTSV4RRFFQ69G5FAV").await, [] as [Value; 0]);
    operator.call(Method::GET, "/search?q=Ann").await.refused(400, "VALIDATION_ERROR");
}

#[tokio::test]
async fn operators_see_the_location_of_a_message_but_never_its_content() {
    let server = TestServer::start().await;
    let operator = ConsoleOperator::of(&server);
    let [ann, bob, cem] = server.sign_up_all(["Ann", "Bob", "Cem"]).await;
    let chat_id = ann.group("Orchestra", &[&bob, &cem]).await;
    let mut on_ann = ann.connect().await;
    let mut on_bob = bob.connect().await;
    let sent = on_ann.send_message(&chat_id, "hush hush").await;
    let message_id = sent["message_id"].as_str().unwrap().to_owned();
    on_bob.next_of("message").await;
    let location = async || operator.get(&format!("/messages/{message_id}")).await;
    let reach = |answer: &Value, device: &TestDevice| {
        let members = answer["members"].as_array().unwrap();
        members.iter().find(|member| member["user_id"] == device.user_id.as_str()).unwrap().clone()
    };

    let before = location().await;
    assert_eq!((&before["delivered_count"], &before["others_count"]), (&json!(0), &json!(2)), "{before}");
    assert_eq!(reach(&before, &bob)["reach"], "waiting");
    assert!(reach(&before, &bob)["reason"].as_str().unwrap().contains("has not confirmed"), "{before}");
    assert_eq!(
        reach(&before, &cem)["reason"],
        "has never been connected, and no device is registered for notifications"
    );

    on_bob.send(json!({ "type": "ack", "payload": { "chat_id": chat_id, "last_acked_sequence": 1 } })).await;
    server.until(async || location().await["delivered_count"] == 1).await;
    let after = location().await;
    assert_eq!(reach(&after, &bob)["reach"], "delivered");
    assert_eq!((&after["in_log"], &after["read_count"]), (&json!(true), &json!(0)));
    let answer = after["answer"].as_str().unwrap();
    assert!(answer.contains("It has reached 1 of 2 other members, of whom 0 have read it. Cem: has never"), "{answer}");

    let facts = &after["message"];
    assert_eq!((&facts["content_bytes"], &facts["content_type"]), (&json!(9), &json!("text/plain")));
    let chat = operator.get(&format!("/chats/{chat_id}")).await;
    assert_eq!((&chat["head_sequence"], &chat["published_sequence"]), (&json!(1), &json!(1)), "{chat}");
    let timeline = operator.get(&format!("/chats/{chat_id}/timeline")).await;
    for said in [&after, &chat, &timeline] {
        assert!(!said.to_string().contains("hush"), "{said}");
    }
    let unknown = operator.call(Method::GET, "/messages/msg_01ARZ3NDEKTSV4RRFFQ69G5FAV").await;
    let message = unknown.refused(404, "NOT_FOUND")["message"].as_str().unwrap().to_owned();
    assert!(message.ends_with("Its id was made at 2016-07-30T23:54:10.259Z"), "{message}");
}

#[tokio::test]
async fn a_timeline_pages_back_and_lists_expired_messages() {
    let server = TestServer::start().await;
    let operator = ConsoleOperator::of(&server);
    let [ann, bob] = server.sign_up_all(["Ann", "Bob"]).await;
    let chat_id = ann.direct_chat(&bob).await;
    let mut socket = ann.connect().await;
    for place in 1..=5 {
        let mut payload = json!({ "client_message_id": uuid::Uuid::new_v4(), "chat_id": chat_id, "content": "x" });
        if place == 3 {
            payload["ttl_seconds"] = 1.into();
        }
        assert_eq!(socket.ask("send_message", payload).await["type"], "send_message_ack");
    }
    let page = async |query: &str| operator.get(&format!("/chats/{chat_id}/timeline{query}")).await;
    let told = |page: &Value| -> Vec<String> {
        let event = |event: &Value| match event["kind"].as_str().unwrap() {
            "message" => event["sequence"].to_string(),
            "expired" => format!("expired {}-{}", event["from_sequence"], event["to_sequence"]),
            other => other.to_owned(),
        };
        page["events"].as_array().unwrap().iter().map(event).collect()
    };
    server.until(async || told(&page("").await).contains(&"expired 3-3".to_owned())).await;
    assert_eq!(told(&page("").await), ["5", "4", "expired 3-3", "2", "1", "joined", "joined", "created"]);
    let newest = page("?limit=2").await;
    assert_eq!((told(&newest), &newest["next_before"]), (vec!["5".to_owned(), "4".to_owned()], &json!(4)));
    let rest = page("?limit=10&before=4").await;
    assert_eq!(told(&rest), ["expired 3-3", "2", "1", "joined", "joined", "created"]);
    assert_eq!(rest["next_before"], Value::Null);
    operator.call(Method::GET, &format!("/chats/{chat_id}/timeline?limit=0")).await.refused(400, "VALIDATION_ERROR");
}

#[tokio::test]
async fn a_user_is_shown_with_devices_connections_and_unread_chats_and_without_a_phone_number() {
    let server = TestServer::start().await;
    let operator = ConsoleOperator::of(&server);
    let [ann, bob] = server.sign_up_all(["Ann", "Bob"]).await;
    let laptop = server.another_device(&ann).await;
    let chat_id = bob.direct_chat(&ann).await;
    bob.send(&chat_id, "one").await;
    bob.send(&chat_id, "two").await;
    let _socket = laptop.connect().await;

    let user = operator.get(&format!("/users/{}", ann.user_id)).await;
    assert_eq!((&user["display_name"], user["sessions"].as_array().unwrap().len()), (&json!("Ann"), 2));
    let connected: Vec<_> = user["sessions"].as_array().unwrap().iter().filter(|s| s["is_connected"] == true).collect();
    assert_eq!((connected.len(), &connected[0]["session_id"]), (1, &json!(laptop.session_id)));
    assert_eq!(user["connections"][0]["device_id"], json!(laptop.device_id));
    let chat = &user["chats"][0];
    assert_eq!(
        (&chat["chat_id"], &chat["unread_count"], &chat["head_sequence"]),
        (&json!(chat_id), &json!(2), &json!(2))
    );
    assert!(!user.to_string().contains(&ann.phone_number[1..]), "{user}");
    operator.call(Method::GET, "/users/user_01ARZ3NDEKTSV4RRFFQ69G5FAV").await.refused(404, "NOT_FOUND");
    operator.call(Method::GET, "/users/Ann").await.refused(400, "VALIDATION_ERROR");
}

#[tokio::test]
async fn a_session_that_an_operator_revokes_loses_its_socket_within_a_second() {
    let server = TestServer::start().await;
    let operator = ConsoleOperator::of(&server);
    let phone = server.sign_up("Ann").await;
    let lost = server.another_device(&phone).await;
    let mut lost_socket = lost.connect().await;
    let mut phone_socket = phone.connect().await;

    let start = Instant::now();
    let path = format!("/users/{}/sessions/{}", phone.user_id, lost.session_id);
    assert_eq!(operator.delete(&path).await, json!({ "revoked_count": 1 }));
    let closed = lost_socket.closed().await;
    assert!(start.elapsed() < Duration::from_secs(1) + BUSY, "{:?}", start.elapsed());
    assert_eq!((closed.code, &*closed.reason), (4001, "session_revoked"));
    lost.get("/users/me").await.refused(401, "UNAUTHORIZED");
    phone_socket.ask("heartbeat", json!({})).await;
    operator.call(Method::DELETE, &path).await.refused(404, "NOT_FOUND");

    let all = format!("/users/{}/sessions", phone.user_id);
    assert_eq!(operator.delete(&all).await, json!({ "revoked_count": 1 }));
    assert_eq!(phone_socket.closed().await.code, 4001);
    let (one, all) = ("DELETE /users/{id}/sessions/{session_id}", ("DELETE /users/{id}/sessions", all));
    assert_eq!(
        operator.audited().await,
        [json!([all.0, all.1, "done", 200]), json!([one, path, "refused", 404]), json!([one, path, "done", 200])]
    );
}

#[tokio::test]
async fn a_connection_that_an_operator_closes_comes_back_and_has_everything() {
    let server = TestServer::start().await;
    let operator = ConsoleOperator::of(&server);
    let [ann, bob] = server.sign_up_all(["Ann", "Bob"]).await;
    let chat_id = ann.direct_chat(&bob).await;
    let mut socket = bob.connect().await;
    let id = operator.connections(&bob).await[0]["connection_id"].as_str().unwrap().to_owned();
    operator.delete(&format!("/connections/{id}")).await;
    let closed = socket.closed().await;
    assert_eq!((closed.code, &*closed.reason), (1001, "server_shutdown"));
    ann.send(&chat_id, "meanwhile").await;
    let mut again = bob.connect().await;
    assert_eq!(again.sync_all(&chat_id).await.len(), 1);
    operator.call(Method::DELETE, &format!("/connections/{id}")).await.refused(404, "NOT_FOUND");
}

#[tokio::test]
async fn a_gateway_that_is_drained_refuses_clients_says_so_and_takes_them_again() {
    let server = TestServer::start().await;
    let operator = ConsoleOperator::of(&server);
    let ann = server.sign_up("Ann").await;
    let mut socket = ann.connect().await;
    let drained = operator.post("/gateways/local/drain").await;
    assert_eq!((&drained["gateway"], &drained["draining"]), (&json!("local"), &json!(true)));
    let (frames, closed) = socket.rest().await;
    assert_eq!((closed.code, &*closed.reason), (1001, "server_shutdown"));
    assert_eq!(frames.last().unwrap()["payload"]["reconnect_delay_ms"], 1000);

    let ready = async || server.call(Method::GET, "/readyz", None).await;
    server.until(async || ready().await.body["safe_to_remove"] == true).await;
    let drained = ready().await;
    assert_eq!((drained.status.as_u16(), &drained.body["status"]), (503, &json!("draining")));
    assert_eq!(drained.body["connections"], 0);
    let refused = RestResponse::of(
        ann.anonymous(Method::GET, "/v1/ws")
            .bearer_auth(&ann.access_token)
            .header("x-device-id", ann.device_id.to_string())
            .header("connection", "upgrade")
            .header("upgrade", "websocket")
            .header("sec-websocket-version", "13")
            .header("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
    )
    .await;
    assert_eq!((refused.status.as_u16(), &refused.body["error"]), (503, &json!("service_unavailable")));
    let node = &operator.get("/nodes").await["nodes"][0];
    assert_eq!((&node["draining"], &node["safe_to_remove"]), (&json!(true), &json!(true)), "{node}");
    assert_eq!(ann.get("/users/me").await.status, 200, "REST goes on");

    assert_eq!(operator.post("/gateways/local/resume").await["draining"], false);
    ann.connect().await;
    assert_eq!(ready().await.body["status"], "ready");
    operator.call(Method::POST, "/gateways/elsewhere/drain").await.refused(404, "NOT_FOUND");
}

#[tokio::test]
async fn every_action_is_written_down_before_it_is_done_and_none_is_done_that_cannot_be() {
    let server = TestServer::start().await;
    let operator = ConsoleOperator::of(&server);
    operator.post("/gateways/local/drain").await;
    operator.post("/gateways/local/resume").await;
    let replay = operator.http.post(format!("{}/notifications/replay", operator.base_url)).bearer_auth(&operator.token);
    let body = json!({ "chat_id": "chat_01ARZ3NDEKTSV4RRFFQ69G5FAV", "sequence": 1 });
    assert_eq!(RestResponse::of(replay.json(&body)).await.status, 200);

    let path = server.data_dir().join("admin-audit.jsonl");
    let mut lines: Vec<Value> =
        fs::read_to_string(&path).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(lines.remove(0)["segment"].is_string(), "the beginning of the chain");
    assert_eq!(lines.len(), 6, "one before and one after each");
    for pair in lines.chunks(2) {
        assert_eq!(pair[0]["id"], pair[1]["id"]);
        assert!(pair[0]["at"].as_str() <= pair[1]["ended_at"].as_str());
        assert_eq!((&pair[1]["outcome"], &pair[1]["status"]), (&json!("done"), &json!(200)));
        let (token, address) = (pair[0]["by"]["token"].as_str().unwrap(), pair[0]["by"]["address"].as_str().unwrap());
        assert!(token.starts_with("sha256:") && token.len() == 15, "{token}");
        assert!(address.starts_with("127.0.0.1:"), "{address}");
        assert_eq!(pair[0]["by"]["operator"], "root");
    }
    assert_eq!(
        (&lines[0]["action"], &lines[0]["target"]),
        (&json!("POST /gateways/{id}/drain"), &json!("/gateways/local/drain"))
    );
    assert_eq!(lines[4]["request"], body);
    assert!(!fs::read_to_string(&path).unwrap().contains(&operator.token));
    assert!(operator.server.log().contains("operator action"));

    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    let refused = operator.call(Method::POST, "/gateways/local/drain").await.refused(503, "SERVICE_UNAVAILABLE");
    assert!(refused["message"].as_str().unwrap().contains("admin-audit.jsonl"), "{refused}");
    assert_eq!(operator.get("/nodes").await["nodes"][0]["draining"], false, "it was not done");
    operator.call(Method::GET, "/reports").await.refused(503, "SERVICE_UNAVAILABLE");
}

#[tokio::test]
async fn a_node_describes_itself_and_serves_the_console() {
    let server = TestServer::start().await;
    let operator = ConsoleOperator::of(&server);
    let ann = server.sign_up("Ann").await;
    let _socket = ann.connect().await;
    let nodes = operator.get("/nodes").await;
    let [node] = &nodes["nodes"].as_array().unwrap()[..] else { panic!("{nodes}") };
    assert_eq!(node["roles"], json!(["gateway", "ingest", "fanout", "api"]));
    assert_eq!((&node["id"], &node["is_this"], &node["connections"]), (&json!("local"), &json!(true), &json!(1)));
    assert_eq!(node["version"], env!("CARGO_PKG_VERSION"));

    let page = operator.http.get(format!("{}/console", server.admin_url())).send().await.unwrap();
    assert_eq!(page.status(), 200);
    assert!(page.headers()["content-security-policy"].to_str().unwrap().contains("default-src 'self'"));
    assert!(page.text().await.unwrap().contains("Tidings console"));
}
