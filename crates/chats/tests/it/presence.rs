use domain::PresenceView;
use serde_json::{Value, json};

use crate::world::{ApiTestUser, NOBODY, World};

async fn befriend(world: &World, one: &ApiTestUser, other: &ApiTestUser) {
    for (by, contact) in [(one, other), (other, one)] {
        let listed = world.put(by, &format!("/contacts/{}", contact.user_id), Value::Null).await;
        assert_eq!(listed.status, 200, "{listed:?}");
    }
}

#[tokio::test]
async fn a_mutual_contact_sees_online_state_and_last_seen() {
    let world = World::new();
    let (ann, bob) = (world.person("Ann").await, world.person("Bob").await);
    let of_bob = format!("/users/{}/presence", bob.user_id);
    let sees = async || world.get(&ann, &of_bob).await.data().clone();
    let connection = world.connect(&bob).await;
    assert_eq!(sees().await, json!({ "user_id": bob.user_id, "status": "unknown" }), "they are strangers");

    befriend(&world, &ann, &bob).await;
    assert_eq!(sees().await, json!({ "user_id": bob.user_id, "status": "online" }));
    world.disconnect(connection).await;
    let offline = json!({ "user_id": bob.user_id, "status": "offline", "last_seen": "2026-01-30T14:30:00.000Z" });
    assert_eq!(sees().await, offline);
}

#[tokio::test]
async fn a_question_is_answered_in_the_order_asked() {
    let world = World::new();
    let (ann, bob, eve) = (world.person("Ann").await, world.person("Bob").await, world.person("Eve").await);
    befriend(&world, &ann, &bob).await;
    for person in [&bob, &eve] {
        world.connect(person).await;
    }
    let asked = json!({ "user_ids": [eve.user_id, bob.user_id, NOBODY, ann.user_id, bob.user_id] });
    let answer = world.post(&ann, "/presence/query", asked).await;
    let presence = |user_id: &str, status| json!({ "user_id": user_id, "status": status });
    assert_eq!(
        (answer.status, answer.data()),
        (
            200,
            &json!({ "presences": [
                presence(&eve.user_id, "unknown"),
                presence(&bob.user_id, "online"),
                presence(NOBODY, "unknown"),
                presence(&ann.user_id, "offline"),
                presence(&bob.user_id, "online"),
            ] })
        )
    );
}

#[tokio::test]
async fn a_missing_user_looks_like_a_hidden_one() {
    let world = World::new();
    let (ann, eve) = (world.person("Ann").await, world.person("Eve").await);
    world.connect(&eve).await;
    for user_id in [NOBODY, &eve.user_id] {
        let answer = world.get(&ann, &format!("/users/{user_id}/presence")).await;
        assert_eq!((answer.status, answer.data()), (200, &json!({ "user_id": user_id, "status": "unknown" })));
    }
    assert_eq!(world.get(&ann, "/users/eve/presence").await.failure(), (404, "NOT_FOUND"));
}

#[tokio::test]
async fn a_question_is_of_a_hundred_ids_at_the_most() {
    let world = World::new();
    let ann = world.person("Ann").await;
    let many = |count| json!({ "user_ids": vec![NOBODY; count] });
    for count in [0, 100] {
        let answer = world.post(&ann, "/presence/query", many(count)).await;
        assert_eq!((answer.status, answer.each("presences", "status").len()), (200, count));
    }
    for (body, field) in [
        (many(101), "user_ids"),
        (json!({}), "user_ids"),
        (json!({ "user_ids": [NOBODY, "eve"] }), "user_ids[1]"),
        (json!({ "user_ids": "everybody" }), "user_ids"),
    ] {
        let answer = world.post(&ann, "/presence/query", body.clone()).await;
        assert_eq!((answer.failure(), answer.field()), ((400, "VALIDATION_ERROR"), field), "{body}");
    }
}

#[tokio::test]
async fn only_a_change_of_visibility_is_announced() {
    let world = World::new();
    let ann = world.person("Ann").await;
    world.connect(&ann).await;
    let nobody = json!({ "presence_visibility": "nobody" });
    for (body, is_told) in [
        (json!({ "display_name": "Anna" }), false),
        (json!({ "presence_visibility": "contacts_only" }), false),
        (nobody.clone(), true),
        (nobody, false),
        (json!({ "presence_visibility": "everyone", "display_name": "Ann" }), true),
    ] {
        let answer = world.patch(&ann, "/users/me", body.clone()).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        let told = world.told.take();
        assert_eq!(!told.is_empty(), is_told, "{body}: {told:?}");
        assert!(told.iter().all(|(user_id, _)| *user_id == ann.user_id), "{told:?}");
        assert_eq!(told.iter().any(|(_, view)| *view == PresenceView::Online), is_told, "{told:?}");
    }
}
