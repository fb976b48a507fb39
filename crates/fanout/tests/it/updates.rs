use std::time::Duration;

use domain::{Body, ContentType, Sequence, Ttl, UpdateAction};
use ports::{Clock, NewMessage, SystemClock};
use protocol::frame::{MessageUpdated, ServerFrame, UpdateName};

use crate::world::World;

fn react() -> UpdateAction {
    UpdateAction::React("ok".parse().unwrap())
}

fn edit(text: &str) -> UpdateAction {
    UpdateAction::Edit(Body::new(text.to_owned().try_into().unwrap(), ContentType::Text))
}

#[track_caller]
fn updated(frame: &ServerFrame) -> &MessageUpdated<'static> {
    let ServerFrame::MessageUpdated(updated) = frame else { panic!("{frame:?}") };
    updated
}

#[tokio::test]
async fn g8_an_update_is_pushed_to_every_connection_and_its_author_recognizes_it() {
    let mut world = World::new();
    let (author, reader) = (world.user(), world.user());
    let laptop = world.connect(author, "a").await;
    let _phone = world.connect(author, "a").await;
    let _reader = world.connect(reader, "b").await;
    let chat = world.group(author, &[reader]).await;
    world.start();
    world.pushes(2).await;
    world.send(chat, author, Some(laptop)).await;
    world.pushes(2).await;
    world.update(chat, author, 1, edit("edited")).await;
    let pushes = world.pushes(2).await;

    let (gateway, own, frame) = &pushes[0];
    assert_eq!((gateway.as_str(), own.recipients.as_slice()), ("a", [author].as_slice()));
    assert_eq!(own.except, None, "the acknowledgement does not say what became of the message");
    let update = &updated(frame).update;
    assert_eq!((update.sequence, update.target_sequence, update.user_id), (Sequence(2), Sequence(1), author));
    assert_eq!(update.kind, UpdateName::Edited);
    assert!(update.client_message_id.is_some());
    let message = updated(frame).message.as_ref().unwrap();
    assert!(message.client_message_id.is_some(), "the message is the author's too");

    let (gateway, others, frame) = &pushes[1];
    assert_eq!((gateway.as_str(), others.recipients.as_slice(), others.except), ("b", [reader].as_slice(), None));
    assert_eq!(updated(frame).update.client_message_id, None);
    let message = updated(frame).message.as_ref().unwrap();
    assert_eq!((message.client_message_id, message.sequence), (None, Sequence(1)));
    assert_eq!(message.state.as_ref().map(|state| state.revision), Some(Sequence(2)));
}

#[tokio::test]
async fn updates_are_pushed_once_and_in_the_order_of_the_chat() {
    let mut world = World::new();
    let (author, reader) = (world.user(), world.user());
    world.connect(reader, "a").await;
    let chat = world.group(author, &[reader]).await;
    world.send(chat, author, None).await;
    for n in 2..=40 {
        match n % 3 {
            0 => world.send(chat, author, None).await,
            1 => world.update(chat, author, 1, edit(&n.to_string())).await,
            _ => world.update(chat, author, 1, UpdateAction::React(format!("r{n}").parse().unwrap())).await,
        }
        if n % 3 == 2 {
            let unreact = UpdateAction::Unreact(format!("r{n}").parse().unwrap());
            world.update(chat, author, 1, unreact).await;
        }
    }
    world.start();
    let pushed = world.pushes(1 + 40 + 13).await.into_iter().skip(1).map(|(_, _, frame)| match frame {
        ServerFrame::Message(message) => message.sequence.0,
        ServerFrame::MessageUpdated(updated) => updated.update.sequence.0,
        other => panic!("{other:?}"),
    });
    assert_eq!(pushed.collect::<Vec<_>>(), (1..=53).collect::<Vec<_>>());
}

#[tokio::test]
async fn g11_an_update_of_a_message_that_expired_or_was_deleted_before_the_push_is_pushed_without_it() {
    let mut world = World::new();
    let (author, reader) = (world.user(), world.user());
    world.connect(reader, "a").await;
    let chat = world.group(author, &[reader]).await;
    world.send(chat, author, None).await;
    world.update(chat, author, 1, edit("a secret")).await;
    world.update(chat, author, 1, react()).await;
    world.update(chat, author, 1, UpdateAction::Delete).await;
    world.store.purge_expired(SystemClock.now());
    world.start();
    let pushes = world.pushes(5).await;
    let kinds: Vec<_> =
        pushes[1..4].iter().map(|(_, _, frame)| (updated(frame).update.kind, &updated(frame).message)).collect();
    assert_eq!(kinds, [(UpdateName::Edited, &None), (UpdateName::Reacted, &None), (UpdateName::Deleted, &None)]);
    let ServerFrame::MessageExpired(expired) = &pushes[4].2 else { panic!("{pushes:?}") };
    assert_eq!(expired.sequences, [Sequence(1)]);
}

#[tokio::test]
async fn g11_an_update_that_expired_with_its_message_before_the_push_is_not_pushed() {
    let mut world = World::new();
    let (author, reader) = (world.user(), world.user());
    world.connect(reader, "a").await;
    let chat = world.group(author, &[reader]).await;
    let created_at = SystemClock.now().minus(Duration::from_secs(3600));
    let expired = NewMessage { created_at, ttl: Ttl::from_secs(60), ..world.message(chat, author) };
    world.append(expired).await;
    world.update_at(chat, author, 1, react(), created_at + Duration::from_secs(1)).await;
    world.send(chat, author, None).await;
    world.start();
    let pushes = world.pushes(2).await;
    let ServerFrame::Message(message) = &pushes[1].2 else { panic!("{pushes:?}") };
    assert_eq!(message.sequence, Sequence(3));
}
