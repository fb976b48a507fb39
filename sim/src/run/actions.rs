use std::sync::Arc;

use audit::history::{Client, Entry, HistoryOp, fingerprint};
use domain::{ChatId, DeviceId, Invariant, Sequence, UserId};
use http::Method;
use ports::Clock;
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::time::Instant;
use uuid::Uuid;

use super::{RunState, name};
use crate::client::{DeviceCommand, client_message_id};
use crate::plan::{ClientAction, RunPlan, Scheduled};
use crate::trace::{TraceActor, TraceEvent};
use crate::world::World;

/// Actions of clients.
impl RunState {
    pub(super) fn act(&self, plan: &RunPlan, action: &ClientAction) {
        let command = |client: usize, command| {
            // A device reads its commands until the end of the run.
            drop(self.clients[client].send(command));
        };
        match *action {
            ClientAction::Send { client, chat, name, bytes, ttl } => {
                let content = self.content(plan, client, name, bytes);
                // A message that is also sent over REST may be committed earlier than its order here.
                let repeats = |action: &Scheduled<ClientAction>| matches!(action.what, ClientAction::Repeat { name: n, .. } if n == name);
                let ordered = !plan.actions.iter().any(repeats);
                command(client, DeviceCommand::Send { chat_id: self.chats[chat], name, content, ttl, ordered });
            }
            ClientAction::Repeat { client, chat, name, bytes, ttl } => {
                let content = self.content(plan, client, name, bytes);
                self.repeat(client, self.chats[chat], name, content, ttl);
            }
            ClientAction::Read { client, chat } => command(client, DeviceCommand::Read(self.chats[chat])),
            ClientAction::Type { client, chat, is_typing } => {
                command(client, DeviceCommand::Type(self.chats[chat], is_typing))
            }
            ClientAction::Watch { client, user } => command(client, DeviceCommand::Watch(self.users[user])),
            ClientAction::GoOffline { client, lasts } => command(client, DeviceCommand::GoOffline(lasts)),
            ClientAction::Restart { client } => command(client, DeviceCommand::Restart),
            ClientAction::Dawdle { client, lasts, pace } => command(client, DeviceCommand::Dawdle { lasts, pace }),
            ClientAction::Twin { client } => command(client, DeviceCommand::Twin),
            ClientAction::OpenInbox { client } => self.open_inbox(client),
            ClientAction::Add { client, chat, user } => {
                let (chat_id, user_id) = (self.chats[chat], self.users[user]);
                let path = format!("/chats/{chat_id}/members");
                self.change_members(client, Method::POST, path, Some(json!({ "user_id": user_id })), chat_id, user_id);
            }
            ClientAction::Remove { client, chat, user } => {
                let (chat_id, user_id) = (self.chats[chat], self.users[user]);
                let path = format!("/chats/{chat_id}/members/{user_id}");
                self.change_members(client, Method::DELETE, path, None, chat_id, user_id);
            }
            ClientAction::Leave { client, chat } => {
                let (chat_id, user_id) = (self.chats[chat], self.users[plan.clients()[client].0]);
                let path = format!("/chats/{chat_id}/leave");
                self.change_members(client, Method::POST, path, None, chat_id, user_id);
            }
            ClientAction::OpenDirect { client, user } => {
                let body = json!({ "type": "direct", "member_ids": [self.users[user]] });
                self.call(client, Method::POST, "/chats".to_owned(), Some(body), |_, _| {});
            }
            ClientAction::Show { client, visibility } => {
                let visibility = ["everyone", "contacts_only", "nobody"][visibility % 3];
                let body = json!({ "presence_visibility": visibility });
                self.call(client, Method::PATCH, "/users/me".to_owned(), Some(body), |_, _| {});
            }
            ClientAction::Block { client, user, is_blocked } => {
                let method = if is_blocked { Method::PUT } else { Method::DELETE };
                let path = format!("/blocks/{}", self.users[user]);
                self.call(client, method, path, None, |_, _| {});
            }
            ClientAction::Befriend { client, user, is_contact } => {
                let method = if is_contact { Method::PUT } else { Method::DELETE };
                let path = format!("/contacts/{}", self.users[user]);
                self.call(client, method, path, None, |_, _| {});
            }
            ClientAction::Update { client, chat, name, kind, pick } => {
                command(client, DeviceCommand::Update { chat_id: self.chats[chat], name, kind, pick });
            }
            ClientAction::RepeatUpdate { client } => command(client, DeviceCommand::RepeatUpdate),
            ClientAction::LookUp { client, chat } => self.look_up(client, self.chats[chat]),
            ClientAction::Delete { client, erases } => {
                let body = json!({ "confirm": self.client(client).user_id, "erase_messages": erases });
                self.call(client, Method::DELETE, "/users/me".to_owned(), Some(body), |_, _| {});
            }
        }
    }

