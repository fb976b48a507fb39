use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use domain::{PresenceView, PresenceVisibility, UserId};
use ports::{Clock, ContactStore, RouteWriter};
use tokio::time::{self, Instant};

use crate::world::{BACK_WITHIN, CorruptUserStore, EXPIRY, HidingDuringPush, TIER_1, World, gateway, run, status};

#[tokio::test(start_paused = true)]
async fn a_reconnect_within_the_grace_period_has_no_recipients_but_subscribers_are_rechecked() {
    let world = World::new();
    let (user, partner) =
        (world.user(PresenceVisibility::Everyone).await, world.user(PresenceVisibility::Everyone).await);
    world.chat(user, &[partner]).await;
    world.keep_heartbeat("a").await;
    world.start();
    world.connect(partner, "a").await;
    let before = world.connect(user, "a").await;
    time::sleep(TIER_1).await;
    world.told.take();

    world.disconnect(before).await;
    time::sleep(BACK_WITHIN / 2).await;
    world.connect(user, "a").await;
    time::sleep(TIER_1).await;
    let told: Vec<_> =
        world.told.take().into_iter().map(|(_, _, updates)| (updates.user_id, updates.recipients)).collect();
    assert_eq!(told, [(user, vec![])], "a subscriber may have been shown offline in between");
}

#[tokio::test(start_paused = true)]
async fn last_seen_is_visible_before_the_offline_announcement() {
    let world = World::new();
    let user = world.user(PresenceVisibility::Everyone).await;
    world.keep_heartbeat("a").await;
    world.start();
    let route = world.connect(user, "a").await;
    time::sleep(TIER_1).await;
    let gone_at = world.clock.now();
    world.disconnect(route).await;
    assert_eq!(world.lookup(user, user).await, PresenceView::Offline { last_seen: Some(gone_at) });
}

#[tokio::test(start_paused = true)]
async fn every_gateway_receives_a_change_because_it_may_have_subscribers() {
    let world = World::new();
    let user = world.user(PresenceVisibility::Everyone).await;
    for name in ["a", "b", "c"] {
        world.keep_heartbeat(name).await;
    }
    world.start();
    world.connect(user, "b").await;
    time::sleep(TIER_1).await;
    let told: Vec<_> = world.told.take().into_iter().map(|(_, gateway, updates)| (gateway, updates.user_id)).collect();
    assert_eq!(told, ["a", "b", "c"].map(|name| (gateway(name), user)));
}

#[tokio::test(start_paused = true)]
async fn a_hidden_user_is_not_announced_but_last_seen_is_stored() {
    let world = World::new();
    let user = world.user(PresenceVisibility::Nobody).await;
    world.keep_heartbeat("a").await;
    world.start();
    let route = world.connect(user, "a").await;
    time::sleep(TIER_1).await;
    let came_at = world.last_seen(user).await;
    assert!(came_at.is_some(), "if all processes crash, only the time since the online transition is lost");
    world.disconnect(route).await;
    time::sleep(TIER_1).await;
    assert!(world.last_seen(user).await > came_at);
    assert_eq!(world.told.take(), []);
}

#[tokio::test(start_paused = true)]
async fn a_claimant_that_dies_delays_an_announcement_and_loses_none() {
    let world = World::new();
    let user = world.user(PresenceVisibility::Everyone).await;
    world.keep_heartbeat("a").await;
    world.connect(user, "a").await;
    let claimed = ports::PresenceTransitions::claim(&*world.routes, 10).await.unwrap();
    assert_eq!(claimed.len(), 1, "by a process that dies now");
    world.start();
    time::sleep(Duration::from_secs(9)).await;
    assert_eq!(world.told.take(), []);
    time::sleep(Duration::from_secs(2)).await;
    assert_eq!(world.told.take().len(), 1);
}

