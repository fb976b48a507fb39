use std::sync::Arc;
use std::time::Duration;

use audit::Findings;
use audit::history::{Client, Entry, Op, Page, Seen, fingerprint};
use domain::{ChatId, DeviceId, Invariant, Sequence, UserId};
use http::Method;
use ports::{ChatReader, EventLog, MessageReader, PageBounds, Routes, Transitions};
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep, sleep_until, timeout};
use uuid::Uuid;

use crate::checks::LOOK_INTERVAL;
use crate::client::{self, Command, Identity, Standing, client_message_id};
use crate::compose::{self, CODE};
use crate::plan::{Action, Fault, Plan, Shape, Timed};
use crate::rest::Call;
use crate::shared::Memory;
use crate::trace::{Actor, Trace, What};
use crate::world::{Part, World};

/// How long after the last fault everything has to have come right.
pub const SETTLE: Duration = Duration::from_secs(90);
/// How long a process that goes in good order has.
const DRAIN_MAX: Duration = Duration::from_secs(5);

/// What became of a run.
pub struct Outcome {
    /// What was planned.
    pub plan: Plan,
    /// What happened.
    pub trace: Trace,
    /// What was looked at, and what was wrong with it.
    pub findings: Findings,
    /// How long it took, in its own time.
    pub lasted: Duration,
    /// Processes that were killed.
    pub kills: u64,
    /// Messages that were committed.
    pub messages: u64,
    /// A defect that ended a task of a plane.
    pub panic: Option<String>,
}

impl Outcome {
    /// Whether every promise was kept.
    pub fn is_clean(&self) -> bool {
        self.findings.is_clean() && self.panic.is_none()
    }
}

/// Runs a plan. The same plan gives the same outcome, to the last entry of its trace.
pub fn run(plan: &Plan) -> Outcome {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime without threads can be made");
    runtime.block_on(async {
        let world = Arc::new(World::new(plan.clone()));
        let mut stage = Stage::set(world).await;
        stage.play().await;
        stage.settle().await;
        stage.end().await
    })
}

/// A run under way.
struct Stage {
    world: Arc<World>,
    /// What processes share.
    memory: Arc<Memory>,
    clients: Vec<mpsc::UnboundedSender<Command>>,
    users: Vec<UserId>,
    chats: Vec<ChatId>,
    epochs: Vec<u32>,
    kills: u64,
    panic: Option<String>,
}

impl Stage {
    /// Starts everything, signs everybody in and opens the chats, before anything fails.
    async fn set(world: Arc<World>) -> Self {
        world.repair();
        let plan = world.plan.clone();
        let processes = if plan.shape == Shape::Node { 1 } else { plan.size.processes() };
        let memory = Arc::new(Memory::new(&world));
        for slot in 0..processes {
            compose::start(&world, slot, 0, &memory);
        }
        sleep(Duration::from_secs(1)).await;
        let mut stage = Self {
            world,
            memory,
            clients: vec![],
            users: vec![],
            chats: vec![],
            epochs: vec![0; processes],
            kills: 0,
            panic: None,
        };
        let identities = stage.sign_in(&plan).await;
        stage.open_chats(&plan, &identities).await;
        for identity in identities {
            let (commands, obeyed) = mpsc::unbounded_channel();
            tokio::spawn(client::run(stage.world.clone(), identity, obeyed));
            stage.clients.push(commands);
        }
        sleep(Duration::from_secs(2)).await;
        stage
    }

    async fn sign_in(&mut self, plan: &Plan) -> Vec<Identity> {
        let mut identities: Vec<Identity> = vec![];
        for (n, (user, _)) in plan.clients().into_iter().enumerate() {
            let phone = format!("+14155550{user:03}");
            let device_id = DeviceId::from(Uuid::from_u128(0x4000_8000_0000_0000_0000 + n as u128 + 1));
            let asked = Call::open("/auth/request-otp", json!({ "phone_number": phone }));
            self.world.rest(asked).await.expect("nothing fails yet");
            let display_name = NAMES[user % NAMES.len()];
            let verify =
                json!({ "phone_number": phone, "otp": CODE, "device_id": device_id, "display_name": display_name });
            let (_, body) = self.world.rest(Call::open("/auth/verify-otp", verify)).await.expect("nothing fails yet");
            let text = |pointer| body.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
            let user_id: UserId = text("/data/user/user_id").parse().expect("the code is right");
            if !self.users.contains(&user_id) {
                self.users.push(user_id);
                self.world.trace().names.name_user(user_id, display_name);
            }
            let restarts = |action: &Timed<Action>| matches!(action.what, Action::Restart { client } | Action::Twin { client } if client == n);
            identities.push(Identity {
                name: name(plan, n),
                user_id,
                device_id,
                access_token: text("/data/tokens/access_token"),
                refresh_token: text("/data/tokens/refresh_token"),
                keeps_order: plan.refuses_nobody() && !plan.actions.iter().any(restarts),
            });
        }
        self.world.checks.know_users(self.users.clone());
        self.world.checks.privacy_changed(&self.world);
        identities
    }

