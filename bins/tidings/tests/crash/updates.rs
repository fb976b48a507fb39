//! Edits, deletions and reactions under load, across kills of the process.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::process::Command;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use client::{Ack, Api, Body, ClientEvent, ClientHandle, Events};
use domain::{ChatId, ChatType, ClientMessageId, ContentType, Reaction, Sequence, UpdateAction, UserId};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use protocol::frame::{MessageBody, SendMessage, SendMessageAck, UpdateBody, UpdateMessage, UpdateName};
use protocol::rest::CreateChat;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, RngExt, SeedableRng};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::audit::{connect, sync_page};
use crate::load::{PATIENCE, sign_in};
use crate::sender::SDK_WINDOW;
use crate::server::TestServer;
use crate::{LIFE_MS, seeded, setting};

/// The members of the one group, each on one device.
const USERS: usize = 4;
/// One in this many operations is a send.
const SEND_ONE_IN: u32 = 3;

#[tokio::test(flavor = "multi_thread")]
async fn g1_sigkill_under_load_loses_doubles_and_halves_no_update() {
    let crashes = setting::<usize>("TIDINGS_CRASHES").unwrap_or(50) / 3;
    let mut random = seeded();
    let mut server = TestServer::start().await;
    let mut load = UpdateLoad::start(&server.base_url(), &mut random).await;
    for _ in 0..crashes {
        load.resume().await;
        sleep(Duration::from_millis(random.random_range(LIFE_MS))).await;
        server.kill().await;
        load.world.sending.send_replace(false);
        server.restart().await;
        load.until("every operation is answered", |state| state.unanswered == 0).await;
        load.check().await;
    }
    let made = load.world.lock().made();
    assert!(made.values().all(|count| *count > 0), "{made:?}");
    eprintln!("{crashes} deaths: {made:?}");
    drop(load);
    let (status, _) = server.stop().await;
    assert_eq!(status.code(), Some(0));
    let mut verify = Command::new(env!("CARGO_BIN_EXE_tidings"));
    let verified = verify.args(["store", "verify", "--data-dir"]).arg(server.data_dir()).output().unwrap();
    assert!(verified.status.success(), "{}", String::from_utf8_lossy(&verified.stdout));
}

/// A send or an update, as its author knows it.
struct Operation {
    user_id: UserId,
    /// The message that it changes, and how; `None` for a send.
    update: Option<(Sequence, UpdateAction)>,
    /// Its own sequence, once it is acknowledged.
    sequence: Option<Sequence>,
}

/// A message, as readers see it. Its content is the id of its send or of its last edit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct MessageCopy {
    revision: Sequence,
    content: String,
    edits: u32,
    reactions: BTreeMap<Reaction, u32>,
}

/// An update, as readers see it.
type SeenUpdate = (Sequence, UserId, UpdateName, Option<Reaction>);

/// What one device has received.
#[derive(Default)]
struct Heard {
    last: Sequence,
    messages: BTreeMap<Sequence, MessageCopy>,
}

#[derive(Default)]
struct UpdateState {
    operations: HashMap<ClientMessageId, Operation>,
    unanswered: usize,
    acks: usize,
    /// Acknowledged messages that nobody deletes. Everyone reacts to them.
    lasting: Vec<Sequence>,
    heard: Vec<Heard>,
}

struct UpdateWorld {
    chat_id: ChatId,
    state: Mutex<UpdateState>,
    sending: watch::Sender<bool>,
    /// Changes with every ack and every event.
    progress: watch::Sender<()>,
}

struct UpdateLoad {
    world: Arc<UpdateWorld>,
    reader: Api,
    tasks: JoinSet<()>,
}

impl UpdateWorld {
    fn lock(&self) -> MutexGuard<'_, UpdateState> {
        self.state.lock().expect("a task that panics ends the test")
    }
}

impl UpdateState {
    /// Records an operation before its first attempt.
    fn began(&mut self, id: ClientMessageId, operation: Operation) {
        self.operations.insert(id, operation);
        self.unanswered += 1;
    }

