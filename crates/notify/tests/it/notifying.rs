use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use domain::{
    Body, ChatCommand, ChatType, ContentType, DeviceId, PushDevice, Role, Sequence, Timestamp, Ttl, UpdateAction,
    UserId, WatermarkKind,
};
use memory::MemoryStore;
use ports::{
    EventLog, MemberCache, NewMessage, Notice, NoticeStore, Notification, PushDeviceStore, RouteWriter, Routes,
    Settled, StoreError,
};
use tidings_notify::{NotificationPorts, Notifications, NotificationsConfig};
use tokio::time::sleep;

use crate::recorder::{NotificationRecorder, config, notify, ports, run};
use crate::world::{World, seconds, start};

/// Longer than the delay and the worker's pause, shorter than the silence.
const SOON: Duration = Duration::from_secs(7);

#[tokio::test(start_paused = true)]
async fn a_burst_is_one_notification_per_device_about_the_newest_message() {
    let world = World::new();
    let (ada, bob) = (world.user("ada").await, world.user("bob").await);
    let (phone, tablet) = (world.device(bob, "phone").await, world.device(bob, "tablet").await);
    let chat_id = world.group(ada, &[bob]).await;
    let recorder = NotificationRecorder::new(&world);
    notify(&world, &recorder);

    let mut last = world.send(chat_id, ada, "one").await;
    for text in ["two", "three", "four"] {
        sleep(seconds(1)).await;
        last = world.send(chat_id, ada, text).await;
    }
    sleep(SOON).await;
    let mut told = recorder.take();
    told.sort_by_key(|told| told.device_id);
    let mut devices = [phone.device_id, tablet.device_id];
    devices.sort();
    assert_eq!(told.iter().map(|told| told.device_id).collect::<Vec<_>>(), devices);
    assert!(told.iter().all(|told| (seconds(5)..seconds(7)).contains(&told.at)), "after the delay: {told:?}");
    let expected = Notification {
        chat_id,
        chat_type: ChatType::Group,
        chat_name: Some("team".to_owned().try_into().unwrap()),
        message_id: last.message_id,
        sequence: Sequence(4),
        sender_id: ada,
        sender_name: "ada".to_owned(),
        preview: Some("four".to_owned().try_into().unwrap()),
        created_at: last.created_at,
        unread: ports::UnreadCount { count: 4, is_exact: true },
    };
    assert_eq!(told[0].notification, expected);

    world.send(chat_id, ada, "five").await;
    sleep(seconds(40)).await;
    assert_eq!(recorder.take(), [], "the burst is not over");
    sleep(seconds(20)).await;
    world.send(chat_id, ada, "six").await;
    sleep(SOON).await;
    let told = recorder.take();
    let unread: Vec<u64> = told.iter().map(|told| told.notification.unread.count).collect();
    assert_eq!(unread, [6, 6], "a new burst counts what was said meanwhile");
}

#[tokio::test(start_paused = true)]
async fn online_muted_sending_and_deviceless_users_are_not_notified() {
    let world = World::new();
    let names = ["sender", "online", "muted", "muted before", "no device", "away"];
    let mut users = vec![];
    for name in names {
        users.push(world.user(name).await);
    }
    let [sender, online, muted, muted_before, _, away] = users[..] else { panic!("{users:?}") };
    let chat_id = world.group(sender, &users[1..]).await;
    for (name, user_id) in names.iter().zip(&users).filter(|(name, _)| **name != "no device") {
        world.device(*user_id, &name.replace(' ', "-")).await;
    }
    world.connect(online).await;
    world.apply(chat_id, muted, ChatCommand::Mute { until: Some(Timestamp::MAX) }).await;
    world.apply(chat_id, muted_before, ChatCommand::Mute { until: Some(start() + seconds(10)) }).await;
    let recorder = NotificationRecorder::new(&world);
    let notifications = notify(&world, &recorder);
    world.send(chat_id, sender, "hello").await;
    sleep(SOON).await;
    let told_users = || async {
        let told = recorder.take();
        let devices = world.store.devices(&users).await.unwrap();
        let user_of = |device_id| devices.iter().find(|device| device.device_id == device_id).unwrap().user_id;
        told.iter().map(|told| user_of(told.device_id)).collect::<Vec<_>>()
    };
    assert_eq!(told_users().await, [away]);

    sleep(seconds(60)).await;
    assert_eq!(notifications.replay(chat_id, Sequence(1)).await.unwrap(), 4, "devices, not users");
    sleep(SOON).await;
    let mut told = told_users().await;
    told.sort();
    assert_eq!(
        told,
        [online, muted_before, away],
        "the connection is gone, the mute over, and the words are still hers"
    );
}