    async fn open_chats(&mut self, plan: &Plan, identities: &[Identity]) {
        let clients = plan.clients();
        for (n, chat) in plan.size.chats.iter().enumerate() {
            let opener = clients.iter().position(|(user, _)| *user == chat.members[0]).expect("everybody has a device");
            let members: Vec<UserId> = chat.members.iter().map(|user| self.users[*user]).collect();
            let body = match chat.is_direct {
                true => json!({ "type": "direct", "member_ids": [members[1]] }),
                false => json!({ "type": "group", "name": format!("group {n}"), "member_ids": members }),
            };
            let call = Call::with(Method::POST, &identities[opener].access_token, "/chats", Some(body));
            let (_, body) = self.world.rest(call).await.expect("nothing fails yet");
            let chat_id = body.pointer("/data/chat_id").and_then(Value::as_str).and_then(|text| text.parse().ok());
            let chat_id: ChatId = chat_id.expect("a chat can be opened");
            let name = if chat.is_direct { format!("direct {n}") } else { format!("group {n}") };
            self.world.trace().names.name_chat(chat_id, name);
            self.chats.push(chat_id);
            let client = of(&identities[opener]);
            for user_id in members {
                for op in [Op::Joining { chat_id, user_id }, Op::Joined { chat_id, user_id }] {
                    self.world.observe(&Entry { at: self.world.milliseconds(), client, op });
                }
            }
        }
    }

    /// Has everything happen that is planned.
    async fn play(&mut self) {
        let plan = self.world.plan.clone();
        self.world.begin();
        let began = Instant::now();
        let actions = plan.actions.iter().map(|timed| (timed.at, Happening::Action(&timed.what)));
        let faults = plan.faults.iter().map(|timed| (timed.at, Happening::Fault(&timed.what)));
        let mut happenings: Vec<_> = actions.chain(faults).collect();
        happenings.sort_by_key(|(at, _)| *at);
        for (at, happening) in happenings {
            self.watch_until(began + at).await;
            match happening {
                Happening::Action(action) => self.act(&plan, action),
                Happening::Fault(fault) => self.fail(fault).await,
            }
        }
        self.watch_until(began + plan.lasts).await;
    }

    /// Waits, and looks around meanwhile.
    async fn watch_until(&mut self, until: Instant) {
        loop {
            self.world.checks.look_around(&self.memory.routes);
            let next = Instant::now() + LOOK_INTERVAL;
            if next >= until {
                break;
            }
            sleep_until(next).await;
            self.world.look_at_routes(&self.memory.routes, &self.users);
            for running in self.world.directory.all() {
                self.note_panic(&running.process);
                if let Some(gateway) = &running.services.gateway {
                    let (messages, bytes) = gateway.hub.fullest();
                    let holds = messages <= protocol::Outbox::MESSAGES_MAX && bytes <= protocol::Outbox::BYTES_MAX;
                    self.world.check(Invariant::BoundedBuffers, holds, || {
                        format!("{messages} pushes of {bytes} bytes wait for one connection")
                    });
                }
            }
        }
        sleep_until(until).await;
    }

    fn note_panic(&mut self, process: &crate::process::Process) {
        if let Some(panic) = process.take_panic() {
            self.panic.get_or_insert(panic);
        }
    }

