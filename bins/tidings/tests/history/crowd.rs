use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use audit::history::{Client, HistoryOp};
use client::{Api, ApiError};
use domain::{ChatId, ChatType, Invariant, Role, Sequence, UserId};
use protocol::ErrorCode;
use protocol::rest::{AddMember, CreateChat, Tokens};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use super::device::{CrowdDevice, ask};
use super::recorded::RecordedHistory;

/// The users. Eve joins and leaves.
const PEOPLE: [&str; 5] = ["Ann", "Bob", "Cat", "Dan", "Eve"];
const EVE: usize = 4;
/// The user of each device.
const DEVICES: [usize; 7] = [0, 0, 1, 2, 2, 3, EVE];
/// Lifetime of the messages of one chat, in seconds.
const FLEETING: u64 = 1;
/// How long Eve stays a member, and stays away.
const CHURN: Duration = Duration::from_millis(700);
/// Longest wait for any required event on a busy machine: the SDK itself pauses for up to 38 s after refusals.
const PATIENCE: Duration = Duration::from_secs(60);

/// Whether a run preserves the order of each device's sends: after a temporary refusal, later sends may be committed
/// before the retry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keeps {
    Order,
    NoOrder,
}

/// The invariants that every history of a crowd exercises.
const EXERCISED: [Invariant; 20] = [
    Invariant::StoreIsAuthoritative,
    Invariant::SequenceUniqueness,
    Invariant::SequenceContiguous,
    Invariant::AllocationMonotonicity,
    Invariant::CounterLowerBound,
    Invariant::IdempotencySequenceConsistency,
    Invariant::AckImpliesPersistence,
    Invariant::NoZeroSequence,
    Invariant::DeliveryWatermarkMonotonic,
    Invariant::WatermarkBoundedByHead,
    Invariant::ReadImpliesDelivered,
    Invariant::MembershipCheckUsesAuthority,
    Invariant::SyncCompleteness,
    Invariant::ExpiredNeverRead,
    Invariant::ConnIdUniqueness,
    Invariant::MultiDeviceDelivery,
    Invariant::NoDuplicateRender,
    Invariant::NoSilentLoss,
    Invariant::OnlyMembersReceive,
    Invariant::ReconnectHeals,
];

/// SDK clients that send, read, join and leave while faults are injected into the service.
///
/// There is a group that Eve joins and leaves, a group with messages that expire after a second, and a direct chat.
/// Devices restart from their stored state, and query their membership.
pub(crate) struct Crowd {
    shared: Arc<CrowdState>,
    chats: Vec<CrowdChat>,
    /// A further device of each user, which only reads and bypasses the proxy.
    readers: Vec<(Client, Api)>,
    tasks: JoinSet<()>,
}

struct CrowdChat {
    chat_id: ChatId,
    members: Vec<usize>,
    ttl_seconds: Option<u64>,
}

/// State shared by all devices.
pub(super) struct CrowdState {
    pub(super) history: RecordedHistory,
    pub(super) keeps_order: bool,
    pub(super) sending: watch::Sender<bool>,
    pub(super) unanswered: AtomicUsize,
    /// The stored position of each device in each chat.
    positions: Mutex<BTreeMap<Client, BTreeMap<ChatId, Sequence>>>,
}

impl CrowdState {
    pub(super) fn positions(&self, client: Client) -> Vec<(ChatId, Sequence)> {
        let positions = self.positions.lock().unwrap();
        positions.get(&client).into_iter().flatten().map(|(chat_id, sequence)| (*chat_id, *sequence)).collect()
    }

    pub(super) fn stored(&self, client: Client, chat_id: ChatId, sequence: Sequence) {
        self.positions.lock().unwrap().entry(client).or_default().insert(chat_id, sequence);
    }

    pub(super) fn forget(&self, client: Client, chat_id: ChatId) {
        self.positions.lock().unwrap().entry(client).or_default().remove(&chat_id);
    }

    fn has(&self, client: Client, chat_id: ChatId, sequence: Sequence) -> bool {
        let positions = self.positions.lock().unwrap();
        positions.get(&client).and_then(|chats| chats.get(&chat_id)).is_some_and(|position| *position >= sequence)
    }
}

