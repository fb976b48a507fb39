//! Clients that use a server while it is recorded, and log every response.

use std::collections::BTreeSet;

use futures_util::future::join_all;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};

use crate::ledger::{
    LedgerAck, LedgerAction, LedgerChat, LedgerRead, LedgerSend, LedgerUpdate, LedgerUser, ResponseLedger, now,
};
use crate::process::PATIENCE;
use crate::server::{RestResponse, TestDevice, TestSocket};

/// Bytes of the longest content.
const CONTENT_MAX: usize = 4096;

/// The reaction of all users.
const REACTION: &str = "+1";

/// Lengths of the contents of a load.
#[derive(Clone, Copy)]
pub(crate) enum Sizes {
    /// From 20 bytes to the limit.
    Mixed,
    /// All at the limit.
    Longest,
}

/// Users and chats on one server.
pub(crate) struct RecordedLoad {
    pub(crate) ledger: ResponseLedger,
    http: reqwest::Client,
    base_url: String,
    devices: Vec<TestDevice>,
    sockets: Vec<TestSocket>,
    random: StdRng,
}

impl RecordedLoad {
    /// No user has signed in yet.
    pub(crate) fn new(seed: u64) -> Self {
        let http = reqwest::Client::builder().timeout(PATIENCE).build().unwrap();
        let random = StdRng::seed_from_u64(seed);
        Self {
            ledger: ResponseLedger::default(),
            http,
            base_url: String::new(),
            devices: vec![],
            sockets: vec![],
            random,
        }
    }

    /// The same users and ledger, not connected.
    pub(crate) fn again(&self) -> Self {
        let (ledger, devices) = (self.ledger.clone(), self.devices.clone());
        Self { ledger, devices, ..Self::new(rand::random()) }
    }

    /// Signs users in, each with a connection, and creates two direct chats and two groups.
    pub(crate) async fn meet(&mut self, base_url: &str) {
        self.base_url = base_url.to_owned();
        for (number, name) in ["Ann", "Bob", "Cid", "Dan"].into_iter().enumerate() {
            let phone_number = format!("+1415{:07}", 2_000_000 + number);
            let device = TestDevice::sign_in(self.http.clone(), base_url, &phone_number, name).await;
            let (user_id, access_token) = (device.user_id.clone(), device.access_token.clone());
            let device_id = device.device_id;
            self.ledger.people.push(LedgerUser { answered: now(), user_id, device_id, access_token });
            self.sockets.push(device.connect().await);
            self.devices.push(device);
        }
        for (members, name) in [(&[0, 1][..], ""), (&[2, 3], ""), (&[0, 1, 2, 3], "all"), (&[3, 1, 2], "three")] {
            self.make_chat(members, name).await;
        }
    }

    /// Creates a chat; without a name it is a direct one.
    pub(crate) async fn make_chat(&mut self, members: &[usize], name: &str) -> usize {
        let others: Vec<_> = members[1..].iter().map(|member| &self.devices[*member]).collect();
        let first = &self.devices[members[0]];
        let chat_id =
            if name.is_empty() { first.direct_chat(others[0]).await } else { first.group(name, &others).await };
        let members = members.to_vec();
        self.ledger.chats.push(LedgerChat { answered: now(), chat_id, members, sampled_to: 0 });
        self.ledger.chats.len() - 1
    }

    /// Runs rounds of sends, updates and reads. In a round each user sends a few messages at once to one of their
    /// chats; one in four expires if a lifetime is given. Then each user updates a few of the others at once.
    pub(crate) async fn go_on(&mut self, rounds: usize, sizes: Sizes, ttl_seconds: Option<u64>) {
        for round in 0..rounds {
            let mut bursts = vec![];
            for person in 0..self.sockets.len() {
                let theirs: Vec<_> = self.chats_of(person).collect();
                let chat = theirs[self.random.random_range(0..theirs.len())];
                let count = self.random.random_range(1..=6);
                let burst: Vec<_> = (0..count).map(|_| self.send(chat, person, sizes, ttl_seconds)).collect();
                bursts.push(burst);
            }
            self.send_all(bursts).await;
            self.update().await;
            if round % 3 == 0 {
                self.read().await;
            }
        }
    }

    /// Sends many messages of maximum length to one chat, in batches. They are only sampled afterwards.
    pub(crate) async fn fill(&mut self, chat: usize, count: usize) {
        const AT_ONCE: usize = 200;
        let members = self.ledger.chats[chat].members.clone();
        let mut left = count;
        while left > 0 {
            let mut bursts = vec![vec![]; self.sockets.len()];
            for member in &members {
                let burst = left.min(AT_ONCE);
                left -= burst;
                bursts[*member] = (0..burst).map(|_| self.send(chat, *member, Sizes::Longest, None)).collect();
            }
            self.send_all(bursts).await;
            for socket in &mut self.sockets {
                // Pushes are ignored.
                socket.heard_so_far().await;
            }
        }
        let acks = self.ledger.sends.iter().filter(|send| send.chat == chat).filter_map(|send| send.ack.as_ref());
        self.ledger.chats[chat].sampled_to = acks.map(|ack| ack.sequence).max().unwrap_or(0);
    }

