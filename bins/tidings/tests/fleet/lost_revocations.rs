//! Revocations, suspensions and denied tokens of which the message to a gateway is lost: Redis accepts it, and does not
//! report that nobody received it.

use std::time::{Duration, Instant};

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use ports::ProcessRole;
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::gateways::connect_to;
use crate::network::ProcessNetwork;
use crate::server::{BUSY, TestDevice, TestServer, TestSocket};
use crate::webhook::{said, tidings};

/// The gateway that is cut off.
const CUT_OFF: usize = 0;

fn network(server: &TestServer) -> &ProcessNetwork {
    server.fleet.base.network.as_ref().expect("the fleet has one").of(ProcessRole::Gateway, CUT_OFF)
}

/// Ends the session of a device.
async fn revoke(by: &TestDevice, device: &TestDevice) -> Instant {
    assert_eq!(by.delete(&format!("/sessions/{}", device.session_id)).await.status, 204);
    Instant::now()
}

/// Suspends the user of a device.
async fn suspend(server: &TestServer, device: &TestDevice) -> Instant {
    said(&tidings(server, &["admin", "user", "suspend", &device.user_id, "--yes"]).await);
    Instant::now()
}

/// Denies the access token of a device.
async fn deny_token(server: &TestServer, device: &TestDevice) -> Instant {
    let claims = BASE64_URL_SAFE_NO_PAD.decode(device.access_token.split('.').nth(1).unwrap()).unwrap();
    let claims: Value = serde_json::from_slice(&claims).unwrap();
    let token_id = claims["jti"].as_str().unwrap();
    said(&tidings(server, &["admin", "user", "revoke-token", &device.user_id, token_id]).await);
    Instant::now()
}

async fn assert_closed(socket: &mut TestSocket, reason: &str, since: Instant, within: Duration) {
    let closed = socket.closed().await;
    assert_eq!((closed.code, &*closed.reason), (4001, reason));
    assert!(since.elapsed() < within + BUSY, "{:?}", since.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn sockets_at_a_gateway_that_misses_messages_of_redis_and_calls_close_all_the_same() {
    const SECOND: Duration = Duration::from_secs(1);
    let server = TestServer::start_on_network().await;
    let [phone, eve, mal] = server.sign_up_all(["Ann", "Eve", "Mal"]).await;
    let [laptop, tablet] = [server.another_device(&phone).await, server.another_device(&phone).await];
    // A denied token closes all sockets of its user.
    let [watch, clock] = server.sign_up_all(["Tim", "Tom"]).await;
    let (mut phones, _) = connect_to(&server, CUT_OFF, &phone).await;
    let (mut laptops, _) = connect_to(&server, CUT_OFF, &laptop).await;
    let (mut tablets, _) = connect_to(&server, CUT_OFF, &tablet).await;
    let (mut watchs, _) = connect_to(&server, CUT_OFF, &watch).await;
    let (mut clocks, _) = connect_to(&server, CUT_OFF, &clock).await;
    let (mut eves, _) = connect_to(&server, CUT_OFF, &eve).await;
    let (mut mals, _) = connect_to(&server, CUT_OFF, &mal).await;

    network(&server).redis.stall(true);
    let since = revoke(&phone, &laptop).await;
    assert_closed(&mut laptops, "session_revoked", since, SECOND).await;
    let since = suspend(&server, &eve).await;
    assert_closed(&mut eves, "session_revoked", since, SECOND).await;
    let since = deny_token(&server, &watch).await;
    assert_closed(&mut watchs, "token_expired", since, SECOND).await;

    // No other process reaches the gateway by a call either. Longer than one call takes, so that it is repeated.
    network(&server).calls.stall(true);
    revoke(&phone, &tablet).await;
    suspend(&server, &mal).await;
    let since = deny_token(&server, &clock).await;
    while since.elapsed() < 3 * SECOND {
        for socket in [&mut tablets, &mut mals, &mut clocks] {
            assert_eq!(socket.ask("heartbeat", json!({})).await["type"], "heartbeat_ack", "nothing tells the gateway");
        }
        sleep(Duration::from_millis(100)).await;
    }
    for (device, status, code) in
        [(&tablet, 401, "UNAUTHORIZED"), (&mal, 403, "FORBIDDEN"), (&clock, 401, "UNAUTHORIZED")]
    {
        for url in server.api_urls() {
            device.at(&url).get("/users/me").await.refused(status, code);
        }
    }
    network(&server).calls.stall(false);
    let since = Instant::now();
    assert_closed(&mut tablets, "session_revoked", since, 2 * SECOND).await;
    assert_closed(&mut mals, "session_revoked", since, 2 * SECOND).await;
    assert_closed(&mut clocks, "token_expired", since, 2 * SECOND).await;
    assert_eq!(phones.ask("heartbeat", json!({})).await["type"], "heartbeat_ack", "the other device stays");
    network(&server).redis.stall(false);
}
