//! Starts the real server on the state after a power cut, and checks all responses given before it.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::Path;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::ledger::{KEY_LEN, LedgerChat, LedgerSend, Micros, ResponseLedger, key, now};
use crate::process::TracedProcess;

/// Messages of one page.
const PAGE_LEN: u64 = 100;
/// Maximum difference between an expiry and its purge.
const SLACK: Micros = 1_000_000;

/// A violation in a state.
pub(crate) type CutFinding = String;

/// Checks states against one ledger.
pub(crate) struct Judge<'a> {
    ledger: &'a ResponseLedger,
    /// Prefix of a content -> its send.
    sends: HashMap<String, &'a LedgerSend>,
    http: &'a reqwest::Client,
}

impl<'a> Judge<'a> {
    pub(crate) fn new(ledger: &'a ResponseLedger, http: &'a reqwest::Client) -> Self {
        let sends = ledger.sends.iter().map(|send| (key(send.id), send)).collect();
        Self { ledger, sends, http }
    }

    /// Checks that a server starts on a data directory, has everything acknowledged before `cut`, verifies its own
    /// store, and accepts new requests.
    pub(crate) async fn judge(&self, data_dir: &Path, cut: Micros) -> Result<(), CutFinding> {
        let log = data_dir.with_added_extension("log");
        let server = TracedProcess::start(data_dir, &log, None).await?;
        let found =
            ExaminedServer { judge: self, base_url: &server.base_url, cut }.check(data_dir, &server.admin_url).await;
        server.kill().await;
        found.map_err(|finding| format!("{finding}\nit logged:\n{}", fs::read_to_string(&log).unwrap_or_default()))
    }
}

/// One running server under examination.
struct ExaminedServer<'a> {
    judge: &'a Judge<'a>,
    base_url: &'a str,
    cut: Micros,
}