    /// Adds a send to the ledger, before it is made.
    fn send(&mut self, chat: usize, sender: usize, sizes: Sizes, ttl_seconds: Option<u64>) -> usize {
        let len = match (sizes, self.random.random_range(0..4)) {
            (Sizes::Longest, _) | (_, 0) => CONTENT_MAX,
            (_, 1) => self.random.random_range(600..=2500),
            (_, 2) => 300,
            _ => self.random.random_range(20..=100),
        };
        let ttl_seconds = ttl_seconds.filter(|_| self.random.random_bool(0.25));
        let id = uuid::Builder::from_random_bytes(self.random.random()).into_uuid();
        self.ledger.sends.push(LedgerSend { id, len, chat, sender, ttl_seconds, ack: None });
        self.ledger.sends.len() - 1
    }

    /// Makes the sends from the ledger, each socket its own without a pause, and waits for all acks.
    async fn send_all(&mut self, bursts: Vec<Vec<usize>>) {
        let frames = |burst: &Vec<usize>| burst.iter().map(|send| frame(&self.ledger, *send)).collect();
        let frames = bursts.iter().map(frames).collect();
        for (send, ack) in bursts.iter().flatten().zip(self.ask_all(frames).await) {
            self.ledger.sends[*send].ack = Some(ack);
        }
    }

    /// Each user updates a few messages that were answered, and do not expire. No message gets two updates at once.
    async fn update(&mut self) {
        let mut left: Vec<usize> = (0..self.ledger.sends.len()).filter(|send| self.is_updatable(*send)).collect();
        let (mut updates, mut frames) = (vec![], vec![]);
        for user in 0..self.sockets.len() {
            let mut burst = vec![];
            for _ in 0..self.random.random_range(0..=3) {
                let theirs: Vec<usize> = self.chats_of(user).collect();
                let is_theirs = |send: &usize| theirs.contains(&self.ledger.sends[*send].chat);
                // The last messages, so that some get several updates.
                let Some(at) =
                    (0..left.len()).rev().filter(|at| is_theirs(&left[*at])).nth(self.random.random_range(0..6))
                else {
                    continue;
                };
                let update = self.new_update(user, left.remove(at));
                burst.push(update_frame(&self.ledger, &update));
                updates.push(update);
            }
            frames.push(burst);
        }
        let first = self.ledger.updates.len();
        self.ledger.updates.extend(updates);
        for (n, ack) in (first..).zip(self.ask_all(frames).await) {
            self.ledger.updates[n].ack = Some(ack);
        }
    }

    /// Whether the state of a message is known, and it stays.
    fn is_updatable(&self, send: usize) -> bool {
        let LedgerSend { ttl_seconds, ack, .. } = &self.ledger.sends[send];
        let is_settled = |update: &LedgerUpdate| update.ack.is_some() && update.action != LedgerAction::Delete;
        ttl_seconds.is_none() && ack.is_some() && self.ledger.updates_of(send).all(is_settled)
    }

    fn new_update(&mut self, user: usize, target: usize) -> LedgerUpdate {
        let is_author = self.ledger.sends[target].sender == user;
        let reactions = self.ledger.updates_of(target).filter(|update| update.user == user);
        let reactions = reactions.filter(|update| matches!(update.action, LedgerAction::React | LedgerAction::Unreact));
        let has_reacted = reactions.last().is_some_and(|update| update.action == LedgerAction::React);
        let action = match self.random.random_range(0..10) {
            0..4 if is_author => LedgerAction::Edit { len: self.random.random_range(20..=CONTENT_MAX) },
            4..6 if is_author => LedgerAction::Delete,
            _ if has_reacted => LedgerAction::Unreact,
            _ => LedgerAction::React,
        };
        let id = uuid::Builder::from_random_bytes(self.random.random()).into_uuid();
        LedgerUpdate { id, user, target, action, ack: None }
    }

    /// Sends frames, each socket its own without a pause, and waits for all acks. Returns them in the same order.
    async fn ask_all(&mut self, frames: Vec<Vec<Value>>) -> Vec<LedgerAck> {
        let asking = self.sockets.iter_mut().zip(frames).map(|(socket, burst)| async move {
            let ids: Vec<_> = burst.iter().map(|frame| frame["request_id"].as_str().unwrap().to_owned()).collect();
            socket.send_all(burst).await;
            let mut acks = vec![];
            for id in ids {
                let answer = socket.answer(&id).await;
                let answered = now();
                assert_eq!(answer["type"], "send_message_ack", "{answer}");
                let ack = &answer["payload"];
                let sequence = ack["sequence"].as_u64().unwrap();
                let message_id = ack["message_id"].as_str().unwrap().to_owned();
                acks.push(LedgerAck { answered, sequence, message_id });
            }
            acks
        });
        join_all(asking).await.into_iter().flatten().collect()
    }

