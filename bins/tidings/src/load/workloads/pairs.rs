use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use tokio::time::sleep_until;

use super::super::bench::{Bench, Observed};
use super::super::measure::{LoadTally, MeasurementWindow};
use super::super::order::SequenceChecker;
use super::super::peer::{LoadPeer, PeerFrame};
use super::super::report::LoadReport;
use super::super::users::{LoadChat, pair_up, sign_up};
use super::super::{LoadArgs, Workload};
use super::{connect_all, join};

/// The results of the pairs.
pub(super) struct Measured {
    pub(super) chats: usize,
    pub(super) window: MeasurementWindow,
    pub(super) observed: Observed,
    pub(super) tally: LoadTally,
}

/// Direct chats with `depth` messages in flight in each: sent, and not yet both acknowledged and pushed.
pub(super) async fn run(bench: &Bench, arguments: &LoadArgs, depth: usize) -> anyhow::Result<LoadReport> {
    let Measured { chats, window, observed, tally } = measure(bench, arguments, depth).await?;
    let workload = if depth == 1 { Workload::Pairs } else { Workload::PairsDeep };
    let setup = format!("{chats} direct chats, {depth} in flight in each");
    let mut report = LoadReport::new(workload, setup, window.seconds());
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

/// Runs new pairs in a window.
pub(super) async fn measure(bench: &Bench, arguments: &LoadArgs, depth: usize) -> anyhow::Result<Measured> {
    let users = sign_up(bench.base_url(), arguments.users_or(200) / 2 * 2, &bench.progress).await?;
    let chats = pair_up(&users).await?;
    let mut peers = connect_all(bench, &users).await?.into_iter();
    let window = bench.window();
    let mut tasks = JoinSet::new();
    for chat in &chats {
        if let (Some(sender), Some(receiver)) = (peers.next(), peers.next()) {
            tasks.spawn(ChatPair::new(sender, receiver, *chat, depth).work(window, bench.counter()));
        }
    }
    let observed = bench.observe(window).await?;
    let tally = join(tasks).await?;
    Ok(Measured { chats: chats.len(), window, observed, tally })
}

/// Both ends of one chat, in one task.
pub(super) struct ChatPair {
    sender: LoadPeer,
    receiver: LoadPeer,
    chat: LoadChat,
    depth: usize,
    /// Minimum time between sends.
    pace: Duration,
    order: SequenceChecker,
    outstanding: VecDeque<Outstanding>,
    next_number: u64,
    tally: LoadTally,
}

/// A message in flight, and the sequences of its ack and its push.
struct Outstanding {
    number: u64,
    sent_at: Instant,
    acked: Option<u64>,
    pushed: Option<u64>,
}

impl ChatPair {
    pub(super) fn new(sender: LoadPeer, receiver: LoadPeer, chat: LoadChat, depth: usize) -> Self {
        Self {
            sender,
            receiver,
            chat,
            depth,
            pace: Duration::ZERO,
            order: SequenceChecker::after(chat.head),
            outstanding: VecDeque::new(),
            next_number: 0,
            tally: LoadTally::default(),
        }
    }

    /// The same, with a pause between its sends.
    pub(super) fn paced(self, pace: Duration) -> Self {
        Self { pace, ..self }
    }

    /// Sends and receives in the window, then waits for messages in flight and checks them.
    pub(super) async fn work(mut self, window: MeasurementWindow, done: Arc<AtomicU64>) -> anyhow::Result<LoadTally> {
        let mut beats = LoadPeer::beats();
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
                    self.sender.heartbeat()?;
                    self.receiver.heartbeat()?;
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

    fn handle_sender(&mut self, heard: PeerFrame, window: &MeasurementWindow) {
        match heard {
            PeerFrame::Ack { number, sequence } => {
                if let Some(message) = self.outstanding.iter_mut().find(|message| message.number == number) {
                    message.acked = Some(sequence);
                    self.tally.acked(window, message.sent_at);
                }
            }
            PeerFrame::Refused { number } => {
                self.tally.refused += 1;
                self.outstanding.retain(|message| message.number != number);
            }
            PeerFrame::Message { .. }
            | PeerFrame::Update { .. }
            | PeerFrame::Presence { .. }
            | PeerFrame::BeatAck
            | PeerFrame::Other => {}
        }
    }

    /// Handles a frame of the receiver. Returns whether it was a message.
    fn handle_receiver(&mut self, heard: PeerFrame, window: &MeasurementWindow) -> anyhow::Result<bool> {
        let PeerFrame::Message { sequence, stamp } = heard else { return Ok(false) };
        self.order.pushed(sequence);
        self.tally.delivered(window, stamp.sent_at);
        if let Some(message) = self.outstanding.iter_mut().find(|message| message.number == stamp.number) {
            message.pushed = Some(sequence);
        }
        self.receiver.acknowledge(self.chat.chat_id, &self.order)?;
        Ok(true)
    }

    /// Removes messages that are acknowledged and delivered. Ack and push must carry the same sequence, and sequences
    /// must follow the order of the sends.
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

    /// Messages that were acknowledged but not pushed must be in a sync.
    async fn finish(mut self) -> anyhow::Result<LoadTally> {
        let head = self.outstanding.iter().filter_map(|message| message.acked).max();
        let head = head.unwrap_or(0).max(self.order.contiguous());
        self.receiver.heal(self.chat.chat_id, &mut self.order, head).await?;
        self.tally.integrity += self.order.finish(head);
        self.sender.close().await;
        self.receiver.close().await;
        Ok(self.tally)
    }
}