    /// The number of acknowledged operations of each kind.
    fn made(&self) -> BTreeMap<&'static str, usize> {
        let mut made = BTreeMap::from([("sent", 0), ("edited", 0), ("deleted", 0), ("reacted", 0), ("unreacted", 0)]);
        for operation in self.operations.values().filter(|operation| operation.sequence.is_some()) {
            let name = operation.update.as_ref().map_or("sent", |(_, action)| action.kind().as_str());
            *made.entry(name).or_default() += 1;
        }
        made
    }

    /// The messages and the updates that all acknowledged operations make, in the order of their sequences.
    fn expected(&self) -> (BTreeMap<Sequence, MessageCopy>, BTreeMap<Sequence, SeenUpdate>) {
        let by_sequence: BTreeMap<Sequence, (&ClientMessageId, &Operation)> = self
            .operations
            .iter()
            .map(|(id, operation)| (operation.sequence.expect("every operation is answered"), (id, operation)))
            .collect();
        assert_eq!(by_sequence.len(), self.operations.len(), "no two operations have the same sequence");
        let (mut messages, mut updates) = (BTreeMap::<_, MessageCopy>::new(), BTreeMap::new());
        for (sequence, (id, Operation { user_id, update, .. })) in by_sequence {
            let Some((target, action)) = update else {
                messages.insert(sequence, MessageCopy { content: id.to_string(), ..MessageCopy::default() });
                continue;
            };
            let kind = action.kind();
            updates.insert(sequence, (*target, *user_id, UpdateName::from(&kind), kind.reaction().cloned()));
            let message = messages.get_mut(target).expect("only messages that are there are updated");
            message.revision = sequence;
            match action {
                UpdateAction::Edit(_) => (message.content, message.edits) = (id.to_string(), message.edits + 1),
                UpdateAction::Delete => drop(messages.remove(target)),
                UpdateAction::React(reaction) => *message.reactions.entry(reaction.clone()).or_default() += 1,
                UpdateAction::Unreact(reaction) => {
                    let count = message.reactions.get_mut(reaction).expect("only reactions that are there are removed");
                    *count -= 1;
                    message.reactions.retain(|_, count| *count > 0);
                }
            }
        }
        (messages, updates)
    }
}

impl MessageCopy {
    fn of(message: &MessageBody<'_>) -> Self {
        let state = message.state.as_ref();
        let reactions = state.into_iter().flat_map(|state| &state.reactions);
        Self {
            revision: message.revision(),
            content: message.content.clone().into_owned(),
            edits: state.and_then(|state| state.edit_count).unwrap_or(0),
            reactions: reactions.map(|known| (known.reaction.clone(), known.count)).collect(),
        }
    }
}

impl Heard {
    /// Takes the next entry: each arrives once, in order.
    fn enter(&mut self, sequence: Sequence) {
        assert!(sequence > self.last, "{sequence} arrives after {}", self.last);
        self.last = sequence;
    }

    /// Keeps the newer of two copies.
    fn keep(&mut self, message: &MessageBody<'_>) {
        let (sequence, copy) = (message.sequence, MessageCopy::of(message));
        if self.messages.get(&sequence).is_none_or(|known| known.revision < copy.revision) {
            self.messages.insert(sequence, copy);
        }
    }
}

impl UpdateLoad {
    /// Signs up the users, creates the group, and connects.
    async fn start(base_url: &str, random: &mut StdRng) -> Self {
        let mut clients = vec![];
        for user in 0..USERS {
            clients.push(sign_in(base_url, user).await);
        }
        let mut user_ids = vec![];
        for client in &clients {
            user_ids.push(client.api().me().await.unwrap().user.user_id);
        }
        let chat =
            CreateChat { chat_type: ChatType::Group, name: Some("group".to_owned()), member_ids: user_ids.clone() };
        let chat_id = clients[0].api().create_chat(&chat).await.unwrap().summary.chat_id;
        let heard = (0..USERS).map(|_| Heard::default()).collect();
        let world = Arc::new(UpdateWorld {
            chat_id,
            state: Mutex::new(UpdateState { heard, ..UpdateState::default() }),
            sending: watch::channel(false).0,
            progress: watch::channel(()).0,
        });
        let mut tasks = JoinSet::new();
        let reader = sign_in(base_url, 0).await.api().clone();
        for (number, (client, user_id)) in clients.into_iter().zip(user_ids).enumerate() {
            let (handle, events) = client.connect().unwrap();
            tasks.spawn(listen(world.clone(), number, events));
            let author = Author {
                world: world.clone(),
                user_id,
                random: StdRng::seed_from_u64(random.next_u64()),
                reaction: format!("r{number}").parse().unwrap(),
                own: vec![],
                reacted: HashSet::new(),
                busy: HashSet::new(),
            };
            tasks.spawn(author.work(handle));
        }
        Self { world, reader, tasks }
    }

