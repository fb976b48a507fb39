use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use audit::history::{self, Op};
use client::{Api, Client, ClientEvent, Events};
use domain::{ChatId, ChatType, Invariant, Sequence, UserId};
use protocol::client::SendBounds;
use protocol::rest::CreateChat;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::audit::Audit;
use crate::history::History;
use crate::sender::{RECONNECT_PAUSE, SDK_WINDOW, Sender, new_message};
use crate::world::{Manners, State, World};

const USERS: usize = 8;
/// Who is in which chat.
const CHATS: [&[usize]; 6] = [&[0, 1, 2, 3, 4, 5, 6, 7], &[0, 1, 2, 3], &[0, 1], &[2, 3], &[4, 5], &[6, 7]];
/// Users with a second device of the SDK.
const TWO_DEVICES: [usize; 2] = [0, 4];
/// Users who also send over a socket of their own making.
const RAW_SENDERS: [usize; 4] = [1, 3, 5, 7];
/// Whoever sends the first message of a chat, among those who keep an order of their sends.
const GREETER: usize = usize::MAX;

/// What every history of a load is about.
const EXERCISED: [Invariant; 15] = [
    Invariant::DynamodbIsAuthoritative,
    Invariant::SequenceUniqueness,
    Invariant::SequenceContiguous,
    Invariant::AllocationMonotonicity,
    Invariant::IdempotencySequenceConsistency,
    Invariant::AckImpliesPersistence,
    Invariant::NoZeroSequence,
    Invariant::MembershipCheckUsesAuthority,
    Invariant::SyncReadsAuthority,
    Invariant::SyncCompleteness,
    Invariant::ConnIdUniqueness,
    Invariant::MultiDeviceDelivery,
    Invariant::NoDuplicateRender,
    Invariant::NoSilentLoss,
    Invariant::OnlyMembersReceive,
];

/// How long anything that must happen may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Users that send and listen, through every death of the server.
pub(crate) struct Load {
    world: Arc<World>,
    chats: Vec<(ChatId, Vec<usize>)>,
    /// One more device of each user, which only reads when it is told to.
    readers: Vec<(history::Client, Api)>,
    /// The user of each device of the SDK.
    listeners: Vec<usize>,
    tasks: JoinSet<()>,
}

impl Load {
    /// Signs everybody up, makes the chats, and connects. Nothing is sent yet but one message into each chat, which
    /// every listener has heard.
    pub(crate) async fn start(base_url: &str, manners: Manners, random: &mut StdRng) -> Self {
        let (mut readers, mut users) = (Vec::new(), Vec::new());
        for user in 0..USERS {
            let reader = sign_in(base_url, user).await;
            let user_id = reader.api().me().await.unwrap().user.user_id;
            users.push(user_id);
            readers.push((as_client(user_id, reader.api()), reader.api().clone()));
        }
        let mut chats = Vec::new();
        for members in CHATS {
            let chat_type = if members.len() == 2 { ChatType::Direct } else { ChatType::Group };
            let name = (chat_type == ChatType::Group).then(|| "group".to_owned());
            let chat = CreateChat { chat_type, name, member_ids: members.iter().map(|user| users[*user]).collect() };
            let chat = readers[members[0]].1.create_chat(&chat).await.unwrap();
            chats.push((chat.summary.chat_id, members.to_vec()));
        }

        let listeners: Vec<usize> = (0..USERS).chain(TWO_DEVICES).collect();
        let world = Arc::new(World::new(listeners.len(), manners));
        let mut load = Self { world, chats, readers, listeners, tasks: JoinSet::new() };
        for (chat_id, members) in &load.chats {
            let user_ids: Vec<UserId> = members.iter().map(|user| users[*user]).collect();
            load.world.history.founded(load.readers[members[0]].0, *chat_id, &user_ids);
        }
        for (listener, user) in load.listeners.iter().copied().enumerate() {
            let device = sign_in(base_url, user).await;
            let client = as_client(users[user], device.api());
            // Nothing was sent so far, so everybody begins at the beginning.
            let positions = load.chats_of(user).map(|chat_id| (chat_id, Sequence::ZERO)).collect();
            load.world.history.note(client, Op::Restarted { positions });
            let (handle, events) = device.connect().unwrap();
            load.tasks.spawn(listen(load.world.clone(), listener, client, events));
            let sender = load.sender(listener, client, user, random);
            load.tasks.spawn(sender.send_through(handle));
        }
        for (n, user) in RAW_SENDERS.into_iter().enumerate() {
            let api = sign_in(base_url, user).await.api().clone();
            let client = as_client(users[user], &api);
            let sender = load.sender(load.listeners.len() + n, client, user, random);
            load.tasks.spawn(sender.send_raw(api));
        }
        load.greet(random).await;
        load
    }

    fn sender(&self, number: usize, client: history::Client, user: usize, random: &mut StdRng) -> Sender {
        let chats = self.chats_of(user).collect();
        Sender { world: self.world.clone(), number, client, chats, random: StdRng::seed_from_u64(random.next_u64()) }
    }

    fn chats_of(&self, user: usize) -> impl Iterator<Item = ChatId> {
        self.chats.iter().filter(move |(_, members)| members.contains(&user)).map(|(chat_id, _)| *chat_id)
    }