    /// Gets the last acknowledged message of a chat by its id.
    fn look_up(&self, client: usize, chat_id: ChatId) {
        let Some((sequence, message_id)) = self.world.checks.last_acked(chat_id) else { return };
        let began = Instant::now();
        self.call(client, Method::GET, format!("/messages/{message_id}"), None, move |world, answer| match answer {
            Some((200, body)) => {
                let of = |name: &str| body["data"][name].as_str().and_then(|text| text.parse().ok());
                let is_same = (of("chat_id"), body["data"]["sequence"].as_u64()) == (Some(chat_id), Some(sequence.0));
                world.check(Invariant::StoreIsAuthoritative, is_same, || {
                    format!("{message_id} at {sequence} of {chat_id} is found by its id as {body}")
                });
            }
            Some((404, _)) => {
                let gone_from = world.clock.now() + world.plan.skew_bound();
                let expires_at = world.checks.committed(chat_id, sequence).and_then(|known| known.expires_at);
                let may_be_gone = expires_at.is_some_and(|at| at <= gone_from) || world.lagged(message_id, began);
                world.check(Invariant::AckImpliesPersistence, may_be_gone, || {
                    format!("{message_id} was acknowledged as {sequence} of {chat_id}, and is not found by its id")
                });
            }
            _ => {}
        });
    }

    /// The content of a message: deterministic and unique for its sender and name.
    fn content(&self, plan: &RunPlan, client: usize, name: u32, bytes: usize) -> String {
        let mut content = format!("{name} by {}", plan.clients()[client].0);
        while content.len() < bytes {
            content.push('.');
        }
        content
    }

    /// Makes a client call the REST API, and processes the answer.
    fn call(
        &self,
        client: usize,
        method: Method,
        path: String,
        body: Option<Value>,
        then: impl FnOnce(&Arc<World>, Option<(u16, Value)>) + Send + 'static,
    ) {
        let (answer, answered) = oneshot::channel();
        let what = format!("{method} {}", named(&self.world, &path));
        // A device reads its commands until the end of the run.
        drop(self.clients[client].send(DeviceCommand::Call { method, path, body, answer }));
        let (world, name) = (self.world.clone(), name(&self.world.plan, client));
        tokio::spawn(async move {
            let answer = answered.await.ok().flatten();
            let status = answer.as_ref().map_or_else(|| "no answer".to_owned(), |(status, _)| status.to_string());
            world.note(TraceActor::Client(name), TraceEvent::Called { what, answer: status });
            then(&world, answer);
        });
    }

    pub(super) fn client(&self, client: usize) -> Client {
        let (user, _) = self.world.plan.clients()[client];
        let device_id = DeviceId::from(Uuid::from_u128(0x4000_8000_0000_0000_0000 + client as u128 + 1));
        Client { user_id: self.users[user], device_id }
    }

