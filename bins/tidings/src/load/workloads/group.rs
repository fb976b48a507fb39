use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use tokio::time::sleep_until;

use super::super::bench::{Bench, Observed};
use super::super::measure::{LoadTally, MeasurementWindow};
use super::super::order::SequenceChecker;
use super::super::peer::{LoadPeer, PeerFrame};
use super::super::report::LoadReport;
use super::super::users::{LoadChat, group, sign_up};
use super::super::{LoadArgs, Workload};
use super::{connect_all, join};

/// Maximum number of messages between the sender and the slowest member. It is below the server's bound for a
/// connection, so that the workload measures delivery and not load shedding.
const IN_FLIGHT: u64 = 32;

/// One sender in one group with all members online: paced, or as fast as the messages are delivered.
pub(super) async fn run(bench: &Bench, arguments: &LoadArgs) -> anyhow::Result<LoadReport> {
    let members = arguments.members.unwrap_or(100) as usize;
    let users = sign_up(bench.base_url(), members, &bench.progress).await?;
    let chat = group(&users[0], &users[1..]).await?;
    let mut peers = connect_all(bench, &users).await?;
    let sender = peers.remove(0);
    let window = bench.window();
    let deliveries = Arc::new(DeliveryCounter { count: bench.counter(), moved: Notify::new() });
    let (announce_head, head) = watch::channel(None);
    let receivers = peers.len() as u64;
    let mut tasks = JoinSet::new();
    for peer in peers {
        tasks.spawn(receive(peer, chat, window, Arc::clone(&deliveries), head.clone()));
    }
    let pace = arguments.rate.map(|rate| Duration::from_secs(1) / rate);
    tasks.spawn(send(sender, chat, window, deliveries, announce_head, receivers, pace));
    let Observed { server, timeline } = bench.observe(window).await?;
    let tally = join(tasks).await?;
    let pace = arguments.rate.map_or("as fast as they arrive".to_owned(), |rate| format!("{rate} a second"));
    let setup = format!("a group of {members} who are online, messages of one of them {pace}");
    let mut report = LoadReport::new(Workload::Group, setup, window.seconds());
    report.server = server;
    report.timeline = timeline;
    report.in_flight = IN_FLIGHT as usize;
    report.integrity = tally.integrity;
    report.rate("deliveries", tally.deliveries.count(), "deliveries/s");
    report.rate("messages acknowledged", tally.acks.count(), "msg/s");
    report.latency("send to ack", &tally.acks);
    report.latency("send to delivery", &tally.deliveries);
    Ok(report)
}

/// Pushes received by all members together.
struct DeliveryCounter {
    count: Arc<AtomicU64>,
    moved: Notify,
}

async fn send(
    mut sender: LoadPeer,
    chat: LoadChat,
    window: MeasurementWindow,
    deliveries: Arc<DeliveryCounter>,
    announce_head: watch::Sender<Option<u64>>,
    receivers: u64,
    pace: Option<Duration>,
) -> anyhow::Result<LoadTally> {
    let mut tally = LoadTally::default();
    let mut beats = LoadPeer::beats();
    let mut sent_at = std::collections::HashMap::new();
    let (mut sent, mut head, mut due) = (0, chat.head, Instant::now());
    loop {
        let over = window.is_over();
        if over && sent_at.is_empty() {
            break;
        }
        let room = sent * receivers < deliveries.count.load(Ordering::Relaxed) + IN_FLIGHT * receivers;
        if !over && room && Instant::now() >= due {
            sent_at.insert(sent, sender.send(chat.chat_id, sent)?);
            sent += 1;
            due += pace.unwrap_or_default();
            continue;
        }
        tokio::select! {
            heard = sender.next() => match heard? {
                PeerFrame::Ack { number, sequence } => {
                    head = head.max(sequence);
                    if let Some(sent_at) = sent_at.remove(&number) {
                        tally.acked(&window, sent_at);
                    }
                }
                PeerFrame::Refused { number } => {
                    tally.refused += 1;
                    sent_at.remove(&number);
                }
                PeerFrame::Message { .. }
                | PeerFrame::Update { .. }
                | PeerFrame::Presence { .. }
                | PeerFrame::BeatAck
                | PeerFrame::Other => {}
            },
            () = deliveries.moved.notified(), if !room => {}
            () = sleep_until(due.into()), if !over && room => {}
            _ = beats.tick() => sender.heartbeat()?,
            () = sleep_until(window.deadline().into()), if over => break,
        }
    }
    announce_head.send_replace(Some(head));
    sender.close().await;
    Ok(tally)
}

async fn receive(
    mut peer: LoadPeer,
    chat: LoadChat,
    window: MeasurementWindow,
    deliveries: Arc<DeliveryCounter>,
    mut announced_head: watch::Receiver<Option<u64>>,
) -> anyhow::Result<LoadTally> {
    let mut tally = LoadTally::default();
    let mut order = SequenceChecker::after(chat.head);
    let mut beats = LoadPeer::beats();
    let mut head = None;
    while !head.is_some_and(|head| order.is_complete(head)) {
        tokio::select! {
            heard = peer.next() => {
                if let PeerFrame::Message { sequence, stamp } = heard? {
                    order.pushed(sequence);
                    tally.delivered(&window, stamp.sent_at);
                    peer.acknowledge(chat.chat_id, &order)?;
                    deliveries.count.fetch_add(1, Ordering::Relaxed);
                    deliveries.moved.notify_one();
                }
            }
            Ok(()) = announced_head.changed(), if head.is_none() => head = *announced_head.borrow_and_update(),
            _ = beats.tick() => peer.heartbeat()?,
            () = sleep_until(window.deadline().into()) => break,
        }
    }
    let head = head.unwrap_or(chat.head);
    peer.heal(chat.chat_id, &mut order, head).await?;
    tally.integrity += order.finish(head);
    peer.close().await;
    Ok(tally)
}
