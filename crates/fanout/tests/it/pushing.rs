use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use domain::{ChatCommand, Event, Sequence, Watermarks};
use memory::{MemoryMemberCache, MemoryRoutes, MemoryStore};
use ports::{
    BlockStore, Delivery, EventConsumer, EventLog, GatewayId, LogOrder, MessageWriter, NewMessage, Position, Push,
    Record, Revocation, Signal, SignalSender, Start, StoreError, SystemClock,
};
use protocol::frame::{ChatChangeKind, ServerFrame};
use tidings_fanout::Fanout;

use crate::world::{DeliveryRecorder, EXPIRY, World};

#[tokio::test]
async fn g8_every_device_of_every_member_gets_a_push_but_the_connection_that_sent() {
    let mut world = World::new();
    let (sender, other) = (world.user(), world.user());
    let laptop = world.connect(sender, "a").await;
    let _phone = world.connect(sender, "a").await;
    let _other = world.connect(other, "b").await;
    let chat = world.group(sender, &[other]).await;
    world.start();
    world.pushes(2).await;
    world.send(chat, sender, Some(laptop)).await;
    let pushes = world.pushes(2).await;

    let (gateway, own, frame) = &pushes[0];
    assert_eq!((gateway.as_str(), own.recipients.as_slice(), own.except), ("a", [sender].as_slice(), Some(laptop)));
    let ServerFrame::Message(message) = frame else { panic!("{frame:?}") };
    assert!(message.client_message_id.is_some(), "the sender's devices recognize what they sent");

    let (gateway, others, frame) = &pushes[1];
    assert_eq!((gateway.as_str(), others.recipients.as_slice(), others.except), ("b", [other].as_slice(), None));
    let ServerFrame::Message(message) = frame else { panic!("{frame:?}") };
    assert_eq!(message.client_message_id, None, "other users' devices do not receive it");
}

/// A delivery is one publish, or one call: the sender's other device does not need its own.
#[tokio::test]
async fn a_message_is_one_delivery_for_each_gateway() {
    let mut world = World::new();
    let members: Vec<_> = (0..3).map(|_| world.user()).collect();
    let laptop = world.connect(members[0], "a").await;
    let _phone = world.connect(members[0], "a").await;
    world.connect(members[1], "a").await;
    world.connect(members[2], "b").await;
    let chat = world.group(members[0], &members[1..]).await;
    world.start();
    world.pushes(2).await;
    world.send(chat, members[0], Some(laptop)).await;
    for expected in [vec![("a", members[1]), ("a", members[0])], vec![("b", members[2])]] {
        let delivery = world.delivery().await;
        let pushes: Vec<_> = delivery.iter().map(|(gateway, push, _)| (&**gateway, push.recipients[0])).collect();
        assert_eq!(pushes, expected);
    }
}

#[tokio::test]
async fn a_sender_with_one_connection_and_members_offline_cost_no_push() {
    let mut world = World::new();
    let (sender, offline) = (world.user(), world.user());
    let only = world.connect(sender, "a").await;
    let chat = world.group(sender, &[offline]).await;
    world.start();
    world.pushes(1).await;
    world.send(chat, sender, Some(only)).await;
    world.send(chat, sender, None).await;
    let pushes = world.pushes(1).await;
    let ServerFrame::Message(message) = &pushes[0].2 else { panic!("{pushes:?}") };
    assert_eq!(message.sequence.0, 2, "the one that did not come from the connection");
}

#[tokio::test]
async fn one_gateway_gets_one_push_for_all_its_members_in_the_order_of_the_chat() {
    let mut world = World::new();
    let members: Vec<_> = (0..50).map(|_| world.user()).collect();
    for member in &members[1..] {
        world.connect(*member, "a").await;
    }
    let chat = world.group(members[0], &members[1..]).await;
    for _ in 0..3 {
        world.send(chat, members[0], None).await;
    }
    world.start();
    let pushes = world.pushes(4).await;
    assert!(matches!(&pushes[0].2, ServerFrame::ChatUpdated(updated) if updated.change == ChatChangeKind::Created));
    for (n, (_, push, frame)) in pushes[1..].iter().enumerate() {
        assert_eq!(push.recipients.len(), 49);
        let ServerFrame::Message(message) = frame else { panic!("{frame:?}") };
        assert_eq!(message.sequence.0, n as u64 + 1);
    }
}

