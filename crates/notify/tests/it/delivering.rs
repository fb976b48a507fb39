use std::sync::Arc;
use std::time::Duration;

use domain::{ChatCommand, ChatUpdate, ContentType, EventId, EventKind, Ttl, UpdateAction};
use ports::{DeadLetterStore, EventLog, NewMessage, Position, UndeliveredItem};
use protocol::event::EventEnvelope;
use tidings_notify::{EventWebhook, EventWebhookConfig, Redelivery};
use ulid::Ulid;

use crate::receiver::CannedResponse;
use crate::webhook_world::{SECRET, WebhookWorld, config, message, run, taken};
use crate::world::{seconds, start};

#[tokio::test]
async fn an_event_is_posted_in_its_envelope_named_and_signed() {
    let mut world = WebhookWorld::new().await;
    let (chat_id, ada) = world.chat().await;
    world.send(chat_id, ada, "hello").await;
    run(&Arc::new(world.webhook()));
    let request = world.receiver.next().await;
    let signed_at = request.verify(SECRET);
    assert!((0..60).contains(&(signed_at - start().as_secs())), "{signed_at}");
    assert_eq!((request.path.as_str(), request.header("content-type")), ("/hook", "application/json"));

    let envelope = EventEnvelope::parse(&request.body).unwrap();
    let position = Position(envelope.position.unwrap());
    assert_eq!(*envelope.event, *world.store.event(position).await.unwrap().unwrap());
    assert_eq!(request.header("tidings-event-id"), envelope.event.event_id.to_string());
    assert_eq!(request.header("tidings-attempt"), "1");
    assert_eq!(request.json()["payload"]["content"], "hello");
}

#[tokio::test]
async fn the_application_gets_the_families_it_wants_and_nothing_expired() {
    for (kind, expected) in [
        (EventKind::Message, &["MessagePersisted", "MessagePersisted", "MessageUpdated", "MessagesExpired"][..]),
        (EventKind::Member, &["MembershipChanged"]),
        (EventKind::Chat, &["ChatCreated", "ChatRenamed", "MessageTtlChanged"]),
    ] {
        let mut world = WebhookWorld::new().await;
        let (ada, bob) = (world.user("ada").await, world.user("bob").await);
        let chat_id = world.group(ada, &[]).await;
        let mut opaque = world.message(chat_id, ada, "ciphertext");
        opaque.body.content_type = ContentType::Encrypted;
        world.append(opaque).await;
        world.apply(chat_id, ada, ChatCommand::AddMember { user_id: bob, role: Default::default() }).await;
        let name = "new name".to_owned().try_into().unwrap();
        world.apply(chat_id, ada, ChatCommand::Update(ChatUpdate::name(name))).await;
        let ttl = ChatUpdate::message_ttl(Ttl::from_secs(3600));
        world.apply(chat_id, ada, ChatCommand::Update(ttl)).await;
        let hello = world.send(chat_id, ada, "hello").await;
        world.update(chat_id, ada, hello.sequence, UpdateAction::React("ok".parse().unwrap())).await;
        // The message has expired, but is only purged later.
        let expired = NewMessage {
            ttl: Ttl::from_secs(1),
            created_at: start().minus(seconds(60)),
            ..world.message(chat_id, ada, "gone")
        };
        world.append(expired).await;
        run(&Arc::new(world.webhook_with(EventWebhookConfig { kinds: vec![kind], ..config() })));
        world.caught_up().await;
        world.store.purge_expired(start());
        world.caught_up().await;
        let requests = world.receiver.rest();
        let types: Vec<String> =
            requests.iter().map(|request| request.json()["event_type"].as_str().unwrap().to_owned()).collect();
        assert_eq!(types, expected);
        if kind == EventKind::Message {
            let payload = &requests[0].json()["payload"];
            assert_eq!(payload["content_type"], "application/vnd.tidings.encrypted");
            assert_eq!(payload["content"], "ciphertext", "opaque to us, and the application's own");
        }
    }
}

