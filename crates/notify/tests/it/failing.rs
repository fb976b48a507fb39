use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use domain::{ChatId, DeviceId, PushDevice, PushTarget, Sequence, UserId};
use memory::MemoryStore;
use ports::{
    DeadLetterStore, Notification, Notifier, NotifyError, PushDeviceStore, StoreError, UndeliveredItem, UnusableTarget,
};
use tidings_notify::{DeadLetters, NotificationPorts, Notifications, Redelivery};
use tokio::time::sleep;

use crate::recorder::{InjectedFailure, NotificationRecorder, at, config, notify, ports, run};
use crate::world::{World, seconds};

const UNAVAILABLE: InjectedFailure = InjectedFailure::Unavailable { retry_after: None };

/// An offline user with one device and a new message.
async fn written_to(world: &World) -> (ChatId, PushDevice) {
    let (ada, bob) = (world.user("ada").await, world.user("bob").await);
    let device = world.device(bob, "phone").await;
    let chat_id = world.direct(ada, bob).await;
    world.send(chat_id, ada, "hello").await;
    (chat_id, device)
}

/// The pauses between attempts, in seconds.
fn pauses(times: &[Duration]) -> Vec<f64> {
    times.windows(2).map(|pair| (pair[1] - pair[0]).as_secs_f64()).collect()
}

#[tokio::test(start_paused = true)]
async fn a_failed_notification_is_retried() {
    let world = World::new();
    written_to(&world).await;
    let recorder = NotificationRecorder::new(&world);
    recorder.fail([UNAVAILABLE; 4]);
    notify(&world, &recorder);
    sleep(seconds(120)).await;
    let pauses = pauses(&recorder.take_times());
    assert_eq!(pauses.len(), 4, "{pauses:?}");
    // A quarter of jitter, plus up to a second until the next lookup of due notices.
    for (pause, expected) in pauses.iter().zip([1.0, 2.0, 4.0, 8.0]) {
        assert!((0.75 * expected..1.25 * expected + 1.0).contains(pause), "{pauses:?}");
    }
    assert_eq!(world.store.dead_letters(None, 10).await.unwrap(), []);
}

#[tokio::test(start_paused = true)]
async fn a_service_that_asks_for_a_pause_gets_it() {
    let world = World::new();
    written_to(&world).await;
    let recorder = NotificationRecorder::new(&world);
    recorder.fail([InjectedFailure::Unavailable { retry_after: Some(seconds(90)) }]);
    notify(&world, &recorder);
    sleep(seconds(120)).await;
    let pauses = pauses(&recorder.take_times());
    assert!(matches!(pauses[..], [pause] if (90.0..91.5).contains(&pause)), "{pauses:?}");
}

#[tokio::test(start_paused = true)]
async fn after_ten_tries_a_notification_is_a_dead_letter_that_can_be_delivered_again() {
    let world = World::new();
    let (chat_id, device) = written_to(&world).await;
    let recorder = NotificationRecorder::new(&world);
    recorder.fail([UNAVAILABLE; 10]);
    let notifications = notify(&world, &recorder);
    sleep(seconds(3600)).await;
    assert_eq!(recorder.take_times().len(), 10);
    let letters = world.store.dead_letters(None, 10).await.unwrap();
    let [letter] = &letters[..] else { panic!("{letters:?}") };
    let PushDevice { user_id, device_id, .. } = device;
    assert_eq!(letter.what, UndeliveredItem::Notification { user_id, device_id, chat_id, from: Sequence(1) });
    assert_eq!((letter.attempts, letter.reason.as_str()), (10, "the answer was 503 Service Unavailable"));
    assert!(letter.dead_at > at(seconds(256)) && letter.dead_at < at(seconds(3600)), "{letter:?}");

    let mut letters = DeadLetters { store: world.store.clone(), webhook: None, notifications: None };
    assert_eq!(letters.redeliver(letter.id).await.unwrap(), Redelivery::Off);
    letters.notifications = Some(notifications);
    assert_eq!(letters.redeliver(letter.id).await.unwrap(), Redelivery::Done);
    sleep(seconds(1)).await;
    let told = recorder.take();
    assert!(matches!(&told[..], [told] if told.device_id == device_id), "{told:?}");
    assert_eq!(letters.redeliver(letter.id).await.unwrap(), Redelivery::NotFound);
}

#[tokio::test(start_paused = true)]
async fn a_refusal_is_a_dead_letter_at_once() {
    let world = World::new();
    written_to(&world).await;
    let recorder = NotificationRecorder::new(&world);
    recorder.fail([InjectedFailure::Refused]);
    notify(&world, &recorder);
    sleep(seconds(600)).await;
    assert_eq!(recorder.take_times().len(), 1);
    let letters = world.store.dead_letters(None, 10).await.unwrap();
    assert_eq!(
        letters.iter().map(|letter| letter.reason.as_str()).collect::<Vec<_>>(),
        ["the answer was 400 Bad Request"]
    );
}

#[tokio::test(start_paused = true)]
async fn an_expired_device_is_removed() {
    let world = World::new();
    let (_, device) = written_to(&world).await;
    let other = world.device(device.user_id, "tablet").await;
    let recorder = NotificationRecorder::new(&world);
    notify(&world, &recorder);
    recorder.fail([InjectedFailure::Gone]);
    sleep(seconds(600)).await;
    let told: Vec<DeviceId> = recorder.take().iter().map(|told| told.device_id).collect();
    assert_eq!(told.len(), 2, "each device was tried once");
    let kept = world.store.devices(&[device.user_id]).await.unwrap();
    let [kept] = &kept[..] else { panic!("{kept:?}") };
    assert_eq!(kept.device_id, told[1], "the second was told");
    assert!([device.device_id, other.device_id].contains(&told[0]));
    assert_eq!(world.store.dead_letters(None, 10).await.unwrap(), []);
}

