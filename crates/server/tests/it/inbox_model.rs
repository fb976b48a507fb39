//! After any sequence of actions every inbox equals that of a naive model, which keeps all messages and counts them.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use domain::{IngestError, Sequence, Timestamp, WatermarkKind};
use embedded::EmbeddedStore;
use memory::{ManualClock, MemoryStore};
use ports::{AdvanceRequest, Clock, RandomIds};
use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::{Value, json};

use crate::world::{World, WorldUser, clock};

const PEOPLE: usize = 4;

#[derive(Clone, Debug)]
enum InboxStep {
    Send { by: usize, chat: usize, ttl_seconds: Option<u64> },
    Advance { by: usize, chat: usize, kind: WatermarkKind, to: Index },
    Lifetime { by: usize, chat: usize, seconds: Option<u64> },
    Join { chat: usize, who: usize },
    Leave { chat: usize, who: usize },
    Mute { by: usize, chat: usize },
    Pass(Duration),
    Purge,
}

fn step() -> impl Strategy<Value = InboxStep> {
    let (person, chat, seconds) = (0..PEOPLE, 0..CHATS, proptest::option::of(1..20_u64));
    let kind = prop_oneof![Just(WatermarkKind::Delivered), Just(WatermarkKind::Read)];
    prop_oneof![
        6 => (person.clone(), chat.clone(), seconds.clone())
            .prop_map(|(by, chat, ttl_seconds)| InboxStep::Send { by, chat, ttl_seconds }),
        4 => (person.clone(), chat.clone(), kind, any::<Index>())
            .prop_map(|(by, chat, kind, to)| InboxStep::Advance { by, chat, kind, to }),
        1 => (person.clone(), chat.clone(), seconds)
            .prop_map(|(by, chat, seconds)| InboxStep::Lifetime { by, chat, seconds }),
        1 => (chat.clone(), person.clone()).prop_map(|(chat, who)| InboxStep::Join { chat, who }),
        1 => (chat.clone(), person.clone()).prop_map(|(chat, who)| InboxStep::Leave { chat, who }),
        1 => (person, chat).prop_map(|(by, chat)| InboxStep::Mute { by, chat }),
        3 => (0..8000_u64).prop_map(|millis| InboxStep::Pass(Duration::from_millis(millis))),
        1 => Just(InboxStep::Purge),
    ]
}

/// The first is the direct chat of users 0 and 1; the others are groups owned by 0 and by 1.
const CHATS: usize = 3;
const OWNERS: [Option<usize>; CHATS] = [None, Some(0), Some(1)];

/// A chat in the model, with all its messages.
struct ModelChat {
    chat_id: String,
    created_at: Timestamp,
    members: BTreeMap<usize, ModelMember>,
    messages: Vec<ModelMessage>,
    ttl_seconds: Option<u64>,
}

#[derive(Clone, Copy, Default)]
struct ModelMember {
    delivered: usize,
    read: usize,
    muted: bool,
}

struct ModelMessage {
    by: usize,
    at: Timestamp,
    expires_at: Option<Timestamp>,
}

impl ModelChat {
    fn live(&self, now: Timestamp) -> impl DoubleEndedIterator<Item = (usize, &ModelMessage)> {
        let numbered = self.messages.iter().enumerate().map(|(index, message)| (index + 1, message));
        numbered.filter(move |(_, message)| message.expires_at.is_none_or(|at| at > now))
    }

    fn activity(&self) -> Timestamp {
        self.messages.last().map_or(self.created_at, |message| message.at)
    }

    /// The entry in a member's inbox.
    fn entry(&self, who: usize, owner: Option<usize>, now: Timestamp) -> Option<Value> {
        let me = self.members.get(&who)?;
        let unread = self.live(now).filter(|(sequence, message)| *sequence > me.read && message.by != who).count();
        Some(json!({
            "chat_id": self.chat_id,
            "member_count": self.members.len(),
            "others": self.members.keys().filter(|member| **member != who).count(),
            "last_sequence": self.live(now).next_back().map(|(sequence, _)| sequence),
            "unread_count": unread,
            "role": if owner == Some(who) { "owner" } else { "member" },
            "muted": me.muted,
            "message_ttl_seconds": self.ttl_seconds,
            "head_sequence": self.messages.len(),
            "my_read_sequence": me.read,
            "my_delivered_sequence": me.delivered,
        }))
    }
}

/// The real service and the model.
struct ModelledService {
    world: World,
    clock: Arc<ManualClock>,
    people: Vec<WorldUser>,
    chats: Vec<ModelChat>,
}

