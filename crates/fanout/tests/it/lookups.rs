//! Lookups of recipients that hang or fail for one chat.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use domain::{ChatCommand, ChatId, UserId};
use memory::{MemoryMemberCache, MemoryRecipients, MemoryRoutes};
use ports::{EventLog, RecipientLookup, Recipients, StoreError, SystemClock};
use protocol::frame::ServerFrame;
use tidings_fanout::Fanout;
use tokio::sync::watch;
use tokio::time;

use crate::world::{DeliveryRecorder, EXPIRY, World};

/// The fault of one chat.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LookupFault {
    Hangs(ChatId),
    Fails(ChatId),
}

/// Lookups with a fault for one chat, and a count of all calls.
struct FaultyLookup {
    recipients: MemoryRecipients,
    fault: watch::Sender<Option<LookupFault>>,
    cached: AtomicUsize,
    of: AtomicUsize,
}

#[async_trait]
impl RecipientLookup for FaultyLookup {
    async fn cached(&self, chat_id: ChatId, named: &[UserId]) -> Result<Option<Recipients>, StoreError> {
        self.cached.fetch_add(1, Ordering::SeqCst);
        if *self.fault.borrow() == Some(LookupFault::Fails(chat_id)) {
            return Err(StoreError::unavailable("a lookup fails"));
        }
        let hangs = |fault: &Option<LookupFault>| *fault == Some(LookupFault::Hangs(chat_id));
        self.fault.subscribe().wait_for(|fault| !hangs(fault)).await.map_err(StoreError::unavailable)?;
        self.recipients.cached(chat_id, named).await
    }

    async fn of(&self, members: Arc<[UserId]>, named: &[UserId]) -> Result<Recipients, StoreError> {
        self.of.fetch_add(1, Ordering::SeqCst);
        self.recipients.of(members, named).await
    }
}

/// A running fanout that has pushed the creation of two chats with the same two members.
struct TwoChats {
    world: World,
    lookup: Arc<FaultyLookup>,
    sender: UserId,
    other: UserId,
    chats: [ChatId; 2],
}

impl TwoChats {
    async fn new() -> Self {
        let (recorder, deliveries) = DeliveryRecorder::new();
        let routes = Arc::new(MemoryRoutes::new(Arc::new(SystemClock), EXPIRY));
        let cache = Arc::new(MemoryMemberCache::new(Arc::new(SystemClock)));
        let lookup = Arc::new(FaultyLookup {
            recipients: MemoryRecipients::new(routes.clone(), cache.clone()),
            fault: watch::Sender::new(None),
            cached: AtomicUsize::new(0),
            of: AtomicUsize::new(0),
        });
        let world = World::over(lookup.clone(), routes.clone(), routes, cache, Arc::new(recorder), deliveries);
        let (sender, other) = (world.user(), world.user());
        world.connect(other, "a").await;
        let chats = [world.group(sender, &[other]).await, world.group(sender, &[other]).await];
        world.start();
        let mut new = Self { world, lookup, sender, other, chats };
        new.pushed(2).await;
        new.until_lag(|lag| lag == 0).await;
        new
    }

    fn set(&self, fault: Option<LookupFault>) {
        self.lookup.fault.send_replace(fault);
    }

    async fn send(&self, chat_id: ChatId) {
        self.world.send(chat_id, self.sender, None).await;
    }

    /// The next pushes, with the sequence of a message and 0 for a change of the chat.
    async fn pushed(&mut self, count: usize) -> Vec<(ChatId, u64)> {
        let mut pushed = vec![];
        while pushed.len() < count {
            let delivery = time::timeout(Duration::from_secs(600), self.world.delivery()).await.expect("a push comes");
            pushed.extend(delivery.into_iter().map(|(_, _, frame)| match frame {
                ServerFrame::Message(message) => (message.chat_id, message.sequence.0),
                ServerFrame::ChatUpdated(updated) => (updated.chat_id, 0),
                other => panic!("{other:?}"),
            }));
        }
        pushed
    }