#[tokio::test]
async fn a_restart_skips_no_event_and_repeats_uncommitted_ones() {
    let mut world = World::new();
    let (sender, other) = (world.user(), world.user());
    world.connect(other, "a").await;
    let chat = world.group(sender, &[other]).await;
    let run = world.start();
    world.pushes(1).await;
    run.abort();
    for _ in 0..5 {
        world.send(chat, sender, None).await;
    }
    world.start();
    let mut sequences = Vec::new();
    while sequences.last() != Some(&5) {
        for (_, _, frame) in world.delivery().await {
            // The aborted run may not have committed the events it had pushed.
            if let ServerFrame::Message(message) = frame {
                sequences.push(message.sequence.0);
            }
        }
    }
    assert_eq!(sequences, [1, 2, 3, 4, 5]);
}

#[tokio::test]
async fn a_removed_member_is_notified_and_receives_nothing_more() {
    let mut world = World::new();
    let (owner, member) = (world.user(), world.user());
    world.connect(member, "a").await;
    world.connect(owner, "b").await;
    let chat = world.group(owner, &[member]).await;
    world.send(chat, owner, None).await;
    world.apply(chat, owner, ChatCommand::RemoveMember { user_id: member }).await;
    world.send(chat, owner, None).await;
    world.start();
    let pushes = world.pushes(5).await;
    let to_member: Vec<_> = pushes
        .iter()
        .filter(|(_, push, _)| push.recipients.contains(&member))
        .map(|(_, _, frame)| match frame {
            ServerFrame::Message(message) => format!("message {}", message.sequence),
            ServerFrame::ChatUpdated(updated) => format!("{:?}", updated.change),
            other => format!("{other:?}"),
        })
        .collect();
    // When the first message is processed late, the store already shows the removal. A former member then receives no
    // message, but always receives the removal.
    assert_eq!(to_member.last().map(String::as_str), Some("MemberRemoved"), "{to_member:?}");
    assert!(!to_member.contains(&"message 2".to_owned()), "{to_member:?}");
}

#[tokio::test]
async fn only_the_log_consumer_fills_the_member_cache() {
    let mut world = World::new();
    let (member, other) = (world.user(), world.user());
    world.connect(other, "a").await;
    let chat = world.group(member, &[other]).await;
    let typing = Signal::Typing { chat_id: chat, user_id: member, is_typing: true };
    assert!(world.fanout.signal(typing).await.unwrap());
    let remembered = world.fanout.cache.members(chat).await.unwrap();
    assert_eq!(remembered, None, "a list read outside the log consumer could outlive its invalidation");
    world.pushes(1).await;
    world.start();
    world.pushes(1).await;
    assert_eq!(world.fanout.cache.members(chat).await.unwrap().map(|members| members.len()), Some(2));
}

#[tokio::test]
async fn typing_reaches_the_other_members_and_outsiders_are_refused() {
    let mut world = World::new();
    let (member, other, outsider) = (world.user(), world.user(), world.user());
    world.connect(member, "a").await;
    world.connect(other, "a").await;
    let chat = world.group(member, &[other]).await;
    let typing = |user_id| Signal::Typing { chat_id: chat, user_id, is_typing: true };
    assert!(!world.fanout.signal(typing(outsider)).await.unwrap());
    assert!(world.fanout.signal(typing(member)).await.unwrap());
    let pushes = world.pushes(1).await;
    assert_eq!(pushes[0].1.recipients, [other]);
    let ServerFrame::TypingIndicator(indicator) = &pushes[0].2 else { panic!("{pushes:?}") };
    assert!(indicator.is_typing && indicator.user_id == member);
}