    async fn fail(&mut self, fault: &Fault) {
        let world = self.world.clone();
        world.note(Actor::Nemesis, What::Fault(format!("{fault:?}")));
        match *fault {
            Fault::Kill { process, back_after } => {
                self.kill(process);
                // Now and then somebody is gone with what they were connected to, and nobody is left to say so.
                if world.streams.nemesis.chance(0.35) {
                    let client = world.streams.nemesis.index(self.clients.len());
                    drop(self.clients[client].send(Command::Vanish));
                }
                self.start_later(process, back_after);
            }
            Fault::Roll { process } => self.roll(process).await,
            Fault::Pause { process, lasts } => {
                if let Some(running) = world.directory.at(process) {
                    running.process.pause(true);
                    tokio::spawn(async move {
                        sleep(lasts).await;
                        running.process.pause(false);
                    });
                }
            }
            Fault::Part { one, other, lasts } => world.part(one, other, lasts),
            Fault::StoreAway { lasts } => world.take_away(Part::Store, lasts),
            Fault::Throttle { lasts } => world.take_away(Part::Throttled, lasts),
            Fault::DiskFails { lasts } => world.take_away(Part::Disk, lasts),
            Fault::LogAway { lasts } => world.take_away(Part::Log, lasts),
            Fault::SharedAway { lasts } => {
                world.take_away(Part::Shared, lasts);
                tokio::spawn(async move {
                    sleep(lasts).await;
                    world.lose_links();
                });
            }
            Fault::Wipe => self.memory.wipe(),
            Fault::Step { process, forward, by } => {
                if let Some(running) = world.directory.at(process) {
                    let by = by.as_millis() as i64;
                    running.process.clock.step(if forward { by } else { -by });
                }
            }
            Fault::Cut { process } => {
                if let Some(running) = world.directory.at(process) {
                    running.cut_sockets();
                }
            }
        }
    }

    fn kill(&mut self, slot: usize) {
        let Some(running) = self.world.directory.put(slot, None) else { return };
        self.note_panic(&running.process);
        running.process.kill();
        self.kills += 1;
        self.world.note(Actor::Process(running.process.name.clone()), What::Killed);
        if self.world.streams.nemesis.chance(0.5) {
            running.cut_sockets();
        } else {
            // The machine is gone too, and its clients hear nothing.
            let delay = self.world.streams.nemesis.time(Duration::from_secs(1), Duration::from_secs(20));
            tokio::spawn(async move {
                sleep(delay).await;
                running.cut_sockets();
            });
        }
        if self.world.plan.shape == Shape::Node {
            self.memory.wipe();
        }
    }

    fn start_later(&mut self, slot: usize, after: Duration) {
        self.epochs[slot] += 1;
        let (world, memory, epoch) = (self.world.clone(), self.memory.clone(), self.epochs[slot]);
        tokio::spawn(async move {
            sleep(after.max(Duration::from_millis(1))).await;
            if world.directory.at(slot).is_none() {
                world.look_at_store();
                compose::start(&world, slot, epoch, &memory);
            }
        });
    }

    /// Replaces a process in good order, as an upgrade does.
    async fn roll(&mut self, slot: usize) {
        let Some(running) = self.world.directory.put(slot, None) else { return };
        self.world.note(Actor::Process(running.process.name.clone()), What::Drained);
        if let Some(stop) = running.stop_relay.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take() {
            // The relay may have ended by itself.
            let _ = stop.send(());
        }
        let gateway = running.services.gateway.clone();
        let (done, drained) = oneshot::channel();
        tokio::spawn(async move {
            if let Some(gateway) = gateway {
                // Who does not go is cut.
                drop(timeout(DRAIN_MAX, gateway.hub.drain()).await);
            } else {
                sleep(Duration::from_millis(200)).await;
            }
            running.process.kill();
            running.cut_sockets();
            let _ = done.send(());
        });
        self.epochs[slot] += 1;
        let (world, memory, epoch) = (self.world.clone(), self.memory.clone(), self.epochs[slot]);
        tokio::spawn(async move {
            drop(drained.await);
            sleep(Duration::from_millis(50)).await;
            if world.directory.at(slot).is_none() {
                if world.plan.shape == Shape::Node {
                    memory.wipe();
                }
                compose::start(&world, slot, epoch, &memory);
            }
        });
    }

