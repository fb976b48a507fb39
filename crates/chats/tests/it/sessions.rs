use std::time::Duration;

use domain::Timestamp;
use ports::Clock;

use crate::world::{ApiTestUser, World};

const PHONE: &str = "+14155550100";

/// One user on three devices, the first of which asks.
async fn three_devices(world: &World) -> [ApiTestUser; 3] {
    [
        world.sign_in(PHONE, "00000000-0000-4000-8000-000000000001", "Ann").await,
        world.sign_in(PHONE, "00000000-0000-4000-8000-000000000002", "Ann").await,
        world.sign_in(PHONE, "00000000-0000-4000-8000-000000000003", "Ann").await,
    ]
}

#[tokio::test]
async fn sessions_list_devices_and_mark_the_one_that_asks() {
    let world = World::new();
    let [_, tablet, _] = three_devices(&world).await;
    let answer = world.get(&tablet, "/sessions").await;
    assert_eq!(answer.each("sessions", "is_current"), [false, true, false]);
    assert_eq!(answer.data()["sessions"][1]["device_id"], tablet.device_id);
    assert_eq!(answer.data()["sessions"][1]["expires_at"], "2026-03-01T14:30:00.000Z");
}

#[tokio::test]
async fn a_connected_device_is_active_now_and_another_one_since_its_last_refresh() {
    let world = World::new();
    let [_, tablet, laptop] = three_devices(&world).await;
    let signed_in = world.clock.now();
    world.clock.advance(Duration::from_secs(600));
    let route = world.connect(&laptop).await;
    let active = async || {
        let sessions = world.get(&tablet, "/sessions").await;
        let times = sessions.each("sessions", "last_active_at").into_iter();
        times.map(|time| time.as_str().unwrap().parse::<Timestamp>().unwrap()).collect::<Vec<_>>()
    };
    let now = world.clock.now();
    assert_eq!(active().await, [signed_in, now, now]);
    world.disconnect(route).await;
    assert_eq!(active().await, [signed_in, now, signed_in]);
}

#[tokio::test]
async fn revoking_a_session_voids_its_token_and_closes_its_sockets() {
    let world = World::new();
    let [phone, tablet, _] = three_devices(&world).await;
    let sessions = world.get(&phone, "/sessions").await;
    let path = format!("/sessions/{}", sessions.text("/sessions/1/session_id"));
    assert_eq!(world.delete(&phone, &path).await.status, 204);
    assert_eq!(world.get(&tablet, "/users/me").await.failure(), (401, "UNAUTHORIZED"));
    assert_eq!(world.sockets.closed(), 1);
    assert_eq!(world.delete(&phone, &path).await.failure(), (404, "NOT_FOUND"));
}

#[tokio::test]
async fn the_session_of_another_user_is_not_found() {
    let world = World::new();
    let [ann, ..] = three_devices(&world).await;
    let bob = world.person("Bob").await;
    let session = world.get(&ann, "/sessions").await.text("/sessions/0/session_id");
    assert_eq!(world.delete(&bob, &format!("/sessions/{session}")).await.failure(), (404, "NOT_FOUND"));
    assert_eq!(world.delete(&bob, "/sessions/sess_x").await.failure(), (404, "NOT_FOUND"));
    assert_eq!(world.get(&ann, "/users/me").await.status, 200);
}

#[tokio::test]
async fn all_but_the_current_session_end_unless_it_is_asked_for_too() {
    let world = World::new();
    let [phone, tablet, _] = three_devices(&world).await;
    let answer = world.delete(&phone, "/sessions").await;
    assert_eq!((answer.status, &answer.data()["revoked_count"]), (200, &2.into()));
    assert_eq!(world.get(&tablet, "/users/me").await.status, 401);
    let answer = world.delete(&phone, "/sessions?include_current=true").await;
    assert_eq!(answer.data()["revoked_count"], 1);
    assert_eq!(world.get(&phone, "/users/me").await.status, 401);
}

#[tokio::test]
async fn include_current_is_true_or_false() {
    let world = World::new();
    let ann = world.person("Ann").await;
    let answer = world.delete(&ann, "/sessions?include_current=maybe").await;
    assert_eq!((answer.failure(), answer.field()), ((400, "VALIDATION_ERROR"), "include_current"));
}