    /// Resumes all authors, and waits for the first acks.
    async fn resume(&mut self) {
        let before = self.world.lock().acks;
        self.world.sending.send_replace(true);
        self.until("the load resumes", |state| state.acks > before).await;
    }

    /// Checks that every operation is there exactly once, and that every message has the state which they leave: for a
    /// new reader, and for every device that was connected.
    async fn check(&mut self) {
        let (expected, expected_updates) = self.world.lock().expected();
        let head = Sequence((self.world.lock().operations.len()) as u64);
        let (mut messages, mut updates) = (BTreeMap::new(), BTreeMap::new());
        let mut connection = connect(&self.reader).await;
        let mut after = Sequence::ZERO;
        loop {
            let page = sync_page(&mut connection, self.world.chat_id, after).await;
            assert_eq!(page.head_sequence, head, "each operation has one entry");
            for message in &page.messages {
                let earlier = messages.insert(message.sequence, MessageCopy::of(message));
                assert_eq!(earlier, None, "{message:?} is there twice");
            }
            for update in page.updates {
                let UpdateBody { sequence, target_sequence, user_id, kind, reaction, .. } = update;
                let earlier = updates.insert(sequence, (target_sequence, user_id, kind, reaction));
                assert_eq!(earlier, None, "the update at {sequence} is there twice");
            }
            match page.next_sequence.filter(|_| page.has_more) {
                Some(next) => after = Sequence(next.0 - 1),
                None => break,
            }
        }
        connection.close().await;
        assert!(messages == expected, "{}", difference(&messages, &expected));
        assert!(updates == expected_updates, "{}", difference(&updates, &expected_updates));

        self.until("every device has every entry", |state| state.heard.iter().all(|heard| heard.last == head)).await;
        for (number, heard) in self.world.lock().heard.iter().enumerate() {
            assert!(heard.messages == expected, "device {number}: {}", difference(&heard.messages, &expected));
        }
    }

    /// Waits for a condition on the state. A task that ends has detected a violation.
    async fn until(&mut self, what: &str, is_so: impl Fn(&UpdateState) -> bool) {
        let mut progress = self.world.progress.subscribe();
        let waiting = progress.wait_for(|()| is_so(&self.world.lock()));
        tokio::select! {
            waited = timeout(PATIENCE, waiting) => drop(waited.unwrap_or_else(|_| panic!("waited in vain: {what}"))),
            Some(ended) = self.tasks.join_next() => panic!("before {what}: {ended:?}"),
        }
    }
}

/// The entries in which two maps differ.
fn difference<T: std::fmt::Debug + PartialEq>(
    found: &BTreeMap<Sequence, T>,
    expected: &BTreeMap<Sequence, T>,
) -> String {
    let keys: BTreeSet<_> = found.keys().chain(expected.keys()).collect();
    let lines = keys.into_iter().filter(|key| found.get(key) != expected.get(key));
    lines.map(|key| format!("{key}: found {:?}, expected {:?}\n", found.get(key), expected.get(key))).collect()
}

/// One user, with several operations in flight. No two of them in flight are about the same message, and only their
/// author deletes messages, so the server has no reason to refuse one.
struct Author {
    world: Arc<UpdateWorld>,
    user_id: UserId,
    random: StdRng,
    /// A reaction that no other author uses.
    reaction: Reaction,
    /// The author's messages that are acknowledged and not deleted.
    own: Vec<Sequence>,
    /// The messages that have the author's reaction.
    reacted: HashSet<Sequence>,
    /// The messages with an update of the author in flight.
    busy: HashSet<Sequence>,
}

impl Author {
    async fn work(mut self, handle: ClientHandle) {
        let mut sending = self.world.sending.subscribe();
        let mut acks: FuturesUnordered<Ack> = FuturesUnordered::new();
        loop {
            tokio::select! {
                Some(ack) = acks.next(), if !acks.is_empty() => self.acked(&ack.expect("no operation is refused")),
                go = async { sending.wait_for(|sending| *sending).await.map(drop) }, if acks.len() < SDK_WINDOW => {
                    go.expect("the world outlives its tasks");
                    acks.push(self.submit(&handle).await);
                }
            }
        }
    }

