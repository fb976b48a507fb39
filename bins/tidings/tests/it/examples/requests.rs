use std::collections::BTreeSet;

use authenticator::{KeyKind, SoftwarePasskey, encode};
use domain::UserId;
use protocol::story;
use reqwest::Method;
use serde_json::{Value, json};
use uuid::Uuid;

use super::scene::{ExampleMapping, assert_fits};
use crate::server::{RestResponse, TestServer};

/// An execution of the examples of the OpenAPI document.
struct RequestExamples {
    server: TestServer,
    document: Value,
    scene: ExampleMapping,
    played: BTreeSet<(String, String)>,
}

impl RequestExamples {
    async fn start() -> Self {
        let server = TestServer::start().await;
        let document = server.call(Method::GET, "/openapi.json", None).await.body;
        Self { server, document, scene: ExampleMapping::default(), played: BTreeSet::new() }
    }

    /// Executes one example as Ada on her phone.
    async fn ada(&mut self, operation_id: &str, case: &str) {
        let token = self.adas_token();
        self.play(operation_id, case, &token).await;
    }

    fn adas_token(&self) -> String {
        let token = &self.example("verify_otp", "201", "first_sign_in")["data"]["tokens"]["access_token"];
        self.scene.text(token)
    }

    /// Changes a setting of Ada's, which no example shows.
    async fn set_group_invites(&self, setting: &str) {
        let url = format!("{}/api/v1/users/me", self.server.base_url());
        let request = reqwest::Client::new().patch(url).bearer_auth(self.adas_token());
        RestResponse::of(request.json(&json!({ "group_invites": setting }))).await.data(200);
    }

    /// Executes the examples of passkeys, with the real responses of an authenticator.
    async fn passkeys(&mut self) {
        let ada: UserId = self.scene.text(&json!(story::ada())).parse().unwrap();
        let options = self.example("begin_passkey", "200", "example")["data"].clone();
        self.scene.cast(&options["user"]["id"], encode(&ada.to_bytes()));
        self.ada("begin_passkey", "example").await;
        let origin = format!("http://localhost:{}", self.server.address().port());
        let real = self.scene.body(&options);
        let (passkey, credential) = SoftwarePasskey::create(KeyKind::Es256, &real, &origin);
        self.cast_credential("add_passkey", &credential);
        self.ada("add_passkey", "example").await;
        self.ada("passkeys", "example").await;
        self.ada("passkey_challenge", "example").await;
        let options = self.example("passkey_challenge", "200", "example")["data"].clone();
        let credential = passkey.get(&self.scene.body(&options), &origin);
        self.cast_credential("sign_in_with_passkey", &credential);
        self.ada("sign_in_with_passkey", "example").await;
        self.ada("remove_passkey", "example").await;
    }

    /// Maps the parts of a documented credential to real ones.
    fn cast_credential(&mut self, operation_id: &str, real: &Value) {
        let (_, _, operation) = self.operation(operation_id);
        let example = &operation["requestBody"]["content"]["application/json"]["examples"]["example"]["value"];
        let documented = &example["credential"];
        self.scene.cast(&documented["id"], real["id"].as_str().unwrap());
        for (part, value) in documented["response"].as_object().unwrap() {
            self.scene.cast(value, real["response"][part].as_str().unwrap());
        }
    }

