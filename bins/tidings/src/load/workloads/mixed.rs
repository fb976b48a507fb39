use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use client::HistoryRange;
use domain::{ChatId, Sequence};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{MissedTickBehavior, interval, timeout};

use super::super::bench::{Bench, Observed};
use super::super::measure::{Latencies, LoadTally, MeasurementWindow};
use super::super::peer::{LoadPeer, LoadUser, PeerFrame};
use super::super::report::LoadReport;
use super::super::users::{LoadChat, group, pair_up, sign_up};
use super::super::{LoadArgs, Workload};
use super::hot_chat::HotChat;
use super::pairs::ChatPair;
use super::{connect_all, join};

/// Members of each group.
const GROUP_MEMBERS: usize = 10;
/// The control chat has little traffic: one message per interval.
const CONTROL_PACE: Duration = Duration::from_millis(50);
/// Senders of the hot chat that runs beside it.
const HOT_SENDERS: usize = 256;
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// An operation of a user; [`DEEDS`] weights each in percent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Deed {
    Send,
    MarkRead,
    OpenInbox,
    ReadHistory,
    Reconnect,
}

const DEEDS: [(Deed, &str, u32); 5] = [
    (Deed::Send, "send to ack", 60),
    (Deed::MarkRead, "mark read", 15),
    (Deed::OpenInbox, "open the inbox", 10),
    (Deed::ReadHistory, "read a page", 10),
    (Deed::Reconnect, "reconnect", 5),
];

/// Users with a mix of operations, beside a quiet control chat with measured latency.
pub(super) async fn run(bench: &Bench, arguments: &LoadArgs) -> anyhow::Result<LoadReport> {
    let count = arguments.users_or(1000).max(2 * GROUP_MEMBERS);
    let rate = arguments.rate.unwrap_or(1000);
    let users = sign_up(bench.base_url(), count, &bench.progress).await?;
    let control = sign_up(bench.base_url(), 2, &bench.progress).await?;
    let control_chat = pair_up(&control).await?[0];
    let chats = make_chats(&users).await?;
    let hot_chat = match arguments.beside_hot_chat {
        true => {
            let senders = sign_up(bench.base_url(), HOT_SENDERS, &bench.progress).await?;
            Some(HotChat::prepare(bench, &senders).await?)
        }
        false => None,
    };
    let peers = connect_all(bench, &users).await?;

    let window = bench.window();
    let pause = Duration::from_secs(1) * count as u32 / rate;
    let mut tasks = JoinSet::new();
    for ((user, peer), chat) in users.iter().zip(peers).zip(chats) {
        let user = MixedUser { user: user.clone(), peer: Some(peer), chat, epoch: bench.epoch };
        tasks.spawn(user.work(window, pause, bench.counter()));
    }
    let hot_pace = arguments.hot_rate.map_or(Duration::ZERO, |rate| Duration::from_secs(1) * HOT_SENDERS as u32 / rate);
    let hot_tasks = hot_chat.map(|hot_chat| hot_chat.start(window, hot_pace, &Arc::default()));
    let control = watch(control, control_chat, bench.epoch, window);
    let Observed { server, timeline } = bench.observe(window).await?;
    let control = control.await??;
    let mut deeds: BTreeMap<Deed, Latencies> = BTreeMap::new();
    while let Some(done) = tasks.join_next().await {
        for (deed, latencies) in done?? {
            deeds.entry(deed).or_default().merge(&latencies);
        }
    }
    let beside = if hot_tasks.is_some() { ", beside a hot chat" } else { "" };
    let setup = format!("{count} users, {rate} deeds a second{beside}");
    let mut report = LoadReport::new(Workload::Mixed, setup, window.seconds());
    report.server = server;
    report.timeline = timeline;
    report.integrity = control.integrity;
    if let Some(hot_tasks) = hot_tasks {
        let hot = join(hot_tasks).await?;
        report.integrity += hot.integrity;
        report.figure("hot chat, messages acknowledged", hot.acks.count() as f64 / window.seconds(), "msg/s");
    }
    report.rate("deeds", deeds.values().map(Latencies::count).sum(), "deeds/s");
    report.latency("control chat, to ack", &control.acks);
    report.latency("control chat, to delivery", &control.deliveries);
    for (deed, name, _) in DEEDS {
        report.latency(name, deeds.entry(deed).or_default());
    }
    Ok(report)
}

