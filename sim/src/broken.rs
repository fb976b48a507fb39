//! Implements the known bugs as fault injection around the planes. Each is active only if the plan selects it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use domain::{Advance, ChatId, Event, Sequence, Timestamp, User, UserId, WatermarkKind, Watermarks};
use futures_util::FutureExt;
use memory::{Damage, MemoryStore, Snapshot};
use ports::{
    AppendOutcome, ChatReader, EventProducer, MessageReader, NewDirectChat, NewMessage, Page, Receipt, StoreError,
    WatermarkStore,
};
use tokio::time::{Instant, sleep};

use crate::bugs::Bug;
use crate::store::SimStore;
use crate::world::{Dependency, World};

/// State of the injected bugs.
#[derive(Default)]
pub(crate) struct Memories {
    /// The last allocated sequence, by chat.
    taken: BTreeMap<ChatId, u64>,
    /// The process that committed each send.
    committers: BTreeMap<(ChatId, UserId, domain::ClientMessageId), String>,
    sends: BTreeMap<(ChatId, domain::ClientMessageId), Receipt>,
    users: BTreeMap<UserId, User>,
    /// Snapshots of the store after each commit that may still be lost.
    states: BTreeMap<u64, Snapshot>,
    written_back_at: Option<Instant>,
}

/// How long the operating system keeps unsynced writes in memory.
const WRITE_BACK: Duration = Duration::from_secs(2);

fn now<T>(answer: impl Future<Output = Result<T, StoreError>>) -> Option<T> {
    answer.now_or_never()?.ok()
}

/// Allocates sequences first, and writes their messages later.
pub(crate) async fn append_in_two_phases(
    store: &SimStore,
    batch: Vec<NewMessage>,
) -> Result<Vec<AppendOutcome>, StoreError> {
    let (world, inner) = (store.world.clone(), store.store.clone());
    let mut outcomes = vec![];
    for send in batch {
        let known = inner.committed_send(send.chat_id, send.sender_id, send.client_message_id);
        let is_member = now(inner.member(send.chat_id, send.sender_id)).flatten().is_some();
        if known.is_some() || !is_member {
            let (world, inner) = (world.clone(), inner.clone());
            outcomes
                .extend(store.write("append", async move { Ok(vec![world.append_one(&inner, send).await?]) }).await?);
            continue;
        }
        let head = now(inner.head(send.chat_id)).flatten().unwrap_or_default();
        let sequence = {
            let mut memories = world.memories();
            let taken = memories.taken.entry(send.chat_id).or_insert(head.sequence.0);
            *taken += 1;
            Sequence(*taken)
        };
        sleep(world.streams.store.time(Duration::ZERO, Duration::from_millis(1500))).await;
        let (world, inner) = (world.clone(), inner.clone());
        let outcome = store.write("append", async move {
            let receipt = inner.force(send.clone(), sequence).ok_or_else(|| StoreError::unavailable("no such chat"))?;
            world.appended(&send, AppendOutcome::New(receipt), true);
            Ok(AppendOutcome::New(receipt))
        });
        outcomes.push(outcome.await?);
    }
    Ok(outcomes)
}

/// Writes and acknowledges, and syncs later: a crash loses unsynced writes.
pub(crate) async fn append_unsynced(
    store: &SimStore,
    batch: Vec<NewMessage>,
) -> Result<Vec<AppendOutcome>, StoreError> {
    let (world, inner, process) = (store.world.clone(), store.store.clone(), store.process.clone());
    if world.is_away(Dependency::Disk) {
        return Err(StoreError::unavailable("the disk refuses"));
    }
    process.runs().await;
    let synced = inner.snapshot();
    let mut outcomes = vec![];
    for send in batch {
        outcomes.push(world.append_one(&inner, send).await?);
    }
    world.after_write();
    tokio::spawn(async move {
        tokio::select! {
            biased;
            () = process.died() => inner.restore(synced),
            () = sleep(Duration::from_millis(500)) => {}
        }
    });
    Ok(outcomes)
}

fn forgets_synced(world: &World) -> bool {
    world.has(Bug::SyncDoesNothing) || world.has(Bug::DirectoryUnsynced)
}

/// Periodically writes back the unsynced commits of a node with a broken sync.
pub(crate) fn write_back(world: &World) {
    if !forgets_synced(world) {
        return;
    }
    let mut memories = world.memories();
    let is_due = memories.written_back_at.is_none_or(|at| at.elapsed() >= WRITE_BACK);
    if is_due {
        world.journal().write_back();
        memories.written_back_at = Some(Instant::now());
        // Earlier commits cannot be lost any more.
        let last = memories.states.pop_last();
        memories.states = last.into_iter().collect();
    }
}

/// Stores a snapshot after a commit, if a broken sync may lose it.
pub(crate) fn remember_state(world: &World, number: u64) {
    if forgets_synced(world) {
        let state = world.store.snapshot();
        world.memories().states.insert(number, state);
    }
}

/// Resets the store to the snapshot after a commit; `false` if there is none.
pub(crate) fn forget_state(world: &World, last: u64) -> bool {
    let mut states = std::mem::take(&mut world.memories().states);
    let Some(state) = states.remove(&last) else { return false };
    world.store.restore(state);
    world.look_at_store();
    world.memories().states.insert(last, world.store.snapshot());
    true
}

/// Writes the first row of a torn commit without its dependent rows.
pub(crate) fn leave_torn(world: &World, sends: Vec<NewMessage>) {
    for send in sends {
        if let Some(Some(head)) = now(world.store.head(send.chat_id))
            && world.store.committed_send(send.chat_id, send.sender_id, send.client_message_id).is_none()
        {
            world.store.spoil(Damage::Message(Box::new(send.at(head.sequence.next(), None))));
            break;
        }
    }
    world.look_at_store();
}