    /// One user reads a chat up to its head.
    async fn read(&mut self) {
        let person = self.random.random_range(0..self.devices.len());
        let theirs: Vec<_> = self.chats_of(person).collect();
        let chat = theirs[self.random.random_range(0..theirs.len())];
        let sends = self.ledger.sends.iter().filter(|send| send.chat == chat);
        let Some(sequence) = sends.filter_map(|send| Some(send.ack.as_ref()?.sequence)).max() else { return };
        let url = format!("{}/api/v1/chats/{}/read", self.base_url, self.ledger.chats[chat].chat_id);
        let request = self.http.post(url).bearer_auth(&self.devices[person].access_token);
        let answer = RestResponse::of(request.json(&json!({ "last_read_sequence": sequence }))).await.data(200);
        assert_eq!(answer["read_sequence"], sequence);
        self.ledger.reads.push(LedgerRead { answered: now(), chat, person, sequence });
    }

    /// Waits until clients have received an expiry event for every expired message.
    pub(crate) async fn until_expired(&mut self) {
        let Self { ledger, sockets, .. } = self;
        let mut left: BTreeSet<(&str, u64)> = BTreeSet::new();
        for send in ledger.sends.iter().filter(|send| send.ttl_seconds.is_some()) {
            let sequence = send.ack.as_ref().expect("every send was answered").sequence;
            left.insert((&ledger.chats[send.chat].chat_id, sequence));
        }
        for (number, socket) in sockets.iter_mut().enumerate() {
            let theirs = |chat_id: &str| {
                let chat = ledger.chats.iter().find(|chat| chat.chat_id == chat_id);
                chat.is_some_and(|chat| chat.members[0] == number)
            };
            while left.iter().any(|(chat_id, _)| theirs(chat_id)) {
                let frame = socket.next_of("message_expired").await;
                let payload = &frame["payload"];
                let chat_id = payload["chat_id"].as_str().unwrap();
                for sequence in payload["sequences"].as_array().unwrap() {
                    left.retain(|gone| *gone != (chat_id, sequence.as_u64().unwrap()));
                }
            }
        }
        assert!(left.is_empty(), "the creator of every chat is connected");
    }

    fn chats_of(&self, person: usize) -> impl Iterator<Item = usize> {
        let chats = self.ledger.chats.iter().enumerate();
        chats.filter(move |(_, chat)| chat.members.contains(&person) && chat.sampled_to == 0).map(|(number, _)| number)
    }

    /// Reconnects all users, to a server that was restarted at another address.
    pub(crate) async fn reconnect(&mut self, base_url: &str) {
        self.base_url = base_url.to_owned();
        self.sockets.clear();
        for device in &self.devices {
            let mut request = device.handshake();
            let address = base_url.strip_prefix("http").expect("it is an HTTP URL");
            *request.uri_mut() = format!("ws{address}/v1/ws").parse().unwrap();
            let host = request.uri().authority().expect("it has an address").as_str().parse().unwrap();
            request.headers_mut().insert("host", host);
            let mut socket = TestSocket::open(request).await;
            socket.next_of("connection_established").await;
            self.sockets.push(socket);
        }
    }
}

fn frame(ledger: &ResponseLedger, send: usize) -> Value {
    let send = &ledger.sends[send];
    let chat_id = &ledger.chats[send.chat].chat_id;
    let mut payload = json!({ "client_message_id": send.id, "chat_id": chat_id, "content": send.content() });
    if let Some(seconds) = send.ttl_seconds {
        payload["ttl_seconds"] = seconds.into();
    }
    json!({ "type": "send_message", "request_id": send.id.to_string(), "payload": payload })
}

fn update_frame(ledger: &ResponseLedger, update: &LedgerUpdate) -> Value {
    let send = &ledger.sends[update.target];
    let sequence = send.ack.as_ref().expect("only answered messages are updated").sequence;
    let chat_id = &ledger.chats[send.chat].chat_id;
    let mut payload = json!({ "client_message_id": update.id, "chat_id": chat_id, "sequence": sequence });
    match update.action {
        LedgerAction::Edit { .. } => {
            payload["action"] = "edit".into();
            payload["content"] = update.content().into();
        }
        LedgerAction::Delete => payload["action"] = "delete".into(),
        LedgerAction::React | LedgerAction::Unreact => {
            let action = if update.action == LedgerAction::React { "react" } else { "unreact" };
            payload["action"] = action.into();
            payload["reaction"] = REACTION.into();
        }
    }
    json!({ "type": "update_message", "request_id": update.id.to_string(), "payload": payload })
}