    fn act(&self, plan: &Plan, action: &Action) {
        let tell = |client: usize, command| {
            // A device never stops listening.
            drop(self.clients[client].send(command));
        };
        match *action {
            Action::Send { client, chat, name, bytes, ttl } => {
                let content = self.content(plan, client, name, bytes);
                // What is sent over REST too may be there before its turn.
                let repeats =
                    |action: &Timed<Action>| matches!(action.what, Action::Repeat { name: n, .. } if n == name);
                let ordered = !plan.actions.iter().any(repeats);
                tell(client, Command::Send { chat_id: self.chats[chat], name, content, ttl, ordered });
            }
            Action::Repeat { client, chat, name, bytes, ttl } => {
                let content = self.content(plan, client, name, bytes);
                self.repeat(plan, client, self.chats[chat], name, content, ttl);
            }
            Action::Read { client, chat } => tell(client, Command::Read(self.chats[chat])),
            Action::Type { client, chat, is_typing } => tell(client, Command::Type(self.chats[chat], is_typing)),
            Action::Watch { client, user } => tell(client, Command::Watch(self.users[user])),
            Action::GoOffline { client, lasts } => tell(client, Command::GoOffline(lasts)),
            Action::Restart { client } => tell(client, Command::Restart),
            Action::Dawdle { client, lasts } => tell(client, Command::Dawdle(lasts)),
            Action::Twin { client } => tell(client, Command::Twin),
            Action::OpenInbox { client } => self.open_inbox(client),
            Action::Add { client, chat, user } => {
                let (chat_id, user_id) = (self.chats[chat], self.users[user]);
                let path = format!("/chats/{chat_id}/members");
                self.change_members(client, Method::POST, path, Some(json!({ "user_id": user_id })), chat_id, user_id);
            }
            Action::Remove { client, chat, user } => {
                let (chat_id, user_id) = (self.chats[chat], self.users[user]);
                let path = format!("/chats/{chat_id}/members/{user_id}");
                self.change_members(client, Method::DELETE, path, None, chat_id, user_id);
            }
            Action::Leave { client, chat } => {
                let (chat_id, user_id) = (self.chats[chat], self.users[plan.clients()[client].0]);
                let path = format!("/chats/{chat_id}/leave");
                self.change_members(client, Method::POST, path, None, chat_id, user_id);
            }
            Action::OpenDirect { client, user } => {
                let body = json!({ "type": "direct", "member_ids": [self.users[user]] });
                self.call(client, Method::POST, "/chats".to_owned(), Some(body), |_, _| {});
            }
            Action::Show { client, visibility } => {
                let visibility = ["everyone", "contacts_only", "nobody"][visibility % 3];
                let body = json!({ "presence_visibility": visibility });
                self.call(client, Method::PATCH, "/users/me".to_owned(), Some(body), |_, _| {});
            }
            Action::Befriend { client, user, is_contact } => {
                let method = if is_contact { Method::PUT } else { Method::DELETE };
                let path = format!("/contacts/{}", self.users[user]);
                self.call(client, method, path, None, |_, _| {});
            }
        }
    }

    /// What a user says under a name: always the same, and nobody else does.
    fn content(&self, plan: &Plan, client: usize, name: u32, bytes: usize) -> String {
        let mut content = format!("{name} by {}", plan.clients()[client].0);
        while content.len() < bytes {
            content.push('.');
        }
        content
    }

