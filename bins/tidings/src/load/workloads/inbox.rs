use std::collections::VecDeque;
use std::time::{Duration, Instant};

use anyhow::ensure;
use domain::Sequence;
use futures_util::{StreamExt, TryStreamExt, stream};
use tokio::task::JoinSet;

use super::super::bench::{Bench, Observed};
use super::super::measure::{Latencies, MeasurementWindow};
use super::super::peer::{LoadPeer, LoadUser, PeerFrame};
use super::super::report::LoadReport;
use super::super::users::{LoadChat, PARALLEL, group, sign_up};
use super::super::{LoadArgs, Workload};

/// Sends in flight while the chats are filled.
const FILL_IN_FLIGHT: usize = 64;

/// A measured inbox: messages per chat, and whether its owner has read them.
struct MeasuredInbox {
    name: &'static str,
    messages: u64,
    read: bool,
}

/// The first page of inboxes with many chats, short and long ones: does the length of a history matter?
pub(super) async fn run(bench: &Bench, arguments: &LoadArgs) -> anyhow::Result<LoadReport> {
    let messages = u64::from(arguments.messages.unwrap_or(100));
    let chats = arguments.users_or(1000);
    let inboxes = [
        MeasuredInbox { name: "inbox of short chats", messages: 1, read: true },
        MeasuredInbox { name: "inbox of long chats", messages, read: true },
        MeasuredInbox { name: "inbox of long chats, unread", messages, read: false },
    ];
    let mut users = sign_up(bench.base_url(), inboxes.len() + 1, &bench.progress).await?;
    let writer = users.pop().expect("one more than inboxes");
    for (inbox, owner) in inboxes.iter().zip(&users) {
        prepare(bench, inbox, owner, &writer, chats).await?;
    }

    let window = bench.window();
    let mut readers = JoinSet::new();
    for (index, (inbox, owner)) in inboxes.iter().zip(users).enumerate() {
        let unread = if inbox.read { 0 } else { inbox.messages };
        readers.spawn(async move { anyhow::Ok((index, read(owner, unread, window).await?)) });
    }
    let Observed { server, .. } = bench.observe(window).await?;
    let mut pages = [(); 3].map(|()| Latencies::default());
    while let Some(read) = readers.join_next().await {
        let (index, latencies) = read??;
        pages[index] = latencies;
    }
    let setup = format!("3 owners of {chats} chats each, with 1 message and with {messages}, read 100 chats a page");
    let mut report = LoadReport::new(Workload::Inbox, setup, window.seconds());
    report.server = server;
    report.rate("pages", pages.iter().map(Latencies::count).sum(), "pages/s");
    for (inbox, latencies) in inboxes.iter().zip(&pages) {
        report.latency(inbox.name, latencies);
    }
    let [short, long, unread] = pages.map(|latencies| latencies.quantile(0.5).max(Duration::from_micros(1)));
    report.figure("median of long / of short chats", long.as_secs_f64() / short.as_secs_f64(), "");
    report.figure("median of unread / of short chats", unread.as_secs_f64() / short.as_secs_f64(), "");
    Ok(report)
}

/// Creates the chats of an inbox and fills them.
async fn prepare(
    bench: &Bench,
    inbox: &MeasuredInbox,
    owner: &LoadUser,
    writer: &LoadUser,
    chats: usize,
) -> anyhow::Result<()> {
    bench.progress.set_message("opening chats");
    let others = std::slice::from_ref(writer);
    let open = stream::iter(0..chats).map(|_| group(owner, others)).buffer_unordered(PARALLEL);
    let chats: Vec<LoadChat> = open.try_collect().await?;
    bench.progress.set_message("filling chats");
    let mut peer = LoadPeer::connect(writer, bench.epoch).await?;
    let mut waiting: VecDeque<_> =
        (0..inbox.messages).flat_map(|n| chats.iter().map(move |chat| (chat.chat_id, n))).collect();
    let mut in_flight = 0;
    while in_flight > 0 || !waiting.is_empty() {
        while in_flight < FILL_IN_FLIGHT
            && let Some((chat_id, n)) = waiting.pop_front()
        {
            peer.send(chat_id, n)?;
            in_flight += 1;
        }
        match peer.next().await? {
            PeerFrame::Ack { .. } => {
                in_flight -= 1;
                bench.progress.inc(1);
            }
            PeerFrame::Refused { .. } => anyhow::bail!("a send was refused while the chats were filled"),
            PeerFrame::Message { .. }
            | PeerFrame::Update { .. }
            | PeerFrame::Presence { .. }
            | PeerFrame::BeatAck
            | PeerFrame::Other => {}
        }
    }
    peer.close().await;
    if inbox.read {
        let head = Sequence(inbox.messages);
        let marks = chats.iter().map(|chat| owner.client.api().mark_read(chat.chat_id, head));
        stream::iter(marks).buffer_unordered(PARALLEL).try_collect::<Vec<_>>().await?;
    }
    Ok(())
}

/// Reads the first page repeatedly, and checks its counts.
async fn read(owner: LoadUser, unread: u64, window: MeasurementWindow) -> anyhow::Result<Latencies> {
    let mut latencies = Latencies::default();
    while !window.is_over() {
        let begun = Instant::now();
        let page = owner.client.api().chats(None).await?;
        if begun >= window.from {
            latencies.record(begun.elapsed());
        }
        // The server counts unread messages up to this bound.
        let unread = unread.min(domain::limits::UNREAD_EXACT_MAX);
        let wrong = page.data.chats.iter().find(|chat| chat.unread_count != unread);
        ensure!(
            wrong.is_none(),
            "a chat has {} unread messages, not {unread}",
            wrong.map_or(0, |chat| chat.unread_count)
        );
    }
    Ok(latencies)
}
