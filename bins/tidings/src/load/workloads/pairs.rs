use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use tokio::time::sleep_until;

use super::super::bench::{Bench, Observed};
use super::super::measure::{Tally, Window};
use super::super::order::Order;
use super::super::peer::{Heard, Peer};
use super::super::report::Report;
use super::super::users::{LoadChat, pair_up, sign_up};
use super::super::{LoadArgs, Workload};
use super::{connect_all, join};

/// What pairs have shown.
pub(super) struct Measured {
    pub(super) chats: usize,
    pub(super) window: Window,
    pub(super) observed: Observed,
    pub(super) tally: Tally,
}

/// Direct chats with `depth` messages in flight in each: sent, and not yet both acknowledged and pushed.
pub(super) async fn run(bench: &Bench, arguments: &LoadArgs, depth: usize) -> anyhow::Result<Report> {
    let Measured { chats, window, observed, tally } = measure(bench, arguments, depth).await?;
    let workload = if depth == 1 { Workload::Pairs } else { Workload::PairsDeep };
    let setup = format!("{chats} direct chats, {depth} in flight in each");
    let mut report = Report::new(workload, setup, window.seconds());
    report.server = observed.server;
    report.timeline = observed.timeline;
    report.in_flight = chats * depth;
    report.integrity = tally.integrity;
    report.rate("messages delivered", tally.deliveries.count(), "msg/s");
    report.figure("sends refused", tally.refused as f64, "");
    report.latency("send to ack", &tally.acks);
    report.latency("send to delivery", &tally.deliveries);
    Ok(report)
}

/// Has new pairs work in a window.
pub(super) async fn measure(bench: &Bench, arguments: &LoadArgs, depth: usize) -> anyhow::Result<Measured> {
    let users = sign_up(bench.base_url(), arguments.users_or(200) / 2 * 2, &bench.progress).await?;
    let chats = pair_up(&users).await?;
    let mut peers = connect_all(bench, &users).await?.into_iter();
    let window = bench.window();
    let mut tasks = JoinSet::new();
    for chat in &chats {
        if let (Some(sender), Some(receiver)) = (peers.next(), peers.next()) {
            tasks.spawn(Pair::new(sender, receiver, *chat, depth).work(window, bench.counter()));
        }
    }
    let observed = bench.observe(window).await?;
    let tally = join(tasks).await?;
    Ok(Measured { chats: chats.len(), window, observed, tally })
}

/// Both ends of one chat, in one task.
pub(super) struct Pair {
    sender: Peer,
    receiver: Peer,
    chat: LoadChat,
    depth: usize,
    /// Time between sends, at the least.
    pace: Duration,
    order: Order,
    outstanding: VecDeque<Outstanding>,
    next_number: u64,
    tally: Tally,
}

/// A message that is under way, and the sequences it was acknowledged and pushed with.
struct Outstanding {
    number: u64,
    sent_at: Instant,
    acked: Option<u64>,
    pushed: Option<u64>,
}

impl Pair {
    pub(super) fn new(sender: Peer, receiver: Peer, chat: LoadChat, depth: usize) -> Self {
        Self {
            sender,
            receiver,
            chat,
            depth,
            pace: Duration::ZERO,
            order: Order::after(chat.head),
            outstanding: VecDeque::new(),
            next_number: 0,
            tally: Tally::default(),
        }
    }

    /// The same with a pause between its sends.
    pub(super) fn paced(self, pace: Duration) -> Self {
        Self { pace, ..self }
    }

    /// Sends and receives in the window, then waits for what is under way and checks it.
    pub(super) async fn work(mut self, window: Window, done: Arc<AtomicU64>) -> anyhow::Result<Tally> {
        let mut beats = Peer::beats();
        let mut due = Instant::now();
        loop {
            let over = window.is_over();
            if over && self.outstanding.is_empty() {
                break;
            }
            while !over && self.outstanding.len() < self.depth && due <= Instant::now() {
                self.send()?;
                due += self.pace;
            }
            tokio::select! {
                heard = self.sender.next() => self.handle_sender(heard?, &window),
                heard = self.receiver.next() => {
                    if self.handle_receiver(heard?, &window)? {
                        done.fetch_add(1, Ordering::Relaxed);
                    }
                }
                _ = beats.tick() => {
                    self.sender.beat()?;
                    self.receiver.beat()?;
                }
                () = sleep_until(due.into()), if !over && self.outstanding.len() < self.depth => {}
                () = sleep_until(window.deadline().into()), if over => break,
            }
            self.settle();
        }
        self.finish().await
    }

    fn send(&mut self) -> anyhow::Result<()> {
        let number = self.next_number;
        self.next_number += 1;
        let sent_at = self.sender.send(self.chat.chat_id, number)?;
        self.outstanding.push_back(Outstanding { number, sent_at, acked: None, pushed: None });
        Ok(())
    }

    fn handle_sender(&mut self, heard: Heard, window: &Window) {
        match heard {
            Heard::Ack { number, sequence } => {
                if let Some(message) = self.outstanding.iter_mut().find(|message| message.number == number) {
                    message.acked = Some(sequence);
                    self.tally.acked(window, message.sent_at);
                }
            }
            Heard::Refused { number } => {
                self.tally.refused += 1;
                self.outstanding.retain(|message| message.number != number);
            }
            Heard::Message { .. } | Heard::Presence { .. } | Heard::BeatAck | Heard::Other => {}
        }
    }

    /// Returns whether a message has arrived.
    fn handle_receiver(&mut self, heard: Heard, window: &Window) -> anyhow::Result<bool> {
        let Heard::Message { sequence, stamp } = heard else { return Ok(false) };
        self.order.pushed(sequence);
        self.tally.delivered(window, stamp.sent_at);
        if let Some(message) = self.outstanding.iter_mut().find(|message| message.number == stamp.number) {
            message.pushed = Some(sequence);
        }
        self.receiver.acknowledge(self.chat.chat_id, &self.order)?;
        Ok(true)
    }

    /// Forgets what is acknowledged and delivered. Both must name the same place, and places must be in the order of the
    /// sends.
    fn settle(&mut self) {
        while let Some(Outstanding { acked: Some(acked), pushed: Some(pushed), .. }) = self.outstanding.front() {
            if acked != pushed {
                self.tally.integrity.reordered += 1;
            }
            if let Some(next) = self.outstanding.get(1).and_then(|next| next.acked)
                && next < *acked
            {
                self.tally.integrity.reordered += 1;
            }
            self.outstanding.pop_front();
        }
    }

    /// What was acknowledged and not pushed must be there for a sync.
    async fn finish(mut self) -> anyhow::Result<Tally> {
        let head = self.outstanding.iter().filter_map(|message| message.acked).max();
        let head = head.unwrap_or(0).max(self.order.contiguous());
        self.receiver.heal(self.chat.chat_id, &mut self.order, head).await?;
        self.tally.integrity += self.order.finish(head);
        self.sender.close().await;
        self.receiver.close().await;
        Ok(self.tally)
    }
}
