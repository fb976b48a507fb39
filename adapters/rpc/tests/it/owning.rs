use std::io::ErrorKind;
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use domain::{ChatId, Sequence, UserId};
use ports::{Ingest, PeerProcess, ProcessRole};

use crate::world::{CallingProcess, Tap, World, config, request, secret, soon, sync};

/// Creates chats until the process of `tap` owns one.
async fn owned(world: &World, caller: &CallingProcess, user: UserId, tap: &Tap) -> ChatId {
    loop {
        let chat = world.group(user).await;
        assert_eq!(soon(caller.send(request(chat, user, "whose?"))).await.unwrap().receipt.sequence, Sequence(1));
        if tap.count(chat) == 1 {
            return chat;
        }
    }
}

#[tokio::test]
async fn chats_are_spread_over_processes_and_each_stays_with_one() {
    let world = World::new();
    let ((_a, tap_a), (_b, tap_b)) = (world.ingest("a"), world.ingest("b"));
    let caller = CallingProcess::start(&world).await;
    let user = world.user();
    let chats = world.groups(user, 60).await;
    let sends: Vec<_> = (0..3).flat_map(|_| &chats).map(|chat| caller.send(request(*chat, user, "hi"))).collect();
    for send in sends {
        soon(send).await.unwrap();
    }
    let counts = chats.iter().map(|chat| (tap_a.count(*chat), tap_b.count(*chat)));
    assert!(counts.clone().all(|counts| counts == (3, 0) || counts == (0, 3)), "{:?}", counts.collect::<Vec<_>>());
    assert!(counts.clone().filter(|counts| counts.0 == 3).count() > 15);
    assert!(counts.filter(|counts| counts.1 == 3).count() > 15);
}

#[tokio::test]
async fn a_change_of_owner_keeps_the_order_of_sends_in_progress() {
    let world = World::new();
    let ((_a, tap_a), (b, tap_b)) = (world.ingest("a"), world.ingest("b"));
    let caller = CallingProcess::start(&world).await;
    let user = world.user();
    let chat = owned(&world, &caller, user, &tap_b).await;
    world.list.remove(ProcessRole::Ingest, &b.peer);
    caller.refreshed(&world).await;

    tap_a.shut();
    let before = tap_a.taken.borrow().len();
    let mut sends: Vec<_> = (0..5).map(|_| caller.send(request(chat, user, "old owner"))).collect();
    tap_a.until(before + 5).await;
    world.list.add(ProcessRole::Ingest, &b.peer);
    caller.refreshed(&world).await;
    assert_eq!(caller.directory.known(ProcessRole::Ingest).len(), 2);
    sends.extend((0..5).map(|_| caller.send(request(chat, user, "old owner still"))));
    tap_a.until(before + 10).await;
    tap_a.open();
    for (n, send) in (2..).zip(sends) {
        assert_eq!(soon(send).await.unwrap().receipt.sequence, Sequence(n));
    }
    assert_eq!((tap_a.count(chat), tap_b.count(chat)), (10, 1));
    assert_eq!(soon(caller.send(request(chat, user, "new owner"))).await.unwrap().receipt.sequence, Sequence(12));
    assert_eq!((tap_a.count(chat), tap_b.count(chat)), (10, 2));
}

#[tokio::test]
async fn a_process_that_ends_answers_accepted_sends_and_the_rest_follow_elsewhere_in_order() {
    let world = World::new();
    let ((mut a, tap_a), (_b, tap_b)) = (world.ingest("a"), world.ingest("b"));
    let caller = CallingProcess::start(&world).await;
    let user = world.user();
    let chat = owned(&world, &caller, user, &tap_a).await;

    tap_a.shut();
    let before = tap_a.taken.borrow().len();
    let mut sends: Vec<_> = (0..5).map(|_| caller.send(request(chat, user, "handed over"))).collect();
    tap_a.until(before + 5).await;
    a.begin_shutdown();
    // The list still contains it. A sync that reaches the other process shows that the caller has seen the shutdown
    // notice.
    let sync = sync(user, chat, 0, 1);
    soon(async {
        while tap_b.syncs.load(Ordering::SeqCst) == 0 {
            caller.ingest.sync(sync.clone()).await.unwrap();
        }
    })
    .await;
    sends.extend((0..5).map(|_| caller.send(request(chat, user, "waits"))));
    assert_eq!((tap_a.count(chat), tap_b.count(chat)), (6, 0));
    tap_a.open();
    for (n, send) in (2..).zip(sends) {
        assert_eq!(soon(send).await.unwrap().receipt.sequence, Sequence(n));
    }
    assert_eq!((tap_a.count(chat), tap_b.count(chat)), (6, 5));
    a.ended().await;
}

#[tokio::test]
async fn a_process_that_commits_itself_calls_itself_directly() {
    let world = World::new();
    let (_a, tap_a) = world.ingest("a");
    let local = world.tap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let peer = PeerProcess { id: "local".into(), address: listener.local_addr().unwrap().to_string().into() };
    world.list.add(ProcessRole::Ingest, &peer);
    let ours: Option<(PeerProcess, Arc<dyn Ingest>)> = Some((peer, local.clone()));
    let caller = CallingProcess::with(&world, secret(), config(), ours).await;
    let user = world.user();
    let chats = world.groups(user, 40).await;
    let sends: Vec<_> = chats.iter().map(|chat| caller.send(request(*chat, user, "hi"))).collect();
    for send in sends {
        assert_eq!(soon(send).await.unwrap().receipt.sequence, Sequence(1));
    }
    let (here, there) = (local.taken.borrow().len(), tap_a.taken.borrow().len());
    assert!(here > 5 && there > 5 && here + there == 40, "{here} {there}");
    for chat_id in chats {
        let sync = sync(user, chat_id, 0, 1);
        assert_eq!(caller.ingest.sync(sync).await.unwrap().head, Sequence(1));
    }
    let nobody = listener.accept().unwrap_err();
    assert_eq!(nobody.kind(), ErrorKind::WouldBlock, "it was called over the network");
}

#[tokio::test]
async fn sends_queued_for_a_lost_process_are_taken_over_by_the_new_owner() {
    let world = World::new();
    let mute = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let peer = PeerProcess { id: "mute".into(), address: mute.local_addr().unwrap().to_string().into() };
    world.list.add(ProcessRole::Ingest, &peer);
    let local = world.tap();
    let ours: Option<(PeerProcess, Arc<dyn Ingest>)> =
        Some((PeerProcess { id: "local".into(), address: "localhost:1".into() }, local.clone()));
    let caller = CallingProcess::with(&world, secret(), config(), ours).await;
    let user = world.user();
    let chats = world.groups(user, 10).await;
    let sends: Vec<_> = (1..=5).flat_map(|n| chats.iter().map(move |chat| (n, *chat))).collect();
    let sends: Vec<_> = sends.into_iter().map(|(n, chat)| (n, caller.send(request(chat, user, "hi")))).collect();
    for (n, send) in sends {
        assert_eq!(soon(send).await.unwrap().receipt.sequence, Sequence(n));
    }
    assert_eq!(local.taken.borrow().len(), 50);
}