#[tokio::test]
async fn small_chats_are_served_before_large_ones_of_the_same_page_and_each_in_its_order() {
    let mut world = World::new();
    let (sender, other) = (world.user(), world.user());
    world.connect(other, "a").await;
    let many: Vec<_> = (0..40).map(|_| world.user()).collect();
    for user in &many {
        world.connect(*user, "a").await;
    }
    let large = world.group(sender, &many).await;
    let small = world.group(sender, &[other]).await;
    for chat in [large, small, large, small] {
        world.send(chat, sender, None).await;
    }
    world.start();
    let told = world.pushes(6).await.into_iter().map(|(_, _, frame)| match frame {
        ServerFrame::ChatUpdated(updated) => (updated.chat_id, 0),
        ServerFrame::Message(message) => (message.chat_id, message.sequence.0),
        other => panic!("{other:?}"),
    });
    let expected: Vec<_> = [small, large].into_iter().flat_map(|chat| (0..3).map(move |n| (chat, n))).collect();
    assert_eq!(told.collect::<Vec<_>>(), expected);
}

/// Writes to a small chat after it has delivered the first pushes of a large one.
struct InterleavingDelivery {
    recorder: DeliveryRecorder,
    store: OnceLock<(Arc<MemoryStore>, NewMessage)>,
    written: AtomicBool,
}

#[async_trait]
impl Delivery for InterleavingDelivery {
    async fn deliver(&self, gateway: &GatewayId, pushes: &[Push]) -> Result<(), StoreError> {
        if !self.written.swap(true, Ordering::SeqCst) {
            let (store, message) = self.store.get().unwrap();
            store.append(vec![message.clone()]).await?;
        }
        self.recorder.deliver(gateway, pushes).await
    }

    async fn revoke(&self, _: Revocation) -> Result<(), StoreError> {
        Ok(())
    }
}

#[tokio::test]
async fn a_message_to_a_small_chat_does_not_wait_for_the_backlog_of_large_chats() {
    let (recorder, deliveries) = DeliveryRecorder::new();
    let delivery = Arc::new(InterleavingDelivery { recorder, store: OnceLock::new(), written: AtomicBool::new(false) });
    let routes = Arc::new(MemoryRoutes::new(Arc::new(SystemClock), EXPIRY));
    let cache = Arc::new(MemoryMemberCache::new(Arc::new(SystemClock)));
    let mut world = World::over_memory(routes.clone(), routes, cache, delivery.clone(), deliveries);
    let (sender, other) = (world.user(), world.user());
    world.connect(other, "a").await;
    let many: Vec<_> = (0..100).map(|_| world.user()).collect();
    for user in &many {
        world.connect(*user, "a").await;
    }
    let small = world.group(sender, &[other]).await;
    let large = world.group(sender, &many).await;
    for _ in 0..400 {
        world.send(large, sender, None).await;
    }
    let message = world.message(small, sender);
    delivery.store.set((world.store.clone(), message)).unwrap_or_else(|_| unreachable!("it is set once"));
    world.start();
    let mut told = vec![];
    while told.len() < 403 {
        told.extend(world.delivery().await.into_iter().map(|(_, _, frame)| match frame {
            ServerFrame::ChatUpdated(updated) => (updated.chat_id, 0),
            ServerFrame::Message(message) => (message.chat_id, message.sequence.0),
            other => panic!("{other:?}"),
        }));
    }
    let at = told.iter().position(|told| *told == (small, 1)).unwrap();
    assert!(at < 300, "it came after {at} others");
    told.retain(|(chat_id, _)| *chat_id == large);
    assert_eq!(told, (0..=400).map(|n| (large, n)).collect::<Vec<_>>(), "the large chat in its order");
    // The offset is committed after all pushes.
    while world.store.lag(Fanout::GROUP).await.unwrap() > 0 {
        tokio::task::yield_now().await;
    }
}

/// A log with a single successful read.
struct ReadOnce(Arc<MemoryStore>);

struct ReadOnceConsumer {
    consumer: Box<dyn EventConsumer>,
    has_read: bool,
}

