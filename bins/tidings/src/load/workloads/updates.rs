use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use domain::{Reaction, Sequence, UpdateAction};
use tokio::sync::Barrier;
use tokio::task::JoinSet;
use tokio::time::{interval, sleep_until};

use super::super::bench::{Bench, Observed};
use super::super::measure::{Latencies, LoadTally, MeasurementWindow};
use super::super::order::{IntegrityViolations, SequenceChecker};
use super::super::peer::{LoadPeer, LoadUser, PeerFrame};
use super::super::report::{LoadReport, ServerFigures};
use super::super::users::{LoadChat, group, pair_up, sign_up};
use super::super::{LoadArgs, Workload};
use super::connect_all;

/// Different reactions to the one message, as many as a message may have.
const KINDS: usize = domain::limits::REACTION_KINDS_MAX;
/// Time without a push or an ack after which a connection syncs what was not pushed to it.
const QUIET: Duration = Duration::from_secs(10);
/// Syncs of each chat.
const SYNCS: usize = 10;
/// Sends and reactions in flight while a chat is filled.
const FILL_IN_FLIGHT: u64 = 32;

/// Updates of messages, in three parts: edits and reactions beside plain messages, many reactions to one message at
/// once, and a sync over reactions beside one over messages.
pub(super) async fn run(bench: &Bench, arguments: &LoadArgs) -> anyhow::Result<LoadReport> {
    let members = arguments.members.unwrap_or(1000) as usize;
    let paired = arguments.users_or(200) / 2 * 2;
    let entries = u64::from(arguments.messages.unwrap_or(10_000)).next_multiple_of(2);
    let users = sign_up(bench.base_url(), paired.max(members), &bench.progress).await?;
    let setup = format!(
        "{} direct chats, 1 in flight at each user: messages, then edits, then reactions; {members} reactions to one \
         message; syncs of {entries} entries",
        paired / 2
    );
    let mut report = LoadReport::new(Workload::Updates, setup, bench.time().as_secs_f64());
    report.in_flight = paired;
    compare_operations(bench, &users[..paired], &mut report).await?;
    react_at_once(bench, &users[..members], &mut report).await?;
    compare_syncs(bench, &users[..2], entries, &mut report).await?;
    Ok(report)
}

/// The operation of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operation {
    Send,
    Edit,
    /// Adds a reaction, or removes it again.
    React,
}

impl Operation {
    const ALL: [Self; 3] = [Self::Send, Self::Edit, Self::React];

    /// The name in the report, in the singular and in the plural.
    fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::Send => ("message", "messages"),
            Self::Edit => ("edit", "edits"),
            Self::React => ("reaction", "reactions"),
        }
    }
}

/// The cost of one operation: the time of the window, and the CPU time of the server if it is known.
#[derive(Clone, Copy)]
struct OperationCost {
    seconds: f64,
    cpu_seconds: Option<f64>,
}

/// Measures each operation in a window of its own, on the same connections.
async fn compare_operations(bench: &Bench, users: &[LoadUser], report: &mut LoadReport) -> anyhow::Result<()> {
    let chats: Vec<_> = pair_up(users).await?.into_iter().map(|chat| (chat, ChatProgress::after(chat.head))).collect();
    let both = chats.iter().flat_map(|chat| [chat, chat]);
    let peers = connect_all(bench, users).await?;
    let mut updaters: Vec<Updater> =
        peers.into_iter().zip(both).map(|(peer, (chat, progress))| Updater::new(peer, *chat, progress)).collect();
    let (mut refused, mut of_a_send, mut in_all_windows) = (0, None, None::<ServerFigures>);
    for operation in Operation::ALL {
        for updater in &updaters {
            updater.progress.sending.fetch_add(1, Ordering::AcqRel);
        }
        let window = bench.window();
        let mut tasks = JoinSet::new();
        for updater in updaters.drain(..) {
            tasks.spawn(updater.work(operation, window, bench.counter()));
        }
        let Observed { server, timeline } = bench.observe(window).await?;
        let mut tally = LoadTally::default();
        while let Some(updater) = tasks.join_next().await {
            let mut updater = updater??;
            tally.merge(&std::mem::take(&mut updater.tally));
            updaters.push(updater);
        }
        let ((singular, plural), count) = (operation.names(), tally.acks.count());
        ensure!(count > 0, "no {singular} was acknowledged in its window");
        refused += tally.refused;
        report.server = server;
        report.timeline.extend(timeline);
        report.rate(plural, count, "operations/s");
        report.latency(format!("{singular} to ack"), &tally.acks);
        in_all_windows = server.map(|server| {
            let earlier = in_all_windows.map_or(0.0, |earlier| earlier.cpu_seconds);
            ServerFigures { cpu_seconds: earlier + server.cpu_seconds, commits: None, ..server }
        });
        let cost = OperationCost {
            seconds: window.seconds() / count as f64,
            cpu_seconds: server.map(|server| server.cpu_seconds / count as f64),
        };
        let OperationCost { seconds, cpu_seconds } = *of_a_send.get_or_insert(cost);
        if operation != Operation::Send {
            report.figure(format!("time of one {singular} / of one message"), cost.seconds / seconds, "x");
            if let Some((cpu, of_a_send)) = cost.cpu_seconds.zip(cpu_seconds).filter(|(_, of_a_send)| *of_a_send > 0.0)
            {
                report.figure(format!("server CPU of one {singular} / of one message"), cpu / of_a_send, "x");
            }
        }
    }
    report.server = in_all_windows;
    let mut synced = 0;
    for updater in updaters {
        let (integrity, not_pushed) = updater.finish().await?;
        report.integrity += integrity;
        synced += not_pushed;
    }
    for (chat, progress) in chats {
        let entries = progress.head.load(Ordering::Acquire) - chat.head;
        report.integrity.doubled += entries.saturating_sub(progress.operations.load(Ordering::Acquire));
    }
    report.figure("operations refused", refused as f64, "");
    report.figure("entries synced instead of pushed", synced as f64, "");
    Ok(())
}

