use std::sync::atomic::Ordering;
use std::time::Duration;

use domain::{Body, ChatId, ContentType, IngestError, Message, Sequence, Timestamp, Ttl, UpdateAction, UpdateRefusal};
use ports::{Clock, Ingest, MessageReader, MessageWriter, NewMessage, PageBounds, SystemClock};
use tidings_ingest::Config;

use crate::world::{OPEN, World, request, update};

const ALL: PageBounds = PageBounds { count: 1000, bytes: usize::MAX };

fn edit(text: &str) -> UpdateAction {
    UpdateAction::Edit(Body::new(text.to_owned().try_into().unwrap(), ContentType::Text))
}

fn react(text: &str) -> UpdateAction {
    UpdateAction::React(text.parse().unwrap())
}

async fn messages(world: &World, chat_id: ChatId) -> Vec<Message> {
    world.store.after(chat_id, Sequence::ZERO, ALL, SystemClock.now()).await.unwrap().messages
}

#[tokio::test]
async fn g3_updates_keep_their_order_among_sends_whenever_their_answers_are_awaited() {
    let world = World::new(0, Config { batch_len_max: 3, ..Config::default() });
    let user = world.user();
    let chat = world.group(user, &[]).await;
    // The updates are queued before the message that they change is committed.
    let sent: Vec<_> = (0..20)
        .map(|n| match n % 4 {
            0 => request(chat, user, &format!("message {n}")),
            1 => update(chat, user, n, edit(&format!("edited {n}"))),
            2 => update(chat, user, n - 1, react("ok")),
            _ => update(chat, user, n - 2, UpdateAction::Unreact("ok".parse().unwrap())),
        })
        .map(|send| world.ingest.send(send))
        .collect();
    world.writer.gate.add_permits(OPEN);
    for (n, sent) in sent.into_iter().enumerate().rev() {
        assert_eq!(sent.await.unwrap().receipt.sequence, Sequence(n as u64 + 1));
    }
    assert!(world.writer.batch_len.load(Ordering::SeqCst) > 1, "messages and updates share commits");
    let found = messages(&world, chat).await.into_iter().map(|message| {
        assert_eq!(message.state.reactions, [], "it was added before it was removed");
        (message.sequence.0, message.body.content.as_str().to_owned(), message.state.revision.0)
    });
    let expected = (0..20).step_by(4).map(|n| (n + 1, format!("edited {}", n + 1), n + 4));
    assert_eq!(found.collect::<Vec<_>>(), expected.collect::<Vec<_>>());
}

#[tokio::test]
async fn g2_a_retried_update_gets_the_first_answer_and_another_one_under_its_key_is_refused() {
    let world = World::new(OPEN, Config::default());
    let user = world.user();
    let chat = world.group(user, &[]).await;
    world.ingest.send(request(chat, user, "hi")).await.unwrap();
    let reaction = update(chat, user, 1, react("ok"));
    let sent = world.ingest.send(reaction.clone()).await.unwrap();
    assert!(!sent.deduplicated);
    let again = world.ingest.send(reaction.clone()).await.unwrap();
    assert_eq!((again.receipt, again.deduplicated), (sent.receipt, true));
    let other = ports::SendRequest { content: update(chat, user, 1, react("no")).content, ..reaction };
    assert!(matches!(world.ingest.send(other).await, Err(IngestError::IdempotencyKeyReused)));
}

#[tokio::test]
async fn a_refused_update_has_its_reason_and_delays_no_send_of_its_chat() {
    let world = World::new(OPEN, Config::default());
    let (owner, member) = (world.user(), world.user());
    let chat = world.group(owner, &[member]).await;
    let sends = [
        request(chat, owner, "hi"),
        update(chat, member, 1, edit("not mine")),
        update(chat, member, 1, react("ok")),
        update(chat, member, 1, react("ok")),
        update(chat, member, 9, react("ok")),
        request(chat, member, "hello"),
    ];
    let sent = sends.map(|send| world.ingest.send(send));
    let mut outcomes = vec![];
    for sent in sent {
        outcomes.push(match sent.await {
            Ok(sent) => Ok(sent.receipt.sequence.0),
            Err(IngestError::Update(refusal)) => Err(refusal),
            Err(other) => panic!("{other:?}"),
        });
    }
    let expected = [
        Ok(1),
        Err(UpdateRefusal::NotTheAuthor),
        Ok(2),
        Err(UpdateRefusal::AlreadyReacted),
        Err(UpdateRefusal::MessageNotFound),
        Ok(3),
    ];
    assert_eq!(outcomes, expected);
}

#[tokio::test]
async fn the_window_of_updates_is_that_of_the_configuration_and_does_not_bind_reactions() {
    let hour = Duration::from_secs(3600);
    for (window, expected) in [(Some(hour), Err(3600)), (Some(3 * hour), Ok(())), (None, Ok(()))] {
        let world = World::new(OPEN, Config { update_window: window, ..Config::default() });
        let user = world.user();
        let chat = world.group(user, &[]).await;
        let sent = NewMessage {
            chat_id: chat,
            sender_id: user,
            client_message_id: uuid::Uuid::new_v4().into(),
            message_id: domain::MessageId::from_bytes([7; 16]),
            body: Body::new("two hours ago".to_owned().try_into().unwrap(), ContentType::Text),
            ttl: None,
            ttl_max: None,
            created_at: SystemClock.now().minus(2 * hour),
            origin_connection_id: None,
        };
        world.store.append(vec![sent]).await.unwrap();
        world.ingest.send(update(chat, user, 1, react("ok"))).await.unwrap();
        let edited = match world.ingest.send(update(chat, user, 1, edit("late"))).await {
            Ok(_) => Ok(()),
            Err(IngestError::Update(UpdateRefusal::TooOld(seconds))) => Err(seconds),
            Err(other) => panic!("{other:?}"),
        };
        assert_eq!(edited, expected, "{window:?}");
    }
}

#[tokio::test]
async fn g11_no_update_outlives_the_longest_lifetime_of_the_service() {
    let world = World::new(OPEN, Config { ttl_max: Ttl::from_secs(60), ..Config::default() });
    let user = world.user();
    let chat = world.group(user, &[]).await;
    world.ingest.send(request(chat, user, "hi")).await.unwrap();
    let before = SystemClock.now();
    for action in [react("ok"), UpdateAction::Delete] {
        world.ingest.send(update(chat, user, 1, action)).await.unwrap();
    }
    let after = SystemClock.now();
    let page = world.store.after(chat, Sequence::ZERO, ALL, Timestamp::default()).await.unwrap();
    let ends: Vec<_> = page.updates.iter().map(|update| update.expires_at.unwrap()).collect();
    let minute = Duration::from_secs(60);
    assert_eq!(ends.len(), 2);
    assert!(ends[0] <= ends[1] && ends[1] <= after + minute && before + minute <= ends[1], "{ends:?}");
}