    fn repeat(&self, client: usize, chat_id: ChatId, name: u32, content: String, ttl: Option<u64>) {
        let id = client_message_id(name);
        let who = self.client(client);
        let note = move |world: &World, op| world.observe(&Entry { at: world.milliseconds(), client: who, op });
        let print = fingerprint(&content);
        let ttl_seconds = ttl.map(|ttl| ttl.saturating_sub(self.world.plan.skew_bound().as_secs()));
        let began =
            HistoryOp::SendBegan { chat_id, client_message_id: id, content: print, ttl_seconds, ordered: false };
        note(&self.world, began);
        let mut body = json!({ "client_message_id": id, "content": content });
        if let Some(ttl) = ttl {
            body["ttl_seconds"] = json!(ttl);
        }
        self.call(client, Method::POST, format!("/chats/{chat_id}/messages"), Some(body), move |world, answer| {
            match answer {
                Some((200 | 201, body)) => {
                    let text = |name| body["data"][name].as_str().and_then(|text| text.parse().ok());
                    let sequence = body["data"]["sequence"].as_u64().map(Sequence);
                    if let (Some(message_id), Some(sequence)) = (text("message_id"), sequence) {
                        world.acked(chat_id, message_id, sequence);
                        note(world, HistoryOp::SendAcked { chat_id, client_message_id: id, message_id, sequence });
                    }
                }
                Some((_, body)) => {
                    let code = body.pointer("/error/code").and_then(Value::as_str).unwrap_or("UNKNOWN").to_owned();
                    note(world, HistoryOp::SendFailed { chat_id, client_message_id: id, code });
                }
                None => {}
            }
        });
    }

    fn change_members(
        &self,
        client: usize,
        method: Method,
        path: String,
        body: Option<Value>,
        chat_id: ChatId,
        user_id: UserId,
    ) {
        let joins = path.ends_with("/members");
        let who = self.client(client);
        let note = move |world: &World, op| world.observe(&Entry { at: world.milliseconds(), client: who, op });
        let begins =
            if joins { HistoryOp::Joining { chat_id, user_id } } else { HistoryOp::Leaving { chat_id, user_id } };
        note(&self.world, begins);
        self.call(client, method, path, body, move |world, answer| {
            if let Some((200..300, _)) = answer {
                let done =
                    if joins { HistoryOp::Joined { chat_id, user_id } } else { HistoryOp::Left { chat_id, user_id } };
                note(world, done);
            }
        });
    }

    fn open_inbox(&self, client: usize) {
        let who = self.client(client);
        let note = move |world: &World, op| world.observe(&Entry { at: world.milliseconds(), client: who, op });
        for chat_id in &self.chats {
            note(&self.world, HistoryOp::Asked { chat_id: *chat_id });
        }
        let chats = self.chats.clone();
        self.call(client, Method::GET, "/chats?limit=100".to_owned(), None, move |world, answer| {
            let Some((200, body)) = answer else { return };
            let listed = body.pointer("/data/chats").and_then(Value::as_array).cloned().unwrap_or_default();
            for chat in listed {
                let chat_id = chat["chat_id"].as_str().and_then(|text| text.parse::<ChatId>().ok());
                let number = |name: &str| chat[name].as_u64().unwrap_or_default();
                if let Some(chat_id) = chat_id.filter(|chat_id| chats.contains(chat_id)) {
                    let shown = HistoryOp::Shown {
                        chat_id,
                        head: Sequence(number("head_sequence")),
                        delivered: Sequence(number("my_delivered_sequence")),
                        read: Sequence(number("my_read_sequence")),
                        unread: number("unread_count"),
                    };
                    note(world, shown);
                }
            }
        });
    }
}

/// A path with names in place of the ids of users and chats.
fn named(world: &World, path: &str) -> String {
    let names = world.trace().names.clone();
    let part = |part: &str| match (part.parse::<ChatId>(), part.parse::<UserId>()) {
        (Ok(chat_id), _) => names.chat(chat_id),
        (_, Ok(user_id)) => names.user(user_id),
        _ => part.to_owned(),
    };
    path.split('/').map(part).collect::<Vec<_>>().join("/")
}