    async fn submit(&mut self, handle: &ClientHandle) -> Ack {
        let client_message_id: ClientMessageId =
            uuid::Builder::from_random_bytes(self.random.random()).into_uuid().into();
        let chat_id = self.world.chat_id;
        let text = || Body::new(client_message_id.to_string().try_into().expect("it is short"), ContentType::Text);
        let update = self.choose(text());
        let operation = Operation { user_id: self.user_id, update: update.clone(), sequence: None };
        self.world.lock().began(client_message_id, operation);
        let submitted = match update {
            None => handle.submit(SendMessage { client_message_id, chat_id, body: text(), ttl: None }).await,
            Some((target, action)) => {
                self.busy.insert(target);
                handle.submit_update(UpdateMessage { client_message_id, chat_id, target, action }).await
            }
        };
        submitted.expect("the session goes on")
    }

    /// The next update; `None` to send a message.
    fn choose(&mut self, new: Body) -> Option<(Sequence, UpdateAction)> {
        if self.random.random_ratio(1, SEND_ONE_IN) {
            return None;
        }
        let idle = |all: &[Sequence]| -> Vec<Sequence> {
            all.iter().copied().filter(|sequence| !self.busy.contains(sequence)).collect()
        };
        let (own, lasting) = (idle(&self.own), idle(&self.world.lock().lasting));
        match self.random.random_range(0..10) {
            0..4 => {
                let target = *own.choose(&mut self.random)?;
                Some((target, UpdateAction::Edit(new)))
            }
            4 => {
                let deletable: Vec<_> = own.into_iter().filter(|sequence| !is_lasting(*sequence)).collect();
                let target = *deletable.choose(&mut self.random)?;
                self.own.retain(|sequence| *sequence != target);
                Some((target, UpdateAction::Delete))
            }
            _ => {
                let target = *lasting.choose(&mut self.random)?;
                let reaction = self.reaction.clone();
                let has_reacted = self.reacted.contains(&target);
                let action = if has_reacted { UpdateAction::Unreact(reaction) } else { UpdateAction::React(reaction) };
                Some((target, action))
            }
        }
    }

    fn acked(&mut self, ack: &SendMessageAck) {
        let mut state = self.world.lock();
        let operation = state.operations.get_mut(&ack.client_message_id).expect("only what was sent is acknowledged");
        assert_eq!(operation.sequence.replace(ack.sequence), None, "an operation is acknowledged once");
        match &operation.update {
            None => {
                self.own.push(ack.sequence);
                if is_lasting(ack.sequence) {
                    state.lasting.push(ack.sequence);
                }
            }
            Some((target, action)) => {
                self.busy.remove(target);
                match action {
                    UpdateAction::React(_) => drop(self.reacted.insert(*target)),
                    UpdateAction::Unreact(_) => drop(self.reacted.remove(target)),
                    UpdateAction::Edit(_) | UpdateAction::Delete => {}
                }
            }
        }
        state.unanswered -= 1;
        state.acks += 1;
        drop(state);
        self.world.progress.send_replace(());
    }
}

/// Whether nobody deletes the message at this sequence.
fn is_lasting(sequence: Sequence) -> bool {
    sequence.0.is_multiple_of(2)
}

/// Applies the events of one device.
async fn listen(world: Arc<UpdateWorld>, number: usize, mut events: Events) {
    while let Some(event) = events.next().await {
        let mut state = world.lock();
        let heard = &mut state.heard[number];
        match event {
            ClientEvent::Message(message) => {
                heard.enter(message.sequence);
                heard.keep(&message);
            }
            ClientEvent::Updated(updated) => {
                heard.enter(updated.update.sequence);
                match &updated.message {
                    Some(message) => heard.keep(message),
                    None => drop(heard.messages.remove(&updated.update.target_sequence)),
                }
            }
            ClientEvent::Expired(expired) => {
                expired.sequences.iter().for_each(|sequence| drop(heard.messages.remove(sequence)));
            }
            ClientEvent::Refused(_)
            | ClientEvent::SendFailed { .. }
            | ClientEvent::WatermarkReset { .. }
            | ClientEvent::ChatGone { .. }
            | ClientEvent::Stopped(_) => panic!("device {number} received {event:?}"),
            _ => {}
        }
        drop(state);
        world.progress.send_replace(());
    }
}
