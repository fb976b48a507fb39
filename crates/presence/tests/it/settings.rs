use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use domain::{PresenceVisibility, UserId};
use ports::{BlockStore, ContactStore, GatewayId, PresenceNotifier, PresenceUpdate, StoreError};
use tokio::time;

use crate::world::{TIER_1, World, run, status};

/// A user with this setting and a viewer, both online and members of one chat.
async fn watched(visibility: PresenceVisibility) -> (World, UserId, UserId) {
    let world = World::new();
    world.keep_heartbeat("a").await;
    world.start();
    let (user, viewer) = (world.user(visibility).await, world.user(PresenceVisibility::Everyone).await);
    world.chat(user, &[viewer]).await;
    world.connect(user, "a").await;
    world.connect(viewer, "a").await;
    time::sleep(TIER_1).await;
    world.told.take();
    (world, user, viewer)
}

/// The changes that the gateway received: user, status and recipients.
fn told(world: &World) -> Vec<(UserId, &'static str, Vec<UserId>)> {
    let updates = world.told.take().into_iter();
    updates.map(|(_, _, PresenceUpdate { user_id, view, recipients })| (user_id, status(view), recipients)).collect()
}

#[tokio::test(start_paused = true)]
async fn a_user_who_becomes_hidden_is_pushed_as_offline() {
    let (world, user, viewer) = watched(PresenceVisibility::Everyone).await;
    world.set_visibility(user, PresenceVisibility::Nobody).await;
    world.presence().visibility_changed(user, PresenceVisibility::Everyone, PresenceVisibility::Nobody).await;
    assert_eq!(told(&world), [(user, "offline", vec![viewer]), (user, "online", vec![])]);
}

#[tokio::test(start_paused = true)]
async fn a_user_who_becomes_visible_is_pushed_as_online() {
    let (world, user, viewer) = watched(PresenceVisibility::Nobody).await;
    world.set_visibility(user, PresenceVisibility::Everyone).await;
    world.presence().visibility_changed(user, PresenceVisibility::Nobody, PresenceVisibility::Everyone).await;
    assert_eq!(told(&world), [(user, "offline", vec![]), (user, "online", vec![viewer])]);
}

#[tokio::test(start_paused = true)]
async fn a_contact_notices_nothing_when_strangers_are_shut_out() {
    let (world, user, viewer) = watched(PresenceVisibility::Everyone).await;
    world.befriend(user, viewer).await;
    world.set_visibility(user, PresenceVisibility::ContactsOnly).await;
    world.presence().visibility_changed(user, PresenceVisibility::Everyone, PresenceVisibility::ContactsOnly).await;
    assert_eq!(told(&world), [(user, "offline", vec![]), (user, "online", vec![])]);
}

#[tokio::test(start_paused = true)]
async fn hiding_an_offline_user_pushes_nothing() {
    let world = World::new();
    world.keep_heartbeat("a").await;
    let (user, viewer) =
        (world.user(PresenceVisibility::Everyone).await, world.user(PresenceVisibility::Everyone).await);
    world.chat(user, &[viewer]).await;
    world.connect(viewer, "a").await;
    world.set_visibility(user, PresenceVisibility::Nobody).await;
    world.presence().visibility_changed(user, PresenceVisibility::Everyone, PresenceVisibility::Nobody).await;
    assert!(told(&world).into_iter().all(|(_, status, recipients)| status == "offline" && recipients.is_empty()));
}

#[tokio::test(start_paused = true)]
async fn new_contacts_see_each_other_and_former_ones_do_not() {
    let (world, user, viewer) = watched(PresenceVisibility::ContactsOnly).await;
    world.befriend(user, viewer).await;
    world.presence().contacts_changed(viewer, user, true).await;
    assert_eq!(told(&world), [(user, "online", vec![viewer])], "the viewer is seen by everyone and so as before");

    world.store.remove(user, viewer).await.unwrap();
    world.presence().contacts_changed(user, viewer, false).await;
    assert_eq!(told(&world), [(user, "offline", vec![viewer])]);
}