    async fn until_lag(&self, expected: impl Fn(u64) -> bool) {
        let came = async {
            while !expected(self.world.store.lag(Fanout::GROUP).await.unwrap()) {
                time::sleep(Duration::from_millis(10)).await;
            }
        };
        time::timeout(Duration::from_secs(600), came).await.expect("the lag changes");
    }
}

#[tokio::test(start_paused = true)]
async fn a_lookup_that_hangs_delays_no_other_chat_and_holds_the_offset() {
    let mut world = TwoChats::new().await;
    let [hangs, works] = world.chats;
    world.set(Some(LookupFault::Hangs(hangs)));
    world.send(hangs).await;
    for n in 1..=3 {
        world.send(works).await;
        assert_eq!(world.pushed(1).await, [(works, n)]);
        time::sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(world.world.store.lag(Fanout::GROUP).await.unwrap(), 4, "a crash repeats the event that was not pushed");
    world.set(None);
    assert_eq!(world.pushed(1).await, [(hangs, 1)]);
    world.until_lag(|lag| lag == 0).await;
}

#[tokio::test(start_paused = true)]
async fn a_lookup_that_fails_is_retried_and_delays_no_other_chat() {
    let mut world = TwoChats::new().await;
    let [fails, works] = world.chats;
    world.set(Some(LookupFault::Fails(fails)));
    for chat in [fails, works] {
        world.send(chat).await;
    }
    assert_eq!(world.pushed(1).await, [(works, 1)]);
    let tries = world.lookup.cached.load(Ordering::SeqCst);
    time::sleep(Duration::from_secs(2)).await;
    let retried = world.lookup.cached.load(Ordering::SeqCst) - tries;
    assert!((8..=11).contains(&retried), "{retried} retries in two seconds");
    world.set(None);
    assert_eq!(world.pushed(1).await, [(fails, 1)]);
    world.until_lag(|lag| lag == 0).await;
}

#[tokio::test(start_paused = true)]
async fn events_that_wait_for_a_lookup_keep_their_order_and_share_the_next_one() {
    let mut world = TwoChats::new().await;
    let [chat, _] = world.chats;
    world.set(Some(LookupFault::Hangs(chat)));
    let lookups = world.lookup.cached.load(Ordering::SeqCst);
    for _ in 0..5 {
        world.send(chat).await;
        // Each event is read alone.
        time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(world.lookup.cached.load(Ordering::SeqCst) - lookups, 1);
    world.set(None);
    assert_eq!(world.pushed(5).await, [1, 2, 3, 4, 5].map(|n| (chat, n)));
    assert_eq!(world.lookup.cached.load(Ordering::SeqCst) - lookups, 2);
}

#[tokio::test(start_paused = true)]
async fn a_lookup_serves_no_event_after_a_change_of_members() {
    let mut world = TwoChats::new().await;
    let [chat, _] = world.chats;
    world.set(Some(LookupFault::Hangs(chat)));
    // The first lookup hangs; the others wait together.
    world.send(chat).await;
    time::sleep(Duration::from_millis(50)).await;
    world.send(chat).await;
    let (owner, user_id) = (world.sender, world.other);
    world.world.apply(chat, owner, ChatCommand::RemoveMember { user_id }).await;
    world.send(chat).await;
    time::sleep(Duration::from_millis(50)).await;
    world.set(None);
    assert_eq!(world.pushed(3).await, [(chat, 1), (chat, 2), (chat, 0)]);
    world.until_lag(|lag| lag == 0).await;
    assert!(world.world.deliveries.is_empty(), "the removed member gets no message");
}

#[tokio::test(start_paused = true)]
async fn an_event_of_a_cached_chat_is_one_lookup() {
    let mut world = TwoChats::new().await;
    let [chat, other] = world.chats;
    let calls = |world: &TwoChats| [&world.lookup.cached, &world.lookup.of].map(|count| count.load(Ordering::SeqCst));
    let before = calls(&world);
    for n in 1..=10 {
        for chat in [chat, other] {
            world.send(chat).await;
            assert_eq!(world.pushed(1).await, [(chat, n)]);
        }
    }
    let after = calls(&world);
    assert_eq!([after[0] - before[0], after[1] - before[1]], [20, 0]);
}
