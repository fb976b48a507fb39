use std::time::Duration;

use domain::{ChatCommand, ChatUpdate, Sequence, Timestamp, Ttl};
use ports::{Clock, NewMessage, SystemClock};
use protocol::frame::{ChatChangeKind, ServerFrame};

use crate::world::World;

fn an_hour_ago() -> Timestamp {
    SystemClock.now().minus(Duration::from_secs(3600))
}

#[tokio::test]
async fn g11_a_message_that_expired_before_its_push_is_not_pushed() {
    let mut world = World::new();
    let (sender, other) = (world.user(), world.user());
    world.connect(other, "a").await;
    let chat = world.group(sender, &[other]).await;
    let gone = NewMessage { created_at: an_hour_ago(), ttl: Ttl::from_secs(60), ..world.message(chat, sender) };
    world.append(gone).await;
    world.send(chat, sender, None).await;
    world.start();
    let pushes = world.pushes(2).await;
    let ServerFrame::Message(message) = &pushes[1].2 else { panic!("{pushes:?}") };
    assert_eq!(message.sequence, Sequence(2));
}

#[tokio::test]
async fn g11_members_are_notified_of_expired_messages() {
    let mut world = World::new();
    let (sender, other) = (world.user(), world.user());
    world.connect(other, "a").await;
    let chat = world.group(sender, &[other]).await;
    for ttl in [Ttl::from_secs(60), None, Ttl::from_secs(60)] {
        world.append(NewMessage { created_at: an_hour_ago(), ttl, ..world.message(chat, sender) }).await;
    }
    world.store.purge_expired(SystemClock.now());
    world.start();
    let pushes = world.pushes(3).await;
    let (_, push, ServerFrame::MessageExpired(expired)) = &pushes[2] else { panic!("{pushes:?}") };
    assert_eq!((expired.chat_id, expired.sequences.as_slice()), (chat, [Sequence(1), Sequence(3)].as_slice()));
    assert_eq!(push.recipients, [other]);
}

#[tokio::test]
async fn members_are_notified_of_a_changed_message_ttl() {
    let mut world = World::new();
    let owner = world.user();
    world.connect(owner, "a").await;
    let chat = world.group(owner, &[]).await;
    world.apply(chat, owner, ChatCommand::Update(ChatUpdate::message_ttl(Ttl::from_secs(60)))).await;
    world.start();
    let pushes = world.pushes(2).await;
    let ServerFrame::ChatUpdated(updated) = &pushes[1].2 else { panic!("{pushes:?}") };
    assert_eq!(updated.change, ChatChangeKind::MessageTtlChanged);
}
