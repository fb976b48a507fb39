use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use client::{ApiError, HistoryRange, StopReason};
use domain::{Body, ChatId, ChatType, ClientMessageId, ContentType, Metadata, Role, Sequence, Ttl, UserId};
use protocol::frame::{MessageBody, ReactionBody, SendMessage, UpdateMessage};
use protocol::rest::{AddMember, CreateChat, UpdateMe};
use protocol::{ErrorBody, ErrorCode};

use crate::device::{QueuedEntry, ScenarioDevice};
use crate::proxy::DeviceProxy;
use crate::scenario::{
    ConformanceScenario, ExpectedCopy, ExpectedReaction, ExpectedWatermarks, MessageContents, ScenarioStep, SendStep,
    Stopped, UpdateStep,
};
use crate::server::{PATIENCE, TestServer};

/// Runs the steps of a scenario on a server that has its settings. Its users are new ones. The error names the first step
/// that does not hold.
pub(crate) async fn run(scenario: ConformanceScenario, server: &mut TestServer) -> Result<(), String> {
    let mut world = World {
        server,
        devices: BTreeMap::new(),
        users: BTreeMap::new(),
        phone_numbers: BTreeMap::new(),
        chats: BTreeMap::new(),
        ids: BTreeMap::new(),
        sent: BTreeMap::new(),
    };
    for (n, step) in scenario.steps.into_iter().enumerate() {
        Box::pin(world.take(step.clone())).await.map_err(|why| format!("step {}, {step:?}: {why}", n + 1))?;
    }
    Ok(())
}

struct World<'a> {
    server: &'a mut TestServer,
    devices: BTreeMap<String, ScenarioDevice>,
    users: BTreeMap<String, UserId>,
    phone_numbers: BTreeMap<String, String>,
    chats: BTreeMap<String, ChatId>,
    ids: BTreeMap<String, ClientMessageId>,
    /// The sender and the metadata of each content.
    sent: BTreeMap<(ChatId, String), (UserId, Option<Metadata>)>,
}

/// The state of an awaited condition.
enum ConditionState {
    True,
    NotYet(String),
    /// The condition can no longer become true.
    Never(String),
}

impl ConditionState {
    fn of<T: PartialEq + std::fmt::Debug>(found: T, expected: T) -> Self {
        if found == expected { Self::True } else { Self::NotYet(format!("{found:?}")) }
    }
}

/// Waits until a condition holds.
async fn until(look: impl AsyncFn() -> ConditionState) -> Result<(), String> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match look().await {
            ConditionState::True => return Ok(()),
            ConditionState::Never(seen) => return Err(format!("there is {seen}")),
            ConditionState::NotYet(seen) if Instant::now() > deadline => {
                return Err(format!("in the end there is {seen}"));
            }
            ConditionState::NotYet(_) => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    }
}

fn told(error: ApiError) -> String {
    error.to_string()
}

