use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use tokio::time::{interval, sleep_until};

use super::super::bench::{Bench, Observed};
use super::super::measure::{Tally, Window};
use super::super::order::Order;
use super::super::peer::{Heard, LoadUser, Peer};
use super::super::report::Report;
use super::super::users::{LoadChat, group, sign_up};
use super::super::{LoadArgs, Workload};
use super::{connect_all, join};

/// Many senders into one chat, one message in flight each; all of them see all of it.
pub(super) async fn run(bench: &Bench, arguments: &LoadArgs) -> anyhow::Result<Report> {
    let users = sign_up(bench.base_url(), arguments.users_or(256).min(1000), &bench.progress).await?;
    let hot_chat = HotChat::prepare(bench, &users).await?;
    let window = bench.window();
    let tasks = hot_chat.start(window, Duration::ZERO, &bench.counter());
    let Observed { server, timeline } = bench.observe(window).await?;
    let tally = join(tasks).await?;
    let setup = format!("{} senders into one chat, 1 in flight each", users.len());
    let mut report = Report::new(Workload::HotChat, setup, window.seconds());
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

/// A chat and the connections that will write into it.
pub(super) struct HotChat {
    chat: LoadChat,
    peers: Vec<Peer>,
}

/// How far the senders have come together.
struct Progress {
    sending: AtomicUsize,
    head: AtomicU64,
}

impl HotChat {
    pub(super) async fn prepare(bench: &Bench, users: &[LoadUser]) -> anyhow::Result<Self> {
        let chat = group(&users[0], &users[1..]).await?;
        Ok(Self { chat, peers: connect_all(bench, users).await? })
    }

    /// Starts every sender; each sends once in `pace`, or as soon as it is answered. `done` counts acks.
    pub(super) fn start(self, window: Window, pace: Duration, done: &Arc<AtomicU64>) -> JoinSet<anyhow::Result<Tally>> {
        let progress =
            Arc::new(Progress { sending: AtomicUsize::new(self.peers.len()), head: AtomicU64::new(self.chat.head) });
        let mut tasks = JoinSet::new();
        for peer in self.peers {
            tasks.spawn(write(peer, self.chat, window, pace, Arc::clone(&progress), Arc::clone(done)));
        }
        tasks
    }
}

async fn write(
    mut peer: Peer,
    chat: LoadChat,
    window: Window,
    pace: Duration,
    progress: Arc<Progress>,
    done: Arc<AtomicU64>,
) -> anyhow::Result<Tally> {
    let mut tally = Tally::default();
    let mut order = Order::after(chat.head);
    let mut beats = Peer::beats();
    // Looks whether the others have finished; nothing is measured any more by then.
    let mut looks = interval(Duration::from_millis(50));
    // Everybody begins at another moment, or all would send together.
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
                Heard::Ack { sequence, .. } => {
                    order.acked(sequence);
                    progress.head.fetch_max(sequence, Ordering::Relaxed);
                    if let Some(sent_at) = under_way.take() {
                        tally.acked(&window, sent_at);
                    }
                    done.fetch_add(1, Ordering::Relaxed);
                }
                Heard::Refused { .. } => {
                    tally.refused += 1;
                    under_way = None;
                }
                Heard::Message { sequence, stamp } => {
                    order.pushed(sequence);
                    tally.delivered(&window, stamp.sent_at);
                    peer.acknowledge(chat.chat_id, &order)?;
                }
                Heard::Presence { .. } | Heard::BeatAck | Heard::Other => {}
            },
            _ = beats.tick() => peer.beat()?,
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