#[tokio::test(start_paused = true)]
async fn a_user_back_online_within_the_delay_is_not_notified() {
    let world = World::new();
    let (ada, bob) = (world.user("ada").await, world.user("bob").await);
    world.device(bob, "phone").await;
    let chat_id = world.direct(ada, bob).await;
    let recorder = NotificationRecorder::new(&world);
    notify(&world, &recorder);
    world.send(chat_id, ada, "hello").await;
    sleep(seconds(4)).await;
    world.connect(bob).await;
    sleep(seconds(60)).await;
    assert_eq!(recorder.take(), []);
}

#[tokio::test(start_paused = true)]
async fn users_online_at_the_time_and_expired_messages_cause_no_notice() {
    let world = World::new();
    let (ada, bob, cyd) = (world.user("ada").await, world.user("bob").await, world.user("cyd").await);
    for user_id in [bob, cyd] {
        world.device(user_id, "phone").await;
    }
    let (chat_id, gone) = (world.direct(ada, bob).await, world.direct(ada, cyd).await);
    let route = world.connect(bob).await;
    world.send(chat_id, ada, "pushed to the connection").await;
    let created_at = start().minus(seconds(60));
    let expired = NewMessage { ttl: Ttl::from_secs(1), created_at, ..world.message(gone, ada, "expired") };
    world.append(expired).await;
    let recorder = NotificationRecorder::new(&world);
    notify(&world, &recorder);
    sleep(seconds(1)).await;
    world.routes.unregister(&[route], Duration::ZERO).await.unwrap();
    let pending = world.store.take_due(Timestamp::MAX, Timestamp::MAX, 10).await.unwrap();
    assert_eq!(pending, []);
}

#[tokio::test(start_paused = true)]
async fn a_message_that_is_deleted_during_the_delay_is_not_notified() {
    let world = World::new();
    let (ada, bob) = (world.user("ada").await, world.user("bob").await);
    world.device(bob, "phone").await;
    let chat_id = world.direct(ada, bob).await;
    let recorder = NotificationRecorder::new(&world);
    notify(&world, &recorder);
    let goes = world.send(chat_id, ada, "goes").await;
    sleep(seconds(1)).await;
    world.update(chat_id, ada, goes.sequence, UpdateAction::Delete).await;
    sleep(seconds(60)).await;
    assert_eq!(recorder.take(), []);

    let stays = world.send(chat_id, ada, "stays").await;
    let goes = world.send(chat_id, ada, "goes too").await;
    world.update(chat_id, ada, goes.sequence, UpdateAction::Delete).await;
    sleep(SOON).await;
    let told = recorder.take();
    let about: Vec<_> = told.iter().map(|told| (told.notification.sequence, told.notification.unread.count)).collect();
    assert_eq!(about, [(stays.sequence, 1)], "the message before it is the newest one");
}