#[tokio::test]
async fn a_chat_keeps_its_order_while_one_event_fails_and_other_chats_go_on() {
    let mut world = WebhookWorld::new().await;
    let (slow, ada) = world.chat().await;
    let others = [world.group(ada, &[]).await, world.group(ada, &[]).await];
    world.send_numbered(slow, ada, 5).await;
    for chat_id in others {
        world.send_numbered(chat_id, ada, 5).await;
    }
    // The receiver rejects the second message of one chat until all messages of the others are delivered.
    let mut waiting = 10;
    world.receiver.answer(move |request| match message(request).unwrap() {
        (chat_id, 2) if chat_id == slow && waiting > 0 => CannedResponse::Status(503),
        (chat_id, _) => {
            waiting -= usize::from(chat_id != slow);
            CannedResponse::Status(200)
        }
    });
    run(&Arc::new(world.webhook()));
    let requests = world.until_taken(slow, 5).await;
    for chat_id in [slow, others[0], others[1]] {
        assert_eq!(taken(&requests, chat_id), [1, 2, 3, 4, 5]);
    }
    let attempts: Vec<&str> = requests
        .iter()
        .filter(|request| message(request) == Some((slow, 2)))
        .map(|request| request.header("tidings-attempt"))
        .collect();
    let expected: Vec<String> = (1..=attempts.len()).map(|n| n.to_string()).collect();
    assert!(attempts.len() > 1);
    assert_eq!(attempts, expected, "each attempt carries its number");
}

#[tokio::test]
async fn a_receiver_that_fails_hangs_and_recovers_gets_everything_in_order() {
    let mut world = WebhookWorld::new().await;
    let (chat_id, ada) = world.chat().await;
    world.send_numbered(chat_id, ada, 3).await;
    let mut answers =
        [CannedResponse::Status(503), CannedResponse::Hangs, CannedResponse::Status(500), CannedResponse::Status(429)]
            .into_iter();
    world.receiver.answer(move |_| answers.next().unwrap_or(CannedResponse::Status(202)));
    let webhook = Arc::new(world.webhook());
    run(&webhook);
    for _ in 0..4 {
        world.receiver.next().await;
    }
    let failing = webhook.status().await.unwrap();
    assert!(failing.failing_since.is_some_and(|since| since >= start()), "{failing:?}");
    // The fourth response may still be in flight.
    assert!((3..=4).contains(&failing.failed), "{failing:?}");
    assert_eq!((failing.lag, failing.delivered), (4, 0), "the chat's creation and three messages");

    let requests = world.until_taken(chat_id, 3).await;
    assert_eq!(taken(&requests, chat_id), [1, 2, 3]);
    world.caught_up().await;
    let recovered = webhook.status().await.unwrap();
    assert_eq!((recovered.failing_since, recovered.delivered, recovered.failed, recovered.lag), (None, 3, 4, 0));
    assert_eq!(recovered.last_error.as_deref(), Some("the answer was 429 Too Many Requests"));
    assert_eq!(world.store.dead_letters(None, 10).await.unwrap(), []);
}

#[tokio::test]
async fn a_receiver_that_is_not_there_is_waited_for() {
    let mut world = WebhookWorld::new().await;
    let (chat_id, ada) = world.chat().await;
    world.send(chat_id, ada, "hello").await;
    world.receiver.stop().await;
    let webhook = Arc::new(world.webhook());
    run(&webhook);
    while webhook.status().await.unwrap().failed < 8 {
        tokio::task::yield_now().await;
    }
    let status = webhook.status().await.unwrap();
    assert_eq!((status.last_error.as_deref(), status.lag), (Some("the request failed"), 2));
    assert_eq!(world.store.dead_letters(None, 10).await.unwrap(), [], "nobody is given up for sleeping");
}

#[tokio::test]
async fn a_receiver_that_asks_for_a_pause_gets_it() {
    let mut world = WebhookWorld::new().await;
    let (chat_id, ada) = world.chat().await;
    world.send(chat_id, ada, "hello").await;
    let mut answers = [CannedResponse::RetryAfter(429, 1)].into_iter();
    world.receiver.answer(move |_| answers.next().unwrap_or(CannedResponse::Status(200)));
    run(&Arc::new(world.webhook()));
    let (first, second) = (world.receiver.next().await, world.receiver.next().await);
    let pause = second.at - first.at;
    assert!(pause >= seconds(1), "{pause:?}");
}

