use std::sync::{Arc, Mutex};
use std::time::Duration;

use client::rest::Tokens;
use client::{ApiError, ClientEvent, ConnectError, Credential, RawConnection, StopReason};
use domain::DeviceId;

use crate::scripted_server::ScriptedServer;

#[tokio::test]
async fn a_refused_token_is_renewed_once_and_the_call_repeated() {
    let server = ScriptedServer::start().await;
    let client = server.client("stale");
    assert_eq!(client.api().me().await.unwrap().user.display_name, "Ann");
    assert_eq!(client.api().me().await.unwrap().user.display_name, "Ann");
    assert_eq!(server.rules().refreshes, ["refresh-1"]);
}

#[tokio::test]
async fn calls_at_the_same_time_renew_the_token_once() {
    let server = ScriptedServer::start().await;
    let client = server.client("stale");
    let (one, other) = tokio::join!(client.api().me(), client.api().me());
    assert_eq!(
        (one.unwrap().user.display_name, other.unwrap().user.display_name),
        ("Ann".to_owned(), "Ann".to_owned())
    );
    assert_eq!(server.rules().refreshes, ["refresh-1"]);
}

#[tokio::test]
async fn new_tokens_are_kept_for_the_next_run() {
    let server = ScriptedServer::start().await;
    let kept = Arc::new(Mutex::new(Vec::new()));
    let keeper = Arc::clone(&kept);
    let keep = move |tokens: Option<&Tokens>| keeper.lock().unwrap().push(tokens.cloned());
    let client = server.builder("stale").keep_tokens(keep).build().unwrap();
    assert_eq!(kept.lock().unwrap().len(), 0, "tokens from the builder are not stored again");
    client.api().me().await.unwrap();
    let kept: Vec<_> = kept.lock().unwrap().iter().map(|tokens| tokens.clone().unwrap().refresh_token.0).collect();
    assert_eq!(kept, ["refresh-2"]);
}

#[tokio::test]
async fn a_refused_handshake_renews_the_token_and_connects() {
    let mut server = ScriptedServer::start().await;
    let (_handle, mut events) = server.client("stale").connect().unwrap();
    let _socket = server.establish().await;
    assert!(matches!(events.next().await, Some(ClientEvent::Connected { .. })));
    assert_eq!(server.rules().refreshes, ["refresh-1"]);
}

#[tokio::test]
async fn a_refused_renewal_signs_the_user_out() {
    let server = ScriptedServer::start().await;
    server.rules().refresh_works = false;
    let (_handle, mut events) = server.client("stale").connect().unwrap();
    assert_eq!(events.next().await, Some(ClientEvent::Stopped(StopReason::SignedOut)));
    assert_eq!(events.next().await, None);
}

#[tokio::test]
async fn without_a_token_no_request_is_made() {
    let server = ScriptedServer::start().await;
    let client = client::Client::builder(server.base_url()).build().unwrap();
    assert!(matches!(client.connect(), Err(ApiError::NotSignedIn)));
    assert!(matches!(client.api().me().await, Err(ApiError::NotSignedIn)));
}

#[tokio::test]
async fn debug_shows_no_token() {
    let server = ScriptedServer::start().await;
    let text = format!("{:?}", server.client("secret"));
    assert!(!text.contains("secret") && !text.contains("refresh-1"), "{text}");
}

#[tokio::test]
async fn a_raw_connection_reports_the_refusal_of_its_handshake() {
    let server = ScriptedServer::start().await;
    let device_id = DeviceId::from_bytes([1; 16]);
    let refused = RawConnection::connect(server.base_url(), device_id, Credential::Token("stale")).await;
    match refused {
        Err(ConnectError::Refused { status, retry_after }) => {
            assert_eq!((status, retry_after), (401, Some(Duration::from_secs(7))));
        }
        other => panic!("{other:?}"),
    }
}
