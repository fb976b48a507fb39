use std::collections::BTreeSet;

use authenticator::{KeyKind, SoftwarePasskey, client_data};
use reqwest::Method;
use serde_json::{Value, json};
use uuid::Uuid;

use super::stage::{AuthorizationGroup, AuthorizationStage, TestCaller, document};

/// Expected responses of a route by caller.
enum Answers {
    /// Needs no authentication.
    Open(&'static str),
    /// The same for every signed-in user, about their own data.
    SignedIn(&'static str),
    /// A route of a chat: outsider, ex-member, member, admin, owner.
    Chat([&'static str; 5]),
}

use Answers::{Chat, Open, SignedIn};

const STRANGER: &str = "403 NOT_A_MEMBER";
const FORBIDDEN: &str = "403 FORBIDDEN";
const NOT_FOUND: &str = "404 NOT_FOUND";

/// Allowed for members of the chat only.
const fn members(status: &'static str) -> Answers {
    Chat([STRANGER, STRANGER, status, status, status])
}

/// The table: a route, its request body, and the expected responses. `{user_id}` is a plain member of the chat,
/// `{session_id}` a session of that member, `{device_id}` their device, `{passkey_id}` their passkey: none belongs to the
/// caller.
fn table(stage: &AuthorizationStage) -> Vec<(&'static str, Value, Answers)> {
    let none = Value::Null;
    let (device_id, someone) = (stage.target.device_id, json!({ "user_ids": [stage.target.user_id] }));
    let message = json!({ "client_message_id": Uuid::new_v4(), "content": "hi" });
    let newcomer = json!({ "user_id": stage.device(TestCaller::Outsider).user_id });
    let group = json!({ "type": "group", "name": "Mine", "member_ids": [] });
    let passkey = SoftwarePasskey::new(KeyKind::EdDsa, "localhost", &[1; 16]);
    let push = json!({
        "provider": "webpush",
        "endpoint": "https://push.example/x",
        "keys": {
            "p256dh": "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4",
            "auth": "BTBZMqHH6r4Tts7J_aSIgg",
        },
    });
    vec![
        ("GET /.well-known/jwks.json", none.clone(), Open("200")),
        ("GET /api/v1", none.clone(), Open("200")),
        ("POST /api/v1/auth/request-otp", json!({ "phone_number": "+14155559999" }), Open("200")),
        (
            "POST /api/v1/auth/verify-otp",
            json!({ "phone_number": "+14155559998", "otp": "123456", "device_id": device_id }),
            Open("401 UNAUTHORIZED"),
        ),
        (
            "POST /api/v1/auth/refresh",
            json!({ "refresh_token": stage.target.refresh_token, "device_id": Uuid::new_v4() }),
            Open("401 UNAUTHORIZED"),
        ),
        ("POST /api/v1/auth/passkeys/challenges", none.clone(), Open("200")),
        (
            "POST /api/v1/auth/passkeys/sessions",
            json!({ "device_id": device_id, "credential": passkey.assertion(&client_data("webauthn.get", "", "")) }),
            Open("401 UNAUTHORIZED"),
        ),
        ("POST /api/v1/auth/passkeys/registrations", none.clone(), SignedIn("200")),
        (
            "POST /api/v1/auth/passkeys",
            json!({ "name": "Mine", "credential": passkey.registration(&client_data("webauthn.create", "", "")) }),
            SignedIn("400 VALIDATION_ERROR"),
        ),
        ("GET /api/v1/auth/passkeys", none.clone(), SignedIn("200")),
        ("DELETE /api/v1/auth/passkeys/{passkey_id}", none.clone(), SignedIn(NOT_FOUND)),
        ("POST /api/v1/auth/ws-ticket", none.clone(), SignedIn("200")),
        ("GET /api/v1/users/me", none.clone(), SignedIn("200")),
        ("PATCH /api/v1/users/me", json!({ "display_name": "Me" }), SignedIn("200")),
        ("GET /api/v1/users/me/export", none.clone(), SignedIn("200")),
        // With the id of another user.
        ("DELETE /api/v1/users/me", json!({ "confirm": stage.target.user_id }), SignedIn("400 VALIDATION_ERROR")),
        ("GET /api/v1/users/{user_id}", none.clone(), SignedIn("200")),
        ("POST /api/v1/users/lookup", json!({ "phone_numbers": [stage.target.phone_number] }), SignedIn("200")),
        ("GET /api/v1/contacts", none.clone(), SignedIn("200")),
        ("PUT /api/v1/contacts/{user_id}", none.clone(), SignedIn("200")),
        ("DELETE /api/v1/contacts/{user_id}", none.clone(), SignedIn("204")),
        ("GET /api/v1/blocks", none.clone(), SignedIn("200")),
        ("PUT /api/v1/blocks/{user_id}", none.clone(), SignedIn("204")),
        ("DELETE /api/v1/blocks/{user_id}", none.clone(), SignedIn("204")),
        ("GET /api/v1/invitations", none.clone(), SignedIn("200")),
        // The caller has no invitation.
        ("POST /api/v1/invitations/{chat_id}/accept", none.clone(), Chat([NOT_FOUND, NOT_FOUND, "200", "200", "200"])),
        ("DELETE /api/v1/invitations/{chat_id}", none.clone(), SignedIn("204")),
        ("POST /api/v1/reports", json!({ "user_id": stage.target.user_id, "reason": "spam" }), SignedIn("201")),
        ("GET /api/v1/users/{user_id}/presence", none.clone(), SignedIn("200")),
        ("POST /api/v1/presence/query", someone, SignedIn("200")),
        ("GET /api/v1/chats", none.clone(), SignedIn("200")),
        ("POST /api/v1/chats", group, SignedIn("201")),
        ("GET /api/v1/chats/{chat_id}", none.clone(), members("200")),
        (
            "PATCH /api/v1/chats/{chat_id}",
            json!({ "name": "Ours" }),
            Chat([STRANGER, STRANGER, FORBIDDEN, "200", "200"]),
        ),
        ("POST /api/v1/chats/{chat_id}/members", newcomer, Chat([STRANGER, STRANGER, FORBIDDEN, "201", "201"])),
        (
            "PATCH /api/v1/chats/{chat_id}/members/{user_id}",
            json!({ "role": "admin" }),
            Chat([STRANGER, STRANGER, FORBIDDEN, FORBIDDEN, "200"]),
        ),
        (
            "DELETE /api/v1/chats/{chat_id}/members/{user_id}",
            none.clone(),
            Chat([STRANGER, STRANGER, FORBIDDEN, "204", "204"]),
        ),
        (
            "POST /api/v1/chats/{chat_id}/leave",
            none.clone(),
            Chat([STRANGER, STRANGER, "204", "204", "400 INVALID_OPERATION"]),
        ),
        ("POST /api/v1/chats/{chat_id}/mute", none.clone(), members("200")),
        ("POST /api/v1/chats/{chat_id}/unmute", none.clone(), members("200")),
        ("GET /api/v1/chats/{chat_id}/messages", none.clone(), members("200")),
        ("POST /api/v1/chats/{chat_id}/messages", message, members("201")),
        (
            "PATCH /api/v1/chats/{chat_id}/messages/{sequence}",
            json!({ "client_message_id": Uuid::new_v4(), "content": "hi" }),
            Chat([STRANGER, STRANGER, FORBIDDEN, FORBIDDEN, "200"]),
        ),
        (
            "DELETE /api/v1/chats/{chat_id}/messages/{sequence}",
            none.clone(),
            Chat([STRANGER, STRANGER, FORBIDDEN, "200", "200"]),
        ),
        ("GET /api/v1/chats/{chat_id}/messages/{sequence}/reactions", none.clone(), members("200")),
        ("PUT /api/v1/chats/{chat_id}/messages/{sequence}/reactions/{reaction}", none.clone(), members("200")),
        // No caller has this reaction on the message.
        ("DELETE /api/v1/chats/{chat_id}/messages/{sequence}/reactions/{reaction}", none.clone(), members(NOT_FOUND)),
        ("GET /api/v1/chats/{chat_id}/messages/around/{sequence}", none.clone(), members("200")),
        ("GET /api/v1/messages/{message_id}", none.clone(), members("200")),
        ("POST /api/v1/chats/{chat_id}/delivered", json!({ "last_acked_sequence": 1 }), members("200")),
        ("POST /api/v1/chats/{chat_id}/read", json!({ "last_read_sequence": 1 }), members("200")),
        ("GET /api/v1/chats/{chat_id}/receipts", none.clone(), members("200")),
        ("GET /api/v1/sessions", none.clone(), SignedIn("200")),
        ("DELETE /api/v1/sessions", none.clone(), SignedIn("200")),
        ("DELETE /api/v1/sessions/{session_id}", none.clone(), SignedIn(NOT_FOUND)),
        ("PUT /api/v1/devices/{device_id}/push", push, SignedIn(NOT_FOUND)),
        ("DELETE /api/v1/devices/{device_id}/push", none.clone(), SignedIn("204")),
        // Last, because it invalidates the token.
        ("POST /api/v1/auth/logout", none, SignedIn("204")),
    ]
}

fn path(stage: &AuthorizationStage, scene: &AuthorizationGroup, template: &str) -> String {
    template
        .replace("{chat_id}", &scene.chat_id)
        .replace("{message_id}", &scene.message_id)
        .replace("{user_id}", &stage.target.user_id)
        .replace("{session_id}", &stage.target.session_id)
        .replace("{passkey_id}", &stage.target_passkey)
        .replace("{device_id}", &stage.target.device_id.to_string())
        .replace("{sequence}", "1")
        .replace("{reaction}", "ok")
}

pub(super) async fn every_route_answers_every_caller_as_in_the_table(stage: &AuthorizationStage) {
    let idle = stage.scene().await;
    let table = table(stage);
    for (route, body, answers) in &table {
        let (method, template) = route.split_once(' ').unwrap();
        let method: Method = method.parse().unwrap();
        for actor in TestCaller::STRANGERS {
            let expected = if let Open(expected) = answers { expected } else { "401 UNAUTHORIZED" };
            let answer = stage.call(actor, method.clone(), &path(stage, &idle, template), body).await;
            assert_eq!(answer.outcome(), expected, "{route} as {actor:?}: {}", answer.body);
        }
        for (place, actor) in TestCaller::SIGNED_IN.into_iter().enumerate() {
            let (scene, expected) = match answers {
                Open(expected) | SignedIn(expected) => (None, *expected),
                Chat(expected) => (Some(stage.scene().await), expected[place]),
            };
            let path = path(stage, scene.as_ref().unwrap_or(&idle), template);
            let answer = stage.call(actor, method.clone(), &path, body).await;
            assert_eq!(answer.outcome(), expected, "{route} as {actor:?}: {}", answer.body);
        }
    }
    let documented: BTreeSet<String> = document("openapi.json")["paths"]
        .as_object()
        .unwrap()
        .iter()
        .flat_map(|(path, methods)| {
            let methods = methods.as_object().unwrap().keys();
            methods.map(move |method| format!("{} {path}", method.to_uppercase()))
        })
        .collect();
    let tried: BTreeSet<String> = table.iter().map(|(route, ..)| (*route).to_owned()).collect();
    assert_eq!(tried, documented, "every route of the document is in the table, and no other");
    assert!(stage.target.get("/sessions").await.status == 200, "no caller has ended the session of another user");
}