/// Common progress of the two users of a chat.
struct ChatProgress {
    sending: AtomicUsize,
    /// The highest acknowledged sequence.
    head: AtomicU64,
    /// The operations that were acknowledged, or not answered. Each makes one entry at most.
    operations: AtomicU64,
}

impl ChatProgress {
    fn after(head: u64) -> Arc<Self> {
        Arc::new(Self { sending: AtomicUsize::new(0), head: AtomicU64::new(head), operations: AtomicU64::new(0) })
    }
}

/// One user of a direct chat, with one operation in flight.
struct Updater {
    peer: LoadPeer,
    chat: LoadChat,
    progress: Arc<ChatProgress>,
    order: SequenceChecker,
    /// The sequence of the user's last message, which the updates change.
    own: Option<u64>,
    has_reacted: bool,
    next_number: u64,
    tally: LoadTally,
}

impl Updater {
    fn new(peer: LoadPeer, chat: LoadChat, progress: &Arc<ChatProgress>) -> Self {
        Self {
            peer,
            chat,
            progress: Arc::clone(progress),
            order: SequenceChecker::after(chat.head),
            own: None,
            has_reacted: false,
            next_number: 0,
            tally: LoadTally::default(),
        }
    }

    /// Repeats the operation in the window, and receives until the acknowledged entries of both users have arrived.
    async fn work(
        mut self,
        operation: Operation,
        window: MeasurementWindow,
        done: Arc<AtomicU64>,
    ) -> anyhow::Result<Self> {
        let mut beats = LoadPeer::beats();
        // Polls whether the other user has finished; the measurement is over by then.
        let mut looks = interval(Duration::from_millis(50));
        let (mut sending, mut under_way) = (true, None);
        loop {
            if sending && under_way.is_none() {
                if window.is_over() {
                    sending = false;
                    self.progress.sending.fetch_sub(1, Ordering::AcqRel);
                } else {
                    under_way = Some(self.act(operation)?);
                }
            }
            tokio::select! {
                heard = self.peer.next() => match heard? {
                    PeerFrame::Ack { sequence, .. } => {
                        self.acked(operation, sequence);
                        if let Some(sent_at) = under_way.take() {
                            self.tally.acked(&window, sent_at);
                        }
                        done.fetch_add(1, Ordering::Relaxed);
                    }
                    PeerFrame::Refused { .. } => {
                        self.tally.refused += 1;
                        under_way = None;
                    }
                    PeerFrame::Message { sequence, .. } | PeerFrame::Update { sequence } => {
                        self.order.pushed(sequence);
                        self.peer.acknowledge(self.chat.chat_id, &self.order)?;
                    }
                    PeerFrame::Presence { .. } | PeerFrame::BeatAck | PeerFrame::Other => {}
                },
                _ = beats.tick() => self.peer.heartbeat()?,
                _ = looks.tick(), if !sending => {
                    let all_sent = self.progress.sending.load(Ordering::Acquire) == 0;
                    if all_sent && self.order.is_complete(self.progress.head.load(Ordering::Acquire)) {
                        return Ok(self);
                    }
                }
                () = sleep_until(window.deadline().into()) => {
                    self.progress.operations.fetch_add(u64::from(under_way.is_some()), Ordering::AcqRel);
                    return Ok(self);
                }
            }
        }
    }