#[async_trait]
impl EventLog for ReadOnce {
    async fn consumer(&self, group: &str) -> Result<Box<dyn EventConsumer>, StoreError> {
        Ok(Box::new(ReadOnceConsumer { consumer: self.0.consumer(group).await?, has_read: false }))
    }

    async fn seek(&self, group: &str, to: Start) -> Result<(), StoreError> {
        self.0.seek(group, to).await
    }

    async fn lag(&self, group: &str) -> Result<u64, StoreError> {
        self.0.lag(group).await
    }

    fn order(&self) -> LogOrder {
        self.0.order()
    }

    async fn event(&self, position: Position) -> Result<Option<Arc<Event>>, StoreError> {
        self.0.event(position).await
    }
}

#[async_trait]
impl EventConsumer for ReadOnceConsumer {
    async fn next(&mut self) -> Result<Vec<Record>, StoreError> {
        if std::mem::replace(&mut self.has_read, true) {
            return Err(StoreError::unavailable("the log is away"));
        }
        self.consumer.next().await
    }

    async fn commit(&mut self) -> Result<(), StoreError> {
        self.consumer.commit().await
    }
}

#[tokio::test(start_paused = true)]
async fn queued_events_of_large_chats_are_pushed_although_the_log_is_unavailable() {
    let mut world = World::new();
    let sender = world.user();
    let many: Vec<_> = (0..100).map(|_| world.user()).collect();
    for user in &many {
        world.connect(*user, "a").await;
    }
    let large = world.group(sender, &many).await;
    for _ in 0..60 {
        world.send(large, sender, None).await;
    }
    let (fanout, log) = (world.fanout.clone(), Arc::new(ReadOnce(world.store.clone())));
    tokio::spawn(async move { fanout.run(log).await });
    let pushes = tokio::time::timeout(Duration::from_secs(60), world.pushes(61)).await.unwrap();
    assert_eq!(pushes.len(), 61);
}

#[tokio::test]
async fn typing_and_receipts_of_a_direct_chat_are_not_shown_to_the_other_during_a_block() {
    let mut world = World::new();
    let [blocker, blocked] = [world.user(), world.user()];
    world.connect(blocker, "a").await;
    world.connect(blocked, "a").await;
    let (direct, group) = (world.direct(blocker, blocked).await, world.group(blocker, &[blocked]).await);
    let fanout = world.fanout.clone();
    tokio::spawn(async move { fanout.push_receipts().await });
    let act = async |world: &World, chat_id, user_id| {
        let watermarks = Watermarks { delivered: Sequence(1), read: Sequence(1) };
        for signal in
            [Signal::Typing { chat_id, user_id, is_typing: true }, Signal::Receipt { chat_id, user_id, watermarks }]
        {
            assert!(world.fanout.signal(signal).await.unwrap());
        }
    };
    for is_blocked in [false, true, false] {
        if is_blocked {
            assert!(world.store.block(blocker, blocked).await.unwrap());
        } else {
            world.store.unblock(blocker, blocked).await.unwrap();
        }
        for user_id in [blocker, blocked] {
            let other = if user_id == blocker { blocked } else { blocker };
            act(&world, direct, user_id).await;
            if !is_blocked {
                let [typing] = &world.pushes(1).await[..] else { panic!("one indicator") };
                assert_eq!(typing.1.recipients, [other]);
            }
            // A receipt is pushed to the user's own devices in any case.
            let [receipt] = &world.pushes(1).await[..] else { panic!("one receipt") };
            assert!(matches!(receipt.2, ServerFrame::Receipt(_)), "{:?}", receipt.2);
            assert_eq!(receipt.1.recipients.contains(&other), !is_blocked);
            assert!(receipt.1.recipients.contains(&user_id));
            act(&world, group, user_id).await;
            let [typing, receipt] = &world.pushes(2).await[..] else { panic!("groups are not affected") };
            assert_eq!((typing.1.recipients.len(), receipt.1.recipients.len()), (1, 2));
        }
    }
}
