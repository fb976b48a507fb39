//! Sign-in with passkeys, with the authenticator of `crates/authenticator` in place of a browser.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use authenticator::{BACKUP_ELIGIBLE, KeyKind, SoftwarePasskey, client_data, encode};
use client::Client;
use protocol::rest::AddPasskey;
use reqwest::Method;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::issuer::Issuer;
use crate::server::{RestResponse, TestDevice, TestServer, this_release};
use crate::webhook::{said, tidings};

/// The origin of the server's own pages.
fn origin(server: &TestServer) -> String {
    format!("http://localhost:{}", server.address().port())
}

/// Registers a passkey of a user.
async fn register(server: &TestServer, device: &TestDevice, kind: KeyKind) -> (SoftwarePasskey, Value) {
    let options = device.post("/auth/passkeys/registrations", json!({})).await.data(200);
    let (passkey, credential) = SoftwarePasskey::create(kind, &options, &origin(server));
    let body = json!({ "name": "Phone", "credential": credential });
    let added = device.post("/auth/passkeys", body).await.data(201);
    (passkey, added)
}

async fn challenge(server: &TestServer) -> Value {
    server.call(Method::POST, "/api/v1/auth/passkeys/challenges", None).await.data(200)
}

async fn present(server: &TestServer, credential: Value) -> RestResponse {
    let body = json!({ "device_id": Uuid::new_v4(), "credential": credential });
    server.call(Method::POST, "/api/v1/auth/passkeys/sessions", Some(&body)).await
}

async fn sign_in(server: &TestServer, passkey: &SoftwarePasskey) -> RestResponse {
    present(server, passkey.get(&challenge(server).await, &origin(server))).await
}

/// The error of a refused sign-in, without the id of the request.
fn refusal(answer: RestResponse) -> Value {
    let mut error = answer.refused(401, "UNAUTHORIZED");
    error["request_id"] = Value::Null;
    error
}

#[tokio::test]
async fn a_passkey_signs_its_user_in_without_a_code() {
    let server = TestServer::start().await;
    assert_eq!(server.call(Method::GET, "/api/v1", None).await.data(200)["passkeys"], true);
    let ann = server.sign_up("Ann").await;
    for kind in [KeyKind::Es256, KeyKind::EdDsa, KeyKind::Rs256] {
        let (passkey, added) = register(&server, &ann, kind).await;
        assert_eq!((&added["name"], &added["last_used_at"]), (&json!("Phone"), &Value::Null));
        let device_id = Uuid::new_v4();
        let credential = passkey.get(&challenge(&server).await, &origin(&server));
        let body = json!({ "device_id": device_id, "credential": credential });
        let data = server.call(Method::POST, "/api/v1/auth/passkeys/sessions", Some(&body)).await.data(200);
        assert_eq!(data["user"], ann.get("/users/me").await.data(200));
        assert_eq!((&data["is_new_user"], &data["session"]["is_current"]), (&json!(false), &json!(true)));
        let mut again = ann.clone();
        again.device_id = device_id;
        again.access_token = data["tokens"]["access_token"].as_str().unwrap().to_owned();
        again.connect().await;
        let refresh = json!({ "refresh_token": data["tokens"]["refresh_token"], "device_id": device_id });
        again.post("/auth/refresh", refresh).await.data(200);
    }
    let listed = ann.get("/auth/passkeys").await.data(200);
    let listed = listed["passkeys"].as_array().unwrap();
    assert_eq!(listed.len(), 3);
    assert!(listed.iter().all(|passkey| passkey["last_used_at"].is_string()), "{listed:?}");
    let options = ann.post("/auth/passkeys/registrations", json!({})).await.data(200);
    assert_eq!(options["excludeCredentials"].as_array().unwrap().len(), 3);
    let exported = ann.get("/users/me/export").await.data(200);
    assert_eq!(exported["passkeys"], json!(listed));
}

