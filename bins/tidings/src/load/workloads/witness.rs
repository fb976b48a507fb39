use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use audit::history::{Checker, Client, HistoryOp, Page, Reader, Recorder, Seen, fingerprint};
use client::{Ack, Body, ClientEvent, ClientHandle, HistoryRange};
use domain::{ChatId, ClientMessageId, ContentType, Sequence};
use futures_util::future::OptionFuture;
use protocol::frame::{MessageBody, SendMessage};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep, sleep_until, timeout_at};

use super::super::bench::{Bench, Observed};
use super::super::measure::{LoadTally, MeasurementWindow};
use super::super::peer::LoadUser;
use super::super::report::LoadReport;
use super::super::users::{group, phone_numbers, sign_in};
use super::super::{LoadArgs, Workload};
use super::join;

/// Maximum members per group.
const MEMBERS: usize = 5;
/// Default total of messages per second.
const RATE: u32 = 100;
/// Messages per history page.
const PAGE: usize = 100;
/// Measured servers run on this machine, or have synchronized clocks.
const SKEW_MS: u64 = 1000;

/// Users on the SDK in groups, each with two devices. Everything they do and receive is recorded, and checked at the
/// end. The service may be killed or disconnected meanwhile: the SDK reconnects, and the history shows whether the
/// service kept its guarantees.
pub(super) async fn run(bench: &Bench, arguments: &LoadArgs) -> anyhow::Result<LoadReport> {
    let Some(path) = &arguments.history else { bail!("`witness` writes a history: name its file with --history") };
    let recorder = Recorder::create(path).with_context(|| format!("cannot write `{}`", path.display()))?;
    let recorder = Arc::new(recorder);
    let numbers = phone_numbers(arguments.users_or(20));
    let users = sign_in(bench.base_url(), &numbers, &bench.progress).await?;
    let others = sign_in(bench.base_url(), &numbers, &bench.progress).await?;
    let rate = arguments.rate.unwrap_or(RATE);
    let pace = Duration::from_secs(2 * numbers.len() as u64) / rate;
    let mut chats = Vec::new();
    for (users, others) in users.chunks(MEMBERS).zip(others.chunks(MEMBERS)) {
        let chat_id = group(&users[0], &users[1..]).await?.chat_id;
        for user_id in users.iter().map(|user| user.user_id) {
            recorder.record(client(&users[0]), HistoryOp::Joining { chat_id, user_id });
            recorder.record(client(&users[0]), HistoryOp::Joined { chat_id, user_id });
        }
        chats.push((chat_id, users, others));
    }
    let window = bench.window();
    let (announce_heads, heads) = watch::channel(None);
    let senders = Arc::new(AtomicU64::new(2 * numbers.len() as u64));
    let mut tasks = JoinSet::new();
    for (number, (chat_id, users, others)) in chats.iter().enumerate() {
        for user in users.iter().chain(*others) {
            let witness = Witness {
                recorder: recorder.clone(),
                client: client(user),
                chat_id: *chat_id,
                position: Sequence::ZERO,
                tally: LoadTally::default(),
            };
            let user = user.clone();
            tasks.spawn(witness.work(user, number, window, pace, senders.clone(), heads.clone(), bench.counter()));
        }
    }
    let Observed { server, timeline } = bench.observe(window).await?;
    while senders.load(Ordering::Relaxed) > 0 && Instant::now() < window.deadline() {
        sleep(Duration::from_millis(20)).await;
    }
    let mut ends = Vec::new();
    for (chat_id, users, _) in &chats {
        ends.push(store(&recorder, &users[0], *chat_id).await?);
    }
    announce_heads.send_replace(Some(ends));
    let tally = join(tasks).await?;
    recorder.record(client(&users[0]), HistoryOp::Settled);
    recorder.flush().with_context(|| format!("cannot write `{}`", path.display()))?;
    check(path)?;
    let setup = format!("{} people with two devices each, in {} groups", numbers.len(), chats.len());
    let mut report = LoadReport::new(Workload::Witness, setup, window.seconds());
    report.server = server;
    report.timeline = timeline;
    report.figure("entries of the history", recorder.entries() as f64, "");
    report.rate("messages shown", tally.deliveries.count(), "messages/s");
    report.latency("send to ack", &tally.acks);
    report.latency("send to delivery", &tally.deliveries);
    Ok(report)
}

/// One device, with its view of its chat.
struct Witness {
    recorder: Arc<Recorder<File>>,
    client: Client,
    chat_id: ChatId,
    position: Sequence,
    tally: LoadTally,
}