#[tokio::test(start_paused = true)]
async fn updates_cause_no_notification_and_a_pending_one_has_the_edited_preview() {
    let world = World::new();
    let (ada, bob) = (world.user("ada").await, world.user("bob").await);
    world.device(bob, "phone").await;
    let chat_id = world.direct(ada, bob).await;
    let recorder = NotificationRecorder::new(&world);
    notify(&world, &recorder);
    let edit = || {
        let body = Body::new("edited".to_owned().try_into().unwrap(), ContentType::Text);
        UpdateAction::Edit(body)
    };
    let sent = world.send(chat_id, ada, "first").await;
    world.update(chat_id, ada, sent.sequence, edit()).await;
    sleep(SOON).await;
    let previews: Vec<_> = recorder.take().into_iter().map(|told| told.notification.preview).collect();
    assert_eq!(previews, [Some("edited".to_owned().try_into().unwrap())]);

    sleep(seconds(60)).await;
    world.update(chat_id, ada, sent.sequence, edit()).await;
    world.update(chat_id, ada, sent.sequence, UpdateAction::React("ok".parse().unwrap())).await;
    sleep(seconds(60)).await;
    assert_eq!(recorder.take(), []);
}

#[tokio::test(start_paused = true)]
async fn changes_during_the_delay_count() {
    let world = World::new();
    let (ada, bob) = (world.user("ada").await, world.user("bob").await);
    let device = world.device(bob, "phone").await;
    let recorder = NotificationRecorder::new(&world);
    notify(&world, &recorder);
    let mut chats = vec![];
    for _ in 0..6 {
        chats.push(world.group(ada, &[bob]).await);
    }
    let [received, left, muted, expired, mine, remains] = chats[..] else { panic!("{chats:?}") };
    for chat_id in [received, left, muted, remains] {
        world.send(chat_id, ada, "hello").await;
    }
    world.send_for(expired, ada, "hello", Ttl::from_secs(3).unwrap()).await;
    world.send(mine, bob, "hello").await;
    sleep(seconds(1)).await;
    world.acknowledge(bob, received, WatermarkKind::Delivered, 1).await;
    world.apply(left, bob, ChatCommand::Leave).await;
    world.apply(muted, bob, ChatCommand::Mute { until: Some(Timestamp::MAX) }).await;
    world.send_for(remains, ada, "gone before it is told", Ttl::from_secs(3).unwrap()).await;
    world.send(remains, bob, "his own").await;
    sleep(SOON).await;
    let told = recorder.take();
    let [told] = &told[..] else { panic!("{told:?}") };
    assert_eq!((told.device_id, told.notification.chat_id), (device.device_id, remains));
    assert_eq!((told.notification.sequence, told.notification.unread.count), (Sequence(1), 1));

    // An unregistered device is not notified, and its notice is dropped.
    sleep(seconds(60)).await;
    world.send(remains, ada, "hello again").await;
    world.store.remove(bob, device.device_id).await.unwrap();
    sleep(SOON).await;
    assert_eq!(recorder.take(), []);
    let due = world.store.take_due(Timestamp::MAX, Timestamp::MAX, 10).await.unwrap();
    assert_eq!(due, [], "nothing stays owed");
}

#[tokio::test(start_paused = true)]
async fn many_own_messages_do_not_hide_an_earlier_message_of_another_sender() {
    let world = World::new();
    let (ada, bot) = (world.user("ada").await, world.user("bot").await);
    world.device(bot, "phone").await;
    let chat_id = world.direct(ada, bot).await;
    let recorder = NotificationRecorder::new(&world);
    notify(&world, &recorder);
    world.send(chat_id, ada, "hello").await;
    for _ in 0..35 {
        world.send(chat_id, bot, "sent over HTTP, without a connection").await;
    }
    sleep(SOON).await;
    let sequences: Vec<_> = recorder.take().iter().map(|told| told.notification.sequence).collect();
    assert_eq!(sequences, [Sequence(1)]);
}