#[tokio::test]
async fn a_replay_is_refused_also_after_a_restart() {
    let mut server = TestServer::start().await;
    let ann = server.sign_up("Ann").await;
    let options = ann.post("/auth/passkeys/registrations", json!({})).await.data(200);
    let (passkey, credential) = SoftwarePasskey::create(KeyKind::Es256, &options, &origin(&server));
    let body = json!({ "name": "Phone", "credential": credential });
    ann.post("/auth/passkeys", body.clone()).await.data(201);
    let refused = ann.post("/auth/passkeys", body).await.refused(400, "VALIDATION_ERROR");
    assert_eq!(refused["message"], "credential: the challenge was answered before");

    let assertion = passkey.get(&challenge(&server).await, &origin(&server));
    let unused = passkey.get(&challenge(&server).await, &origin(&server));
    present(&server, assertion.clone()).await.data(200);
    let replayed = refusal(present(&server, assertion.clone()).await);
    assert_eq!(replayed["message"], "the passkey was not accepted");
    server.stop().await;
    server.restart().await;
    assert_eq!(refusal(present(&server, assertion).await), replayed);
    // The process does not know whether a challenge from before its start was answered.
    assert_eq!(refusal(present(&server, unused).await), replayed);
    sign_in(&server, &passkey).await.data(200);
}

#[tokio::test]
async fn every_refused_sign_in_is_answered_alike() {
    let server = TestServer::start().await;
    let [ann, bob] = server.sign_up_all(["Ann", "Bob"]).await;
    let (passkey, added) = register(&server, &ann, KeyKind::Es256).await;
    let (bobs, _) = register(&server, &bob, KeyKind::Es256).await;
    let options = challenge(&server).await;
    let sound = passkey.get(&options, &origin(&server));
    let forged = |part: &str, value: Value| {
        let mut forged = sound.clone();
        forged["response"][part] = value;
        forged
    };
    let mut renamed = bobs.get(&options, &origin(&server));
    for name in ["id", "rawId"] {
        renamed[name] = encode(&passkey.credential_id).into();
    }
    let unknown = SoftwarePasskey::new(KeyKind::Es256, "localhost", &passkey.user_handle);
    let registration = ann.post("/auth/passkeys/registrations", json!({})).await.data(200);
    let invented = json!({ "challenge": encode(&[7; 72]) });
    let attempts = [
        ("an unknown passkey", unknown.get(&options, &origin(&server))),
        ("the signature of another passkey", renamed),
        ("another user", forged("userHandle", encode(&bobs.user_handle).into())),
        ("no user", forged("userHandle", Value::Null)),
        ("no signature", forged("signature", "".into())),
        ("not base64url", forged("clientDataJSON", "%%%".into())),
        ("another page", passkey.get(&options, "https://localhost.evil.example")),
        ("another port", passkey.get(&options, "http://localhost:1")),
        ("the challenge of a registration", passkey.get(&registration, &origin(&server))),
        ("an invented challenge", passkey.get(&invented, &origin(&server))),
        ("an embedded page", {
            let data = client_data("webauthn.get", options["challenge"].as_str().unwrap(), &origin(&server));
            let data = String::from_utf8(data).unwrap().replace("false", "true");
            passkey.assertion(data.as_bytes())
        }),
    ];
    let mut answers = Vec::new();
    for (attempt, credential) in attempts {
        answers.push((attempt, refusal(present(&server, credential).await)));
    }
    let expected = answers[0].1.clone();
    assert_eq!(expected["message"], "the passkey was not accepted");
    for (attempt, answer) in answers {
        assert_eq!(answer, expected, "{attempt}");
    }
    // None of them has spent the challenge.
    present(&server, sound).await.data(200);
    ann.delete(&format!("/auth/passkeys/{}", added["passkey_id"].as_str().unwrap())).await.data(204);
    assert_eq!(refusal(sign_in(&server, &passkey).await), expected, "a removed passkey");
}

