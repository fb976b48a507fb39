use domain::{PushTarget, UserId};
use ports::PushDeviceStore;
use serde_json::{Value, json};

use crate::world::{ApiTestUser, World};

/// 65 bytes that begin with 4, and 16 bytes.
const POINT: &str = "BAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
const SECRET: &str = "AAAAAAAAAAAAAAAAAAAAAA";

fn webhook(token: &str) -> Value {
    json!({ "provider": "webhook", "token": token })
}

fn webpush(endpoint: &str, p256dh: &str, auth: &str) -> Value {
    json!({
        "provider": "webpush", "endpoint": endpoint, "expirationTime": null,
        "keys": { "p256dh": p256dh, "auth": auth },
    })
}

async fn targets(world: &World, of: &ApiTestUser) -> Vec<PushTarget> {
    let user_id: UserId = of.user_id.parse().unwrap();
    world.store.devices(&[user_id]).await.unwrap().into_iter().map(|device| device.target).collect()
}

#[tokio::test]
async fn a_device_is_notified_by_its_latest_registration_until_it_unregisters() {
    let world = World::new();
    let ann = world.person("Ann").await;
    let path = format!("/devices/{}/push", ann.device_id);
    for body in [webhook("first"), webpush("https://push.example/1", POINT, &format!("{SECRET}=="))] {
        assert_eq!(world.put(&ann, &path, body).await.status, 204);
    }
    let targets_now = targets(&world, &ann).await;
    let [PushTarget::WebPush(subscription)] = targets_now.as_slice() else { panic!("{targets_now:?}") };
    assert_eq!((subscription.endpoint(), subscription.auth()), ("https://push.example/1", &[0; 16]));
    for _ in 0..2 {
        assert_eq!(world.delete(&ann, &path).await.status, 204);
    }
    assert_eq!(targets(&world, &ann).await, []);
}

#[tokio::test]
async fn a_registration_that_cannot_be_taken_is_refused_by_its_field() {
    let world = World::new();
    let ann = world.person("Ann").await;
    let url = "https://push.example/1";
    for (body, field) in [
        (json!({}), "provider"),
        (json!({ "provider": "pigeon" }), "provider"),
        (json!({ "provider": "webhook" }), "token"),
        (webhook(""), "token"),
        (webhook("two words"), "token"),
        (webhook("off"), "provider"),
        (json!({ "provider": "webpush", "endpoint": url }), "keys"),
        (json!({ "provider": "webpush", "keys": { "p256dh": POINT, "auth": SECRET } }), "endpoint"),
        (webpush("http://push.example/1", POINT, SECRET), "endpoint"),
        (webpush(url, "%", SECRET), "keys.p256dh"),
        (webpush(url, SECRET, SECRET), "keys.p256dh"),
        (webpush(url, POINT, POINT), "keys.auth"),
    ] {
        let answer = world.put(&ann, &format!("/devices/{}/push", ann.device_id), body.clone()).await;
        assert_eq!((answer.failure(), answer.field()), ((400, "VALIDATION_ERROR"), field), "{body}");
    }
    assert_eq!(targets(&world, &ann).await, []);
}

#[tokio::test]
async fn only_signed_in_devices_are_notified() {
    let world = World::new();
    let (ann, bob) = (world.person("Ann").await, world.person("Bob").await);
    let tablet = world.sign_in(&ann.phone_number, "00000000-0000-4000-8000-0000000000ff", "Ann").await;
    let of = |person: &ApiTestUser| format!("/devices/{}/push", person.device_id);
    assert_eq!(world.put(&ann, &of(&bob), webhook("a")).await.failure(), (404, "NOT_FOUND"));
    assert_eq!(world.put(&ann, "/devices/x/push", webhook("a")).await.failure(), (404, "NOT_FOUND"));
    assert_eq!(world.put(&ann, &of(&tablet), webhook("tablet")).await.status, 204);
    assert_eq!(world.put(&ann, &of(&ann), webhook("phone")).await.status, 204);
    assert_eq!(targets(&world, &ann).await.len(), 2);
    assert_eq!(world.post(&tablet, "/auth/logout", json!({})).await.status, 204);
    let left = targets(&world, &ann).await;
    let [PushTarget::Webhook(token)] = left.as_slice() else { panic!("{left:?}") };
    assert_eq!(token.as_str(), "phone");
}

#[tokio::test]
async fn browsers_learn_the_key_to_subscribe_with() {
    let world = World::new();
    let service = world.call("GET", "", None, None).await;
    assert_eq!(service.text("/web_push_public_key"), "the public key");
}