#[tokio::test]
async fn a_rejected_event_becomes_one_dead_letter_and_its_chat_continues() {
    let mut world = WebhookWorld::new().await;
    let (chat_id, ada) = world.chat().await;
    world.send_numbered(chat_id, ada, 3).await;
    world.receiver.answer(move |request| match message(request) {
        Some((_, 2)) => CannedResponse::Status(400),
        _ => CannedResponse::Status(200),
    });
    let webhook = Arc::new(world.webhook());
    let running = run(&webhook);
    let requests = world.until_taken(chat_id, 3).await;
    let second: Vec<_> = requests.iter().filter(|request| message(request) == Some((chat_id, 2))).collect();
    assert_eq!(second.len(), 5);
    let event_id: EventId = second[0].header("tidings-event-id").parse().unwrap();
    let position = Position(second[0].json()["position"].as_u64().unwrap());
    let letters = world.store.dead_letters(None, 10).await.unwrap();
    let [letter] = &letters[..] else { panic!("{letters:?}") };
    assert_eq!(letter.what, UndeliveredItem::Event { position, event_id, chat_id });
    assert_eq!((letter.attempts, letter.reason.as_str()), (5, "the answer was 400 Bad Request"));
    assert_eq!(letter.id, Ulid::from_bytes(event_id.to_bytes()));

    // A crash before the offset commit repeats the batch, but stores no second dead letter.
    running.abort();
    world.store.seek(EventWebhook::GROUP, ports::Start::Oldest).await.unwrap();
    let webhook = Arc::new(world.webhook());
    run(&webhook);
    world.until_taken(chat_id, 3).await;
    assert_eq!(world.store.dead_letters(None, 10).await.unwrap(), letters);

    let dead_letters = world.dead_letters(&webhook);
    let refused = Redelivery::Failed("the answer was 400 Bad Request".to_owned());
    assert_eq!(dead_letters.redeliver(letter.id).await.unwrap(), refused);
    world.receiver.answer(|_| CannedResponse::Status(200));
    assert_eq!(dead_letters.redeliver(letter.id).await.unwrap(), Redelivery::Done);
    let redelivered = world.until_taken(chat_id, 2).await;
    assert_eq!(redelivered.last().unwrap().header("tidings-attempt"), "6");
    assert_eq!(dead_letters.redeliver(letter.id).await.unwrap(), Redelivery::NotFound);
}

#[tokio::test]
async fn a_dead_letter_of_an_expired_message_has_nothing_to_deliver() {
    let world = WebhookWorld::new().await;
    let (chat_id, ada) = world.chat().await;
    world.send_for(chat_id, ada, "hello", Ttl::from_secs(3600).unwrap()).await;
    world.receiver.answer(|_| CannedResponse::Status(410));
    let webhook = Arc::new(world.webhook());
    run(&webhook);
    world.caught_up().await;
    let letters = world.store.dead_letters(None, 10).await.unwrap();
    assert_eq!(letters.len(), 1, "to the application, gone is no more than refused");
    world.store.purge_expired(start() + seconds(7200));
    world.receiver.answer(|_| CannedResponse::Status(200));
    let redelivery = world.dead_letters(&webhook).redeliver(letters[0].id).await.unwrap();
    assert_eq!(redelivery, Redelivery::NoLongerKept);
}

#[tokio::test]
async fn patience_ends_when_the_operator_says_so() {
    let world = WebhookWorld::new().await;
    let (chat_id, ada) = world.chat().await;
    world.send(chat_id, ada, "hello").await;
    world.receiver.answer(|_| CannedResponse::Status(503));
    run(&Arc::new(world.webhook_with(EventWebhookConfig { patience: Duration::from_millis(50), ..config() })));
    world.caught_up().await;
    let letters = world.store.dead_letters(None, 10).await.unwrap();
    let [letter] = &letters[..] else { panic!("{letters:?}") };
    assert_eq!(letter.reason, "the answer was 503 Service Unavailable");
    assert!(letter.attempts > 1, "{letter:?}");
}

#[tokio::test]
async fn a_message_that_expires_while_the_receiver_is_down_is_not_delivered() {
    let mut world = WebhookWorld::new().await;
    let (chat_id, ada) = world.chat().await;
    world.send_for(chat_id, ada, "gone in a second", Ttl::from_secs(1).unwrap()).await;
    world.send(chat_id, ada, "stays").await;
    world.receiver.answer(|request| match message(request) {
        Some((_, 1)) => CannedResponse::Status(503),
        _ => CannedResponse::Status(200),
    });
    run(&Arc::new(world.webhook()));
    let requests = world.until_taken(chat_id, 2).await;
    assert_eq!(taken(&requests, chat_id), [2]);
    assert_eq!(world.store.dead_letters(None, 10).await.unwrap(), []);
}

#[tokio::test]
async fn a_crash_before_the_offset_commit_repeats_and_skips_nothing() {
    let mut world = WebhookWorld::new().await;
    let (chat_id, ada) = world.chat().await;
    world.send_numbered(chat_id, ada, 5).await;
    world.receiver.answer(|request| match message(request) {
        Some((_, 3)) => CannedResponse::Hangs,
        _ => CannedResponse::Status(200),
    });
    let crashed = run(&Arc::new(world.webhook()));
    let before = world.receiver.until(|request| message(request) == Some((chat_id, 3))).await;
    assert_eq!(taken(&before, chat_id), [1, 2]);
    crashed.abort();
    world.receiver.rest();
    world.receiver.answer(|_| CannedResponse::Status(200));
    run(&Arc::new(world.webhook()));
    let after = world.until_taken(chat_id, 5).await;
    assert_eq!(taken(&after, chat_id), [1, 2, 3, 4, 5]);
}