#[tokio::test]
async fn a_passkey_belongs_to_one_user() {
    let server = TestServer::start().await;
    let [ann, bob] = server.sign_up_all(["Ann", "Bob"]).await;
    let (passkey, added) = register(&server, &ann, KeyKind::EdDsa).await;
    let path = format!("/auth/passkeys/{}", added["passkey_id"].as_str().unwrap());
    bob.delete(&path).await.refused(404, "NOT_FOUND");
    assert_eq!(bob.get("/auth/passkeys").await.data(200)["passkeys"], json!([]));

    let add = |credential: Value| json!({ "name": "Stolen", "credential": credential });
    let anns = ann.post("/auth/passkeys/registrations", json!({})).await.data(200);
    let (_, credential) = SoftwarePasskey::create(KeyKind::EdDsa, &anns, &origin(&server));
    let refused = bob.post("/auth/passkeys", add(credential)).await.refused(400, "VALIDATION_ERROR");
    assert_eq!(refused["message"], "credential: the challenge is unknown");
    let bobs = bob.post("/auth/passkeys/registrations", json!({})).await.data(200);
    let data = client_data("webauthn.create", bobs["challenge"].as_str().unwrap(), &origin(&server));
    bob.post("/auth/passkeys", add(passkey.registration(&data))).await.refused(409, "CONFLICT");

    // Removing a passkey ends no session.
    let signed_in = sign_in(&server, &passkey).await.data(200);
    ann.delete(&path).await.data(204);
    ann.delete(&path).await.refused(404, "NOT_FOUND");
    let mut again = ann.clone();
    again.access_token = signed_in["tokens"]["access_token"].as_str().unwrap().to_owned();
    again.get("/users/me").await.data(200);
}

#[tokio::test]
async fn suspended_and_deleted_users_do_not_sign_in() {
    let server = TestServer::start().await;
    let ann = server.sign_up("Ann").await;
    let (passkey, _) = register(&server, &ann, KeyKind::Es256).await;
    said(&tidings(&server, &["admin", "user", "suspend", &ann.user_id, "--yes"]).await);
    let refused = sign_in(&server, &passkey).await.refused(403, "FORBIDDEN");
    assert_eq!(refused["details"], json!({ "reason": "account_suspended" }));
    said(&tidings(&server, &["admin", "user", "resume", &ann.user_id]).await);
    sign_in(&server, &passkey).await.data(200);
    // All tokens of before are void, and a new sign-in is not.
    said(&tidings(&server, &["admin", "user", "sign-out", &ann.user_id, "--yes"]).await);
    let mut again = ann.clone();
    let signed_in = sign_in(&server, &passkey).await.data(200);
    again.access_token = signed_in["tokens"]["access_token"].as_str().unwrap().to_owned();
    let body = json!({ "confirm": ann.user_id, "erase_messages": false });
    RestResponse::of(again.request(Method::DELETE, "/users/me").json(&body)).await.data(202);
    refusal(sign_in(&server, &passkey).await);
}

#[tokio::test]
async fn a_counter_that_does_not_grow_is_refused_and_reported() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("events.jsonl");
    let mut server = TestServer::start_with(&[("TIDINGS_SECURITY_EVENTS__FILE", file.to_str().unwrap())]).await;
    let ann = server.sign_up("Ann").await;
    let (mut passkey, added) = register(&server, &ann, KeyKind::Es256).await;
    for (sign_count, is_accepted) in [(5, true), (5, false), (4, false), (0, false), (6, true)] {
        passkey.sign_count = sign_count;
        let answer = sign_in(&server, &passkey).await;
        assert_eq!(answer.status == 200, is_accepted, "{sign_count}: {answer:?}");
    }
    passkey.flags |= BACKUP_ELIGIBLE;
    passkey.sign_count = 7;
    refusal(sign_in(&server, &passkey).await);
    ann.delete(&format!("/auth/passkeys/{}", added["passkey_id"].as_str().unwrap())).await.data(204);
    assert!(server.stop().await.0.success());
    let text = fs::read_to_string(&file).unwrap();
    let events: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let facts: Vec<_> = events
        .iter()
        .skip(2)
        .map(|event| ["kind", "outcome", "reason"].map(|name| event[name].as_str().unwrap_or_default()))
        .collect();
    let copied = [["passkey_copy_detected", "failure", "counter"], ["sign_in_failed", "failure", "passkey_counter"]];
    let expected = [
        &[["passkey_added", "success", ""], ["sign_in", "success", "passkey"]][..],
        &copied,
        &copied,
        &copied,
        &[
            ["sign_in", "success", "passkey"],
            ["sign_in_failed", "failure", "passkey_backup_flags"],
            ["passkey_removed", "success", ""],
        ],
    ];
    assert_eq!(facts, expected.concat(), "{text}");
    let copied = &events[4];
    assert_eq!((&copied["user_id"], &copied["passkey_id"]), (&json!(ann.user_id), &added["passkey_id"]));
}