    /// Sends the documented request, and asserts the documented response.
    async fn play(&mut self, operation_id: &str, case: &str, token: &str) {
        let (path, method, operation) = self.operation(operation_id);
        let first = self.played.iter().all(|(played, _)| played != operation_id);
        let mut url = format!("{}{path}", self.server.base_url());
        let mut query = Vec::new();
        let mut request_headers = Vec::new();
        for parameter in operation["parameters"].as_array().into_iter().flatten() {
            let name = parameter["name"].as_str().unwrap();
            let Some(example) = parameter.get("example") else {
                assert_eq!(parameter["required"], false, "{operation_id}: `{name}` has no example");
                continue;
            };
            let value = self.scene.text(example);
            match parameter["in"].as_str().unwrap() {
                "path" => url = url.replace(&format!("{{{name}}}"), &value),
                "query" => query.push((name, value)),
                // An idempotency key is for one request; the other examples of the operation are other requests.
                _ => request_headers.push((name, if first { value } else { Uuid::new_v4().to_string() })),
            }
        }
        let client = reqwest::Client::new();
        let mut request = client.request(method.parse().unwrap(), url).query(&query);
        if operation.get("security").is_some() {
            request = request.bearer_auth(token);
        }
        for (name, value) in request_headers {
            request = request.header(name, value);
        }
        let content = &operation["requestBody"]["content"]["application/json"];
        if !content.is_null() {
            let body = &content["examples"][case]["value"];
            assert!(!body.is_null(), "{operation_id} shows no request `{case}`");
            assert_fits(&self.document, &content["schema"], body);
            request = request.json(&self.scene.body(body));
        }
        let answer = RestResponse::of(request).await;
        self.check(operation_id, case, &operation, &answer);
        self.played.insert((operation_id.to_owned(), case.to_owned()));
    }

    fn check(&mut self, operation_id: &str, case: &str, operation: &Value, answer: &RestResponse) {
        let (status, documented) = shown(operation, case);
        assert_eq!(answer.status.as_str(), status, "{operation_id} {case}: {}", answer.body);
        assert!(!answer.header("x-request-id").is_empty(), "{operation_id}");
        self.scene.expect(&documented, &answer.body);
        let schema = &operation["responses"][status]["content"]["application/json"]["schema"];
        if !schema.is_null() {
            assert_fits(&self.document, schema, &answer.body);
            assert_fits(&self.document, schema, &documented);
        }
    }

    fn example(&self, operation_id: &str, status: &str, case: &str) -> Value {
        let (_, _, operation) = self.operation(operation_id);
        operation["responses"][status]["content"]["application/json"]["examples"][case]["value"].clone()
    }

    /// An operation with its path and its method.
    fn operation(&self, operation_id: &str) -> (String, String, Value) {
        let found = operations(&self.document).into_iter().find(|(_, _, found)| found["operationId"] == operation_id);
        found.unwrap_or_else(|| panic!("there is no operation `{operation_id}`"))
    }
}

fn operations(document: &Value) -> Vec<(String, String, Value)> {
    let paths = document["paths"].as_object().unwrap().iter();
    let operations = paths.flat_map(|(path, item)| {
        let methods = item.as_object().unwrap().iter();
        methods.map(|(method, operation)| (path.clone(), method.to_uppercase(), operation.clone()))
    });
    operations.collect()
}

/// The documented status and body of a case; a case without a body is its 204.
fn shown(operation: &Value, case: &str) -> (String, Value) {
    let responses = operation["responses"].as_object().unwrap();
    let with_body = responses.iter().find_map(|(status, response)| {
        let example = response.pointer(&format!("/content/application~1json/examples/{case}/value"))?;
        Some((status.clone(), example.clone()))
    });
    with_body.unwrap_or_else(|| {
        assert!(responses.contains_key("204"), "{} shows no answer `{case}`", operation["operationId"]);
        ("204".to_owned(), Value::Null)
    })
}

/// Every example of the document by operation and case. An operation without examples has the case `example`.
fn documented(document: &Value) -> BTreeSet<(String, String)> {
    let mut cases = BTreeSet::new();
    for (_, _, operation) in operations(document) {
        let bodies = operation["responses"].as_object().unwrap().values().chain([&operation["requestBody"]]);
        let names: BTreeSet<_> = bodies
            .filter_map(|body| body.pointer("/content/application~1json/examples")?.as_object())
            .flat_map(|examples| examples.keys().cloned())
            .collect();
        let operation_id = operation["operationId"].as_str().unwrap();
        let names = if names.is_empty() { BTreeSet::from(["example".to_owned()]) } else { names };
        cases.extend(names.into_iter().map(|name| (operation_id.to_owned(), name)));
    }
    cases
}