#[tokio::test(start_paused = true)]
async fn opaque_content_is_never_previewed_and_previews_can_be_off() {
    let world = World::new();
    let (ada, bob) = (world.user("ada").await, world.user("bob").await);
    world.device(bob, "phone").await;
    let (chat_id, opaque) = (world.direct(ada, bob).await, world.group(ada, &[bob]).await);
    for previews in [true, false] {
        let recorder = NotificationRecorder::new(&world);
        let config = NotificationsConfig { previews, silence: Duration::ZERO, ..config() };
        let notifications = Arc::new(Notifications::new(ports(&world, &recorder), config));
        let running = run(&world, &notifications);
        world.send(chat_id, ada, "for everybody's eyes").await;
        let mut message = world.message(opaque, ada, "ciphertext");
        message.body.content_type = ContentType::Encrypted;
        world.append(message).await;
        sleep(SOON).await;
        let told = recorder.take();
        let preview =
            |of| told.iter().find(|told| told.notification.chat_id == of).unwrap().notification.preview.clone();
        assert_eq!(preview(chat_id), previews.then(|| "for everybody's eyes".to_owned().try_into().unwrap()));
        assert_eq!(preview(opaque), None);
        running.abort();
    }
}

#[tokio::test(start_paused = true)]
async fn fanouts_member_cache_is_used_until_members_change() {
    let world = World::new();
    let (ada, bob) = (world.user("ada").await, world.user("bob").await);
    let (cyd, dan) = (world.user("cyd").await, world.user("dan").await);
    let chat_id = world.group(ada, &[bob, cyd]).await;
    let mut devices = vec![];
    for user_id in [bob, cyd, dan] {
        devices.push(world.device(user_id, "phone").await);
    }
    let recorder = NotificationRecorder::new(&world);
    let config = NotificationsConfig { silence: Duration::ZERO, ..config() };
    run(&world, &Arc::new(Notifications::new(ports(&world, &recorder), config)));
    let told = || -> BTreeSet<DeviceId> { recorder.take().iter().map(|told| told.device_id).collect() };
    let phones = |of: &[usize]| -> BTreeSet<DeviceId> { of.iter().map(|n| devices[*n].device_id).collect() };

    // The cached list omits a member, which shows that the cache is used.
    world.members.fill(chat_id, [ada, bob].into()).await.unwrap();
    world.send(chat_id, ada, "hello").await;
    sleep(SOON).await;
    assert_eq!(told(), phones(&[0]));

    // The cached list stays outdated, because no fanout invalidates it in this world.
    world.apply(chat_id, ada, ChatCommand::AddMember { user_id: dan, role: Role::Member }).await;
    world.send(chat_id, ada, "welcome").await;
    sleep(SOON).await;
    assert_eq!(told(), phones(&[0, 1, 2]));
}

#[tokio::test(start_paused = true)]
async fn after_unmuting_a_chat_the_next_message_is_notified() {
    let world = World::new();
    let (ada, bob) = (world.user("ada").await, world.user("bob").await);
    world.device(bob, "phone").await;
    let chat_id = world.direct(ada, bob).await;
    world.apply(chat_id, bob, ChatCommand::Mute { until: Some(Timestamp::MAX) }).await;
    let recorder = NotificationRecorder::new(&world);
    notify(&world, &recorder);
    world.send(chat_id, ada, "unheard").await;
    sleep(seconds(1)).await;
    world.apply(chat_id, bob, ChatCommand::Mute { until: None }).await;
    world.send(chat_id, ada, "heard").await;
    sleep(SOON).await;
    let sequences: Vec<_> = recorder.take().iter().map(|told| told.notification.sequence).collect();
    assert_eq!(sequences, [Sequence(2)]);
}

/// A device store that counts lookups.
struct CountingDeviceStore {
    store: Arc<MemoryStore>,
    look_ups: AtomicUsize,
}

#[async_trait]
impl PushDeviceStore for CountingDeviceStore {
    async fn put(&self, device: PushDevice) -> Result<bool, StoreError> {
        self.store.put(device).await
    }

    async fn remove(&self, user_id: UserId, device_id: DeviceId) -> Result<bool, StoreError> {
        PushDeviceStore::remove(&*self.store, user_id, device_id).await
    }