/// A device that is registered again while the old registration turns out to be gone.
struct RenewedDevice {
    store: Arc<MemoryStore>,
    told: Mutex<Vec<PushTarget>>,
}

#[async_trait]
impl Notifier for RenewedDevice {
    fn check(&self, _: &PushTarget) -> Result<(), UnusableTarget> {
        unreachable!("nothing is registered through it")
    }

    async fn notify(&self, device: &PushDevice, _: &Notification) -> Result<(), NotifyError> {
        self.told.lock().unwrap().push(device.target.clone());
        if device.target == token("renewed") {
            return Ok(());
        }
        let renewed = PushDevice { target: token("renewed"), ..device.clone() };
        assert!(self.store.put(renewed).await.unwrap());
        Err(NotifyError::Gone)
    }
}

fn token(text: &str) -> PushTarget {
    PushTarget::Webhook(text.to_owned().try_into().unwrap())
}

#[tokio::test(start_paused = true)]
async fn a_device_registered_again_meanwhile_is_notified_and_stays() {
    let world = World::new();
    let (_, device) = written_to(&world).await;
    let notifier = Arc::new(RenewedDevice { store: world.store.clone(), told: Mutex::default() });
    let ports = NotificationPorts { notifier: notifier.clone(), ..ports(&world, &NotificationRecorder::new(&world)) };
    run(&world, &Arc::new(Notifications::new(ports, config())));
    sleep(seconds(10)).await;
    assert_eq!(*notifier.told.lock().unwrap(), [token("phone"), token("renewed")]);
    let kept = world.store.devices(&[device.user_id]).await.unwrap();
    assert!(matches!(&kept[..], [kept] if kept.target == token("renewed")), "{kept:?}");
}

#[tokio::test(start_paused = true)]
async fn a_crash_before_a_notice_is_settled_repeats_the_notification() {
    let world = World::new();
    written_to(&world).await;
    let recorder = NotificationRecorder::new(&world);
    recorder.fail([InjectedFailure::Hangs]);
    let crashed = run(&world, &Arc::new(Notifications::new(ports(&world, &recorder), config())));
    sleep(seconds(10)).await;
    assert_eq!(recorder.take().len(), 1);
    crashed.abort();
    notify(&world, &recorder);
    sleep(seconds(100)).await;
    assert_eq!(recorder.take(), [], "the notice is leased to the one that crashed");
    sleep(seconds(60)).await;
    assert_eq!(recorder.take().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn one_device_that_hangs_does_not_stop_the_others() {
    let world = World::new();
    let ada = world.user("ada").await;
    let mut others = vec![];
    for n in 0..40 {
        let user_id = world.user(&format!("user {n}")).await;
        world.device(user_id, "phone").await;
        others.push(user_id);
    }
    let chat_id = world.group(ada, &others).await;
    world.send(chat_id, ada, "hello").await;
    let recorder = NotificationRecorder::new(&world);
    recorder.fail([InjectedFailure::Hangs; 31]);
    notify(&world, &recorder);
    sleep(seconds(10)).await;
    assert_eq!(recorder.take_times().len(), 40);
}

/// A device store with initial failures.
struct FailingDeviceStore {
    store: Arc<MemoryStore>,
    failures: AtomicUsize,
}

#[async_trait]
impl PushDeviceStore for FailingDeviceStore {
    async fn put(&self, device: PushDevice) -> Result<bool, StoreError> {
        self.store.put(device).await
    }

    async fn remove(&self, user_id: UserId, device_id: DeviceId) -> Result<bool, StoreError> {
        PushDeviceStore::remove(&*self.store, user_id, device_id).await
    }

    async fn devices(&self, user_ids: &[UserId]) -> Result<Vec<PushDevice>, StoreError> {
        let left = self.failures.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
        if left.is_ok() {
            return Err(StoreError::unavailable("no disk"));
        }
        self.store.devices(user_ids).await
    }
}

#[tokio::test(start_paused = true)]
async fn a_store_that_fails_is_waited_out() {
    let world = World::new();
    written_to(&world).await;
    let recorder = NotificationRecorder::new(&world);
    let devices = Arc::new(FailingDeviceStore { store: world.store.clone(), failures: AtomicUsize::new(10) });
    let ports = NotificationPorts { devices, ..ports(&world, &recorder) };
    run(&world, &Arc::new(Notifications::new(ports, config())));
    sleep(seconds(9)).await;
    let told = recorder.take_times();
    assert!(matches!(told[..], [at] if at >= seconds(7)), "two seconds of failures, then the delay: {told:?}");
}

#[tokio::test(start_paused = true)]
async fn a_crash_before_a_notice_is_queued_skips_nothing() {
    let world = World::new();
    written_to(&world).await;
    let recorder = NotificationRecorder::new(&world);
    let devices = Arc::new(FailingDeviceStore { store: world.store.clone(), failures: AtomicUsize::new(usize::MAX) });
    let ports = NotificationPorts { devices, ..ports(&world, &recorder) };
    let crashed = run(&world, &Arc::new(Notifications::new(ports, config())));
    sleep(seconds(10)).await;
    crashed.abort();
    notify(&world, &recorder);
    sleep(seconds(7)).await;
    assert_eq!(recorder.take().len(), 1);
}