/// Sends to the control chat from a separate thread. Its latency then measures the server, and not the time that this
/// process is busy with the frames of other users.
fn watch(
    users: Vec<LoadUser>,
    chat: LoadChat,
    epoch: Instant,
    window: MeasurementWindow,
) -> JoinHandle<anyhow::Result<LoadTally>> {
    tokio::task::spawn_blocking(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            let sender = LoadPeer::connect(&users[0], epoch).await?;
            let receiver = LoadPeer::connect(&users[1], epoch).await?;
            let control = ChatPair::new(sender, receiver, chat, 1).paced(CONTROL_PACE);
            Box::pin(control.work(window, Arc::default())).await
        })
    })
}

/// A chat for each user, in order: 70 % of the users are in direct chats, 30 % in groups.
async fn make_chats(users: &[LoadUser]) -> anyhow::Result<Vec<LoadChat>> {
    let in_pairs = users.len() * 7 / 10 / 2 * 2;
    let (paired, grouped) = users.split_at(in_pairs);
    let mut chats: Vec<LoadChat> = pair_up(paired).await?.into_iter().flat_map(|chat| [chat, chat]).collect();
    for members in grouped.chunks(GROUP_MEMBERS) {
        let chat = group(&members[0], &members[1..]).await?;
        chats.extend(std::iter::repeat_n(chat, members.len()));
    }
    Ok(chats)
}

struct MixedUser {
    user: LoadUser,
    /// `None` only while the user reconnects.
    peer: Option<LoadPeer>,
    chat: LoadChat,
    epoch: Instant,
}

impl MixedUser {
    /// Performs an operation every `pause`, and receives in between.
    async fn work(
        mut self,
        window: MeasurementWindow,
        pause: Duration,
        done: Arc<AtomicU64>,
    ) -> anyhow::Result<BTreeMap<Deed, Latencies>> {
        let mut deeds: BTreeMap<Deed, Latencies> = BTreeMap::new();
        let mut turns = interval(pause);
        turns.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut beats = LoadPeer::beats();
        let mut number = 0;
        // Random offsets keep the users from acting in step.
        turns.reset_after(pause.mul_f64(rand::random()));
        while !window.is_over() {
            let Some(peer) = &mut self.peer else { anyhow::bail!("the user is not connected") };
            tokio::select! {
                heard = peer.next() => {
                    heard?;
                }
                _ = beats.tick() => peer.heartbeat()?,
                _ = turns.tick() => {
                    let deed = draw();
                    let begun = Instant::now();
                    number += 1;
                    self.act(deed, number).await?;
                    if (window.from..window.until).contains(&Instant::now()) {
                        deeds.entry(deed).or_default().record(begun.elapsed());
                        done.fetch_add(1, Ordering::Relaxed);
                    }
                }
            }
        }
        if let Some(peer) = self.peer {
            peer.close().await;
        }
        Ok(deeds)
    }

    async fn act(&mut self, deed: Deed, number: u64) -> anyhow::Result<()> {
        let Some(peer) = &mut self.peer else { return Ok(()) };
        let (api, chat_id): (_, ChatId) = (self.user.client.api(), self.chat.chat_id);
        match deed {
            Deed::Send => {
                peer.send(chat_id, number)?;
                timeout(ANSWER_TIMEOUT, answer(peer, number)).await?
            }
            Deed::MarkRead => api.mark_read(chat_id, Sequence(self.chat.head)).await.map(drop).map_err(Into::into),
            Deed::OpenInbox => api.chats(None).await.map(drop).map_err(Into::into),
            Deed::ReadHistory => api.history(chat_id, HistoryRange::default()).await.map(drop).map_err(Into::into),
            Deed::Reconnect => {
                if let Some(peer) = self.peer.take() {
                    peer.close().await;
                }
                self.peer = Some(LoadPeer::connect(&self.user, self.epoch).await?);
                Ok(())
            }
        }
    }
}

/// Waits for the ack of a send.
async fn answer(peer: &mut LoadPeer, sent: u64) -> anyhow::Result<()> {
    loop {
        match peer.next().await? {
            PeerFrame::Ack { number, .. } | PeerFrame::Refused { number } if number == sent => return Ok(()),
            _ => {}
        }
    }
}

fn draw() -> Deed {
    let mut drawn = rand::random_range(0..100);
    for (deed, _, share) in DEEDS {
        if drawn < share {
            return deed;
        }
        drawn -= share;
    }
    Deed::Send
}
