use std::fs;

use authenticator::{KeyKind, SoftwarePasskey};
use reqwest::Method;
use serde_json::{Value, json};

use crate::server::{RestResponse, TestDevice, TestServer};

/// The origin of the page where passkeys are used.
const ORIGIN: &str = "http://localhost:3000";

/// Callers. Those of the first half have no valid token, though three of them once had the owner's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TestCaller {
    Nobody,
    Garbage,
    Expired,
    Revoked,
    Outsider,
    ExMember,
    Member,
    Admin,
    Owner,
}

impl TestCaller {
    pub(super) const STRANGERS: [Self; 4] = [Self::Nobody, Self::Garbage, Self::Expired, Self::Revoked];
    /// In the order of the tables.
    pub(super) const SIGNED_IN: [Self; 5] = [Self::Outsider, Self::ExMember, Self::Member, Self::Admin, Self::Owner];
}

/// A server and the users of the tables.
pub(super) struct AuthorizationStage {
    /// It ends with the stage.
    _server: TestServer,
    expired: TestDevice,
    revoked: TestDevice,
    outsider: TestDevice,
    ex_member: TestDevice,
    member: TestDevice,
    admin: TestDevice,
    pub(super) owner: TestDevice,
    /// A plain member, the target of the calls.
    pub(super) target: TestDevice,
    /// A passkey of the target.
    pub(super) target_passkey: String,
}

/// A group of all of them, with one message.
pub(super) struct AuthorizationGroup {
    pub(super) chat_id: String,
    pub(super) message_id: String,
}

impl AuthorizationStage {
    pub(super) async fn set() -> Self {
        let mut server = TestServer::start_with(&[
            ("TIDINGS_AUTH__ACCESS_TOKEN_TTL_SECONDS", "1"),
            ("TIDINGS_AUTH__PASSKEYS__RP_ID", "localhost"),
            ("TIDINGS_AUTH__PASSKEYS__ORIGINS", ORIGIN),
        ])
        .await;
        let expired = server.sign_up("Owen").await;
        assert_eq!(server.stop().await.0.code(), Some(0));
        server.set_env("TIDINGS_AUTH__ACCESS_TOKEN_TTL_SECONDS", "3600");
        server.restart().await;
        server.until(async || expired.get("/users/me").await.status == 401).await;
        let [owner, revoked] = [server.another_device(&expired).await, server.another_device(&expired).await];
        assert_eq!(revoked.post("/auth/logout", json!({})).await.status, 204);
        let names = ["Olga", "Eve", "Max", "Ada", "Tim"];
        let [outsider, ex_member, member, admin, target] = server.sign_up_all(names).await;
        let options = target.post("/auth/passkeys/registrations", json!({})).await.data(200);
        let (_, credential) = SoftwarePasskey::create(KeyKind::EdDsa, &options, ORIGIN);
        let added = target.post("/auth/passkeys", json!({ "name": "Tim's", "credential": credential })).await.data(201);
        let target_passkey = added["passkey_id"].as_str().unwrap().to_owned();
        Self { _server: server, expired, revoked, outsider, ex_member, member, admin, owner, target, target_passkey }
    }

    pub(super) async fn scene(&self) -> AuthorizationGroup {
        let others = [&self.ex_member, &self.member, &self.admin, &self.target];
        let chat_id = self.owner.group("Team", &others).await;
        let place = |device: &TestDevice| format!("/chats/{chat_id}/members/{}", device.user_id);
        self.owner.patch(&place(&self.admin), json!({ "role": "admin" })).await.data(200);
        assert_eq!(self.owner.delete(&place(&self.ex_member)).await.status, 204);
        let message_id = self.owner.send(&chat_id, "hello").await["message_id"].as_str().unwrap().to_owned();
        AuthorizationGroup { chat_id, message_id }
    }

    /// The device of an actor who is or was signed in.
    pub(super) fn device(&self, actor: TestCaller) -> &TestDevice {
        match actor {
            TestCaller::Nobody | TestCaller::Garbage | TestCaller::Owner => &self.owner,
            TestCaller::Expired => &self.expired,
            TestCaller::Revoked => &self.revoked,
            TestCaller::Outsider => &self.outsider,
            TestCaller::ExMember => &self.ex_member,
            TestCaller::Member => &self.member,
            TestCaller::Admin => &self.admin,
        }
    }

    /// Makes a call as an actor. The path begins at the root.
    pub(super) async fn call(&self, actor: TestCaller, method: Method, path: &str, body: &Value) -> RestResponse {
        let request = self.owner.anonymous(method, path);
        let request = match actor {
            TestCaller::Nobody => request,
            TestCaller::Garbage => request.bearer_auth("garbage"),
            _ => request.bearer_auth(&self.device(actor).access_token),
        };
        RestResponse::of(if body.is_null() { request } else { request.json(body) }).await
    }
}

/// A document of `docs`.
pub(super) fn document(name: &str) -> Value {
    let path = format!("{}/../../docs/{name}", env!("CARGO_MANIFEST_DIR"));
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}