#[tokio::test]
async fn every_request_of_the_document_is_answered_as_the_document_shows() {
    let mut play = RequestExamples::start().await;
    for operation_id in ["service", "jwks", "request_otp"] {
        play.ada(operation_id, "example").await;
    }
    play.ada("verify_otp", "first_sign_in").await;
    play.ada("request_otp", "example").await;
    play.ada("verify_otp", "next_sign_in").await;
    for operation_id in ["refresh", "ws_ticket", "me", "update_me"] {
        play.ada(operation_id, "example").await;
    }

    let bob = play.server.sign_in(story::BOB_PHONE, "Bob").await;
    let cleo = play.server.sign_in("+14155550103", "Cleo").await;
    play.scene.cast(&json!(story::bob()), bob.user_id.clone());
    play.scene.cast(&json!(story::cleo()), cleo.user_id.clone());
    for operation_id in ["user", "lookup", "add_contact", "contacts"] {
        play.ada(operation_id, "example").await;
    }
    let ada = play.scene.text(&json!(story::ada()));
    bob.put(&format!("/contacts/{ada}"), json!({})).await.data(200);
    let _bob_is_there = bob.connect().await;
    let bobs_presence = format!("/users/{}/presence", bob.user_id);
    play.server.until(async || bob.get(&bobs_presence).await.data(200)["status"] == "online").await;
    play.ada("presence", "example").await;
    play.ada("query_presence", "example").await;
    play.ada("remove_contact", "example").await;

    play.ada("create_chat", "direct").await;
    play.ada("create_chat", "direct_again").await;
    play.ada("create_chat", "group").await;
    play.ada("send_message", "first").await;
    play.ada("send_message", "repeated").await;
    let direct_chat = play.scene.text(&json!(story::direct_chat()));
    let answered = bob.send(&direct_chat, story::SECOND_CONTENT).await;
    play.scene.cast(&json!(story::second_message()), answered["message_id"].as_str().unwrap());
    bob.post(&format!("/chats/{direct_chat}/read"), json!({ "last_read_sequence": 2 })).await.data(200);
    for operation_id in ["inbox", "chat", "history", "around", "message", "mark_delivered", "mark_read", "receipts"] {
        play.ada(operation_id, "example").await;
    }

    for operation_id in ["report", "block", "blocks", "unblock"] {
        play.ada(operation_id, "example").await;
    }
    for operation_id in ["add_reaction", "export_me", "reactions", "remove_reaction", "edit_message", "delete_message"]
    {
        play.ada(operation_id, "example").await;
    }
    for operation_id in ["update_chat", "add_member", "change_role", "remove_member"] {
        play.ada(operation_id, "example").await;
    }
    cleo.patch("/users/me", json!({ "group_invites": "nobody" })).await.data(200);
    play.ada("add_member", "invited").await;
    play.ada("mute_chat", "for_an_hour").await;
    play.ada("mute_chat", "for_ever").await;
    play.ada("unmute_chat", "example").await;
    // Ada owns the group, and an owner cannot leave.
    play.play("leave_chat", "example", &bob.access_token).await;

    play.set_group_invites("nobody").await;
    bob.post("/chats", json!({ "type": "group", "name": "Regatta", "member_ids": [ada] })).await.data(201);
    play.set_group_invites("everyone").await;
    for operation_id in ["invitations", "accept_invitation", "decline_invitation"] {
        play.ada(operation_id, "example").await;
    }

    for operation_id in ["register_push", "unregister_push", "sessions", "revoke_session"] {
        play.ada(operation_id, "example").await;
    }
    play.server.sign_in(story::ADA_PHONE, "").await;
    play.ada("revoke_sessions", "example").await;
    play.passkeys().await;
    play.ada("logout", "example").await;
    let at_last = play.server.sign_in(story::ADA_PHONE, "").await;
    play.play("delete_me", "example", &at_last.access_token).await;

    assert_eq!(play.played, documented(&play.document), "every example is played");
}
