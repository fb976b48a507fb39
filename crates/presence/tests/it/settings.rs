use domain::{PresenceVisibility, UserId};
use ports::{ContactStore, PresenceNews};
use tokio::time;

use crate::world::{TIER_1, World, status};

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
