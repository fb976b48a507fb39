use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use tokio::time::{interval, sleep_until};

use super::super::bench::{Bench, Observed};
use super::super::measure::{LoadTally, MeasurementWindow};
use super::super::order::SequenceChecker;
use super::super::peer::{LoadPeer, LoadUser, PeerFrame};
use super::super::report::LoadReport;
use super::super::users::{LoadChat, group, sign_up};
use super::super::{LoadArgs, Workload};
use super::{connect_all, join};

/// Many senders in one chat, one message in flight each; every sender receives all messages.
pub(super) async fn run(bench: &Bench, arguments: &LoadArgs) -> anyhow::Result<LoadReport> {
    let users = sign_up(bench.base_url(), arguments.users_or(256).min(1000), &bench.progress).await?;
    let hot_chat = HotChat::prepare(bench, &users).await?;
    let window = bench.window();
    let tasks = hot_chat.start(window, Duration::ZERO, &bench.counter());
    let Observed { server, timeline } = bench.observe(window).await?;
    let tally = join(tasks).await?;
    let setup = format!("{} senders into one chat, 1 in flight each", users.len());
    let mut report = LoadReport::new(Workload::HotChat, setup, window.seconds());
    report.server = server;
    report.timeline = timeline;
    report.in_flight = users.len();
    report.integrity = tally.integrity;
    report.rate("messages acknowledged", tally.acks.count(), "msg/s");
    report.rate("deliveries", tally.deliveries.count(), "deliveries/s");
    report.figure("sends refused", tally.refused as f64, "");
    report.latency("send to ack", &tally.acks);
    report.latency("send to delivery", &tally.deliveries);
    Ok(report)
}

/// A chat and the connections that will send to it.
pub(super) struct HotChat {
    chat: LoadChat,
    peers: Vec<LoadPeer>,
}

/// Common progress of the senders.
struct SenderProgress {
    sending: AtomicUsize,
    head: AtomicU64,
}

impl HotChat {
    pub(super) async fn prepare(bench: &Bench, users: &[LoadUser]) -> anyhow::Result<Self> {
        let chat = group(&users[0], &users[1..]).await?;
        Ok(Self { chat, peers: connect_all(bench, users).await? })
    }

    /// Starts every sender; each sends once per `pace`, or as soon as it is acknowledged. `done` counts acks.
    pub(super) fn start(
        self,
        window: MeasurementWindow,
        pace: Duration,
        done: &Arc<AtomicU64>,
    ) -> JoinSet<anyhow::Result<LoadTally>> {
        let progress = Arc::new(SenderProgress {
            sending: AtomicUsize::new(self.peers.len()),
            head: AtomicU64::new(self.chat.head),
        });
        let mut tasks = JoinSet::new();
        for peer in self.peers {
            tasks.spawn(write(peer, self.chat, window, pace, Arc::clone(&progress), Arc::clone(done)));
        }
        tasks
    }
}

async fn write(
    mut peer: LoadPeer,
    chat: LoadChat,
    window: MeasurementWindow,
    pace: Duration,
    progress: Arc<SenderProgress>,
    done: Arc<AtomicU64>,
) -> anyhow::Result<LoadTally> {
    let mut tally = LoadTally::default();
    let mut order = SequenceChecker::after(chat.head);
    let mut beats = LoadPeer::beats();
    // Polls whether the others have finished; the measurement is over by then.
    let mut looks = interval(Duration::from_millis(50));
    // Random offsets keep the senders from sending in step.
    let mut due = Instant::now() + pace.mul_f64(rand::random());
    let (mut number, mut sending, mut under_way) = (0, true, None);
    loop {
        if sending && under_way.is_none() {
            if window.is_over() {
                sending = false;
                progress.sending.fetch_sub(1, Ordering::AcqRel);
            } else if due <= Instant::now() {
                under_way = Some(peer.send(chat.chat_id, number)?);
                number += 1;
                due += pace;
            }
        }
        tokio::select! {
            heard = peer.next() => match heard? {
                PeerFrame::Ack { sequence, .. } => {
                    order.acked(sequence);
                    progress.head.fetch_max(sequence, Ordering::Relaxed);
                    if let Some(sent_at) = under_way.take() {
                        tally.acked(&window, sent_at);
                    }
                    done.fetch_add(1, Ordering::Relaxed);
                }
                PeerFrame::Refused { .. } => {
                    tally.refused += 1;
                    under_way = None;
                }
                PeerFrame::Message { sequence, stamp } => {
                    order.pushed(sequence);
                    tally.delivered(&window, stamp.sent_at);
                    peer.acknowledge(chat.chat_id, &order)?;
                }
                PeerFrame::Update { .. } | PeerFrame::Presence { .. } | PeerFrame::BeatAck | PeerFrame::Other => {}
            },
            _ = beats.tick() => peer.heartbeat()?,
            () = sleep_until(due.min(window.until).into()), if sending && under_way.is_none() => {}
            _ = looks.tick(), if !sending => {
                let all_sent = progress.sending.load(Ordering::Acquire) == 0;
                if all_sent && order.is_complete(progress.head.load(Ordering::Acquire)) {
                    break;
                }
            }
            () = sleep_until(window.deadline().into()) => break,
        }
    }
    let head = progress.head.load(Ordering::Acquire);
    peer.heal(chat.chat_id, &mut order, head).await?;
    tally.integrity += order.finish(head);
    peer.close().await;
    Ok(tally)
}
