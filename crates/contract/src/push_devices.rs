//! Tests of [`PushDeviceStore`](ports::PushDeviceStore), together with [`SessionStore`](ports::SessionStore).

use std::time::Duration;

use domain::limits::PUSH_DEVICES_MAX;
use domain::{DeviceId, PushDevice, PushTarget, RefreshAttempt, Session, UserId, WebPushSubscription};
use uuid::Uuid;

use super::ContractStores;
use super::fixtures::{WORKS, at_once, fresh, now};

const LIFE: Duration = Duration::from_secs(3600);

/// A second registration of a device replaces the first.
pub async fn a_second_registration_replaces_the_first(stores: ContractStores) {
    let first = new_device(fresh());
    let subscription = WebPushSubscription::new("https://push.example/1".to_owned(), &[4; 65], &[7; 16]);
    let target = PushTarget::WebPush(subscription.expect("contracts have valid subscriptions"));
    let second = PushDevice { target, registered_at: first.registered_at + LIFE, ..first.clone() };
    for device in [first, second] {
        assert!(stores.push_devices.put(device.clone()).await.expect(WORKS));
        assert_eq!(stores.push_devices.devices(&[device.user_id]).await.expect(WORKS), [device]);
    }
}

/// Devices are in the order of the users in the arguments, and by device id for one user.
pub async fn devices_are_in_the_order_asked(stores: ContractStores) {
    let (one, other, nobody) = (fresh(), fresh(), fresh());
    let mut ones = [new_device(one), new_device(one), new_device(one)];
    let others = [new_device(other)];
    for device in ones.iter().chain(&others) {
        assert!(stores.push_devices.put(device.clone()).await.expect(WORKS));
    }
    ones.sort_by_key(|device| device.device_id);
    let found = stores.push_devices.devices(&[other, nobody, one]).await.expect(WORKS);
    assert_eq!(found, [&others[..], &ones].concat());
    assert_eq!(stores.push_devices.devices(&[]).await.expect(WORKS), []);
}

/// A removed device is gone; devices of other users stay.
pub async fn a_removed_device_is_absent(stores: ContractStores) {
    let device = new_device(fresh());
    let same_device = PushDevice { user_id: fresh(), ..device.clone() };
    for device in [&device, &same_device] {
        assert!(stores.push_devices.put(device.clone()).await.expect(WORKS));
    }
    assert!(stores.push_devices.remove(device.user_id, device.device_id).await.expect(WORKS));
    assert!(!stores.push_devices.remove(device.user_id, device.device_id).await.expect(WORKS));
    let left = stores.push_devices.devices(&[device.user_id, same_device.user_id]).await.expect(WORKS);
    assert_eq!(left, [same_device]);
}

/// A user with the maximum number of devices can register these again, and another one only after a removal.
pub async fn a_user_has_a_bounded_number_of_devices(stores: ContractStores) {
    let user_id = fresh();
    let devices: Vec<_> = (0..PUSH_DEVICES_MAX).map(|_| new_device(user_id)).collect();
    for device in &devices {
        assert!(stores.push_devices.put(device.clone()).await.expect(WORKS));
    }
    let another = new_device(user_id);
    assert!(!stores.push_devices.put(another.clone()).await.expect(WORKS));
    assert!(stores.push_devices.put(devices[0].clone()).await.expect(WORKS));
    assert!(stores.push_devices.put(new_device(fresh())).await.expect(WORKS));
    assert!(stores.push_devices.remove(user_id, devices[0].device_id).await.expect(WORKS));
    assert!(stores.push_devices.put(another).await.expect(WORKS));
    assert_eq!(stores.push_devices.devices(&[user_id]).await.expect(WORKS).len(), PUSH_DEVICES_MAX);
}

/// The maximum also holds for concurrent registrations.
pub async fn of_concurrent_registrations_no_more_than_the_bound_are_kept(stores: ContractStores) {
    let user_id = fresh();
    let outcomes = at_once((0..PUSH_DEVICES_MAX + 5).map(|_| {
        let (stores, device) = (stores.clone(), new_device(user_id));
        async move { stores.push_devices.put(device).await.expect(WORKS) }
    }))
    .await;
    assert_eq!(outcomes.iter().filter(|kept| **kept).count(), PUSH_DEVICES_MAX);
    assert_eq!(stores.push_devices.devices(&[user_id]).await.expect(WORKS).len(), PUSH_DEVICES_MAX);
}

/// A device is unregistered when its session is revoked, reused or expired. Other devices stay.
pub async fn a_device_is_forgotten_when_its_session_ends(stores: ContractStores) {
    let user_id = fresh();
    let [revoked, reused, over, kept] = [(); 4].map(|()| new_session(user_id));
    let over = Session { expires_at: now().minus(LIFE), ..over };
    for session in [&revoked, &reused, &over, &kept] {
        stores.sessions.create(session.clone()).await.expect(WORKS);
        assert!(stores.push_devices.put(device_of(session)).await.expect(WORKS));
    }
    stores.sessions.revoke(user_id, &[revoked.session_id]).await.expect(WORKS);
    let attempt = RefreshAttempt {
        presented: [9; 32],
        is_authentic: true,
        device_id: reused.device_id,
        successor: [2; 32],
        now: now(),
        expires_at: now() + LIFE,
    };
    stores.sessions.refresh(reused.session_id, attempt).await.expect(WORKS);
    stores.sabotage.purge_expired().await;
    assert_eq!(stores.push_devices.devices(&[user_id]).await.expect(WORKS), [device_of(&kept)]);
}

/// A device that signs in again stays registered, and is unregistered when its new session ends.
pub async fn a_device_that_signs_in_again_stays_registered(stores: ContractStores) {
    let first = new_session(fresh());
    let second = Session { session_id: fresh(), ..first.clone() };
    stores.sessions.create(first.clone()).await.expect(WORKS);
    assert!(stores.push_devices.put(device_of(&first)).await.expect(WORKS));
    stores.sessions.create(second.clone()).await.expect(WORKS);
    assert_eq!(stores.push_devices.devices(&[first.user_id]).await.expect(WORKS), [device_of(&first)]);
    for (session_id, left) in [(first.session_id, 1), (second.session_id, 0)] {
        stores.sessions.revoke(first.user_id, &[session_id]).await.expect(WORKS);
        assert_eq!(stores.push_devices.devices(&[first.user_id]).await.expect(WORKS).len(), left);
    }
}

fn new_device(user_id: UserId) -> PushDevice {
    let token = "token".to_owned().try_into().expect("contracts have valid tokens");
    PushDevice {
        user_id,
        device_id: DeviceId::from(Uuid::new_v4()),
        target: PushTarget::Webhook(token),
        registered_at: now(),
    }
}

fn device_of(session: &Session) -> PushDevice {
    PushDevice { device_id: session.device_id, registered_at: session.created_at, ..new_device(session.user_id) }
}

fn new_session(user_id: UserId) -> Session {
    let now = now();
    Session {
        session_id: fresh(),
        user_id,
        device_id: DeviceId::from(Uuid::new_v4()),
        created_at: now,
        last_active_at: now,
        expires_at: now + LIFE,
        current: [1; 32],
        spent: None,
        overtaken: vec![],
    }
}