#[tokio::test(start_paused = true)]
async fn contacts_without_a_shared_chat_are_rechecked_only_as_subscribers() {
    let world = World::new();
    world.keep_heartbeat("a").await;
    let (user, viewer) =
        (world.user(PresenceVisibility::ContactsOnly).await, world.user(PresenceVisibility::ContactsOnly).await);
    world.connect(user, "a").await;
    world.connect(viewer, "a").await;
    world.befriend(user, viewer).await;
    world.presence().contacts_changed(user, viewer, true).await;
    assert_eq!(told(&world), [(viewer, "online", vec![]), (user, "online", vec![])]);
}

#[tokio::test(start_paused = true)]
async fn a_block_is_pushed_as_offline_and_an_unblock_as_online() {
    let (world, user, viewer) = watched(PresenceVisibility::Everyone).await;
    assert!(world.store.block(user, viewer).await.unwrap());
    world.presence().block_changed(user, viewer, true).await;
    assert_eq!(told(&world), [(user, "offline", vec![viewer])]);
    // The blocked viewer receives no other change meanwhile.
    world.befriend(user, viewer).await;
    world.set_visibility(user, PresenceVisibility::ContactsOnly).await;
    world.presence().contacts_changed(user, viewer, true).await;
    assert!(told(&world).iter().all(|(of, _, recipients)| *of != user || recipients.is_empty()));

    world.store.unblock(user, viewer).await.unwrap();
    world.presence().block_changed(user, viewer, false).await;
    assert_eq!(told(&world), [(user, "online", vec![viewer])]);
}

#[tokio::test(start_paused = true)]
async fn viewers_excluded_by_the_setting_receive_nothing_on_a_block() {
    let (world, user, viewer) = watched(PresenceVisibility::ContactsOnly).await;
    for is_blocked in [true, false] {
        world.presence().block_changed(user, viewer, is_blocked).await;
        assert!(told(&world).iter().all(|(_, _, recipients)| recipients.is_empty()));
    }
}

/// Gateways that are unreachable while `is_away` is set.
struct UnreachableGateways {
    is_unavailable: Arc<AtomicBool>,
    world: World,
}

#[async_trait]
impl PresenceNotifier for UnreachableGateways {
    async fn notify(&self, gateway: &GatewayId, updates: Vec<PresenceUpdate>) -> Result<(), StoreError> {
        if self.is_unavailable.load(Ordering::SeqCst) {
            return Err(StoreError::unavailable("away"));
        }
        self.world.told.notify(gateway, updates).await
    }
}

#[tokio::test(start_paused = true)]
async fn subscribers_are_rechecked_as_soon_as_gateways_are_reachable() {
    let (world, user, _) = watched(PresenceVisibility::Everyone).await;
    let is_unavailable = Arc::new(AtomicBool::new(true));
    let gateways = UnreachableGateways { is_unavailable: is_unavailable.clone(), world: world.clone() };
    let presence = world.presence_with(Arc::new(gateways), world.store.clone());
    run(presence.clone());
    world.set_visibility(user, PresenceVisibility::Nobody).await;
    presence.visibility_changed(user, PresenceVisibility::Everyone, PresenceVisibility::Nobody).await;
    time::sleep(10 * TIER_1).await;
    assert_eq!(told(&world), []);
    is_unavailable.store(false, Ordering::SeqCst);
    time::sleep(2 * TIER_1).await;
    assert_eq!(told(&world), [(user, "offline", vec![])], "exactly once");
}

#[tokio::test(start_paused = true)]
async fn subscribers_are_rechecked_after_a_change_of_unknown_outcome() {
    let (world, user, _) = watched(PresenceVisibility::Everyone).await;
    let presence = world.presence();
    run(presence.clone());
    presence.recheck_guard([user]).over();
    time::sleep(2 * TIER_1).await;
    assert_eq!(told(&world), [], "the change was completed and announced");
    drop(presence.recheck_guard([user]));
    time::sleep(2 * TIER_1).await;
    assert_eq!(told(&world), [(user, "offline", vec![])]);
}