impl Crowd {
    /// Signs up all users at `base_url`, and connects their devices to `url`, which may be a proxy.
    pub(crate) async fn gather(base_url: &str, url: &str, keeps: Keeps) -> Self {
        let shared = Arc::new(CrowdState {
            history: RecordedHistory::new(),
            keeps_order: keeps == Keeps::Order,
            sending: watch::channel(true).0,
            unanswered: AtomicUsize::new(0),
            positions: Mutex::default(),
        });
        let mut readers = Vec::new();
        for user in 0..PEOPLE.len() {
            let (client, api, _) = sign_in(base_url, user).await;
            readers.push((client, api));
        }
        let mut chats = Vec::new();
        for (members, ttl_seconds) in [(vec![0, 1, 2, 3], None), (vec![0, 1, 2], Some(FLEETING)), (vec![1, 2], None)] {
            chats.push(found(&shared.history, &readers, members, ttl_seconds).await);
        }
        let mut crowd = Self { shared, chats, readers, tasks: JoinSet::new() };
        let mut random = StdRng::seed_from_u64(7);
        for user in DEVICES {
            crowd.add_device(base_url, url, user, &mut random).await;
        }
        let ann = sign_in_at(url, base_url, 0).await;
        let (group, eve) = (crowd.chats[0].chat_id, crowd.readers[EVE].0.user_id);
        crowd.tasks.spawn(churn(crowd.shared.clone(), ann, group, eve));
        crowd
    }

    async fn add_device(&mut self, base_url: &str, url: &str, user: usize, random: &mut StdRng) {
        let (client, _, tokens) = sign_in(base_url, user).await;
        let is_in = |chat: &&CrowdChat| chat.members.contains(&user);
        let own: Vec<&CrowdChat> = self.chats.iter().filter(is_in).collect();
        for chat in &own {
            self.shared.stored(client, chat.chat_id, Sequence::ZERO);
        }
        let mut chats: Vec<_> = own.iter().map(|chat| (chat.chat_id, chat.ttl_seconds)).collect();
        if user == EVE {
            // Eve sends to the group whether or not she is a member.
            chats.push((self.chats[0].chat_id, None));
        } else {
            let (asking, api) = sign_in_at(url, base_url, user).await;
            let asked = own.iter().map(|chat| chat.chat_id).collect();
            self.tasks.spawn(ask(self.shared.clone(), asking, api, asked));
        }
        let random = StdRng::seed_from_u64(random.next_u64());
        let device =
            CrowdDevice { shared: self.shared.clone(), client, base_url: url.to_owned(), tokens, chats, random };
        self.tasks.spawn(device.live());
    }

    /// Lets the crowd run for a while. A task that ends has detected a violation.
    pub(crate) async fn go_on(&mut self, time: Duration) {
        tokio::select! {
            () = sleep(time) => {}
            Some(ended) = self.tasks.join_next() => panic!("a task has ended: {ended:?}"),
        }
    }

    /// Stops new sends, waits until all devices have caught up, and checks the history. `exercised` lists the
    /// additional invariants of this run.
    pub(crate) async fn part(mut self, exercised: &[Invariant]) {
        self.shared.sending.send_replace(false);
        let shared = self.shared.clone();
        self.until("every send is answered", || shared.unanswered.load(Ordering::Relaxed) == 0).await;
        let mut heads = Vec::new();
        for chat in &self.chats {
            let (reader, api) = &self.readers[chat.members[1]];
            heads.push(self.shared.history.store(*reader, api, chat.chat_id).await);
        }
        // If a device misses a message, the history check reports it better than a timeout.
        let everybody = timeout(PATIENCE, async {
            while !self.have_everything(&heads) {
                sleep(Duration::from_millis(20)).await;
            }
        });
        if everybody.await.is_err() {
            eprintln!("a device does not get all messages");
        }
        // Expiring messages are gone by then, and are no longer pending for any device.
        sleep(Duration::from_secs(FLEETING)).await;
        self.tasks.shutdown().await;
        self.shared.history.note(self.readers[0].0, HistoryOp::Settled);
        let order = self.shared.keeps_order.then_some(Invariant::WriteOrderPreserved);
        self.shared.history.check(&[&EXERCISED[..], exercised, order.as_slice()].concat());
    }