impl World<'_> {
    async fn take(&mut self, step: ScenarioStep) -> Result<(), String> {
        match step {
            ScenarioStep::SignIn { device, user } => self.sign_in(device, user).await,
            ScenarioStep::Connect { device } => {
                self.device_mut(&device).connect().await;
                self.expect_connected(&device).await
            }
            ScenarioStep::Disconnect { device } => {
                self.device_mut(&device).disconnect().await;
                Ok(())
            }
            ScenarioStep::RestartDevice { device } => {
                self.device_mut(&device).restart().await;
                Ok(())
            }
            ScenarioStep::OpenAgain { device, r#as } => {
                let mut again = self.device(&device).again();
                again.connect().await;
                self.devices.insert(r#as, again);
                Ok(())
            }
            ScenarioStep::Cut { device } => self.disturb(&device, DeviceProxy::cut),
            ScenarioStep::Block { device } => self.disturb(&device, DeviceProxy::block),
            ScenarioStep::Stall { device } => self.disturb(&device, DeviceProxy::stall),
            ScenarioStep::Unblock { device } => {
                self.device(&device).proxy.unblock();
                Ok(())
            }
            ScenarioStep::Hold { device } => {
                self.device(&device).storage.hold(true);
                Ok(())
            }
            ScenarioStep::Release { device } => {
                self.device(&device).storage.hold(false);
                Ok(())
            }
            ScenarioStep::KillServer {} => {
                self.disturb_all();
                self.server.kill().await;
                Ok(())
            }
            ScenarioStep::StopServer {} => {
                self.disturb_all();
                let (status, _) = self.server.stop().await;
                if status.success() { Ok(()) } else { Err(format!("it ended with {status}")) }
            }
            ScenarioStep::StartServer {} => {
                self.server.restart().await;
                let ready = format!("{}/readyz", self.server.base_url());
                until(async || match reqwest::get(&ready).await {
                    Ok(answer) => ConditionState::of(answer.status().as_u16(), 200),
                    Err(error) => ConditionState::NotYet(error.to_string()),
                })
                .await
            }
            act => self.act(act).await,
        }
    }

    async fn act(&mut self, step: ScenarioStep) -> Result<(), String> {
        match step {
            ScenarioStep::CreateChat { device, chat, r#type, users } => {
                let member_ids = users.iter().map(|user| self.users[user]).collect();
                let name = (r#type == ChatType::Group).then(|| chat.clone());
                let made = CreateChat { chat_type: r#type, name, member_ids };
                let made = self.device(&device).client.api().create_chat(&made).await.map_err(told)?;
                self.chats.insert(chat, made.summary.chat_id);
                Ok(())
            }
            ScenarioStep::AddMember { device, chat, user } => {
                let member = AddMember { user_id: self.users[&user], role: Role::Member };
                let added = self.device(&device).client.api().add_member(self.chats[&chat], &member).await;
                added.map(drop).map_err(told)
            }
            ScenarioStep::RemoveMember { device, chat, user } => {
                let (chat_id, user_id) = (self.chats[&chat], self.users[&user]);
                self.device(&device).client.api().remove_member(chat_id, user_id).await.map_err(told)
            }
            ScenarioStep::Leave { device, chat } => {
                self.device(&device).client.api().leave(self.chats[&chat]).await.map_err(told)
            }
            ScenarioStep::Send(send) => self.send(send).await,
            ScenarioStep::Queue(send) => {
                self.queue(&send).await;
                Ok(())
            }
            ScenarioStep::Update(update) => self.update(update).await,
            ScenarioStep::QueueUpdate(update) => {
                self.queue_update(&update).await;
                Ok(())
            }
            ScenarioStep::MarkRead { device, chat, sequence } => {
                let chat_id = self.chats[&chat];
                self.device(&device).handle().mark_read(chat_id, Sequence(sequence)).await.map_err(|e| e.to_string())
            }
            ScenarioStep::Typing { device, chat, is_typing } => {
                let chat_id = self.chats[&chat];
                self.device(&device).handle().typing(chat_id, is_typing).await.map_err(|e| e.to_string())
            }
            ScenarioStep::Watch { device, users } => {
                let users = users.iter().map(|user| self.users[user]).collect();
                self.device(&device).handle().watch(users).await.map_err(|e| e.to_string())
            }
            ScenarioStep::Unwatch { device, users } => {
                let users = users.iter().map(|user| self.users[user]).collect();
                self.device(&device).handle().unwatch(users).await.map_err(|e| e.to_string())
            }
            ScenarioStep::SetVisibility { device, visibility } => {
                let update = UpdateMe { presence_visibility: Some(visibility), ..UpdateMe::default() };
                self.device(&device).client.api().update_me(&update).await.map(drop).map_err(told)
            }
            ScenarioStep::RevokeSession { device, target } => self.revoke(&device, &target).await,
            expect => self.expect(expect).await,
        }
    }

    async fn expect(&mut self, step: ScenarioStep) -> Result<(), String> {
        match step {
            ScenarioStep::ExpectConnected { device } => self.expect_connected(&device).await,
            ScenarioStep::ExpectDisconnected { device } => {
                let device = self.device(&device);
                until(async || ConditionState::of(device.is_disconnected_since(), true)).await
            }
            ScenarioStep::ExpectMessages { device, chat, contents } => {
                self.expect_messages(&device, &chat, contents).await
            }
            ScenarioStep::ExpectCopies { device, chat, messages } => {
                let (storage, chat_id) = (&self.device(&device).storage, self.chats[&chat]);
                until(async || {
                    let kept = storage.kept();
                    let copies = kept.copies.get(&chat_id).into_iter().flat_map(BTreeMap::values);
                    ConditionState::of(copies.map(copy_of).collect(), messages.clone())
                })
                .await
            }
            ScenarioStep::ExpectHistoryCopies { device, chat, messages } => {
                until(async || match self.history(&device, &chat).await {
                    Ok(history) => ConditionState::of(history.iter().map(copy_of).collect(), messages.clone()),
                    Err(error) => ConditionState::NotYet(error.to_string()),
                })
                .await
            }
            ScenarioStep::ExpectHeld { device, chat, content } => {
                let (storage, expected) = (&self.device(&device).storage, (self.chats[&chat], content));
                let held =
                    || storage.kept().held.as_ref().map(|held| (held.chat_id, held.content.clone().into_owned()));
                until(async || ConditionState::of(held(), Some(expected.clone()))).await
            }
            ScenarioStep::ExpectAcked { device } => self.expect_acked(&device).await,
            ScenarioStep::ExpectQueued { device, contents } => {
                let storage = &self.device(&device).storage;
                until(async || {
                    let kept = storage.kept();
                    let waiting = kept.queue.iter().filter(|queued| queued.outcome.is_none());
                    let sends = waiting.filter_map(|queued| match &queued.entry {
                        QueuedEntry::Message(message) => Some(message.body.content.as_str()),
                        QueuedEntry::Update(_) => None,
                    });
                    ConditionState::of(sends.collect(), texts(&contents))
                })
                .await
            }
            ScenarioStep::ExpectFailed { device, id, code, reason } => {
                let (storage, id) = (&self.device(&device).storage, self.ids[&id]);
                until(async || {
                    let kept = storage.kept();
                    let of_id = kept.queue.iter().filter(|queued| queued.entry.client_message_id() == id);
                    let failures = of_id.filter_map(|queued| queued.outcome.as_ref()?.as_ref().err());
                    let found: Vec<(ErrorCode, Option<&str>)> =
                        failures.map(|error| (error.code, reason.as_ref().and(reason_of(error)))).collect();
                    ConditionState::of(found, vec![(code, reason.as_deref())])
                })
                .await
            }
            ScenarioStep::ExpectHistory { device, chat, contents } => {
                until(async || match self.history(&device, &chat).await {
                    Ok(history) => match history.iter().find(|message| !self.is_as_sent(message)) {
                        Some(wrong) => ConditionState::Never(format!("{wrong:?}, which was not sent so")),
                        None => {
                            let found: Vec<&str> = history.iter().map(|message| &*message.content).collect();
                            ConditionState::of(found, texts(&contents))
                        }
                    },
                    Err(error) => ConditionState::NotYet(error.to_string()),
                })
                .await
            }
            ScenarioStep::ExpectHistoryRefused { device, chat, code } => {
                until(async || match self.history(&device, &chat).await {
                    Ok(history) => ConditionState::NotYet(format!("{history:?}")),
                    Err(ApiError::Refused { error, .. }) => ConditionState::of(error.code, code),
                    Err(error) => ConditionState::NotYet(error.to_string()),
                })
                .await
            }
            told => self.expect_told(told).await,
        }
    }

    async fn expect_told(&mut self, step: ScenarioStep) -> Result<(), String> {
        match step {
            ScenarioStep::ExpectUnread { device, chat, count } => {
                let (api, chat_id) = (self.device(&device).client.api(), self.chats[&chat]);
                until(async || match api.chats(None).await {
                    Ok(page) => {
                        let chat = page.data.chats.into_iter().find(|chat| chat.chat_id == chat_id);
                        ConditionState::of(chat.map(|chat| chat.unread_count), Some(count))
                    }
                    Err(error) => ConditionState::NotYet(error.to_string()),
                })
                .await
            }
            ScenarioStep::ExpectWatermarks(expected) => self.expect_watermarks(expected).await,
            ScenarioStep::ExpectReceipt(ExpectedWatermarks { device, chat, user, delivered, read }) => {
                let (storage, key) = (&self.device(&device).storage, (self.chats[&chat], self.users[&user]));
                until(async || match storage.kept().receipts.get(&key) {
                    None => ConditionState::NotYet("no receipt".to_owned()),
                    Some(told) => reached(told.delivered_sequence, told.read_sequence, delivered, read),
                })
                .await
            }
            ScenarioStep::ExpectTyping { device, chat, user, is_typing } => {
                let (storage, key) = (&self.device(&device).storage, (self.chats[&chat], self.users[&user]));
                until(async || ConditionState::of(storage.kept().typing.get(&key).copied(), Some(is_typing))).await
            }
            ScenarioStep::ExpectPresence { device, user, status } => {
                let (storage, user_id) = (&self.device(&device).storage, self.users[&user]);
                until(async || ConditionState::of(storage.kept().presences.get(&user_id).copied(), Some(status))).await
            }
            ScenarioStep::ExpectExpired { device, chat, sequences } => {
                let (storage, chat_id) = (&self.device(&device).storage, self.chats[&chat]);
                let expired = || storage.kept().expired.get(&chat_id).cloned().unwrap_or_default();
                until(async || ConditionState::of(expired(), sequences.iter().copied().collect())).await
            }
            ScenarioStep::ExpectChatUpdated { device, chat, change, user } => {
                let (storage, chat_id) = (&self.device(&device).storage, self.chats[&chat]);
                let user_id = user.map(|user| self.users[&user]);
                until(async || {
                    let kept = storage.kept();
                    let is_it = kept.updates.iter().any(|updated| {
                        let is_user = user_id.is_none() || updated.user_id == user_id;
                        updated.chat_id == chat_id && updated.change == change && is_user
                    });
                    if is_it { ConditionState::True } else { ConditionState::NotYet(format!("{:?}", kept.updates)) }
                })
                .await
            }
            ScenarioStep::ExpectChatGone { device, chat } => {
                let (storage, chat_id) = (&self.device(&device).storage, self.chats[&chat]);
                until(async || ConditionState::of(storage.kept().gone.contains(&chat_id), true)).await
            }
            ScenarioStep::ExpectStopped { device, reason } => {
                let storage = &self.device(&device).storage;
                let expected = match reason {
                    Stopped::SignedOut => StopReason::SignedOut,
                    Stopped::DuplicateConnection => StopReason::DuplicateConnection,
                };
                until(async || ConditionState::of(storage.kept().stopped, Some(expected))).await
            }
            ScenarioStep::ExpectTokenRenewed { device } => {
                let device = self.device(&device);
                let token = || device.storage.kept().tokens.as_ref().map(|tokens| tokens.access_token.0.clone());
                until(async || ConditionState::of(token().is_some_and(|token| token != device.first_token), true)).await
            }
            done => unreachable!("{done:?} is done before"),
        }
    }
}

/// Steps that take more than a line.
impl World<'_> {
    async fn sign_in(&mut self, device: String, user: String) -> Result<(), String> {
        let number = || self.server.unused_number();
        let phone_number = self.phone_numbers.entry(user.clone()).or_insert_with(number).clone();
        let proxy = DeviceProxy::start(self.server.address()).await;
        let signed_in = ScenarioDevice::sign_in(proxy, &phone_number, &user).await?;
        self.users.insert(user, signed_in.user_id);
        self.devices.insert(device, signed_in);
        Ok(())
    }

    /// Queues the sends of a step, and returns the previous length of the queue.
    async fn queue(&mut self, send: &SendStep) -> usize {
        let chat_id = self.chats[&send.chat];
        let named = send.id.clone().map(|name| *self.ids.entry(name).or_insert_with(|| uuid::Uuid::new_v4().into()));
        let device = self.devices.get_mut(&send.device).expect("the device is signed in");
        let before = device.storage.kept().queue.len();
        for content in &send.contents.0 {
            // The first device that sends a text is its sender; another one with the same id is refused.
            self.sent.entry((chat_id, content.clone())).or_insert_with(|| (device.user_id, send.metadata.clone()));
            let message = SendMessage {
                client_message_id: named.unwrap_or_else(|| uuid::Uuid::new_v4().into()),
                chat_id,
                body: Body::new(
                    content.clone().try_into().expect("texts of scenarios are contents"),
                    ContentType::Text,
                )
                .with_metadata(send.metadata.clone()),
                ttl: send.ttl_seconds.and_then(Ttl::from_secs),
            };
            device.queue(QueuedEntry::Message(message)).await;
        }
        before
    }

    /// Queues the update of a step, and returns the previous length of the queue.
    async fn queue_update(&mut self, step: &UpdateStep) -> usize {
        let chat_id = self.chats[&step.chat];
        let named = step.id.clone().map(|name| *self.ids.entry(name).or_insert_with(|| uuid::Uuid::new_v4().into()));
        let device = self.devices.get_mut(&step.device).expect("the device is signed in");
        let before = device.storage.kept().queue.len();
        if let Some(content) = &step.content {
            // A message that is received after an edit has the content of the edit.
            self.sent.entry((chat_id, content.clone())).or_insert_with(|| (device.user_id, None));
        }
        let update = UpdateMessage {
            client_message_id: named.unwrap_or_else(|| uuid::Uuid::new_v4().into()),
            chat_id,
            target: Sequence(step.sequence),
            action: step.action(),
        };
        device.queue(QueuedEntry::Update(update)).await;
        before
    }

    async fn send(&mut self, send: SendStep) -> Result<(), String> {
        let before = self.queue(&send).await;
        self.expect_acks(&send.device, before, send.deduplicated).await
    }

    async fn update(&mut self, update: UpdateStep) -> Result<(), String> {
        let before = self.queue_update(&update).await;
        self.expect_acks(&update.device, before, update.deduplicated).await
    }

    /// Waits until all entries of the queue from this one on are acked.
    async fn expect_acks(&self, device: &str, before: usize, deduplicated: Option<bool>) -> Result<(), String> {
        let storage = &self.device(device).storage;
        until(async || {
            let kept = storage.kept();
            let outcomes: Vec<_> = kept.queue[before..].iter().map(|queued| queued.outcome.as_ref()).collect();
            match outcomes.iter().find(|outcome| !matches!(outcome, Some(Ok(_)))) {
                None => ConditionState::True,
                Some(Some(refusal)) => ConditionState::Never(format!("{refusal:?}")),
                Some(None) => ConditionState::NotYet("a send without an ack".to_owned()),
            }
        })
        .await?;
        let kept = storage.kept();
        let acks: Vec<_> = kept.queue[before..].iter().filter_map(|q| q.outcome.as_ref()?.as_ref().ok()).collect();
        if !acks.is_sorted_by(|one, next| one.sequence < next.sequence) {
            return Err(format!("the acks are {acks:?}"));
        }
        match deduplicated {
            Some(expected) if acks.iter().any(|ack| ack.deduplicated != expected) => {
                Err(format!("the acks are {acks:?}"))
            }
            _ => Ok(()),
        }
    }

    async fn revoke(&mut self, device: &str, target: &str) -> Result<(), String> {
        let target = self.device(target).client.api().device_id();
        let api = self.device(device).client.api();
        let sessions = api.sessions().await.map_err(told)?.sessions;
        let session = sessions.iter().find(|session| session.device_id == target).ok_or("it has no session")?;
        api.revoke_session(session.session_id).await.map_err(told)
    }

    async fn expect_connected(&self, device: &str) -> Result<(), String> {
        let device = self.device(device);
        until(async || ConditionState::of(device.is_connected_again(), true)).await
    }

    async fn expect_messages(&self, device: &str, chat: &str, contents: MessageContents) -> Result<(), String> {
        let (storage, chat_id) = (&self.device(device).storage, self.chats[chat]);
        until(async || {
            let kept = storage.kept();
            let taken = kept.messages.get(&chat_id).map(Vec::as_slice).unwrap_or_default();
            if !taken.is_sorted_by(|one, next| one.sequence < next.sequence) {
                return ConditionState::Never(format!("{taken:?}, which is not in order"));
            }
            if let Some(wrong) = taken.iter().find(|message| !self.is_as_sent(message)) {
                return ConditionState::Never(format!("{wrong:?}, which was not sent so"));
            }
            let taken: Vec<&str> = taken.iter().map(|message| &*message.content).collect();
            match texts(&contents) {
                expected if taken == expected => ConditionState::True,
                expected if expected.starts_with(&taken) => ConditionState::NotYet(format!("{taken:?}")),
                _ => ConditionState::Never(format!("{taken:?}")),
            }
        })
        .await
    }

    fn is_as_sent(&self, message: &MessageBody<'_>) -> bool {
        let sent = self.sent.get(&(message.chat_id, message.content.clone().into_owned()));
        let is_text = message.content_type == ContentType::Text;
        is_text && sent.is_some_and(|(sender, metadata)| *sender == message.sender_id && *metadata == received(message))
    }

    async fn expect_acked(&self, device: &str) -> Result<(), String> {
        let storage = &self.device(device).storage;
        until(async || {
            let kept = storage.kept();
            let waiting = kept.queue.iter().filter(|queued| queued.outcome.is_none()).count();
            ConditionState::of(waiting, 0)
        })
        .await?;
        let kept = storage.kept();
        // The same id twice is one message with one sequence.
        let sequences: Vec<u64> =
            kept.queue.iter().filter_map(|queued| Some(queued.outcome.as_ref()?.as_ref().ok()?.sequence.0)).collect();
        if sequences.is_sorted() { Ok(()) } else { Err(format!("the acks are {sequences:?}")) }
    }

    async fn expect_watermarks(&self, expected: ExpectedWatermarks) -> Result<(), String> {
        let ExpectedWatermarks { device, chat, user, delivered, read } = expected;
        let (api, chat_id, user_id) = (self.device(&device).client.api(), self.chats[&chat], self.users[&user]);
        until(async || {
            let receipts = match api.chat(chat_id).await {
                Ok(chat) => match chat.summary.last_message {
                    Some(last) => api.receipts(chat_id, last.sequence).await,
                    None => return ConditionState::NotYet("no message".to_owned()),
                },
                Err(error) => Err(error),
            };
            let members = match receipts {
                Ok(receipts) => receipts.members,
                Err(error) => return ConditionState::NotYet(error.to_string()),
            };
            match members.iter().find(|member| member.user_id == user_id) {
                None => ConditionState::NotYet("no such member".to_owned()),
                Some(member) => reached(member.delivered_sequence, member.read_sequence, delivered, read),
            }
        })
        .await
    }

    /// All messages of a chat, oldest first.
    async fn history(&self, device: &str, chat: &str) -> Result<Vec<MessageBody<'static>>, ApiError> {
        let (api, chat_id) = (self.device(device).client.api(), self.chats[chat]);
        let range = HistoryRange { before: None, after: Some(Sequence::ZERO), limit: Some(100) };
        let (mut messages, mut cursor) = (Vec::new(), None);
        loop {
            let page = api.history_page(chat_id, range, cursor.as_deref()).await?;
            messages.extend(page.data.messages.into_iter().map(|message| message.message));
            cursor = page.pagination.next_cursor;
            if cursor.is_none() {
                return Ok(messages);
            }
        }
    }

    fn disturb(&mut self, device: &str, how: fn(&DeviceProxy)) -> Result<(), String> {
        let device = self.device_mut(device);
        device.disturb();
        how(&device.proxy);
        Ok(())
    }

    fn disturb_all(&mut self) {
        self.devices.values_mut().for_each(ScenarioDevice::disturb);
    }

    fn device(&self, name: &str) -> &ScenarioDevice {
        self.devices.get(name).expect("the device is signed in")
    }

    fn device_mut(&mut self, name: &str) -> &mut ScenarioDevice {
        self.devices.get_mut(name).expect("the device is signed in")
    }
}