    fn act(&mut self, operation: Operation) -> anyhow::Result<Instant> {
        let (chat_id, number) = (self.chat.chat_id, self.next_number);
        self.next_number += 1;
        let own = || self.own.context("no message was acknowledged before the updates");
        match operation {
            Operation::Send => self.peer.send(chat_id, number),
            Operation::Edit => {
                let own = own()?;
                self.peer.edit(chat_id, number, own)
            }
            Operation::React => {
                let (own, reaction) = (own()?, reaction(0));
                let action =
                    if self.has_reacted { UpdateAction::Unreact(reaction) } else { UpdateAction::React(reaction) };
                self.peer.update(chat_id, number, own, action)
            }
        }
    }

    fn acked(&mut self, operation: Operation, sequence: u64) {
        self.progress.operations.fetch_add(1, Ordering::AcqRel);
        self.progress.head.fetch_max(sequence, Ordering::AcqRel);
        match operation {
            Operation::Send => {
                self.order.acked(sequence);
                self.own = Some(sequence);
            }
            // An update is pushed to the connection that made it too.
            Operation::Edit => {}
            Operation::React => self.has_reacted = !self.has_reacted,
        }
    }

    /// The violations, and the number of entries that were synced because they were not pushed.
    async fn finish(mut self) -> anyhow::Result<(IntegrityViolations, u64)> {
        let head = self.progress.head.load(Ordering::Acquire);
        let not_pushed = heal(&mut self.peer, self.chat, &mut self.order, head).await?;
        self.peer.close().await;
        Ok((self.order.finish(head), not_pushed))
    }
}

/// Syncs the entries that were not pushed, and returns how many the pushes did not reach.
async fn heal(peer: &mut LoadPeer, chat: LoadChat, order: &mut SequenceChecker, head: u64) -> anyhow::Result<u64> {
    let not_pushed = head.saturating_sub(order.contiguous());
    peer.heal(chat.chat_id, order, head).await?;
    Ok(not_pushed)
}

fn reaction(n: usize) -> Reaction {
    format!("r{}", n % KINDS).parse().expect("a short code is a reaction")
}

/// All members of a group react to one message at the same moment. Each receives all reactions.
async fn react_at_once(bench: &Bench, users: &[LoadUser], report: &mut LoadReport) -> anyhow::Result<()> {
    let chat = group(&users[0], &users[1..]).await?;
    let mut peers = connect_all(bench, users).await?;
    bench.progress.set_message("reacting to one message");
    peers[0].send(chat.chat_id, 0)?;
    let target = loop {
        match peers[0].next().await? {
            PeerFrame::Ack { sequence, .. } => break sequence,
            PeerFrame::Refused { .. } => bail!("the message of the reactions was refused"),
            _ => {}
        }
    };
    let head = target + users.len() as u64;
    let cpu_before = bench.target().cpu_seconds();
    let start = Arc::new(Barrier::new(peers.len() + 1));
    let mut tasks = JoinSet::new();
    for (n, peer) in peers.into_iter().enumerate() {
        let mut order = SequenceChecker::after(chat.head);
        if n == 0 {
            order.acked(target);
        }
        let reactor = Reactor { peer, chat, order, target, head };
        tasks.spawn(reactor.react(reaction(n), Arc::clone(&start)));
    }
    start.wait().await;
    let started = Instant::now();
    let (mut acks, mut received) = (Latencies::default(), Latencies::default());
    let (mut last_ack, mut synced) = (started, 0);
    while let Some(reacted) = tasks.join_next().await {
        let Reacted { sent_at, acked_at, complete_at, integrity, not_pushed } = reacted??;
        acks.record(acked_at.saturating_duration_since(sent_at));
        received.record(complete_at.saturating_duration_since(started));
        last_ack = last_ack.max(acked_at);
        report.integrity += integrity;
        synced += not_pushed;
    }
    let page = users[0].client.api().around(chat.chat_id, Sequence(target)).await?;
    let message = page.messages.iter().find(|found| found.message.sequence.0 == target);
    let state = message.and_then(|found| found.message.state.as_ref()).context("the message has no state")?;
    let counted: u64 = state.reactions.iter().map(|known| u64::from(known.count)).sum();
    ensure!(counted == users.len() as u64, "{} reactions are acknowledged, and {counted} are counted", users.len());

    let count = users.len() as f64;
    let took = last_ack.saturating_duration_since(started).as_secs_f64();
    report.figure("reactions to one message", count / took.max(f64::EPSILON), "updates/s");
    if let Some(server) = bench.server_since(cpu_before) {
        report.figure("server CPU of a reaction and its pushes", server.cpu_seconds / count * 1e6, "us");
    }
    report.figure("reactions synced instead of pushed", synced as f64, "");
    report.latency("one message: reaction to ack", &acks);
    report.latency("one message: all received", &received);
    Ok(())
}