    fn have_everything(&self, heads: &[Sequence]) -> bool {
        let clients: Vec<Client> = self.shared.positions.lock().unwrap().keys().copied().collect();
        let lasting = self.chats.iter().zip(heads).filter(|(chat, _)| chat.ttl_seconds.is_none());
        lasting.into_iter().all(|(chat, head)| {
            let is_member =
                |client: &&Client| chat.members.iter().any(|user| self.readers[*user].0.user_id == client.user_id);
            clients.iter().filter(is_member).all(|client| self.shared.has(*client, chat.chat_id, *head))
        })
    }

    async fn until(&mut self, what: &str, is_so: impl Fn() -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !is_so() {
            assert!(Instant::now() < deadline, "waited in vain: {what}");
            self.go_on(Duration::from_millis(10)).await;
        }
    }
}

/// Signs in on a new device.
async fn sign_in(base_url: &str, user: usize) -> (Client, Api, Tokens) {
    let api = client::Client::builder(base_url).build().unwrap().api().clone();
    let phone_number = format!("+1415310{user:04}");
    api.request_otp(&phone_number).await.unwrap();
    let signed_in = api.verify_otp(&phone_number, "000000", Some(PEOPLE[user])).await.unwrap();
    let client = Client { user_id: signed_in.user.user.user_id, device_id: api.device_id() };
    (client, api, signed_in.tokens)
}

/// The same, with later calls to another URL.
async fn sign_in_at(url: &str, base_url: &str, user: usize) -> (Client, Api) {
    let (client, _, tokens) = sign_in(base_url, user).await;
    let there = client::Client::builder(url).device_id(client.device_id).tokens(tokens).build().unwrap();
    (client, there.api().clone())
}

async fn found(
    history: &RecordedHistory,
    readers: &[(Client, Api)],
    members: Vec<usize>,
    ttl_seconds: Option<u64>,
) -> CrowdChat {
    let user_ids: Vec<UserId> = members.iter().map(|user| readers[*user].0.user_id).collect();
    let (chat_type, name) = match members.len() {
        2 => (ChatType::Direct, None),
        _ => (ChatType::Group, Some("group".to_owned())),
    };
    let (founder, api) = &readers[members[0]];
    let chat = CreateChat { chat_type, name, member_ids: user_ids[1..].to_vec() };
    let chat_id = api.create_chat(&chat).await.unwrap().summary.chat_id;
    history.founded(*founder, chat_id, &user_ids);
    CrowdChat { chat_id, members, ttl_seconds }
}

/// Adds a user to a group and removes them, repeatedly.
async fn churn(shared: Arc<CrowdState>, (by, api): (Client, Api), chat_id: ChatId, user_id: UserId) {
    let note = |op| shared.history.note(by, op);
    loop {
        note(HistoryOp::Joining { chat_id, user_id });
        let joined = timeout(PATIENCE, api.add_member(chat_id, &AddMember { user_id, role: Role::Member })).await;
        match joined {
            Ok(Ok(_)) => note(HistoryOp::Joined { chat_id, user_id }),
            // An earlier attempt succeeded, but its response was lost.
            Ok(Err(ApiError::Refused { error, .. })) if error.code == ErrorCode::AlreadyAMember => {
                note(HistoryOp::Joined { chat_id, user_id });
            }
            _ => {
                sleep(CHURN / 4).await;
                continue;
            }
        }
        sleep(CHURN).await;
        loop {
            note(HistoryOp::Leaving { chat_id, user_id });
            match timeout(PATIENCE, api.remove_member(chat_id, user_id)).await {
                Ok(Ok(())) => break note(HistoryOp::Left { chat_id, user_id }),
                Ok(Err(ApiError::Refused { error, .. })) if error.code == ErrorCode::NotFound => {
                    break note(HistoryOp::Left { chat_id, user_id });
                }
                _ => sleep(CHURN / 4).await,
            }
        }
        sleep(CHURN).await;
    }
}