    /// Sends the first message of each chat and waits until every listener has it. After this every listener follows
    /// all its chats, and has them from their beginning.
    async fn greet(&mut self, random: &mut StdRng) {
        for (chat_id, members) in self.chats.clone() {
            let message = new_message(chat_id, random);
            let (client, api) = &self.readers[members[0]];
            self.world.sent(GREETER, *client, &message, false);
            let body = protocol::rest::SendMessage {
                client_message_id: message.client_message_id,
                content: message.content.as_str().into(),
                content_type: None,
                ttl_seconds: None,
            };
            let ack = api.send(chat_id, &body).await.unwrap();
            self.world.acked(*client, &ack);
        }
        let mut audit = Audit::default();
        audit.sync(self).await;
        self.converge(&audit).await;
    }

    /// Lets everybody send, and waits for the first answer.
    pub(crate) async fn resume(&mut self) {
        let before = self.state().ledger.acks();
        self.world.sending.send_replace(true);
        self.until("the load resumes", |state| state.ledger.acks() > before).await;
    }

    /// Has nobody make new sends.
    pub(crate) fn pause(&self) {
        self.world.sending.send_replace(false);
    }

    /// Waits until every send has its answer: those that the server left without one are retried by their senders.
    pub(crate) async fn settle(&mut self) {
        self.until("every send is answered", |state| state.ledger.unanswered() == 0).await;
    }

    /// Waits until every listener has everything, and checks that it is the same.
    pub(crate) async fn converge(&mut self, audit: &Audit) {
        let mut expected = Vec::new();
        for (listener, user) in self.listeners.iter().enumerate() {
            let own = self.chats.iter().filter(|(_, members)| members.contains(user));
            expected.extend(own.map(|(chat_id, _)| (listener, *chat_id, audit.rows(*chat_id))));
        }
        let heard = |state: &State, listener: usize, chat_id| state.heard[listener].get(chat_id).map_or(0, Vec::len);
        self.until("every listener has everything", |state| {
            expected.iter().all(|(listener, chat_id, rows)| heard(state, *listener, chat_id) >= rows.len())
        })
        .await;
        let state = self.world.lock();
        for (listener, chat_id, rows) in expected {
            assert!(state.heard[listener][&chat_id] == rows, "listener {listener} has another history of {chat_id}");
        }
        self.world.history.note(self.readers[0].0, Op::Settled);
    }

    /// Decides whether all that everybody did and saw fits the promises.
    pub(crate) fn check_history(&self) {
        let order = self.keeps_orders().then_some(Invariant::WriteOrderPreserved);
        self.world.history.check(&[&EXERCISED[..], order.as_slice()].concat());
    }

    /// Whether the order of each sender's sends is kept. Where some are refused, those behind them may be taken first.
    pub(crate) fn keeps_orders(&self) -> bool {
        self.world.keeps_orders()
    }

    /// The world as it is; nothing in it changes while this is held.
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.world.lock()
    }

    /// Each chat with one of its members, to read it.
    pub(crate) fn chats(&self) -> impl Iterator<Item = (ChatId, &(history::Client, Api))> {
        self.chats.iter().map(|(chat_id, members)| (*chat_id, &self.readers[members[0]]))
    }

    pub(crate) fn history(&self) -> &History {
        &self.world.history
    }

    pub(crate) fn summary(&self) -> String {
        let ledger = &self.state().ledger;
        format!("{} acks, {} of them of a send that was committed before", ledger.acks(), ledger.deduplicated())
    }

    /// Waits for a state of the world. A task that ends has found something wrong.
    async fn until(&mut self, what: &str, is_so: impl Fn(&State) -> bool) {
        let mut progress = self.world.progress.subscribe();
        let waiting = progress.wait_for(|()| is_so(&self.world.lock()));
        tokio::select! {
            waited = timeout(PATIENCE, waiting) => drop(waited.unwrap_or_else(|_| panic!("waited in vain: {what}"))),
            Some(ended) = self.tasks.join_next() => panic!("before {what}: {ended:?}"),
        }
    }
}

/// Takes note of what one device of the SDK is told.
async fn listen(world: Arc<World>, listener: usize, client: history::Client, mut events: Events) {
    while let Some(event) = events.next().await {
        world.history.told(client, &event);
        match event {
            ClientEvent::Message(message) => world.heard(listener, &message),
            ClientEvent::Refused(error) => world.refused(&error),
            ClientEvent::WatermarkReset { .. } | ClientEvent::ChatGone { .. } | ClientEvent::Stopped(_) => {
                panic!("listener {listener} was told {event:?}")
            }
            _ => {}
        }
    }
}

fn as_client(user_id: UserId, api: &Api) -> history::Client {
    history::Client { user_id, device_id: api.device_id() }
}

/// A new device of a user.
async fn sign_in(base_url: &str, user: usize) -> Client {
    let client = Client::builder(base_url)
        .send_bounds(SendBounds { queue_len_max: SDK_WINDOW, in_flight_max: SDK_WINDOW / 2 })
        .reconnect_pause(RECONNECT_PAUSE)
        .build()
        .unwrap();
    let phone_number = format!("+1415300{user:04}");
    client.api().request_otp(&phone_number).await.unwrap();
    client.api().verify_otp(&phone_number, "000000", Some("somebody")).await.unwrap();
    client
}
