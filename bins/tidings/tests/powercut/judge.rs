//! Starts the real server on the state after a power cut, and checks all responses given before it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::path::Path;

use client::{Credential, RawConnection};
use domain::{DeviceId, Sequence};
use protocol::frame::{ClientFrame, Inbound, RequestId, ServerFrame, Sync, UpdateBody, UpdateName};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};
use tokio::time::timeout;
use uuid::Uuid;

use crate::ledger::{KEY_LEN, LedgerAck, LedgerAction, LedgerChat, LedgerUpdate, Micros, ResponseLedger, key, now};
use crate::process::{PATIENCE, TracedProcess};

/// Messages of one page.
const PAGE_LEN: u64 = 100;
/// Maximum difference between an expiry and its purge.
const SLACK: Micros = 1_000_000;

/// A violation in a state.
pub(crate) type CutFinding = String;

/// Checks states against one ledger.
pub(crate) struct Judge<'a> {
    ledger: &'a ResponseLedger,
    /// Prefix of a content -> the content, and the number of the send of its message.
    contents: HashMap<String, (String, usize)>,
    http: &'a reqwest::Client,
}

impl<'a> Judge<'a> {
    pub(crate) fn new(ledger: &'a ResponseLedger, http: &'a reqwest::Client) -> Self {
        let sent = ledger.sends.iter().enumerate().map(|(number, send)| (key(send.id), (send.content(), number)));
        let edit = |update: &LedgerUpdate| Some((key(update.id), (update.content()?, update.target)));
        let contents = sent.chain(ledger.updates.iter().filter_map(edit)).collect();
        Self { ledger, contents, http }
    }

