use std::sync::atomic::Ordering;

use domain::Sequence;
use ports::{PeerProcess, ProcessRole};

use crate::world::{CallingProcess, World, request, soon};

#[tokio::test]
async fn an_unreadable_list_keeps_all_processes() {
    let world = World::new();
    let (process, _tap) = world.ingest("a");
    let caller = CallingProcess::start(&world).await;
    world.list.is_broken.store(true, Ordering::SeqCst);
    caller.refreshed(&world).await;
    assert_eq!(caller.directory.known(ProcessRole::Ingest), std::slice::from_ref(&process.peer));
    let user = world.user();
    let chat = world.group(user).await;
    assert_eq!(soon(caller.send(request(chat, user, "hi"))).await.unwrap().receipt.sequence, Sequence(1));
}

#[tokio::test]
async fn a_wiped_list_keeps_all_processes() {
    let world = World::new();
    let ((a, _tap_a), (b, _tap_b)) = (world.ingest("a"), world.ingest("b"));
    let caller = CallingProcess::start(&world).await;
    world.list.remove(ProcessRole::Ingest, &a.peer);
    world.list.remove(ProcessRole::Ingest, &b.peer);
    caller.refreshed(&world).await;
    world.list.add(ProcessRole::Ingest, &b.peer);
    caller.refreshed(&world).await;
    assert_eq!(caller.directory.known(ProcessRole::Ingest), [a.peer.clone(), b.peer.clone()]);
}

#[tokio::test]
async fn an_address_that_is_none_is_left_out() {
    let world = World::new();
    let (process, _tap) = world.ingest("a");
    world.list.add(ProcessRole::Ingest, &PeerProcess { id: "odd".into(), address: "not an address".into() });
    let caller = CallingProcess::start(&world).await;
    assert_eq!(caller.directory.known(ProcessRole::Ingest), std::slice::from_ref(&process.peer));
}