    async fn devices(&self, user_ids: &[UserId]) -> Result<Vec<PushDevice>, StoreError> {
        self.look_ups.fetch_add(user_ids.len(), Ordering::Relaxed);
        self.store.devices(user_ids).await
    }
}

#[tokio::test(start_paused = true)]
async fn a_busy_group_is_not_looked_up_for_each_message() {
    let world = World::new();
    let ada = world.user("ada").await;
    let mut away = vec![];
    for n in 0..10 {
        let user_id = world.user(&format!("user {n}")).await;
        if n < 5 {
            world.device(user_id, "phone").await;
        }
        away.push(user_id);
    }
    let chat_id = world.group(ada, &away).await;
    let recorder = NotificationRecorder::new(&world);
    let counted = Arc::new(CountingDeviceStore { store: world.store.clone(), look_ups: AtomicUsize::new(0) });
    let ports = NotificationPorts { devices: counted.clone(), ..ports(&world, &recorder) };
    run(&world, &Arc::new(Notifications::new(ports, config())));
    // Twenty messages in four seconds, each in its own batch.
    for _ in 0..20 {
        world.send(chat_id, ada, "hello").await;
        sleep(Duration::from_millis(200)).await;
    }
    // Members with a device are looked up once, members without one once a second.
    assert_eq!(counted.look_ups.load(Ordering::Relaxed), 5 + 5 * 4);
    sleep(SOON).await;
    assert_eq!(recorder.take().len(), 5);
}

/// A notice store with a race: before it drops a notice, the user goes offline and receives a message.
struct RacingNoticeStore {
    store: Arc<MemoryStore>,
    world: World,
    sender: UserId,
    happened: AtomicUsize,
}

#[async_trait]
impl NoticeStore for RacingNoticeStore {
    async fn add_notices(&self, notices: Vec<Notice>) -> Result<(), StoreError> {
        self.store.add_notices(notices).await
    }

    async fn take_due(&self, now: Timestamp, again_at: Timestamp, count: usize) -> Result<Vec<Notice>, StoreError> {
        self.store.take_due(now, again_at, count).await
    }

    async fn settle(&self, notice: &Notice, settled: Settled) -> Result<(), StoreError> {
        if settled == Settled::Dropped && self.happened.fetch_add(1, Ordering::Relaxed) == 0 {
            let routes = self.world.routes.routes(notice.user_id).await?;
            self.world.routes.unregister(&routes, Duration::ZERO).await?;
            self.world.send(notice.chat_id, self.sender, "meanwhile").await;
            // The log consumer finds the notice still queued.
            while self.store.lag(Notifications::GROUP).await? > 0 {
                sleep(Duration::from_millis(1)).await;
            }
        }
        self.store.settle(notice, settled).await
    }
}

#[tokio::test(start_paused = true)]
async fn a_message_that_arrives_while_a_notice_is_dropped_is_notified() {
    let world = World::new();
    let (ada, bob) = (world.user("ada").await, world.user("bob").await);
    world.device(bob, "phone").await;
    let chat_id = world.direct(ada, bob).await;
    let recorder = NotificationRecorder::new(&world);
    let notices = Arc::new(RacingNoticeStore {
        store: world.store.clone(),
        world: world.clone(),
        sender: ada,
        happened: AtomicUsize::new(0),
    });
    let ports = NotificationPorts { notices: notices.clone(), ..ports(&world, &recorder) };
    run(&world, &Arc::new(Notifications::new(ports, config())));
    world.send(chat_id, ada, "hello").await;
    sleep(seconds(4)).await;
    world.connect(bob).await;
    sleep(seconds(20)).await;
    assert_eq!(notices.happened.load(Ordering::Relaxed), 1);
    let sequences: Vec<_> = recorder.take().iter().map(|told| told.notification.sequence).collect();
    assert_eq!(sequences, [Sequence(2)]);
}