    /// Has a client call the REST API, and does something with the answer.
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
        // A device never stops listening.
        drop(self.clients[client].send(Command::Call { method, path, body, answer }));
        let (world, name) = (self.world.clone(), name(&self.world.plan, client));
        tokio::spawn(async move {
            let answer = answered.await.ok().flatten();
            let status = answer.as_ref().map_or_else(|| "no answer".to_owned(), |(status, _)| status.to_string());
            world.note(Actor::Client(name), What::Called { what, answer: status });
            then(&world, answer);
        });
    }

    fn client(&self, client: usize) -> Client {
        let (user, _) = self.world.plan.clients()[client];
        let device_id = DeviceId::from(Uuid::from_u128(0x4000_8000_0000_0000_0000 + client as u128 + 1));
        Client { user_id: self.users[user], device_id }
    }

    fn repeat(&self, _: &Plan, client: usize, chat_id: ChatId, name: u32, content: String, ttl: Option<u64>) {
        let id = client_message_id(name);
        let who = self.client(client);
        let note = move |world: &World, op| world.observe(&Entry { at: world.milliseconds(), client: who, op });
        let print = fingerprint(&content);
        let ttl_seconds = ttl.map(|ttl| ttl.saturating_sub(self.world.plan.skew_bound().as_secs()));
        let began = Op::SendBegan { chat_id, client_message_id: id, content: print, ttl_seconds, ordered: false };
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
                        note(world, Op::SendAcked { chat_id, client_message_id: id, message_id, sequence });
                    }
                }
                Some((_, body)) => {
                    let code = body.pointer("/error/code").and_then(Value::as_str).unwrap_or("UNKNOWN").to_owned();
                    note(world, Op::SendFailed { chat_id, client_message_id: id, code });
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
        let begins = if joins { Op::Joining { chat_id, user_id } } else { Op::Leaving { chat_id, user_id } };
        note(&self.world, begins);
        self.call(client, method, path, body, move |world, answer| {
            if let Some((200..300, _)) = answer {
                let done = if joins { Op::Joined { chat_id, user_id } } else { Op::Left { chat_id, user_id } };
                note(world, done);
            }
        });
    }

    fn open_inbox(&self, client: usize) {
        let who = self.client(client);
        let note = move |world: &World, op| world.observe(&Entry { at: world.milliseconds(), client: who, op });
        for chat_id in &self.chats {
            note(&self.world, Op::Asked { chat_id: *chat_id });
        }
        let chats = self.chats.clone();
        self.call(client, Method::GET, "/chats?limit=100".to_owned(), None, move |world, answer| {
            let Some((200, body)) = answer else { return };
            let listed = body.pointer("/data/chats").and_then(Value::as_array).cloned().unwrap_or_default();
            for chat in listed {
                let chat_id = chat["chat_id"].as_str().and_then(|text| text.parse::<ChatId>().ok());
                let number = |name: &str| chat[name].as_u64().unwrap_or_default();
                if let Some(chat_id) = chat_id.filter(|chat_id| chats.contains(chat_id)) {
                    let shown = Op::Shown {
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

    /// Repairs everything, and gives it its time.
    async fn settle(&mut self) {
        let was_away = self.world.is_away(Part::Shared);
        self.world.repair();
        self.world.note(Actor::Nemesis, What::Fault("everything is repaired".to_owned()));
        if was_away {
            self.world.lose_links();
        }
        for (slot, epoch) in self.epochs.iter_mut().enumerate() {
            match self.world.directory.at(slot) {
                Some(running) => {
                    running.process.pause(false);
                    running.process.clock.set_right();
                }
                None => {
                    *epoch += 1;
                    compose::start(&self.world, slot, *epoch, &self.memory);
                    if let Some(running) = self.world.directory.at(slot) {
                        running.process.clock.set_right();
                    }
                }
            }
        }
        self.watch_until(Instant::now() + SETTLE).await;
    }

    /// Looks at everything once more, now that nothing is under way.
    async fn end(mut self) -> Outcome {
        let world = self.world.clone();
        let mut standings = vec![];
        for client in &self.clients {
            let (report, reported) = oneshot::channel();
            drop(client.send(Command::Report(report)));
            standings.extend(reported.await.ok());
        }
        world.look_at_store();
        let all = PageBounds { count: usize::MAX, bytes: usize::MAX };
        for chat_id in &self.chats {
            self.note_stored(*chat_id, all).await;
        }
        self.look_at_clients(&standings).await;
        let settled = Entry { at: world.milliseconds(), client: self.client(0), op: Op::Settled };
        world.observe(&settled);
        world.end_history();
        let records = match world.plan.shape {
            Shape::Fleet => world.log.records(),
            Shape::Node => node_log(&world).await,
        };
        world.look_at_log(&records);
        self.audit().await;
        for running in world.directory.all() {
            self.note_panic(&running.process);
        }
        let messages = world.checks.all_committed().len() as u64;
        let lasted = world.began.elapsed();
        let trace = std::mem::take(&mut *world.trace());
        let findings = world.checks.findings().clone();
        Outcome { plan: world.plan.clone(), trace, findings, lasted, kills: self.kills, messages, panic: self.panic }
    }

    /// Notes a chat as the store has it, for the history.
    async fn note_stored(&self, chat_id: ChatId, all: PageBounds) {
        let world = &self.world;
        let now = ports::Clock::now(&*world.clock);
        let began_at = world.milliseconds();
        let Ok(page) = world.store.after(chat_id, Sequence::ZERO, all, now).await else { return };
        let messages = page.messages.iter().map(|message| Seen {
            sequence: message.sequence,
            message_id: message.message_id,
            sender_id: message.sender_id,
            client_message_id: Some(message.client_message_id),
            content: fingerprint(message.content.as_str()),
        });
        let page = Page { after: Sequence::ZERO, through: page.head, is_last: true, messages: messages.collect() };
        world.observe(&Entry { at: began_at, client: self.client(0), op: Op::Stored { chat_id, began_at, page } });
    }

    /// Looks at where clients stand: all of them have everything, and can be reached.
    async fn look_at_clients(&self, standings: &[Standing]) {
        let world = &self.world;
        let wiped = world.plan.faults.iter().any(|fault| matches!(fault.what, Fault::Wipe));
        for user_id in &self.users {
            let routes = self.memory.routes.routes(*user_id).await.unwrap_or_default();
            let gone_since = self.memory.routes.gone_since(&[*user_id]).await.unwrap_or_default();
            // What was wiped is not remembered, and whoever comes back is.
            if routes.is_empty() && !wiped && world.plan.shape == Shape::Fleet {
                world.check(
                    Invariant::PresenceStalenessBounded,
                    gone_since.first().is_some_and(Option::is_some),
                    || format!("{user_id} has no live route, and nobody has noticed that they are gone"),
                );
            }
        }
        for standing in standings.iter().filter(|standing| !standing.is_stopped) {
            let user_id = standing.user_id;
            for chat_id in &self.chats {
                let Ok(Some(_)) = world.store.member(*chat_id, user_id).await else { continue };
                let Ok(Some(head)) = world.store.head(*chat_id).await else { continue };
                let Some(watermark) = standing.watermarks.get(chat_id) else { continue };
                // What has expired before it was pushed nobody is told of.
                let now = ports::Clock::now(&*world.clock);
                let holds = *watermark <= head.sequence && !world.checks.has_beyond(*chat_id, *watermark, now);
                world.check(Invariant::ConflictResolution, holds, || {
                    format!("a client of {user_id} is at {watermark} of {chat_id}, the store at {}", head.sequence)
                });
                if standing.connections > 1 {
                    world.check(Invariant::ReconnectHeals, holds, || {
                        format!("a client of {user_id} came back and is at {watermark} of {chat_id}")
                    });
                }
            }
            let routes = self.memory.routes.routes(user_id).await.unwrap_or_default();
            let is_routed = |connection| routes.iter().any(|route| route.connection_id == connection);
            if wiped && let Some(connection) = standing.connection {
                world.check(Invariant::RedisIsEphemeral, is_routed(connection), || {
                    format!("a connection of {user_id} has no route, long after a wipe")
                });
            }
            for (watched, is_online) in &standing.watched {
                world.shown_last(user_id, *watched, *is_online);
            }
        }
    }

    /// Has the auditor of real stores look at this one.
    async fn audit(&self) {
        let findings = crate::checks::audit_store(&self.world).await;
        for violation in findings.violations() {
            self.world.note_violation(violation.invariant, violation.detail.clone());
        }
        self.world.checks.findings().merge(findings);
    }
}

/// What the users of every run are called.
const NAMES: [&str; 6] = ["ann", "bob", "cleo", "dan", "eve", "fay"];

/// What a client is called: its user, and which of their devices it is.
fn name(plan: &Plan, client: usize) -> String {
    let (user, device) = plan.clients()[client];
    format!("{}/{device}", NAMES[user % NAMES.len()])
}

enum Happening<'a> {
    Action(&'a Action),
    Fault(&'a Fault),
}

fn of(identity: &Identity) -> Client {
    Client { user_id: identity.user_id, device_id: identity.device_id }
}

/// A path with the names of people and chats in it.
fn named(world: &World, path: &str) -> String {
    let names = world.trace().names.clone();
    let part = |part: &str| match (part.parse::<ChatId>(), part.parse::<UserId>()) {
        (Ok(chat_id), _) => names.chat(chat_id),
        (_, Ok(user_id)) => names.user(user_id),
        _ => part.to_owned(),
    };
    path.split('/').map(part).collect::<Vec<_>>().join("/")
}

/// Everything in the log of a node.
async fn node_log(world: &World) -> Vec<ports::Record> {
    let mut records = vec![];
    let end = world.store.lag("nobody").await.unwrap_or_default();
    for place in 0..end {
        let position = ports::Position(place);
        if let Ok(Some(event)) = world.store.event(position).await {
            records.push(ports::Record { position, event });
        }
    }
    records
}
