use domain::{PresenceView, Timestamp};
use ports::{ConnectionDisplacer, Delivery, Ids, PresenceNotifier, PresenceUpdate, Push, RandomIds, Revocation};
use tidings_redis::{InboxState, RedisDelivery};

use crate::engine::command;
use crate::fixtures::{Delivered, InboxListener, World, gateway, on_one_and_on_a_cluster, push, user};

on_one_and_on_a_cluster!(
    pushes_arrive_whole_and_in_order,
    a_thousand_recipients_are_one_publish,
    an_oversized_push_arrives_in_order,
    a_message_is_one_publish_for_each_gateway,
    a_revocation_reaches_every_gateway_with_one_publish,
    a_displacement_reaches_its_gateway_alone,
    presence_updates_of_a_thousand_users_are_one_publish_for_each_gateway,
    malformed_envelopes_are_reported_as_a_gap,
);

async fn pushes_arrive_whole_and_in_order(world: World) {
    let mut a = InboxListener::start(&world.redis, "a").await;
    let mut b = InboxListener::start(&world.redis, "b").await;
    let delivery = RedisDelivery::new(world.redis.clone());
    let except = Some(RandomIds.ulid().into());
    let sent: Vec<Vec<Push>> = (0..50)
        .map(|n| vec![push(vec![user(), user()], &format!("{n}")), Push { except, ..push(vec![user()], "more") }])
        .collect();
    for pushes in &sent {
        delivery.deliver(&gateway("a"), pushes).await.unwrap();
    }
    delivery.deliver(&gateway("b"), &sent[0]).await.unwrap();
    for pushes in &sent {
        assert_eq!(a.next().await, Delivered::Pushes(gateway("a"), pushes.clone()));
    }
    assert_eq!(b.next().await, Delivered::Pushes(gateway("b"), sent[0].clone()));
    assert_eq!(*a.state.borrow(), InboxState { listening: true, gaps: 0 });
}

async fn a_thousand_recipients_are_one_publish(world: World) {
    let mut listener = InboxListener::start(&world.redis, "a").await;
    let pushes = vec![push((0..1000).map(|_| user()).collect(), "hello")];
    let delivery = RedisDelivery::new(world.redis.clone());
    delivery.deliver(&gateway("a"), &pushes).await.unwrap();
    assert_eq!(listener.next().await, Delivered::Pushes(gateway("a"), pushes));
    assert_eq!(world.calls("publish"), 1);
}

async fn an_oversized_push_arrives_in_order(world: World) {
    let mut listener = InboxListener::start(&world.redis, "a").await;
    let sent: Vec<Push> = (0..40).map(|n| push(vec![user()], &n.to_string().repeat(50_000))).collect();
    let delivery = RedisDelivery::new(world.redis.clone());
    delivery.deliver(&gateway("a"), &sent).await.unwrap();
    let mut received = vec![];
    while received.len() < sent.len() {
        match listener.next().await {
            Delivered::Pushes(_, pushes) => received.extend(pushes),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(received, sent);
    assert_eq!(world.calls("publish"), 4, "3.5 MB are four times 1 MiB");
}

async fn a_displacement_reaches_its_gateway_alone(world: World) {
    let mut a = InboxListener::start(&world.redis, "a").await;
    let mut b = InboxListener::start(&world.redis, "b").await;
    let delivery = RedisDelivery::new(world.redis.clone());
    let (user_id, connection_id) = (user(), RandomIds.ulid().into());
    delivery.displace(&gateway("a"), user_id, connection_id).await.unwrap();
    delivery.deliver(&gateway("b"), &[push(vec![user_id], "next")]).await.unwrap();
    assert_eq!(a.next().await, Delivered::Displaced(gateway("a"), user_id, connection_id));
    assert!(matches!(b.next().await, Delivered::Pushes(..)));
}

async fn presence_updates_of_a_thousand_users_are_one_publish_for_each_gateway(world: World) {
    let mut a = InboxListener::start(&world.redis, "a").await;
    let mut b = InboxListener::start(&world.redis, "b").await;
    let delivery = RedisDelivery::new(world.redis.clone());
    let views = [
        PresenceView::Online,
        PresenceView::Offline { last_seen: Some(Timestamp::from_millis(1_700_000_000_123)) },
        PresenceView::Offline { last_seen: None },
        PresenceView::Unknown,
    ];
    let told: Vec<PresenceUpdate> = (0..1000)
        .map(|n| PresenceUpdate {
            user_id: user(),
            view: views[n % 4],
            recipients: (0..n % 3).map(|_| user()).collect(),
        })
        .collect();
    for (name, listener) in [("a", &mut a), ("b", &mut b)] {
        delivery.notify(&gateway(name), told.clone()).await.unwrap();
        assert_eq!(listener.next().await, Delivered::Told(gateway(name), told.clone()));
    }
    assert_eq!(world.calls("publish"), 2);
}

/// A group on two gateways; one of them also has the sender's other device, which gets a different frame.
async fn a_message_is_one_publish_for_each_gateway(world: World) {
    let mut a = InboxListener::start(&world.redis, "a").await;
    let mut b = InboxListener::start(&world.redis, "b").await;
    let members = [user(), user(), user()];
    let others = push(members[1..].to_vec(), "message");
    let own = Push { except: Some(RandomIds.ulid().into()), ..push(vec![members[0]], "message with its client id") };
    let delivery = RedisDelivery::new(world.redis.clone());
    let sent = [(gateway("a"), vec![others.clone(), own]), (gateway("b"), vec![others])];
    for (gateway, pushes) in &sent {
        delivery.deliver(gateway, pushes).await.unwrap();
    }
    for (listener, (gateway, pushes)) in [&mut a, &mut b].into_iter().zip(sent) {
        assert_eq!(listener.next().await, Delivered::Pushes(gateway, pushes));
    }
    assert_eq!(world.calls("publish"), 2);
}

async fn a_revocation_reaches_every_gateway_with_one_publish(world: World) {
    let mut a = InboxListener::start(&world.redis, "a").await;
    let mut b = InboxListener::start(&world.redis, "b").await;
    let revocation = Revocation::Session(RandomIds.ulid().into());
    RedisDelivery::new(world.redis.clone()).revoke(revocation).await.unwrap();
    for listener in [&mut a, &mut b] {
        assert_eq!(listener.next().await, Delivered::Revoked(revocation));
    }
    assert_eq!(world.calls("publish"), 1);
}

async fn malformed_envelopes_are_reported_as_a_gap(world: World) {
    let mut listener = InboxListener::start(&world.redis, "a").await;
    let heard: usize = command(&world.engines[0], "PUBLISH server:{a}:deliver rubbish");
    assert_eq!(heard, 1);
    assert_eq!(listener.until(|state| state.gaps > 0).await, InboxState { listening: true, gaps: 1 });
    let pushes = vec![push(vec![user()], "hello")];
    RedisDelivery::new(world.redis.clone()).deliver(&gateway("a"), &pushes).await.unwrap();
    assert_eq!(listener.next().await, Delivered::Pushes(gateway("a"), pushes));
}