#[tokio::test]
async fn passkeys_are_limited_per_address_and_per_user() {
    let server = TestServer::start_with(&[
        ("TIDINGS_LIMITS__PASSKEY_CHALLENGE_PER_IP", "4"),
        ("TIDINGS_LIMITS__PASSKEY_VERIFY_PER_IP", "2"),
        ("TIDINGS_LIMITS__PASSKEY_REGISTRATION", "2"),
    ])
    .await;
    let [ann, bob] = server.sign_up_all(["Ann", "Bob"]).await;
    let (passkey, _) = register(&server, &ann, KeyKind::EdDsa).await;
    ann.post("/auth/passkeys/registrations", json!({})).await.data(200);
    let limited = ann.post("/auth/passkeys/registrations", json!({})).await.refused(429, "RATE_LIMITED");
    assert_eq!(limited["details"]["limit"], "passkey_registration");
    bob.post("/auth/passkeys/registrations", json!({})).await.data(200);

    // Accepted sign-ins do not count.
    for _ in 0..3 {
        sign_in(&server, &passkey).await.data(200);
    }
    let last = passkey.get(&challenge(&server).await, &origin(&server));
    let limited =
        server.call(Method::POST, "/api/v1/auth/passkeys/challenges", None).await.refused(429, "RATE_LIMITED");
    assert_eq!(limited["details"]["limit"], "passkey_challenge_per_ip");
    for _ in 0..2 {
        let mut wrong = last.clone();
        wrong["response"]["signature"] = "".into();
        refusal(present(&server, wrong).await);
    }
    let limited = present(&server, last).await.refused(429, "RATE_LIMITED");
    assert_eq!(limited["details"]["limit"], "passkey_verify_per_ip");
}

#[tokio::test]
async fn a_user_has_at_most_twenty_passkeys() {
    let server = TestServer::start().await;
    let ann = server.sign_up("Ann").await;
    let begun = ann.post("/auth/passkeys/registrations", json!({})).await.data(200);
    for _ in 0..20 {
        register(&server, &ann, KeyKind::EdDsa).await;
    }
    let refused = ann.post("/auth/passkeys/registrations", json!({})).await.refused(400, "INVALID_OPERATION");
    assert_eq!(refused["details"], json!({ "limit": "passkeys", "maximum": 20 }));
    let (_, credential) = SoftwarePasskey::create(KeyKind::EdDsa, &begun, &origin(&server));
    let body = json!({ "name": "One more", "credential": credential });
    ann.post("/auth/passkeys", body).await.refused(400, "INVALID_OPERATION");
}

#[tokio::test]
async fn users_of_an_issuer_register_no_passkeys() {
    let issuer = Issuer::start().await;
    let server = issuer.server(&[]).await;
    let mut eve = server.sign_up("Bob").await;
    eve.access_token = issuer.token("JWT", json!({ "sub": "eve", "name": "Eve" }));
    let refused = eve.post("/auth/passkeys/registrations", json!({})).await.refused(400, "INVALID_OPERATION");
    assert_eq!(refused["message"], "passkeys are for users who sign in here; sign in with your identity provider");
}

