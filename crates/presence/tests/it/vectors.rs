//! The presence test vectors of ADR-010 Part 4, by name.

use domain::{PresenceView, PresenceVisibility, UserId};
use ports::{RouteWriter, Routes};
use tokio::time::{self, Duration};

use crate::world::{BACK_WITHIN, EXPIRY, PresencePush, TIER_1, World, gateway};

fn pushed(to: UserId, of: UserId, status: &'static str) -> PresencePush {
    PresencePush { gateway: "gw-002".to_owned(), to, of, status }
}

/// Two users who are visible to everyone, in a chat with a recent message.
async fn meet() -> (World, UserId, UserId) {
    let world = World::new();
    let (user, observer) =
        (world.user(PresenceVisibility::Everyone).await, world.user(PresenceVisibility::Everyone).await);
    world.chat(user, &[observer]).await;
    (world, user, observer)
}

#[tokio::test(start_paused = true)]
async fn first_connection_transitions_to_online() {
    let (world, user, observer) = meet().await;
    world.keep_heartbeat("gw-002").await;
    world.start();
    world.connect(observer, "gw-002").await;
    time::sleep(TIER_1).await;
    assert_eq!(world.lookup(observer, user).await, PresenceView::Offline { last_seen: None });
    world.told.take();

    world.connect(user, "gw-002").await;
    assert_eq!(world.lookup(observer, user).await, PresenceView::Online, "lookups do not wait for an announcement");
    time::sleep(TIER_1).await;
    assert_eq!(world.told.pushes(), [pushed(observer, user, "online")]);
}

#[tokio::test(start_paused = true)]
async fn last_connection_transitions_to_offline() {
    let (world, user, observer) = meet().await;
    world.keep_heartbeat("gw-002").await;
    world.start();
    world.connect(observer, "gw-002").await;
    let only = world.connect(user, "gw-002").await;
    time::sleep(TIER_1).await;
    world.told.take();

    let gone_at = ports::Clock::now(&*world.clock);
    world.disconnect(only).await;
    time::sleep(BACK_WITHIN + TIER_1).await;
    assert_eq!(world.told.pushes(), [pushed(observer, user, "offline")]);
    assert_eq!(world.last_seen(user).await, Some(gone_at));
    assert_eq!(world.lookup(observer, user).await, PresenceView::Offline { last_seen: Some(gone_at) });
}

#[tokio::test(start_paused = true)]
async fn multi_device_keeps_user_online() {
    let (world, user, observer) = meet().await;
    for name in ["gw-001", "gw-002"] {
        world.keep_heartbeat(name).await;
    }
    world.start();
    world.connect(observer, "gw-002").await;
    let phone = world.connect(user, "gw-001").await;
    time::sleep(TIER_1).await;
    world.told.take();

    world.connect(user, "gw-002").await;
    time::sleep(TIER_1).await;
    world.disconnect(phone).await;
    time::sleep(EXPIRY).await;
    assert_eq!(world.told.pushes(), [], "neither the second device nor its end is a transition");
    assert_eq!(world.lookup(observer, user).await, PresenceView::Online);
}

#[tokio::test(start_paused = true)]
async fn presence_staleness_bounded_by_expiry_window() {
    let (world, user, observer) = meet().await;
    world.keep_heartbeat("gw-002").await;
    world.start();
    world.connect(observer, "gw-002").await;
    let only = world.connect(user, "gw-002").await;
    time::sleep(TIER_1).await;
    world.disconnect(only).await;
    time::sleep(Duration::from_secs(14)).await;
    assert!(matches!(world.lookup(observer, user).await, PresenceView::Offline { last_seen: Some(_) }));
}

#[tokio::test(start_paused = true)]
async fn server_crash_causes_entries_to_expire_within_expiry_window() {
    let (world, user, observer) = meet().await;
    world.keep_heartbeat("gw-002").await;
    world.routes.heartbeat(&gateway("gw-001")).await.unwrap();
    world.start();
    world.connect(observer, "gw-002").await;
    world.connect(user, "gw-001").await;
    let crashed_at = ports::Clock::now(&*world.clock);
    time::sleep(Duration::from_secs(14)).await;
    assert_eq!(world.routes.routes(user).await.unwrap().len(), 1);
    assert_eq!(world.lookup(observer, user).await, PresenceView::Online);
    world.told.take();

    time::sleep(Duration::from_secs(2)).await;
    assert_eq!(world.routes.routes(user).await.unwrap(), []);
    assert_eq!(world.routes.on_gateway(&gateway("gw-001"), 10).await.unwrap(), [], "all its routes are swept");
    time::sleep(TIER_1).await;
    assert_eq!(world.told.pushes(), [pushed(observer, user, "offline")]);
    assert_eq!(world.lookup(observer, user).await, PresenceView::Offline { last_seen: Some(crashed_at) });
}