fn reason_of(error: &ErrorBody) -> Option<&str> {
    error.details.as_ref()?.get("reason")?.as_str()
}

fn copy_of(message: &MessageBody<'_>) -> ExpectedCopy {
    let state = message.state.as_ref();
    let reaction = |one: &ReactionBody| ExpectedReaction {
        reaction: one.reaction.to_string(),
        count: one.count,
        mine: one.mine == Some(true),
    };
    ExpectedCopy {
        content: message.content.clone().into_owned(),
        edits: state.and_then(|state| state.edit_count).unwrap_or(0),
        reactions: state.into_iter().flat_map(|state| &state.reactions).map(reaction).collect(),
    }
}

/// The metadata of a received message.
fn received(message: &MessageBody<'_>) -> Option<Metadata> {
    message.metadata.as_deref().cloned()
}

fn texts(contents: &MessageContents) -> Vec<&str> {
    contents.0.iter().map(String::as_str).collect()
}

/// Whether watermarks have the expected values, where any are expected.
fn reached(delivered: Sequence, read: Sequence, expected: Option<u64>, expected_read: Option<u64>) -> ConditionState {
    let is_so = expected.is_none_or(|n| delivered.0 == n) && expected_read.is_none_or(|n| read.0 == n);
    if is_so { ConditionState::True } else { ConditionState::NotYet(format!("delivered {delivered}, read {read}")) }
}
