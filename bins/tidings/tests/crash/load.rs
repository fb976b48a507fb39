use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use audit::history::{self, HistoryOp};
use client::{Api, Client, ClientEvent, Events};
use domain::{ChatId, ChatType, Invariant, Sequence, UserId};
use protocol::client::SendBounds;
use protocol::rest::CreateChat;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::audit::ServerAudit;
use crate::history::RecordedHistory;
use crate::sender::{RECONNECT_PAUSE, SDK_WINDOW, Sender, new_message};
use crate::world::{LoadState, Manners, World};

const USERS: usize = 8;
/// The members of each chat.
const CHATS: [&[usize]; 6] = [&[0, 1, 2, 3, 4, 5, 6, 7], &[0, 1, 2, 3], &[0, 1], &[2, 3], &[4, 5], &[6, 7]];
/// Users with a second device of the SDK.
const TWO_DEVICES: [usize; 2] = [0, 4];
/// Users who also send over a raw socket.
const RAW_SENDERS: [usize; 4] = [1, 3, 5, 7];
/// The ledger's sender number for the first message of each chat.
const GREETER: usize = usize::MAX;

/// The invariants that every history of a load exercises.
const EXERCISED: [Invariant; 15] = [
    Invariant::StoreIsAuthoritative,
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

/// Longest wait for any required event on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Users that send and receive, across all crashes of the server.
pub(crate) struct CrashLoad {
    world: Arc<World>,
    chats: Vec<(ChatId, Vec<usize>)>,
    /// A further device of each user, for reads on demand.
    readers: Vec<(history::Client, Api)>,
    /// The user of each device of the SDK.
    listeners: Vec<usize>,
    tasks: JoinSet<()>,
}

impl CrashLoad {
    /// Signs up all users, creates the chats, and connects. Only one message per chat is sent yet, and every listener
    /// has received it.
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
            // All chats are empty, so every device starts at zero.
            let positions = load.chats_of(user).map(|chat_id| (chat_id, Sequence::ZERO)).collect();
            load.world.history.note(client, HistoryOp::Restarted { positions });
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

    /// Sends the first message of each chat and waits until every listener has it. From then on every listener follows
    /// all its chats from their beginning.
    async fn greet(&mut self, random: &mut StdRng) {
        for (chat_id, members) in self.chats.clone() {
            let message = new_message(chat_id, random);
            let (client, api) = &self.readers[members[0]];
            self.world.sent(GREETER, *client, &message, false);
            let body = protocol::rest::SendMessage {
                client_message_id: message.client_message_id,
                content: message.body.content.as_str().into(),
                content_type: None,
                metadata: None,
                ttl_seconds: None,
            };
            let ack = api.send(chat_id, &body).await.unwrap();
            self.world.acked(*client, &ack);
        }
        let mut audit = ServerAudit::default();
        audit.sync(self).await;
        self.converge(&audit).await;
    }

    /// Resumes all senders, and waits for the first ack.
    pub(crate) async fn resume(&mut self) {
        let before = self.state().ledger.acks();
        self.world.sending.send_replace(true);
        self.until("the load resumes", |state| state.ledger.acks() > before).await;
    }

    /// Stops new sends.
    pub(crate) fn pause(&self) {
        self.world.sending.send_replace(false);
    }

    /// Waits until every send is acknowledged: the senders retry those that the server did not answer.
    pub(crate) async fn settle(&mut self) {
        self.until("every send is answered", |state| state.ledger.unanswered() == 0).await;
    }

    /// Waits until every listener has all messages, and checks that they are the same.
    pub(crate) async fn converge(&mut self, audit: &ServerAudit) {
        let mut expected = Vec::new();
        for (listener, user) in self.listeners.iter().enumerate() {
            let own = self.chats.iter().filter(|(_, members)| members.contains(user));
            expected.extend(own.map(|(chat_id, _)| (listener, *chat_id, audit.rows(*chat_id))));
        }
        let heard =
            |state: &LoadState, listener: usize, chat_id| state.heard[listener].get(chat_id).map_or(0, Vec::len);
        self.until("every listener has everything", |state| {
            expected.iter().all(|(listener, chat_id, rows)| heard(state, *listener, chat_id) >= rows.len())
        })
        .await;
        let state = self.world.lock();
        for (listener, chat_id, rows) in expected {
            assert!(state.heard[listener][&chat_id] == rows, "listener {listener} has another history of {chat_id}");
        }
        self.world.history.note(self.readers[0].0, HistoryOp::Settled);
    }

    /// Checks the whole history against the guarantees.
    pub(crate) fn check_history(&self) {
        let order = self.world.records_orders().then_some(Invariant::WriteOrderPreserved);
        self.world.history.check(&[&EXERCISED[..], order.as_slice()].concat());
    }

    /// Whether each sender's order is preserved. After a refusal, later sends may be committed first.
    pub(crate) fn keeps_orders(&self) -> bool {
        self.world.keeps_orders()
    }

    /// Locks the shared state.
    pub(crate) fn state(&self) -> MutexGuard<'_, LoadState> {
        self.world.lock()
    }

    /// Each chat with a reading member.
    pub(crate) fn chats(&self) -> impl Iterator<Item = (ChatId, &(history::Client, Api))> {
        self.chats.iter().map(|(chat_id, members)| (*chat_id, &self.readers[members[0]]))
    }

    pub(crate) fn history(&self) -> &RecordedHistory {
        &self.world.history
    }

    pub(crate) fn summary(&self) -> String {
        let ledger = &self.state().ledger;
        format!("{} acks, {} of them of a send that was committed before", ledger.acks(), ledger.deduplicated())
    }

    /// Waits for a condition on the shared state. A task that ends has detected a violation.
    async fn until(&mut self, what: &str, is_so: impl Fn(&LoadState) -> bool) {
        let mut progress = self.world.progress.subscribe();
        let waiting = progress.wait_for(|()| is_so(&self.world.lock()));
        tokio::select! {
            waited = timeout(PATIENCE, waiting) => drop(waited.unwrap_or_else(|_| panic!("waited in vain: {what}"))),
            Some(ended) = self.tasks.join_next() => panic!("before {what}: {ended:?}"),
        }
    }
}

/// Records the events of one SDK device.
async fn listen(world: Arc<World>, listener: usize, client: history::Client, mut events: Events) {
    while let Some(event) = events.next().await {
        world.history.told(client, &event);
        match event {
            ClientEvent::Message(message) => world.heard(listener, &message),
            ClientEvent::Refused(error) => world.refused(&error),
            ClientEvent::WatermarkReset { .. } | ClientEvent::ChatGone { .. } | ClientEvent::Stopped(_) => {
                panic!("listener {listener} received {event:?}")
            }
            _ => {}
        }
    }
}

fn as_client(user_id: UserId, api: &Api) -> history::Client {
    history::Client { user_id, device_id: api.device_id() }
}

/// Signs in on a new device.
pub(crate) async fn sign_in(base_url: &str, user: usize) -> Client {
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