/// Writes rows without their dependent rows if the process dies in between.
pub(crate) async fn torn(
    store: &SimStore,
    batch: Vec<NewMessage>,
    commit: impl Future<Output = Result<Vec<AppendOutcome>, StoreError>>,
) -> Result<Vec<AppendOutcome>, StoreError> {
    let (world, inner, process) = (store.world.clone(), store.store.clone(), store.process.clone());
    let watched = tokio::spawn(async move {
        process.died().await;
        for send in batch {
            let is_known = inner.committed_send(send.chat_id, send.sender_id, send.client_message_id).is_some();
            if let Some(Some(head)) = now(inner.head(send.chat_id))
                && !is_known
            {
                inner.spoil(Damage::Message(Box::new(send.at(head.sequence.next(), None))));
            }
        }
        world.look_at_store();
    });
    let outcome = commit.await;
    watched.abort();
    outcome
}

/// Publishes messages before their commit, which may fail.
pub(crate) async fn publish_early(world: &Arc<World>, batch: &[NewMessage]) {
    for send in batch {
        if let Some(Some(head)) = now(world.store.head(send.chat_id))
            && world.store.committed_send(send.chat_id, send.sender_id, send.client_message_id).is_none()
        {
            let message = send.clone().at(head.sequence.next(), head.message_ttl);
            let event = Arc::new(Event::message_persisted(message, send.origin_connection_id));
            drop(world.log.publish(std::slice::from_ref(&event)).await);
            world.published(&[event]);
        }
    }
}

/// The outcome of a send in a broken store; `None` if the bug does not change it.
pub(crate) fn judge(world: &World, store: &MemoryStore, send: &NewMessage, process: &str) -> Option<AppendOutcome> {
    let key = (send.chat_id, send.sender_id, send.client_message_id);
    let head = now(store.head(send.chat_id)).flatten()?;
    let force = || {
        let receipt = store.force(send.clone(), head.sequence.next())?;
        let is_member = now(store.member(send.chat_id, send.sender_id)).flatten().is_some();
        world.appended(send, AppendOutcome::New(receipt), is_member);
        Some(AppendOutcome::New(receipt))
    };
    match world.plan.bug? {
        Bug::DedupeForgotten => {
            let before = world.memories().committers.insert(key, process.to_owned());
            before.filter(|before| before != process).and_then(|_| force())
        }
        Bug::DedupeWithoutSender => {
            let known = world.memories().sends.get(&(send.chat_id, send.client_message_id)).copied();
            if let Some(receipt) = known {
                return Some(AppendOutcome::Duplicate(receipt));
            }
            let outcome = now(world.append_one(store, send.clone()))?;
            if let AppendOutcome::New(receipt) = outcome {
                world.memories().sends.insert((send.chat_id, send.client_message_id), receipt);
            }
            Some(outcome)
        }
        Bug::MembershipFromMemory => {
            let is_member = now(store.member(send.chat_id, send.sender_id)).flatten().is_some();
            let is_new = store.committed_send(send.chat_id, send.sender_id, send.client_message_id).is_none();
            let was_member = world.checks.membership(send.chat_id, send.sender_id).1.is_some();
            (!is_member && is_new && was_member).then(force).flatten()
        }
        _ => None,
    }
}

/// A page as a replica that lags two seconds would return it.
pub(crate) fn staled(world: &World, mut page: Page, now: Timestamp) -> Page {
    if world.has(Bug::StaleSync) {
        let fresh = page.messages.iter().position(|message| now.since(message.created_at) < Duration::from_secs(2));
        if let Some(first) = fresh.filter(|first| *first > 0) {
            page.messages.truncate(first);
            page.examined = page.messages.last().map_or(page.examined, |message| message.sequence);
            page.head = page.examined;
        }
    }
    page
}

/// Stores a wrong watermark, if a known bug requires it.
pub(crate) fn advance(
    world: &World,
    store: &MemoryStore,
    user_id: UserId,
    chat_id: ChatId,
    kind: WatermarkKind,
    to: Sequence,
) -> Option<Advance> {
    let head = now(store.head(chat_id)).flatten()?.sequence;
    now(store.member(chat_id, user_id)).flatten()?;
    let before = now(store.watermarks(&[(user_id, chat_id)]))?.pop()?;
    let to = match world.plan.bug? {
        Bug::WatermarkMovesBack => Sequence(to.0.saturating_sub(1)),
        Bug::WatermarkAboveHead if to == head => to.next(),
        _ => return None,
    };
    let moved = match kind {
        WatermarkKind::Delivered => Watermarks { delivered: to, read: before.read.min(to) },
        WatermarkKind::Read => Watermarks { delivered: to, read: to },
    };
    store.spoil(Damage::Watermarks(chat_id, user_id, moved));
    world.checks.touch(chat_id);
    Some(Advance::Moved(moved))
}

/// Drops the chat of a pair, so that the two users get another one.
pub(crate) fn forget_direct_chat(world: &World, store: &MemoryStore, chat: &NewDirectChat) {
    if world.has(Bug::DirectChatDoubled) {
        store.spoil(Damage::Pair(chat.pair, ChatId::from_bytes([0xff; 16])));
    }
}

/// Returns users as they were at the first read.
pub(crate) fn remembered(world: &World, users: Vec<Option<User>>) -> Vec<Option<User>> {
    if !world.has(Bug::PrivacyRemembered) {
        return users;
    }
    let mut memories = world.memories();
    let mut remember = |user: User| memories.users.entry(user.user_id).or_insert(user).clone();
    users.into_iter().map(|user| user.map(&mut remember)).collect()
}
