use std::time::Duration;

use domain::{IngestError, Sequence, WatermarkKind};
use ports::{Ingest, PeerProcess, ProcessRole};
use tidings_rpc::Config;
use tokio::net::TcpListener;
use tokio::time::Instant;

use crate::world::{CallingProcess, World, advance, config, request, secret, soon, sync};

/// Allowance for a busy machine.
const SLACK: Duration = Duration::from_secs(5);

#[tokio::test]
async fn g3_a_thousand_pipelined_sends_keep_their_order() {
    let world = World::new();
    let (_process, tap) = world.ingest("a");
    let caller = CallingProcess::start(&world).await;
    let user = world.user();
    let chat = world.group(user).await;
    let sends: Vec<_> = (0..1000).map(|n| caller.send(request(chat, user, &n.to_string()))).collect();
    for (n, send) in sends.into_iter().enumerate().rev() {
        let sent = soon(send).await.unwrap();
        assert_eq!((sent.receipt.sequence, sent.deduplicated), (Sequence(n as u64 + 1), false));
    }
    assert_eq!(tap.count(chat), 1000);
    let sync = sync(user, chat, 500, 500);
    let page = caller.ingest.sync(sync).await.unwrap();
    assert_eq!((page.messages.len(), page.examined, page.head), (500, Sequence(1000), Sequence(1000)));
    assert!(page.messages.iter().zip(500..).all(|(message, n)| message.body.content.as_str() == n.to_string()));
    let watermarks = caller.ingest.advance(advance(user, chat, WatermarkKind::Read, 7)).await.unwrap();
    assert_eq!((watermarks.delivered, watermarks.read), (Sequence(7), Sequence(7)));
}

#[tokio::test]
async fn g2_a_send_in_progress_at_a_crash_is_unknown_and_its_retry_is_answered() {
    let world = World::new();
    let (process, tap) = world.ingest("a");
    // Longer than the test takes, so sends are answered only because the stream broke.
    let caller =
        CallingProcess::with(&world, secret(), Config { deadline: Duration::from_secs(60), ..config() }, None).await;
    let user = world.user();
    let chat = world.group(user).await;
    tap.shut();
    let requests: Vec<_> = (0..10).map(|n| request(chat, user, &n.to_string())).collect();
    let sends: Vec<_> = requests.iter().map(|request| caller.send(request.clone())).collect();
    tap.until(10).await;
    // All ten are committed when the last one is; only their answers are missing.
    let sync = sync(user, chat, 0, 100);
    soon(async { while tap.sync(sync.clone()).await.unwrap().head < Sequence(10) {} }).await;
    world.list.remove(ProcessRole::Ingest, &process.peer);
    process.kill();
    for send in sends {
        assert!(matches!(soon(send).await, Err(IngestError::Unavailable { .. })));
    }

    let (_another, _tap) = world.ingest("b");
    caller.refreshed(&world).await;
    for (n, request) in requests.into_iter().enumerate() {
        let sent = soon(caller.send(request)).await.unwrap();
        assert_eq!((sent.receipt.sequence, sent.deduplicated), (Sequence(n as u64 + 1), true));
    }
}

#[tokio::test]
async fn g5_a_process_that_never_answers_is_answered_for_at_the_deadline() {
    let world = World::new();
    let (_process, tap) = world.ingest("a");
    // Long enough for the send to arrive on a busy machine.
    let deadline = Duration::from_secs(2);
    let caller = CallingProcess::with(&world, secret(), Config { deadline, ..config() }, None).await;
    let user = world.user();
    let chat = world.group(user).await;
    tap.shut();
    let begin = Instant::now();
    assert!(matches!(soon(caller.send(request(chat, user, "hi"))).await, Err(IngestError::Unavailable { .. })));
    assert!((deadline..deadline + SLACK).contains(&begin.elapsed()), "{:?}", begin.elapsed());
    assert_eq!(tap.count(chat), 1);
}

#[tokio::test]
async fn g5_a_send_too_many_is_answered_busy_at_once() {
    let world = World::new();
    let (_process, tap) = world.ingest("a");
    let caller = CallingProcess::with(&world, secret(), Config { sends_max: 2, ..config() }, None).await;
    let user = world.user();
    let chat = world.group(user).await;
    tap.shut();
    let under_way: Vec<_> = (0..2).map(|_| caller.send(request(chat, user, "under way"))).collect();
    assert!(matches!(soon(caller.send(request(chat, user, "too many"))).await, Err(IngestError::Busy)));
    tap.open();
    for send in under_way {
        soon(send).await.unwrap();
    }
    assert_eq!(soon(caller.send(request(chat, user, "room again"))).await.unwrap().receipt.sequence, Sequence(3));
}

#[tokio::test]
async fn without_a_process_a_send_is_answered_at_once() {
    let world = World::new();
    let caller = CallingProcess::start(&world).await;
    let (user, begin) = (world.user(), Instant::now());
    let chat_id = world.group(user).await;
    let refused = caller.send(request(chat_id, user, "hi")).await;
    assert!(matches!(refused, Err(IngestError::Unavailable { retry_after }) if retry_after == Duration::from_secs(1)));
    let sync = sync(user, chat_id, 0, 1);
    assert!(matches!(caller.ingest.sync(sync).await, Err(IngestError::Unavailable { .. })));
    assert!(begin.elapsed() < config().deadline, "{:?}", begin.elapsed());
}

#[tokio::test]
async fn unsent_sends_go_to_the_next_process_in_order() {
    let world = World::new();
    let (_process, tap) = world.ingest("a");
    // Accepts connections but never responds, so sends are queued until the connect timeout.
    let mute = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let peer = PeerProcess { id: "mute".into(), address: mute.local_addr().unwrap().to_string().into() };
    world.list.add(ProcessRole::Ingest, &peer);
    let caller = CallingProcess::start(&world).await;
    let user = world.user();
    let chats = world.groups(user, 20).await;
    let mut sends = vec![];
    for n in 1..=5 {
        for chat in &chats {
            sends.push((n, caller.send(request(*chat, user, "hi"))));
        }
    }
    for (n, send) in sends {
        assert_eq!(soon(send).await.unwrap().receipt.sequence, Sequence(n));
    }
    assert_eq!(tap.taken.borrow().len(), 100);
}

#[tokio::test]
async fn g5_an_expired_send_is_never_committed_after_its_answer() {
    let world = World::new();
    let (_process, _tap) = world.ingest("a");
    let mute = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let peer = PeerProcess { id: "mute".into(), address: mute.local_addr().unwrap().to_string().into() };
    world.list.add(ProcessRole::Ingest, &peer);
    let (deadline, connect_timeout) = (Duration::from_millis(200), Duration::from_millis(600));
    let caller = CallingProcess::with(&world, secret(), Config { deadline, connect_timeout, ..config() }, None).await;
    let user = world.user();
    let chats = world.groups(user, 20).await;
    let sends: Vec<_> = chats.iter().map(|chat| caller.send(request(*chat, user, "waits for the mute"))).collect();
    let mut late = vec![];
    for (chat, send) in chats.into_iter().zip(sends) {
        late.extend(soon(send).await.is_err().then_some(chat));
    }
    assert!(!late.is_empty());
    // By the deadline of another caller these arrive also on a busy machine, and after those of the first caller.
    let patient = CallingProcess::with(&world, secret(), Config { connect_timeout, ..config() }, None).await;
    for chat in late {
        let sent = soon(patient.send(request(chat, user, "again"))).await.unwrap();
        assert_eq!(sent.receipt.sequence, Sequence(1));
    }
}