#[tokio::test]
async fn the_rust_sdk_has_every_route_of_passkeys() {
    let server = TestServer::start().await;
    let client = Client::builder(server.base_url()).build().unwrap();
    client.api().request_otp("+14155550123").await.unwrap();
    let ann = client.api().verify_otp("+14155550123", "000000", Some("Ann")).await.unwrap().user.user.user_id;
    let options = json!(client.api().begin_passkey().await.unwrap());
    let (passkey, credential) = SoftwarePasskey::create(KeyKind::Es256, &options, &origin(&server));
    let credential = serde_json::from_value(credential).unwrap();
    let added = client.api().add_passkey(&AddPasskey { name: "Phone".to_owned(), credential }).await.unwrap();

    let other = Client::builder(server.base_url()).build().unwrap();
    let options = json!(other.api().passkey_challenge().await.unwrap());
    let credential = serde_json::from_value(passkey.get(&options, &origin(&server))).unwrap();
    assert_eq!(other.api().verify_passkey(credential).await.unwrap().user.user.user_id, ann);
    let listed = other.api().passkeys().await.unwrap().passkeys;
    assert_eq!(listed.iter().map(|passkey| passkey.passkey_id).collect::<Vec<_>>(), [added.passkey_id]);
    other.api().remove_passkey(added.passkey_id).await.unwrap();
    assert_eq!(client.api().passkeys().await.unwrap().passkeys, []);
}

/// A server without `--dev` and without settings of passkeys, which ends with the test.
struct PlainServer {
    child: Child,
    url: String,
    log: BufReader<std::process::ChildStderr>,
    _directory: tempfile::TempDir,
}

impl PlainServer {
    fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let mut command = Command::new(this_release());
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.as_encoded_bytes().starts_with(b"TIDINGS_")) {
            command.env_remove(name);
        }
        command
            .args(["serve", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--data-dir"])
            .arg(directory.path().join("data"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let url = line.trim_end().strip_prefix("listening on ").expect(&line).to_owned();
        let log = BufReader::new(child.stderr.take().unwrap());
        Self { child, url, log, _directory: directory }
    }

    /// The code that the server has logged instead of sending it.
    fn code(&mut self) -> String {
        let mut line = String::new();
        while !line.contains(" one-time code ") {
            line.clear();
            assert!(self.log.read_line(&mut line).unwrap() > 0, "the log has ended");
        }
        let (_, code) = line.split_once("code=\"").expect(&line);
        code[..6].to_owned()
    }
}

impl Drop for PlainServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[tokio::test]
async fn without_settings_every_route_of_passkeys_is_off() {
    let mut server = PlainServer::start();
    let http = reqwest::Client::new();
    let url = server.url.clone();
    let post = |path: &str, body: Value| http.post(format!("{url}/api/v1{path}")).json(&body);
    let described = RestResponse::of(http.get(format!("{url}/api/v1"))).await.data(200);
    assert_eq!(described["passkeys"], false);
    RestResponse::of(post("/auth/request-otp", json!({ "phone_number": "+14155550123" }))).await.data(200);
    let device_id = Uuid::new_v4();
    let verify = json!({ "phone_number": "+14155550123", "otp": server.code(), "device_id": device_id });
    let signed_in = RestResponse::of(post("/auth/verify-otp", verify)).await.data(201);
    let token = signed_in["tokens"]["access_token"].as_str().unwrap();

    let passkey = SoftwarePasskey::new(KeyKind::EdDsa, "localhost", &[1; 16]);
    let made = passkey.registration(&client_data("webauthn.create", "AAAA", "http://localhost"));
    let used = passkey.assertion(&client_data("webauthn.get", "AAAA", "http://localhost"));
    let requests = [
        post("/auth/passkeys/challenges", json!({})),
        post("/auth/passkeys/sessions", json!({ "device_id": device_id, "credential": used })),
        post("/auth/passkeys/registrations", json!({})).bearer_auth(token),
        post("/auth/passkeys", json!({ "name": "Phone", "credential": made })).bearer_auth(token),
        http.get(format!("{url}/api/v1/auth/passkeys")).bearer_auth(token),
        http.delete(format!("{url}/api/v1/auth/passkeys/pk_01K9D3F6QHZ4M8RT2VX5PASS01")).bearer_auth(token),
    ];
    for request in requests {
        let refused = RestResponse::of(request).await.refused(400, "INVALID_OPERATION");
        assert_eq!(refused["message"], "passkeys are off on this server");
    }
}