impl ModelledService {
    async fn new(world: World, clock: Arc<ManualClock>) -> Self {
        let mut people = vec![];
        for n in 0..PEOPLE {
            people.push(world.person(n).await);
        }
        let mut pair = Self { world, clock, people, chats: vec![] };
        for owner in OWNERS {
            let other = &pair.people[1].user_id;
            let (creator, body, members) = match owner {
                None => (0, json!({ "type": "direct", "member_ids": [other] }), vec![0, 1]),
                Some(owner) => (owner, json!({ "type": "group", "name": "group", "member_ids": [] }), vec![owner]),
            };
            let (status, created) = pair.world.call(Some(&pair.people[creator]), "POST", "/chats", body).await;
            assert_eq!(status, 201, "{created}");
            pair.chats.push(ModelChat {
                chat_id: created["data"]["chat_id"].as_str().unwrap().to_owned(),
                created_at: pair.clock.now(),
                members: members.into_iter().map(|member| (member, ModelMember::default())).collect(),
                messages: vec![],
                ttl_seconds: None,
            });
            pair.clock.advance(Duration::from_millis(1));
        }
        pair
    }

    async fn call(&self, by: usize, method: &str, path: &str, body: Value) -> u16 {
        self.world.call(Some(&self.people[by]), method, path, body).await.0
    }

    async fn take(&mut self, number: u128, step: &InboxStep, purge: &impl Fn(Timestamp)) {
        let now = self.clock.now();
        match *step {
            InboxStep::Send { by, chat, ttl_seconds } => {
                let id = uuid::Uuid::from_u128(number);
                let mut body = json!({ "client_message_id": id, "content": "hello" });
                if let Some(ttl_seconds) = ttl_seconds {
                    body["ttl_seconds"] = ttl_seconds.into();
                }
                let path = format!("/chats/{}/messages", self.chats[chat].chat_id);
                let status = self.call(by, "POST", &path, body).await;
                let chat = &mut self.chats[chat];
                assert_eq!(status, if chat.members.contains_key(&by) { 201 } else { 403 });
                if status == 201 {
                    let ttl = ttl_seconds.or(chat.ttl_seconds).map(Duration::from_secs);
                    chat.messages.push(ModelMessage { by, at: now, expires_at: ttl.map(|ttl| now + ttl) });
                }
            }
            InboxStep::Advance { by, chat, kind, to } => {
                let chat = &mut self.chats[chat];
                // Includes one sequence beyond the head.
                let to = to.index(chat.messages.len() + 2);
                let user_id = self.people[by].user_id.parse().unwrap();
                let chat_id = chat.chat_id.parse().unwrap();
                let advance = AdvanceRequest { user_id, chat_id, kind, to: Sequence(to as u64), assertion: None };
                let moved = self.world.ingest.advance(advance).await;
                let head = chat.messages.len();
                match chat.members.get_mut(&by) {
                    None => assert!(matches!(moved, Err(IngestError::NotAMember))),
                    Some(_) if to > head => assert!(matches!(moved, Err(IngestError::AboveHead { .. }))),
                    Some(me) => {
                        moved.unwrap();
                        me.delivered = me.delivered.max(to);
                        if kind == WatermarkKind::Read {
                            me.read = me.read.max(to);
                        }
                    }
                }
            }
            InboxStep::Lifetime { by, chat, seconds } => {
                let path = format!("/chats/{}", self.chats[chat].chat_id);
                let status = self.call(by, "PATCH", &path, json!({ "message_ttl_seconds": seconds })).await;
                let model = &mut self.chats[chat];
                let may = model.members.contains_key(&by) && OWNERS[chat].is_none_or(|owner| owner == by);
                assert_eq!(status, if may { 200 } else { 403 });
                if may {
                    model.ttl_seconds = seconds;
                }
            }
            InboxStep::Join { chat, who } => {
                let Some(owner) = OWNERS[chat] else { return };
                let path = format!("/chats/{}/members", self.chats[chat].chat_id);
                let body = json!({ "user_id": self.people[who].user_id });
                let status = self.call(owner, "POST", &path, body).await;
                let model = &mut self.chats[chat];
                // The owner may have left as the last member.
                if !model.members.contains_key(&owner) {
                    return assert_eq!(status, 403);
                }
                let head = model.messages.len();
                assert_eq!(status, if model.members.contains_key(&who) { 409 } else { 201 });
                model.members.entry(who).or_insert(ModelMember { delivered: head, read: head, muted: false });
            }
            InboxStep::Leave { chat, who } => {
                let path = format!("/chats/{}/leave", self.chats[chat].chat_id);
                let status = self.call(who, "POST", &path, json!({})).await;
                let model = &mut self.chats[chat];
                match OWNERS[chat] {
                    _ if !model.members.contains_key(&who) => assert_eq!(status, 403),
                    None => assert_eq!(status, 400),
                    Some(owner) if owner == who && model.members.len() > 1 => assert_eq!(status, 400),
                    Some(_) => {
                        assert_eq!(status, 204);
                        model.members.remove(&who);
                    }
                }
            }
            InboxStep::Mute { by, chat } => {
                let muted = self.chats[chat].members.get(&by).is_some_and(|me| me.muted);
                let verb = if muted { "unmute" } else { "mute" };
                let path = format!("/chats/{}/{verb}", self.chats[chat].chat_id);
                let status = self.call(by, "POST", &path, json!({})).await;
                match self.chats[chat].members.get_mut(&by) {
                    None => assert_eq!(status, 403),
                    Some(me) => {
                        assert_eq!(status, 200);
                        me.muted = !muted;
                    }
                }
            }
            InboxStep::Pass(time) => self.clock.advance(time),
            InboxStep::Purge => purge(now),
        }
    }

