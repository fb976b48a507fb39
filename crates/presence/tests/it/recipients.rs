use std::time::Duration;

use domain::{PresenceVisibility, UserId};
use tokio::time;

use crate::world::{TIER_1, World};

async fn told_when_user_connects(world: &World, user: UserId) -> Vec<UserId> {
    time::sleep(TIER_1).await;
    world.told.take();
    world.connect(user, "a").await;
    time::sleep(TIER_1).await;
    let mut told: Vec<UserId> = world.told.pushes().into_iter().map(|pushed| pushed.to).collect();
    told.dedup();
    told
}

#[tokio::test(start_paused = true)]
async fn online_users_that_share_an_active_chat_are_recipients() {
    let world = World::new();
    let everyone = PresenceVisibility::Everyone;
    let (user, partner, offline) = (world.user(everyone).await, world.user(everyone).await, world.user(everyone).await);
    let (stranger, old_partner) = (world.user(everyone).await, world.user(everyone).await);
    world.chat(user, &[old_partner]).await;
    world.keep_heartbeat("a").await;
    world.start();
    time::sleep(Duration::from_secs(24 * 3600 + 1)).await;
    world.chat(user, &[partner, offline]).await;
    for online in [partner, stranger, old_partner] {
        world.connect(online, "a").await;
    }
    assert_eq!(told_when_user_connects(&world, user).await, [partner], "not the one whose chat is a day old");
}

#[tokio::test(start_paused = true)]
async fn a_chat_that_was_just_opened_is_active() {
    let world = World::new();
    let (user, partner) =
        (world.user(PresenceVisibility::Everyone).await, world.user(PresenceVisibility::Everyone).await);
    world.quiet_chat(user, &[partner]).await;
    world.keep_heartbeat("a").await;
    world.start();
    world.connect(partner, "a").await;
    assert_eq!(told_when_user_connects(&world, user).await, [partner]);
}

/// The cost of a transition does not grow with the number of chats: only members of the 50 most active receive it.
#[tokio::test(start_paused = true)]
async fn a_user_in_a_thousand_chats_is_announced_to_the_most_active_of_them() {
    let world = World::new();
    let user = world.user(PresenceVisibility::Everyone).await;
    world.keep_heartbeat("a").await;
    world.start();
    let mut partners = vec![];
    for _ in 0..1000 {
        let partner = world.user(PresenceVisibility::Everyone).await;
        world.chat(user, &[partner]).await;
        world.connect(partner, "a").await;
        partners.push(partner);
        time::sleep(Duration::from_secs(1)).await;
    }
    assert_eq!(told_when_user_connects(&world, user).await, partners[950..]);
}

#[tokio::test(start_paused = true)]
async fn recipients_are_limited_to_a_thousand() {
    let world = World::new();
    let user = world.user(PresenceVisibility::Everyone).await;
    world.keep_heartbeat("a").await;
    world.start();
    for _ in 0..2 {
        let mut members = vec![];
        for _ in 0..999 {
            let member = world.user(PresenceVisibility::Everyone).await;
            world.connect(member, "a").await;
            members.push(member);
        }
        world.chat(user, &members).await;
    }
    time::sleep(Duration::from_secs(10)).await;
    assert_eq!(told_when_user_connects(&world, user).await.len(), 1000);
}

#[tokio::test(start_paused = true)]
async fn each_gateway_receives_its_own_recipients() {
    let world = World::new();
    let everyone = PresenceVisibility::Everyone;
    let (user, one, other) = (world.user(everyone).await, world.user(everyone).await, world.user(everyone).await);
    world.chat(user, &[one, other]).await;
    for name in ["a", "b"] {
        world.keep_heartbeat(name).await;
    }
    world.start();
    world.connect(one, "a").await;
    world.connect(other, "b").await;
    time::sleep(TIER_1).await;
    world.told.take();
    world.connect(user, "a").await;
    time::sleep(TIER_1).await;
    let told: Vec<_> = world.told.pushes().into_iter().map(|pushed| (pushed.gateway, pushed.to)).collect();
    assert_eq!(told, [("a".to_owned(), one), ("b".to_owned(), other)]);
}