/// A member who reacts to the one message.
struct Reactor {
    peer: LoadPeer,
    chat: LoadChat,
    order: SequenceChecker,
    target: u64,
    /// The sequence of the last reaction.
    head: u64,
}

struct Reacted {
    sent_at: Instant,
    acked_at: Instant,
    /// When all reactions were received.
    complete_at: Instant,
    integrity: IntegrityViolations,
    not_pushed: u64,
}

impl Reactor {
    async fn react(mut self, reaction: Reaction, start: Arc<Barrier>) -> anyhow::Result<Reacted> {
        let chat_id = self.chat.chat_id;
        start.wait().await;
        let sent_at = self.peer.update(chat_id, 1, self.target, UpdateAction::React(reaction))?;
        let mut beats = LoadPeer::beats();
        let (mut acked_at, mut progress_at) = (None, Instant::now());
        while acked_at.is_none() || !self.order.is_complete(self.head) {
            tokio::select! {
                heard = self.peer.next() => match heard? {
                    PeerFrame::Ack { .. } => {
                        progress_at = Instant::now();
                        acked_at = Some(progress_at);
                    }
                    PeerFrame::Refused { .. } => bail!("a reaction was refused"),
                    PeerFrame::Message { sequence, .. } | PeerFrame::Update { sequence } => {
                        progress_at = Instant::now();
                        self.order.pushed(sequence);
                        self.peer.acknowledge(chat_id, &self.order)?;
                    }
                    PeerFrame::Presence { .. } | PeerFrame::BeatAck | PeerFrame::Other => {}
                },
                _ = beats.tick() => self.peer.heartbeat()?,
                () = sleep_until((progress_at + QUIET).into()) => break,
            }
        }
        let acked_at = acked_at.context("a reaction was not acknowledged")?;
        let not_pushed = heal(&mut self.peer, self.chat, &mut self.order, self.head).await?;
        let complete_at = Instant::now();
        self.peer.close().await;
        Ok(Reacted { sent_at, acked_at, complete_at, integrity: self.order.finish(self.head), not_pushed })
    }
}

/// Syncs a chat of messages, and one of as many entries of which half are reactions, in turn.
async fn compare_syncs(bench: &Bench, users: &[LoadUser], entries: u64, report: &mut LoadReport) -> anyhow::Result<()> {
    let [sender, receiver] = users else { bail!("a sync needs two users") };
    let mut syncs = vec![];
    for (name, has_reactions) in [("sync of messages", false), ("sync, half reactions", true)] {
        bench.progress.set_message("filling chats");
        let chat = group(sender, std::slice::from_ref(receiver)).await?;
        fill(bench, sender, chat, entries, has_reactions).await?;
        syncs.push((name, chat, Latencies::default()));
    }
    bench.progress.set_message("syncing");
    for _ in 0..SYNCS {
        for (_, chat, latencies) in &mut syncs {
            let mut peer = LoadPeer::connect(receiver, bench.epoch).await?;
            let mut order = SequenceChecker::after(chat.head);
            let begun = Instant::now();
            peer.sync(chat.chat_id, chat.head, |sequence| order.pushed(sequence)).await?;
            latencies.record(begun.elapsed());
            peer.close().await;
            report.integrity += order.finish(chat.head + entries);
        }
    }
    let mut medians = vec![];
    for (name, _, latencies) in &syncs {
        let median = latencies.quantile(0.5).as_secs_f64();
        report.figure(*name, entries as f64 / median, "entries/s");
        report.latency(*name, latencies);
        medians.push(median);
    }
    report.figure("sync with reactions / without, median", medians[1] / medians[0], "x");
    Ok(())
}

/// Fills a chat with messages; with reactions, each message is followed by one to it.
async fn fill(
    bench: &Bench,
    sender: &LoadUser,
    chat: LoadChat,
    entries: u64,
    has_reactions: bool,
) -> anyhow::Result<()> {
    let mut peer = LoadPeer::connect(sender, bench.epoch).await?;
    let (mut sent, mut acked) = (0, 0);
    while acked < entries {
        while sent < entries && sent < acked + FILL_IN_FLIGHT {
            // The only sender of the chat: entry n gets the sequence n + 1 after its head.
            if has_reactions && sent % 2 == 1 {
                let react = UpdateAction::React(reaction(0));
                peer.update(chat.chat_id, sent, chat.head + sent, react)?;
            } else {
                peer.send(chat.chat_id, sent)?;
            }
            sent += 1;
        }
        match peer.next().await? {
            PeerFrame::Ack { .. } => {
                acked += 1;
                bench.progress.inc(1);
            }
            PeerFrame::Refused { .. } => bail!("a send was refused while a chat was filled"),
            _ => {}
        }
    }
    peer.close().await;
    Ok(())
}