impl Witness {
    /// Sends in the window, and receives until it has everything.
    #[expect(clippy::too_many_arguments, reason = "they are what all tasks of a workload share")]
    async fn work(
        mut self,
        user: LoadUser,
        number: usize,
        window: MeasurementWindow,
        pace: Duration,
        senders: Arc<AtomicU64>,
        mut heads: watch::Receiver<Option<Vec<Sequence>>>,
        done: Arc<AtomicU64>,
    ) -> anyhow::Result<LoadTally> {
        // The chat is empty, so every device starts at zero.
        self.note(HistoryOp::Restarted { positions: vec![(self.chat_id, Sequence::ZERO)] });
        let (handle, mut events) = user.client.connect()?;
        let mut sends_at = Instant::now() + pace.mul_f64(rand::random());
        let mut unanswered: Option<(Instant, Ack)> = None;
        let mut is_sender = true;
        loop {
            if is_sender && window.is_over() && unanswered.is_none() {
                is_sender = false;
                senders.fetch_sub(1, Ordering::Relaxed);
            }
            let head = heads.borrow().as_ref().map(|heads| heads[number]);
            if head.is_some_and(|head| self.position >= head) || Instant::now() >= window.deadline() {
                break;
            }
            tokio::select! {
                event = events.next() => {
                    let event = event.context("the session ended")?;
                    self.told(&event, &window, &done);
                }
                Some(ack) = OptionFuture::from(unanswered.as_mut().map(|(_, ack)| ack)), if unanswered.is_some() => {
                    let ack = ack.context("a send was refused")?;
                    if let Some((sent_at, _)) = unanswered.take() {
                        self.tally.acked(&window, sent_at);
                    }
                    let (client_message_id, message_id, sequence) = (ack.client_message_id, ack.message_id, ack.sequence);
                    self.note(HistoryOp::SendAcked { chat_id: self.chat_id, client_message_id, message_id, sequence });
                }
                () = sleep_until(sends_at.into()), if unanswered.is_none() && !window.is_over() => {
                    sends_at += pace;
                    unanswered = Some((Instant::now(), self.send(&handle).await?));
                }
                _ = heads.changed(), if head.is_none() => {}
                () = sleep_until(window.until.into()), if is_sender && !window.is_over() => {}
                () = sleep_until(window.deadline().into()) => {}
            }
        }
        // A failed graceful close does not affect the result.
        let _ = timeout_at(window.deadline().into(), handle.close()).await;
        Ok(self.tally)
    }

    fn note(&self, op: HistoryOp) {
        self.recorder.record(self.client, op);
    }

    async fn send(&self, handle: &ClientHandle) -> anyhow::Result<Ack> {
        let client_message_id = ClientMessageId::from_bytes(rand::random());
        let chat_id = self.chat_id;
        let text = client_message_id.to_string();
        let content = fingerprint(&text);
        // The SDK retries temporarily refused sends without reporting them.
        self.note(HistoryOp::SendBegan { chat_id, client_message_id, content, ttl_seconds: None, ordered: false });
        let content = text.try_into().context("the content is valid")?;
        let body = Body::new(content, ContentType::Text);
        let message = SendMessage { client_message_id, chat_id, body, ttl: None };
        Ok(handle.submit(message).await?)
    }

    fn told(&mut self, event: &ClientEvent, window: &MeasurementWindow, done: &AtomicU64) {
        match event {
            ClientEvent::Connected { connection_id, .. } => {
                self.note(HistoryOp::Connected { connection: *connection_id })
            }
            ClientEvent::Disconnected { .. } => self.note(HistoryOp::Disconnected),
            ClientEvent::Message(message) => {
                self.note(HistoryOp::Rendered { chat_id: message.chat_id, message: seen(message) });
                self.position = self.position.max(message.sequence);
                self.tally.delivered(window, Instant::now());
                done.fetch_add(1, Ordering::Relaxed);
            }
            _ => {}
        }
    }
}

fn client(user: &LoadUser) -> Client {
    Client { user_id: user.user_id, device_id: user.client.api().device_id() }
}

fn seen(message: &MessageBody<'_>) -> Seen {
    Seen {
        sequence: message.sequence,
        message_id: message.message_id,
        sender_id: message.sender_id,
        client_message_id: message.client_message_id,
        content: fingerprint(&message.content),
    }
}

/// Records the stored messages of a chat, and returns its last sequence.
async fn store(recorder: &Recorder<File>, user: &LoadUser, chat_id: ChatId) -> anyhow::Result<Sequence> {
    let mut after = Sequence::ZERO;
    loop {
        let began_at = recorder.now();
        let range = HistoryRange { after: Some(after), limit: Some(PAGE), ..HistoryRange::default() };
        let page = user.client.api().history(chat_id, range).await.context("cannot read the stored messages")?;
        let messages: Vec<Seen> = page.messages.iter().map(|row| seen(&row.message)).collect();
        let through = messages.last().map_or(page.head_sequence.max(after), |last| last.sequence);
        let is_last = messages.is_empty();
        recorder.record(
            client(user),
            HistoryOp::Stored { chat_id, began_at, page: Page { after, through, is_last, messages } },
        );
        if is_last {
            return Ok(after);
        }
        after = through;
    }
}

/// A load fails if its history contradicts the guarantees.
fn check(path: &Path) -> anyhow::Result<()> {
    let mut checker = Checker::new().with_skew_ms(SKEW_MS);
    for entry in Reader::open(path)? {
        checker.observe(&entry?);
    }
    match checker.finish().violations().next() {
        Some(first) => {
            let path = path.display();
            bail!("{}: {}; `tidings history check {path}` lists all violations", first.invariant, first.detail)
        }
        None => Ok(()),
    }
}