impl ExaminedServer<'_> {
    async fn check(&self, data_dir: &Path, admin_url: &str) -> Result<(), CutFinding> {
        let ResponseLedger { people, chats, .. } = self.judge.ledger;
        for person in people.iter().filter(|person| person.answered < self.cut) {
            let me = self.get(&person.access_token, "/users/me").await.map_err(|said| format!("a session: {said}"))?;
            if me["user_id"] != person.user_id.as_str() {
                return Err(format!("the session of {} is one of {me}", person.user_id));
            }
        }
        let known: Vec<_> = (0..chats.len()).filter(|number| chats[*number].answered < self.cut).collect();
        let mut heads = vec![];
        for number in &known {
            heads.push(self.check_chat(*number).await.map_err(|said| format!("chat {number}: {said}"))?);
        }
        self.verify(data_dir, admin_url).await?;
        for (number, head) in known.iter().zip(heads) {
            let chat = &chats[*number];
            let sequence = self.send(self.token(chat), &chat.chat_id).await?;
            if sequence != head + 1 {
                return Err(format!("chat {number}: the next message has sequence {sequence} after {head}"));
            }
        }
        if known.is_empty() { self.begin().await } else { Ok(()) }
    }

    /// Checks everything about one chat; returns its head.
    async fn check_chat(&self, number: usize) -> Result<u64, CutFinding> {
        let ResponseLedger { people, chats, sends, .. } = self.judge.ledger;
        let chat = &chats[number];
        let details = self.get(self.token(chat), &format!("/chats/{}", chat.chat_id)).await?;
        let members = details["members"].to_string();
        if let Some(lost) = chat.members.iter().find(|member| !members.contains(&people[**member].user_id)) {
            return Err(format!("member {lost} is lost: {details}"));
        }

        let (mut found, head) = self.messages(chat, chat.sampled_to).await?;
        if let Some(last) = found.keys().next_back() {
            self.check_reads(number, *last).await?;
        }
        if chat.sampled_to > 0 {
            let mut random = StdRng::seed_from_u64(self.cut);
            for _ in 0..3 {
                let after = random.random_range(0..chat.sampled_to);
                found.extend(self.page(chat, after).await?.0);
            }
        }
        for (sequence, message) in &found {
            self.check_message(number, *sequence, message)?;
        }
        let mut expiring = 0;
        for send in sends.iter().filter(|send| send.chat == number) {
            expiring += usize::from(send.ttl_seconds.is_some());
            let Some(ack) = send.ack.as_ref().filter(|ack| ack.answered < self.cut) else { continue };
            let is_read = ack.sequence > chat.sampled_to || found.contains_key(&ack.sequence);
            let has_expired = send.ttl_seconds.is_some_and(|seconds| now() > ack.answered + seconds * 1_000_000);
            if is_read && !has_expired && !found.contains_key(&ack.sequence) {
                return Err(format!("LOST: message {} of {} bytes was acknowledged", ack.sequence, send.len));
            }
            if ack.sequence > head {
                return Err(format!("LOST: message {} was acknowledged and the head is {head}", ack.sequence));
            }
        }
        let holes: Vec<_> = (chat.sampled_to + 1..=head).filter(|sequence| !found.contains_key(sequence)).collect();
        if holes.len() > expiring {
            return Err(format!("sequences {holes:?} are missing up to {head}, and {expiring} messages may expire"));
        }
        Ok(head)
    }

    /// No read watermark is below an acknowledged one. Only stored messages can be queried.
    async fn check_reads(&self, number: usize, last: u64) -> Result<(), CutFinding> {
        let ResponseLedger { people, chats, reads, .. } = self.judge.ledger;
        let path = format!("/chats/{}/receipts?sequence={last}", chats[number].chat_id);
        let receipts = self.get(self.token(&chats[number]), &path).await?;
        let members = receipts["members"].as_array().map_or(&[][..], Vec::as_slice);
        for read in reads.iter().filter(|read| read.chat == number && read.answered < self.cut) {
            let member = members.iter().find(|member| member["user_id"] == people[read.person].user_id.as_str());
            if member.and_then(|member| member["read_sequence"].as_u64()) < Some(read.sequence) {
                return Err(format!("LOST: a read up to {}: {receipts}", read.sequence));
            }
        }
        Ok(())
    }

    /// Checks that a message was sent, is at its acknowledged sequence, and is unchanged.
    fn check_message(&self, chat: usize, sequence: u64, message: &Value) -> Result<(), CutFinding> {
        let content = message["content"].as_str().unwrap_or_default();
        let sent = content.get(..KEY_LEN).and_then(|key| self.judge.sends.get(key));
        let Some(send) = sent.filter(|send| send.chat == chat && send.content() == content) else {
            return Err(format!("message {sequence} is not one that was sent: {message}"));
        };
        let sender = &self.judge.ledger.people[send.sender].user_id;
        if message["sender_id"] != sender.as_str() {
            return Err(format!("message {sequence} was sent by {sender}: {message}"));
        }
        let Some(ack) = &send.ack else { return Ok(()) };
        if ack.answered < self.cut && (ack.sequence != sequence || message["message_id"] != ack.message_id.as_str()) {
            return Err(format!("message {} is at {sequence} now, or has another id: {message}", ack.sequence));
        }
        match send.ttl_seconds {
            Some(seconds) if now() > ack.answered + seconds * 1_000_000 + SLACK => {
                Err(format!("message {sequence} has expired and is read: {message}"))
            }
            _ => Ok(()),
        }
    }

    /// All messages of a chat after a sequence, and its head. Fails on a duplicate send.
    async fn messages(&self, chat: &LedgerChat, mut after: u64) -> Result<(BTreeMap<u64, Value>, u64), CutFinding> {
        let mut all = BTreeMap::new();
        let mut ids = HashMap::new();
        loop {
            let (page, head) = self.page(chat, after).await?;
            let Some(last) = page.keys().next_back().copied() else { return Ok((all, head)) };
            after = last;
            for (sequence, message) in page {
                let content = message["content"].as_str().unwrap_or_default();
                if let Some(first) = ids.insert(content.get(..KEY_LEN).map(str::to_owned), sequence) {
                    return Err(format!("one message is there twice, at {first} and at {sequence}"));
                }
                all.insert(sequence, message);
            }
        }
    }

    async fn page(&self, chat: &LedgerChat, after: u64) -> Result<(BTreeMap<u64, Value>, u64), CutFinding> {
        let path = format!("/chats/{}/messages?after={after}&limit={PAGE_LEN}", chat.chat_id);
        let mut page = self.get(self.token(chat), &path).await?;
        let Value::Array(messages) = page["messages"].take() else { return Err(format!("{page} is no page")) };
        let numbered = messages.into_iter().map(|message| (message["sequence"].as_u64().unwrap_or(0), message));
        Ok((numbered.collect(), page["head_sequence"].as_u64().unwrap_or(0)))
    }

    /// The request of `tidings store verify --admin-listen`.
    async fn verify(&self, data_dir: &Path, admin_url: &str) -> Result<(), CutFinding> {
        let token = fs::read(data_dir.join("admin.json")).map_err(|error| format!("admin.json: {error}"))?;
        let token: Value = serde_json::from_slice(&token).map_err(|error| format!("admin.json: {error}"))?;
        let request = self.judge.http.get(format!("{admin_url}/admin/v1/verify?rate=1000000"));
        let response = request.bearer_auth(token["token"].as_str().unwrap_or_default()).send().await;
        let text = response.map_err(|error| format!("verify: {error}"))?.text().await;
        let text = text.map_err(|error| format!("verify: {error}"))?;
        let last: Value = serde_json::from_str(text.lines().last().unwrap_or_default())
            .map_err(|error| format!("verify: {error}: {text}"))?;
        let lines = last["report"]["invariants"].as_array().ok_or_else(|| format!("verify says {text}"))?;
        let violated: Vec<_> = lines.iter().filter(|line| line["violated"] != 0).collect();
        if violated.is_empty() { Ok(()) } else { Err(format!("VERIFY: {}", json!(violated))) }
    }

    /// If nothing was acknowledged before the cut, checks that new users, chats and sends can be created.
    async fn begin(&self) -> Result<(), CutFinding> {
        let mut people = vec![];
        for (phone_number, name) in [("+14153000001", "Eve"), ("+14153000002", "Fay")] {
            let body = json!({ "phone_number": phone_number });
            self.call(Method::POST, "", "/auth/request-otp", Some(body)).await?;
            let (otp, device_id) = ("000000", Uuid::new_v4());
            let body =
                json!({ "phone_number": phone_number, "otp": otp, "device_id": device_id, "display_name": name });
            people.push(self.call(Method::POST, "", "/auth/verify-otp", Some(body)).await?);
        }
        let token = people[0]["tokens"]["access_token"].as_str().unwrap_or_default();
        let body = json!({ "type": "direct", "member_ids": [people[1]["user"]["user_id"]] });
        let chat = self.call(Method::POST, token, "/chats", Some(body)).await?;
        match self.send(token, chat["chat_id"].as_str().unwrap_or_default()).await? {
            1 => Ok(()),
            other => Err(format!("the first message of a chat has sequence {other}")),
        }
    }

    async fn send(&self, token: &str, chat_id: &str) -> Result<u64, CutFinding> {
        let body = json!({ "client_message_id": Uuid::new_v4(), "content": "after the cut" });
        let ack = self.call(Method::POST, token, &format!("/chats/{chat_id}/messages"), Some(body)).await?;
        Ok(ack["sequence"].as_u64().unwrap_or(0))
    }

    /// The token of the user who made a chat.
    fn token(&self, chat: &LedgerChat) -> &str {
        &self.judge.ledger.people[chat.members[0]].access_token
    }

    async fn get(&self, token: &str, path: &str) -> Result<Value, CutFinding> {
        self.call(Method::GET, token, path, None).await
    }

    async fn call(&self, method: Method, token: &str, path: &str, body: Option<Value>) -> Result<Value, CutFinding> {
        let mut request: RequestBuilder =
            self.judge.http.request(method.clone(), format!("{}/api/v1{path}", self.base_url));
        if !token.is_empty() {
            request = request.bearer_auth(token);
        }
        if let Some(body) = body {
            request = request.json(&body);
        }
        let answer = async {
            let response = request.send().await?;
            let status = response.status();
            Ok::<_, reqwest::Error>((status, response.text().await?))
        };
        let (status, text) = answer.await.map_err(|error| format!("{method} {path}: {error:?}"))?;
        let mut answer: Value = serde_json::from_str(&text).unwrap_or(Value::Null);
        if !status.is_success() {
            return Err(format!("{method} {path} is answered {status}: {text}"));
        }
        Ok(answer["data"].take())
    }
}