/// A gateway with 10,000 users dies, and two thirds of them reconnect elsewhere. The others are announced offline exactly
/// once, although two processes announce, and at most at their combined rate.
#[tokio::test(start_paused = true)]
async fn the_death_of_a_full_gateway_is_smoothed_and_not_multiplied() {
    const USERS: usize = 10_000;
    let world = World::new();
    let mut users = vec![];
    for _ in 0..USERS {
        users.push(world.user(PresenceVisibility::Everyone).await);
    }
    world.keep_heartbeat("b").await;
    let dying = world.keep_heartbeat("a").await;
    let workers = [world.start(), world.start()];
    for user in &users {
        world.connect(*user, "a").await;
    }
    time::sleep(Duration::from_secs(20)).await;
    world.told.take();

    dying.abort();
    for user in users.iter().skip(USERS / 3) {
        world.connect(*user, "b").await;
    }
    let died = Instant::now();
    time::sleep(EXPIRY + Duration::from_secs(20)).await;
    let mut told: BTreeMap<UserId, usize> = BTreeMap::new();
    let mut pace: BTreeMap<u64, usize> = BTreeMap::new();
    for (at, gateway, updates) in world.told.take() {
        assert_eq!((&*gateway.0, status(updates.view)), ("b", "offline"));
        *told.entry(updates.user_id).or_default() += 1;
        *pace.entry(at.duration_since(died).as_secs()).or_default() += 1;
    }
    assert_eq!(told, users[..USERS / 3].iter().map(|user| (*user, 1)).collect());
    assert!(pace.values().all(|announced| *announced <= 2000), "{pace:?}");
    assert!(pace.keys().all(|second| *second <= 15 + 7), "{pace:?}");
    workers.iter().for_each(tokio::task::AbortHandle::abort);
}

#[tokio::test(start_paused = true)]
async fn a_user_without_contacts_is_announced_to_none() {
    let world = World::new();
    let user = world.user(PresenceVisibility::ContactsOnly).await;
    let other = world.user(PresenceVisibility::ContactsOnly).await;
    world.chat(user, &[other]).await;
    ContactStore::add(&*world.store, other, user).await.unwrap();
    world.keep_heartbeat("a").await;
    world.start();
    world.connect(other, "a").await;
    world.connect(user, "a").await;
    time::sleep(TIER_1).await;
    assert_eq!(world.told.pushes(), []);
}

#[tokio::test(start_paused = true)]
async fn a_gateway_that_was_only_slow_has_its_users_back() {
    let world = World::new();
    let user = world.user(PresenceVisibility::Everyone).await;
    world.keep_heartbeat("b").await;
    world.routes.heartbeat(&gateway("a")).await.unwrap();
    world.start();
    let route = world.connect(user, "a").await;
    time::sleep(EXPIRY + TIER_1 * 2).await;
    let statuses = |world: &World| -> Vec<_> {
        let told = world.told.take().into_iter().filter(|(_, gateway, _)| &*gateway.0 == "b");
        told.map(|(_, _, updates)| status(updates.view)).collect()
    };
    assert_eq!(statuses(&world), ["online", "offline"]);

    assert!(!world.routes.heartbeat(&gateway("a")).await.unwrap(), "the heartbeat reports that the lease had expired");
    world.routes.refresh(&[route]).await.unwrap();
    time::sleep(TIER_1).await;
    assert_eq!(statuses(&world), ["online"]);
}

#[tokio::test(start_paused = true)]
async fn an_unreadable_user_does_not_delay_others() {
    let world = World::new();
    let (damaged, user) =
        (world.user(PresenceVisibility::Everyone).await, world.user(PresenceVisibility::Everyone).await);
    world.keep_heartbeat("a").await;
    let users = CorruptUserStore { user_id: damaged, store: world.store.clone() };
    run(world.presence_with(world.told.clone(), Arc::new(users)));
    world.connect(damaged, "a").await;
    world.connect(user, "a").await;
    time::sleep(EXPIRY).await;
    let told: Vec<_> = world.told.take().into_iter().map(|(_, _, updates)| updates.user_id).collect();
    assert_eq!(told, [user]);
}

#[tokio::test(start_paused = true)]
async fn a_user_hidden_during_the_announcement_is_retracted() {
    let world = World::new();
    let (user, partner) =
        (world.user(PresenceVisibility::Everyone).await, world.user(PresenceVisibility::Everyone).await);
    world.chat(user, &[partner]).await;
    world.keep_heartbeat("a").await;
    world.connect(partner, "a").await;
    run(world.presence_with(Arc::new(HidingDuringPush { user_id: user, world: world.clone() }), world.store.clone()));
    time::sleep(TIER_1).await;
    world.told.take();
    world.connect(user, "a").await;
    time::sleep(TIER_1).await;
    let told: Vec<_> =
        world.told.take().into_iter().map(|(_, _, updates)| (status(updates.view), updates.recipients)).collect();
    assert_eq!(told, [("online", vec![partner]), ("offline", vec![partner])]);
}
