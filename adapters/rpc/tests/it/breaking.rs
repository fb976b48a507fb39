use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use domain::{DeviceId, IngestError, Sequence};
use ports::{Identity, IdentityError, Ingest, PeerProcess, ProcessRole};
use tidings_rpc::{Config, RemoteIdentity};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::world::{CallingProcess, World, config, request, secret, soon, sync};

#[tokio::test]
async fn a_process_that_hangs_loses_its_chats_and_has_them_back_when_it_answers() {
    let world = World::new();
    let ((a, tap_a), (_b, tap_b)) = (world.ingest("a"), world.ingest("b"));
    // A busy machine answers within the deadline too.
    let times = Config { deadline: Duration::from_secs(2), breaker_pause: Duration::from_millis(300), ..config() };
    let caller = CallingProcess::with(&world, secret(), times, None).await;
    let user = world.user();
    let mut of_a = vec![];
    while of_a.len() < 5 {
        let chat = world.group(user).await;
        soon(caller.send(request(chat, user, "whose?"))).await.unwrap();
        of_a.extend((tap_a.count(chat) == 1).then_some(chat));
    }

    let (held, begin) = (a.hang(), Instant::now());
    let sends: Vec<_> = of_a.iter().map(|chat| caller.send(request(*chat, user, "hangs"))).collect();
    for send in sends {
        assert!(matches!(soon(send).await, Err(IngestError::Unavailable { .. })));
    }
    soon(async {
        while tap_b.count(of_a[0]) == 0 {
            drop(caller.send(request(of_a[0], user, "moved")).await);
        }
    })
    .await;
    // Sooner than keep-alive pings would detect a dead connection: they take 10 s.
    assert!(begin.elapsed() < Duration::from_secs(9), "{:?}", begin.elapsed());
    let sent = soon(caller.send(request(of_a[1], user, "moved"))).await.unwrap();
    assert_eq!((sent.receipt.sequence, tap_b.count(of_a[1])), (Sequence(2), 1));

    drop(held);
    let before = tap_a.count(of_a[2]);
    soon(async {
        while tap_a.count(of_a[2]) == before {
            caller.send(request(of_a[2], user, "still elsewhere, or back")).await.unwrap();
        }
    })
    .await;
}

#[tokio::test]
async fn a_sync_goes_to_another_process_when_the_owner_is_lost() {
    let world = World::new();
    let ((a, tap_a), (_b, _tap_b)) = (world.ingest("a"), world.ingest("b"));
    let caller = CallingProcess::start(&world).await;
    let user = world.user();
    let chat_id = loop {
        let chat = world.group(user).await;
        soon(caller.send(request(chat, user, "whose?"))).await.unwrap();
        if tap_a.count(chat) == 1 {
            break chat;
        }
    };
    // It stays on the list.
    a.kill();
    let sync = sync(user, chat_id, 0, 10);
    assert_eq!(soon(caller.ingest.sync(sync)).await.unwrap().head, Sequence(1));
}

#[tokio::test]
async fn a_token_is_asked_about_once_more_and_a_ticket_is_never_redeemed_twice() {
    let world = World::new();
    let calls = Arc::new(AtomicUsize::new(0));
    let mut hang_up = JoinSet::new();
    for id in ["a", "b", "c"] {
        let (listener, calls) = (TcpListener::bind("127.0.0.1:0").await.unwrap(), calls.clone());
        let peer = PeerProcess { id: id.into(), address: listener.local_addr().unwrap().to_string().into() };
        world.list.add(ProcessRole::Api, &peer);
        hang_up.spawn(async move {
            while listener.accept().await.is_ok() {
                calls.fetch_add(1, Ordering::SeqCst);
            }
        });
    }
    let caller = CallingProcess::start(&world).await;
    let (identity, device) = (RemoteIdentity::new(caller.directory.clone()), DeviceId::from_bytes([1; 16]));
    assert!(matches!(soon(identity.redeem("ticket", device)).await, Err(IdentityError::Unavailable(_))));
    assert_eq!(calls.swap(0, Ordering::SeqCst), 1);
    assert!(matches!(soon(identity.identify("token", device)).await, Err(IdentityError::Unavailable(_))));
    assert_eq!(calls.load(Ordering::SeqCst), 2);
}
