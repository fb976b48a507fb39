use std::fs;

use reqwest::Method;
use serde_json::{Value, json};

use crate::server::{Answer, Device, TestServer};

/// Who asks. Those of the first half have no token that is worth anything, though three of them once had the owner's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Actor {
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

impl Actor {
    pub(super) const STRANGERS: [Self; 4] = [Self::Nobody, Self::Garbage, Self::Expired, Self::Revoked];
    /// In the order of the tables.
    pub(super) const SIGNED_IN: [Self; 5] = [Self::Outsider, Self::ExMember, Self::Member, Self::Admin, Self::Owner];
}

/// A server and the people of the tables.
pub(super) struct Stage {
    /// It ends with the stage.
    _server: TestServer,
    expired: Device,
    revoked: Device,
    outsider: Device,
    ex_member: Device,
    member: Device,
    admin: Device,
    pub(super) owner: Device,
    /// A plain member to whom things are done.
    pub(super) target: Device,
}

/// A group of all of them, with one message.
pub(super) struct Scene {
    pub(super) chat_id: String,
    pub(super) message_id: String,
}

impl Stage {
    pub(super) async fn set() -> Self {
        let mut server = TestServer::start_with(&[("TIDINGS_AUTH__ACCESS_TOKEN_TTL_SECONDS", "1")]).await;
        let expired = server.sign_up("Owen").await;
        assert_eq!(server.stop().await.0.code(), Some(0));
        server.set_env("TIDINGS_AUTH__ACCESS_TOKEN_TTL_SECONDS", "3600");
        server.restart().await;
        server.until(async || expired.get("/users/me").await.status == 401).await;
        let [owner, revoked] = [server.another_device(&expired).await, server.another_device(&expired).await];
        assert_eq!(revoked.post("/auth/logout", json!({})).await.status, 204);
        let names = ["Olga", "Eve", "Max", "Ada", "Tim"];
        let [outsider, ex_member, member, admin, target] = server.sign_up_all(names).await;
        Self { _server: server, expired, revoked, outsider, ex_member, member, admin, owner, target }
    }

    pub(super) async fn scene(&self) -> Scene {
        let others = [&self.ex_member, &self.member, &self.admin, &self.target];
        let chat_id = self.owner.group("Team", &others).await;
        let place = |device: &Device| format!("/chats/{chat_id}/members/{}", device.user_id);
        self.owner.patch(&place(&self.admin), json!({ "role": "admin" })).await.data(200);
        assert_eq!(self.owner.delete(&place(&self.ex_member)).await.status, 204);
        let message_id = self.owner.send(&chat_id, "hello").await["message_id"].as_str().unwrap().to_owned();
        Scene { chat_id, message_id }
    }

    /// The device of an actor who is signed in, or was.
    pub(super) fn device(&self, actor: Actor) -> &Device {
        match actor {
            Actor::Nobody | Actor::Garbage | Actor::Owner => &self.owner,
            Actor::Expired => &self.expired,
            Actor::Revoked => &self.revoked,
            Actor::Outsider => &self.outsider,
            Actor::ExMember => &self.ex_member,
            Actor::Member => &self.member,
            Actor::Admin => &self.admin,
        }
    }

    /// Makes a call as an actor. The path begins at the root.
    pub(super) async fn call(&self, actor: Actor, method: Method, path: &str, body: &Value) -> Answer {
        let request = self.owner.anonymous(method, path);
        let request = match actor {
            Actor::Nobody => request,
            Actor::Garbage => request.bearer_auth("garbage"),
            _ => request.bearer_auth(&self.device(actor).access_token),
        };
        Answer::of(if body.is_null() { request } else { request.json(body) }).await
    }
}

/// A document of `docs`.
pub(super) fn document(name: &str) -> Value {
    let path = format!("{}/../../docs/{name}", env!("CARGO_MANIFEST_DIR"));
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

/// The status of an answer, with the code of a failure.
pub(super) fn outcome(answer: &Answer) -> String {
    match answer.body["error"]["code"].as_str() {
        Some(code) => format!("{} {code}", answer.status.as_u16()),
        None => answer.status.as_u16().to_string(),
    }
}