    async fn compare(&self, step: &InboxStep) {
        let now = self.clock.now();
        for who in 0..PEOPLE {
            let mut chats: Vec<_> = self.chats.iter().zip(OWNERS).collect();
            chats.sort_by_key(|(chat, _)| (Reverse(chat.activity()), chat.chat_id.clone()));
            let expected: Vec<_> = chats.iter().filter_map(|(chat, owner)| chat.entry(who, *owner, now)).collect();
            assert_eq!(self.inbox(who).await, expected, "the inbox of {who} after {step:?}");
        }
    }

    /// The fields of an inbox that the model covers, read in pages of two chats.
    async fn inbox(&self, who: usize) -> Vec<Value> {
        let mut entries = vec![];
        let mut path = "/chats?limit=2".to_owned();
        loop {
            let (status, page) = self.world.call(Some(&self.people[who]), "GET", &path, Value::Null).await;
            assert_eq!(status, 200, "{page}");
            entries.extend(page["data"]["chats"].as_array().unwrap().iter().map(|chat| {
                json!({
                    "chat_id": chat["chat_id"],
                    "member_count": chat["member_count"],
                    "others": chat["other_participants"].as_array().unwrap().len(),
                    "last_sequence": chat["last_message"]["sequence"],
                    "unread_count": chat["unread_count"],
                    "role": chat["my_membership"]["role"],
                    "muted": !chat["my_membership"]["muted_until"].is_null(),
                    "message_ttl_seconds": chat["message_ttl_seconds"],
                    "head_sequence": chat["head_sequence"],
                    "my_read_sequence": chat["my_read_sequence"],
                    "my_delivered_sequence": chat["my_delivered_sequence"],
                })
            }));
            let Some(cursor) = page["pagination"]["next_cursor"].as_str() else { return entries };
            path = format!("/chats?limit=2&cursor={cursor}");
        }
    }
}

async fn run(world: World, clock: Arc<ManualClock>, steps: &[InboxStep], purge: impl Fn(Timestamp)) {
    let mut pair = ModelledService::new(world, clock).await;
    for (number, step) in steps.iter().enumerate() {
        pair.take(number as u128, step, &purge).await;
        pair.compare(step).await;
        // Every second step is a millisecond later. Chats with the same time are ordered by id.
        pair.clock.advance(Duration::from_millis(number as u64 % 2));
    }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, max_shrink_iters: 200, ..ProptestConfig::default() })]

    #[test]
    fn g10_every_inbox_equals_a_naive_model_in_memory(steps in proptest::collection::vec(step(), 1..60)) {
        let clock = clock();
        let store = Arc::new(MemoryStore::new(Arc::new(RandomIds)));
        runtime().block_on(async {
            let world = World::new(store.clone(), clock.clone());
            run(world, clock, &steps, |now| store.purge_expired(now)).await;
        });
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, max_shrink_iters: 50, ..ProptestConfig::default() })]

    #[test]
    fn g10_every_inbox_equals_a_naive_model_on_disk(steps in proptest::collection::vec(step(), 1..60)) {
        let clock = clock();
        let directory = tempfile::tempdir().unwrap();
        let config = embedded::Config::default();
        let store = EmbeddedStore::open(directory.path(), config, clock.clone(), Arc::new(RandomIds)).unwrap();
        runtime().block_on(async {
            let world = World::new(Arc::new(store.clone()), clock.clone());
            // The store purges in the background, at its own times.
            run(world, clock, &steps, drop).await;
            store.close().await;
        });
    }
}
