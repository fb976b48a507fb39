use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use domain::{PresenceVisibility, UserId};
use ports::{BlockStore, ContactStore, GatewayId, PresenceNews, StoreError, Watchers};
use tokio::time;

use crate::world::{TIER_1, World, run, status};

/// A world in which a user of this setting is online, with somebody online who shares a chat with them.
async fn watched(visibility: PresenceVisibility) -> (World, UserId, UserId) {
    let world = World::new();
    world.keep_beating("a").await;
    world.start();
    let (user, viewer) = (world.user(visibility).await, world.user(PresenceVisibility::Everyone).await);
    world.chat(user, &[viewer]).await;
    world.connect(user, "a").await;
    world.connect(viewer, "a").await;
    time::sleep(TIER_1).await;
    world.told.take();
    (world, user, viewer)
}

/// What the one gateway was told: the news of whom, and who was pushed what.
fn told(world: &World) -> Vec<(UserId, &'static str, Vec<UserId>)> {
    let news = world.told.take().into_iter();
    news.map(|(_, _, PresenceNews { user_id, view, recipients })| (user_id, status(view), recipients)).collect()
}

#[tokio::test(start_paused = true)]
async fn who_hides_is_gone_for_those_who_saw_them() {
    let (world, user, viewer) = watched(PresenceVisibility::Everyone).await;
    world.set_visibility(user, PresenceVisibility::Nobody).await;
    world.presence().visibility_changed(user, PresenceVisibility::Everyone, PresenceVisibility::Nobody).await;
    assert_eq!(told(&world), [(user, "offline", vec![viewer]), (user, "online", vec![])]);
}

#[tokio::test(start_paused = true)]
async fn who_shows_themselves_is_seen_at_once() {
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
async fn of_somebody_who_is_away_nobody_is_pushed_anything_when_they_hide() {
    let world = World::new();
    world.keep_beating("a").await;
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
async fn contacts_who_share_no_chat_are_told_if_they_watch() {
    let world = World::new();
    world.keep_beating("a").await;
    let (user, viewer) =
        (world.user(PresenceVisibility::ContactsOnly).await, world.user(PresenceVisibility::ContactsOnly).await);
    world.connect(user, "a").await;
    world.connect(viewer, "a").await;
    world.befriend(user, viewer).await;
    world.presence().contacts_changed(user, viewer, true).await;
    assert_eq!(told(&world), [(viewer, "online", vec![]), (user, "online", vec![])]);
}

#[tokio::test(start_paused = true)]
async fn who_is_blocked_sees_the_user_go_and_who_is_unblocked_sees_them_come() {
    let (world, user, viewer) = watched(PresenceVisibility::Everyone).await;
    assert!(world.store.block(user, viewer).await.unwrap());
    world.presence().block_changed(user, viewer, true).await;
    assert_eq!(told(&world), [(user, "offline", vec![viewer])]);
    // Of what else changes meanwhile, the blocked one learns nothing.
    world.befriend(user, viewer).await;
    world.set_visibility(user, PresenceVisibility::ContactsOnly).await;
    world.presence().contacts_changed(user, viewer, true).await;
    assert!(told(&world).iter().all(|(of, _, recipients)| *of != user || recipients.is_empty()));

    world.store.unblock(user, viewer).await.unwrap();
    world.presence().block_changed(user, viewer, false).await;
    assert_eq!(told(&world), [(user, "online", vec![viewer])]);
}

#[tokio::test(start_paused = true)]
async fn whom_the_setting_did_not_admit_learns_nothing_from_a_block() {
    let (world, user, viewer) = watched(PresenceVisibility::ContactsOnly).await;
    for is_blocked in [true, false] {
        world.presence().block_changed(user, viewer, is_blocked).await;
        assert!(told(&world).iter().all(|(_, _, recipients)| recipients.is_empty()));
    }
}

/// Gateways that cannot be told anything until they can.
struct Unreachable {
    is_away: Arc<AtomicBool>,
    world: World,
}

#[async_trait]
impl Watchers for Unreachable {
    async fn tell(&self, gateway: &GatewayId, news: Vec<PresenceNews>) -> Result<(), StoreError> {
        if self.is_away.load(Ordering::SeqCst) {
            return Err(StoreError::unavailable("away"));
        }
        self.world.told.tell(gateway, news).await
    }
}

#[tokio::test(start_paused = true)]
async fn watchers_are_told_of_a_change_as_soon_as_they_can_be() {
    let (world, user, _) = watched(PresenceVisibility::Everyone).await;
    let is_away = Arc::new(AtomicBool::new(true));
    let gateways = Unreachable { is_away: is_away.clone(), world: world.clone() };
    let presence = world.presence_with(Arc::new(gateways), world.store.clone());
    run(presence.clone());
    world.set_visibility(user, PresenceVisibility::Nobody).await;
    presence.visibility_changed(user, PresenceVisibility::Everyone, PresenceVisibility::Nobody).await;
    time::sleep(10 * TIER_1).await;
    assert_eq!(told(&world), []);
    is_away.store(false, Ordering::SeqCst);
    time::sleep(2 * TIER_1).await;
    assert_eq!(told(&world), [(user, "offline", vec![])], "and then no more");
}

#[tokio::test(start_paused = true)]
async fn watchers_look_again_after_a_change_of_which_nobody_knows_whether_it_was_made() {
    let (world, user, _) = watched(PresenceVisibility::Everyone).await;
    let presence = world.presence();
    run(presence.clone());
    presence.doubting([user]).over();
    time::sleep(2 * TIER_1).await;
    assert_eq!(told(&world), [], "it was made, and everybody was told");
    drop(presence.doubting([user]));
    time::sleep(2 * TIER_1).await;
    assert_eq!(told(&world), [(user, "offline", vec![])]);
}
