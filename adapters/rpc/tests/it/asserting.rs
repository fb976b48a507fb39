//! A caller acts for users of whom it has an assertion, and for no others.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use domain::{DeviceId, IngestError, Sequence, Timestamp, WatermarkKind};
use memory::ManualClock;
use ports::{Assertion, Clock, Identity, IdentityError, Ingest, Principal, SendRequest, SystemClock};
use tidings_rpc::{Asserter, AssertingIdentity, AssertingIngest, AssertionKey};

use crate::crossing::Says;
use crate::world::{CallingProcess, World, advance, asserter, request, soon, sync};

const LIFETIME: Duration = Duration::from_secs(600);

/// The assertions that ingest refuses for a user, each with its defect.
fn refused(world: &World, user: domain::UserId) -> [(&'static str, Option<Assertion>); 4] {
    let past = Arc::new(ManualClock::at(SystemClock.now().minus(LIFETIME)));
    let of_key = |n, clock: Arc<dyn Clock>| Asserter::new(AssertionKey::new(&[n; 32]), LIFETIME, clock);
    [
        ("none", None),
        ("of another user", Some(asserter().assert_user(world.user()))),
        ("expired", Some(of_key(7, past).assert_user(user))),
        ("of another fleet", Some(of_key(8, Arc::new(SystemClock)).assert_user(user))),
    ]
}

#[tokio::test]
async fn a_call_without_a_valid_assertion_of_its_user_is_refused() {
    let world = World::new();
    let (_process, tap) = world.ingest("a");
    let caller = CallingProcess::start(&world).await;
    let user = world.user();
    let chat = world.group(user).await;
    for (defect, assertion) in refused(&world, user) {
        let send = SendRequest { assertion: assertion.clone(), ..request(chat, user, "forged") };
        let sent = soon(caller.send(send)).await;
        assert!(matches!(sent, Err(IngestError::Unavailable { .. })), "{defect}: {sent:?}");
        let synced = ports::SyncRequest { assertion: assertion.clone(), ..sync(user, chat, 0, 1) };
        let synced = soon(caller.ingest.sync(synced)).await;
        assert!(matches!(synced, Err(IngestError::Unavailable { .. })), "{defect}: {synced:?}");
        let moved = ports::AdvanceRequest { assertion, ..advance(user, chat, WatermarkKind::Read, 0) };
        let moved = soon(caller.ingest.advance(moved)).await;
        assert!(matches!(moved, Err(IngestError::Unavailable { .. })), "{defect}: {moved:?}");
    }
    assert_eq!((tap.count(chat), tap.syncs.load(Ordering::SeqCst)), (0, 0), "nothing reached ingest");
    let sent = soon(caller.send(request(chat, user, "genuine"))).await.unwrap();
    assert_eq!(sent.receipt.sequence, Sequence(1), "the refusals did no harm to the stream");
}

#[tokio::test]
async fn an_assertion_counts_for_its_stream_and_a_new_stream_presents_it_again() {
    let world = World::new();
    let (mut first, _tap) = world.ingest("a");
    let caller = CallingProcess::start(&world).await;
    let user = world.user();
    let chat = world.group(user).await;
    let assertion = Some(asserter().assert_user(user));
    let send = |text| SendRequest { assertion: assertion.clone(), ..request(chat, user, text) };
    soon(caller.send(send("presents it"))).await.unwrap();
    let bare = SendRequest { assertion: None, ..request(chat, user, "refers to it") };
    soon(caller.send(bare.clone())).await.unwrap();
    let other = CallingProcess::start(&world).await;
    assert!(soon(other.send(bare.clone())).await.is_err(), "another stream has to present it itself");

    let (_second, tap) = world.ingest("b");
    world.list.remove(ports::ProcessRole::Ingest, &first.peer);
    first.begin_shutdown();
    caller.refreshed(&world).await;
    soon(async { while caller.send(send("presents it again")).await.is_err() {} }).await;
    assert!(tap.count(chat) > 0);
}

#[tokio::test]
async fn a_refused_assertion_is_presented_again_with_the_next_send() {
    let world = World::new();
    let (_process, _tap) = world.ingest("a");
    let caller = CallingProcess::start(&world).await;
    let user = world.user();
    let chat = world.group(user).await;
    let genuine = asserter().assert_user(user);
    // Damaged on the way: the caller takes it for valid.
    let damaged = Assertion { proof: [0; 150].into(), ..genuine.clone() };
    let send = |assertion| SendRequest { assertion: Some(assertion), ..request(chat, user, "hi") };
    assert!(soon(caller.send(send(damaged))).await.is_err());
    assert!(soon(caller.send(send(genuine))).await.is_ok());
}

#[tokio::test]
async fn an_api_process_asserts_its_own_calls() {
    let world = World::new();
    let (_process, _tap) = world.ingest("a");
    let caller = CallingProcess::start(&world).await;
    let ingest = AssertingIngest::new(caller.ingest.clone(), asserter());
    let user = world.user();
    let chat = world.group(user).await;
    soon(ingest.send(SendRequest { assertion: None, ..request(chat, user, "hi") })).await.unwrap();
    let synced = ports::SyncRequest { assertion: None, ..sync(user, chat, 0, 1) };
    assert_eq!(soon(ingest.sync(synced)).await.unwrap().head, Sequence(1));
    let moved = ports::AdvanceRequest { assertion: None, ..advance(user, chat, WatermarkKind::Read, 1) };
    assert_eq!(soon(ingest.advance(moved)).await.unwrap().read, Sequence(1));
}

#[tokio::test]
async fn an_assertion_is_renewed_while_the_token_is_valid_and_the_session_exists() {
    let clock = Arc::new(ManualClock::at(Timestamp::from_millis(1_769_783_400_000)));
    let token_expires_at = clock.now() + 3 * LIFETIME;
    let of_session = |n| {
        let session_id = Some(domain::SessionId::from_bytes([n; 16]));
        let user_id = domain::UserId::from_bytes([1; 16]);
        let principal = Principal { user_id, session_id, device_id: None, token_expires_at, assertion: None };
        let asserter = Asserter::new(AssertionKey::new(&[7; 32]), LIFETIME, clock.clone());
        AssertingIdentity::new(Arc::new(Says::identity(move || Ok(principal.clone()))), asserter)
    };
    // Sessions with these numbers exist, by the rule of `Says`, and others have ended.
    let (live, ended) = (of_session(3), of_session(4));
    let identified = async |identity: &AssertingIdentity| {
        let principal = identity.identify("token", DeviceId::from_bytes([2; 16])).await.unwrap();
        principal.assertion.expect("it asserts its answers")
    };
    let (held, of_ended) = (identified(&live).await, identified(&ended).await);
    assert_eq!(held.expires_at, clock.now() + LIFETIME);
    assert!(matches!(ended.renew(&of_ended).await, Err(IdentityError::TokenRevoked)));
    let forged = Assertion { proof: held.proof.iter().map(|byte| byte ^ 1).collect(), ..held.clone() };
    assert!(matches!(live.renew(&forged).await, Err(IdentityError::InvalidToken(_))));
    // An expired assertion is renewed too: the connection was idle, or no process answered.
    clock.advance(2 * LIFETIME);
    let renewed = live.renew(&held).await.unwrap();
    assert_eq!(renewed.expires_at, clock.now() + LIFETIME);
    assert_eq!(renewed.expires_at, token_expires_at);
    clock.advance(LIFETIME);
    assert!(matches!(live.renew(&renewed).await, Err(IdentityError::InvalidToken(_))), "its token has expired");
}