    /// The send of a message with this content, which it or an edit of it gave.
    fn send_of(&self, content: &str) -> Option<usize> {
        let (known, send) = self.contents.get(content.get(..KEY_LEN)?)?;
        (known == content).then_some(*send)
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

/// The part of a message that updates change.
#[derive(Clone, Debug, PartialEq, Eq)]
struct UpdatedState {
    content: String,
    edits: u64,
    /// The users who have the reaction.
    reacted: BTreeSet<usize>,
}

impl UpdatedState {
    /// The state after another update; `None` if it is deleted.
    fn after(mut self, update: &LedgerUpdate) -> Option<Self> {
        match update.action {
            LedgerAction::Edit { .. } => {
                self.content = update.content()?;
                self.edits += 1;
            }
            LedgerAction::Delete => return None,
            LedgerAction::React => _ = self.reacted.insert(update.user),
            LedgerAction::Unreact => _ = self.reacted.remove(&update.user),
        }
        Some(self)
    }

    /// Whether a message is in this state.
    fn is_that_of(&self, message: &Value) -> bool {
        let state = &message["state"];
        let reactions = state["reactions"].as_array().map_or(&[][..], Vec::as_slice);
        let counts: Vec<_> = reactions.iter().filter_map(|known| known["count"].as_u64()).collect();
        let expected: Vec<_> = Some(self.reacted.len() as u64).filter(|count| *count > 0).into_iter().collect();
        let edits = state["edit_count"].as_u64().unwrap_or(0);
        message["content"] == self.content.as_str() && edits == self.edits && counts == expected
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
        let ledger = self.judge.ledger;
        let ResponseLedger { people, chats, sends, .. } = ledger;
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
        // A cut before all of the sampled sends were acknowledged may leave the head below them.
        let updates = if head > chat.sampled_to { self.updates(chat, chat.sampled_to).await? } else { vec![] };
        self.check_updates(number, &found, &updates)?;
        let mut expiring = 0;
        for (n, send) in sends.iter().enumerate().filter(|(_, send)| send.chat == number) {
            let is_deleted = ledger.updates_of(n).any(|update| update.action == LedgerAction::Delete);
            expiring += usize::from(send.ttl_seconds.is_some() || is_deleted);
            let Some(ack) = send.ack.as_ref().filter(|ack| ack.answered < self.cut) else { continue };
            let is_read = ack.sequence > chat.sampled_to || found.contains_key(&ack.sequence);
            let has_expired = send.ttl_seconds.is_some_and(|seconds| now() > ack.answered + seconds * 1_000_000);
            // The check of updates says whether a deleted message should be there.
            if is_read && !has_expired && !is_deleted && !found.contains_key(&ack.sequence) {
                return Err(format!("LOST: message {} of {} bytes was acknowledged", ack.sequence, send.len));
            }
            if ack.sequence > head {
                return Err(format!("LOST: message {} was acknowledged and the head is {head}", ack.sequence));
            }
        }
        let is_update = |sequence: &u64| updates.iter().any(|update| update.sequence.0 == *sequence);
        let is_there = |sequence: &u64| found.contains_key(sequence) || is_update(sequence);
        let holes: Vec<_> = (chat.sampled_to + 1..=head).filter(|sequence| !is_there(sequence)).collect();
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

    /// Checks that a message was sent, is at its acknowledged sequence, and has the content of its send or of an edit.
    fn check_message(&self, chat: usize, sequence: u64, message: &Value) -> Result<(), CutFinding> {
        let content = message["content"].as_str().unwrap_or_default();
        let sent = self.judge.send_of(content).map(|send| &self.judge.ledger.sends[send]);
        let Some(send) = sent.filter(|send| send.chat == chat) else {
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

    /// Checks the updates of a chat: the answered ones are there, none is there twice, and each message has the state
    /// that its updates leave. An update that was not answered may be there, and then its message has it.
    fn check_updates(
        &self,
        chat: usize,
        found: &BTreeMap<u64, Value>,
        updates: &[UpdateBody],
    ) -> Result<(), CutFinding> {
        let ledger = self.judge.ledger;
        let mut unknown: Vec<&UpdateBody> = updates.iter().collect();
        let content = |message: &Value| message["content"].as_str().and_then(|content| self.judge.send_of(content));
        let sends: BTreeMap<_, _> =
            found.iter().filter_map(|(sequence, message)| Some((content(message)?, *sequence))).collect();
        for (n, send) in ledger.sends.iter().enumerate().filter(|(_, send)| send.chat == chat) {
            // The answer may be forgotten, and the message there.
            let answered = send.ack.as_ref().map(|ack| ack.sequence);
            let Some(sequence) = answered.or(sends.get(&n).copied()) else { continue };
            unknown.retain(|update| update.target_sequence.0 != sequence);
            if sequence <= ledger.chats[chat].sampled_to {
                continue;
            }
            let stored: Vec<_> = updates.iter().filter(|update| update.target_sequence.0 == sequence).collect();
            let state = self.check_updates_of(n, sequence, &stored)?;
            match (state, found.get(&sequence)) {
                (None, Some(message)) => return Err(format!("message {sequence} is deleted and read: {message}")),
                (Some(state), Some(message)) if !state.is_that_of(message) => {
                    return Err(format!("message {sequence} has not the state of its updates, {state:?}: {message}"));
                }
                (Some(_), None) if !stored.is_empty() => {
                    return Err(format!("LOST: message {sequence}, which has updates and no deletion"));
                }
                _ => {}
            }
        }
        // A message whose answer is forgotten may be deleted.
        let has_forgotten = ledger.sends.iter().any(|send| send.chat == chat && send.ack.is_none());
        if unknown.is_empty() || has_forgotten {
            Ok(())
        } else {
            Err(format!("updates of messages that were not sent: {unknown:?}"))
        }
    }

    /// Checks the stored updates of one message, in their order. Returns the state that they leave, or `None` if they
    /// delete it.
    fn check_updates_of(
        &self,
        send: usize,
        sequence: u64,
        stored: &[&UpdateBody],
    ) -> Result<Option<UpdatedState>, CutFinding> {
        let ledger = self.judge.ledger;
        let content = ledger.sends[send].content();
        let mut state = Some(UpdatedState { content, edits: 0, reacted: BTreeSet::new() });
        let mut stored = stored.iter();
        for update in ledger.updates_of(send) {
            let Some(entry) = stored.next() else {
                if update.ack.as_ref().is_some_and(|ack| ack.answered < self.cut) {
                    return Err(format!("LOST: {:?} of message {sequence} was acknowledged", update.action));
                }
                break;
            };
            let kind = match update.action {
                LedgerAction::Edit { .. } => UpdateName::Edited,
                LedgerAction::Delete => UpdateName::Deleted,
                LedgerAction::React => UpdateName::Reacted,
                LedgerAction::Unreact => UpdateName::Unreacted,
            };
            let is_at = |ack: &LedgerAck| ack.answered >= self.cut || ack.sequence == entry.sequence.0;
            let user_id = &ledger.people[update.user].user_id;
            if entry.kind != kind || entry.user_id.to_string() != *user_id || !update.ack.as_ref().is_none_or(is_at) {
                return Err(format!("{:?} of message {sequence} by {user_id} is {entry:?}", update.action));
            }
            state = state.and_then(|state| state.after(update));
        }
        match stored.next() {
            Some(entry) => Err(format!("message {sequence} has an update that was not made, or one twice: {entry:?}")),
            None => Ok(state),
        }
    }

    /// All updates of a chat after a sequence.
    async fn updates(&self, chat: &LedgerChat, mut after: u64) -> Result<Vec<UpdateBody>, CutFinding> {
        let person = &self.judge.ledger.people[chat.members[0]];
        let chat_id = chat.chat_id.parse().map_err(|error| format!("{}: {error}", chat.chat_id))?;
        let device_id = DeviceId::from_bytes(person.device_id.into_bytes());
        let syncing = async {
            let credential = Credential::Token(&person.access_token);
            let connecting = RawConnection::connect(self.base_url, device_id, credential).await;
            let mut connection = connecting.map_err(|error| format!("a connection: {error}"))?;
            let mut updates = vec![];
            loop {
                let sync = Sync { chat_id, after: Sequence(after), limit: domain::limits::SYNC_PAGE_MAX };
                let frame = ClientFrame::SyncRequest(sync);
                let request = Inbound { request_id: RequestId::new("judge"), frame };
                connection.send(request.encode()).map_err(|error| format!("a sync: {error}"))?;
                let page = loop {
                    match connection.next().await.map_err(|ended| format!("a sync: {ended:?}"))?.frame {
                        ServerFrame::SyncResponse(page) => break page,
                        ServerFrame::Error(error) => return Err(format!("a sync: {error:?}")),
                        _ => {}
                    }
                };
                updates.extend(page.updates);
                match page.next_sequence.filter(|_| page.has_more) {
                    Some(next) => after = next.0 - 1,
                    None => break,
                }
            }
            connection.close().await;
            Ok(updates)
        };
        timeout(PATIENCE, syncing).await.unwrap_or_else(|_| Err("a sync is not answered".to_owned()))
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
                if let Some(first) = ids.insert(self.judge.send_of(content), sequence) {
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
