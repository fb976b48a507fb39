//! Implements the known bugs as fault injection around the planes. Each is active only if the plan selects it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use domain::{
    Advance, ChatId, Event, EventBody, EventId, Message, MessageId, Sequence, Timestamp, UpdateAction, User, UserId,
    WatermarkKind, Watermarks,
};
use futures_util::FutureExt;
use memory::{Damage, MemoryStore, Snapshot};
use ports::{
    AppendOutcome, ChatReader, EventProducer, GatewayId, Ids, MessageReader, NewDirectChat, NewEntry, NewMessage,
    NewUpdate, Notice, NoticeStore, Page, PageBounds, Push, Receipt, Record, Route, Settled, StoreError,
    WatermarkStore,
};
use protocol::OutboxBounds;
use protocol::frame::{Outbound, ServerFrame};
use tokio::time::{Instant, sleep};

use crate::bugs::Bug;
use crate::store::{SimStore, appends};
use crate::world::{DEADLINE, Dependency, World};

/// State of the injected bugs.
#[derive(Default)]
pub(crate) struct Memories {
    /// The last allocated sequence, by chat.
    taken: BTreeMap<ChatId, u64>,
    /// The process that committed each send.
    committers: BTreeMap<(ChatId, UserId, domain::ClientMessageId), String>,
    sends: BTreeMap<(ChatId, domain::ClientMessageId), Receipt>,
    users: BTreeMap<UserId, User>,
    /// Users who have lost a connection since they last connected.
    left: BTreeSet<UserId>,
    /// Events that a consumer has received.
    handed: BTreeSet<EventId>,
    /// Snapshots of the store after each commit that may still be lost.
    states: BTreeMap<u64, Snapshot>,
    written_back_at: Option<Instant>,
}

/// How long the operating system keeps unsynced writes in memory.
const WRITE_BACK: Duration = Duration::from_secs(2);

const ALL: PageBounds = PageBounds { count: usize::MAX, bytes: usize::MAX };

fn now<T>(answer: impl Future<Output = Result<T, StoreError>>) -> Option<T> {
    answer.now_or_never()?.ok()
}

/// Allocates sequences first, and writes their messages later.
pub(crate) async fn append_in_two_phases(
    store: &SimStore,
    batch: Vec<NewEntry>,
) -> Result<Vec<AppendOutcome>, StoreError> {
    let (world, inner) = (store.world.clone(), store.store.clone());
    let mut outcomes = vec![];
    for entry in batch {
        let known = inner.committed_send(entry.chat_id(), entry.sender_id(), entry.client_message_id());
        let is_member = now(inner.member(entry.chat_id(), entry.sender_id())).flatten().is_some();
        let send = match entry {
            NewEntry::Message(send) if known.is_none() && is_member => send,
            entry => {
                let (world, inner) = (world.clone(), inner.clone());
                let commit = async move { Ok(vec![world.append_one(&inner, entry).await?]) };
                outcomes.extend(store.write("append", commit).await?);
                continue;
            }
        };
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
            world.appended(&send.into(), AppendOutcome::New(receipt), true);
            Ok(AppendOutcome::New(receipt))
        });
        outcomes.push(outcome.await?);
    }
    Ok(outcomes)
}

/// Writes and acknowledges, and syncs later: a crash loses unsynced writes.
pub(crate) async fn append_unsynced(store: &SimStore, batch: Vec<NewEntry>) -> Result<Vec<AppendOutcome>, StoreError> {
    let (world, inner, process) = (store.world.clone(), store.store.clone(), store.process.clone());
    if world.is_unavailable(Dependency::Disk) {
        return Err(StoreError::unavailable("the disk refuses"));
    }
    process.runs().await;
    let synced = inner.snapshot();
    let mut outcomes = vec![];
    for entry in batch {
        outcomes.push(world.append_one(&inner, entry).await?);
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

/// Sends the requests of a batch again and again, without a pause, until the store accepts them or the caller gives up.
pub(crate) async fn hammer(store: &SimStore, batch: &[NewEntry]) {
    let began = Instant::now();
    while began.elapsed() < DEADLINE {
        let attempt = store.on(appends(&store.world, batch)).write("append", async { Ok(()) });
        if attempt.await.is_ok() {
            return;
        }
    }
}

/// Size of the item that a message is written to. In a broken store it has all messages of its chat.
pub(crate) fn item_of(world: &World, chat_id: ChatId, bytes: usize) -> usize {
    if !world.has(Bug::ChatInOneItem) {
        return bytes;
    }
    let beginning = Timestamp::from_millis(0);
    let page = now(world.store.after(chat_id, Sequence::ZERO, ALL, beginning));
    bytes + page.map_or(0, |page| page.messages.iter().map(|message| message.body.size()).sum())
}

/// Whether the store has lost the location of a message: that of every fourth.
pub(crate) fn is_unlocated(world: &World, message_id: MessageId) -> bool {
    let [.., last] = message_id.to_bytes();
    world.has(Bug::LocationForgotten) && last.is_multiple_of(4)
}

/// Loses the number of changes of a chat, as an earlier process that rewrites a row without a field it does not know.
pub(crate) fn forget_changes(world: &World, store: &MemoryStore, chat_id: ChatId) {
    if world.has(Bug::ChangesForgotten) {
        store.forget_changes(chat_id);
    }
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

/// The message that an entry writes, without its dependent rows; `None` if the entry is committed already.
fn first_row(store: &MemoryStore, entry: NewEntry) -> Option<Message> {
    let (chat_id, author) = (entry.chat_id(), entry.sender_id());
    let head = now(store.head(chat_id)).flatten()?;
    if store.committed_send(chat_id, author, entry.client_message_id()).is_some() {
        return None;
    }
    let sequence = head.sequence.next();
    match entry {
        NewEntry::Message(send) => Some(send.at(sequence, None)),
        NewEntry::Update(update) => {
            let mut message = stored_message(store, chat_id, update.target)?;
            message.state.revision = sequence;
            Some(message)
        }
    }
}

/// The stored message at a sequence, expired or not.
fn stored_message(store: &MemoryStore, chat_id: ChatId, sequence: Sequence) -> Option<Message> {
    let before = Sequence(sequence.0.checked_sub(1)?);
    let page = now(store.after(chat_id, before, ALL, Timestamp::from_millis(0)))?;
    page.messages.into_iter().find(|message| message.sequence == sequence)
}

/// Writes the first row of a torn commit without its dependent rows.
pub(crate) fn leave_torn(world: &World, entries: Vec<NewEntry>) {
    let first = entries.into_iter().find_map(|entry| first_row(&world.store, entry));
    first.into_iter().for_each(|message| world.store.spoil(Damage::Message(Box::new(message))));
    world.look_at_store();
}

/// Writes rows without their dependent rows if the process dies in between.
pub(crate) async fn torn(
    store: &SimStore,
    batch: Vec<NewEntry>,
    commit: impl Future<Output = Result<Vec<AppendOutcome>, StoreError>>,
) -> Result<Vec<AppendOutcome>, StoreError> {
    let (world, inner, process) = (store.world.clone(), store.store.clone(), store.process.clone());
    let watched = tokio::spawn(async move {
        process.died().await;
        for entry in batch {
            if let Some(message) = first_row(&inner, entry) {
                inner.spoil(Damage::Message(Box::new(message)));
            }
        }
        world.look_at_store();
    });
    let outcome = commit.await;
    watched.abort();
    outcome
}

/// Publishes messages before their commit, which may fail.
pub(crate) async fn publish_early(world: &Arc<World>, batch: &[NewEntry]) {
    for entry in batch {
        let NewEntry::Message(send) = entry else { continue };
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

/// Deletes notices that a process has taken and not delivered yet.
pub(crate) async fn forget_notices(world: &World, store: &MemoryStore, taken: &[Notice]) -> Result<(), StoreError> {
    if world.has(Bug::NoticeTakenOnce) {
        for notice in taken {
            store.settle(notice, Settled::Dropped).await?;
        }
    }
    Ok(())
}

/// What a process says about a notice. A broken one says that it was delivered after every attempt.
pub(crate) fn settled(world: &World, notice: &Notice, settled: Settled) -> Settled {
    match settled {
        Settled::Again { at } if world.has(Bug::NoticeSettledEarly) && notice.attempts == 0 => {
            Settled::Notified { silent_until: at }
        }
        settled => settled,
    }
}

/// The outcome of an entry in a broken store; `None` if the bug does not change it.
pub(crate) fn judge(world: &World, store: &MemoryStore, entry: &NewEntry, process: &str) -> Option<AppendOutcome> {
    match entry {
        NewEntry::Message(send) => judge_send(world, store, send, process),
        NewEntry::Update(update) => judge_update(world, store, update),
    }
}

fn judge_send(world: &World, store: &MemoryStore, send: &NewMessage, process: &str) -> Option<AppendOutcome> {
    let key = (send.chat_id, send.sender_id, send.client_message_id);
    let head = now(store.head(send.chat_id)).flatten()?;
    let force = || {
        let receipt = store.force(send.clone(), head.sequence.next())?;
        let is_member = now(store.member(send.chat_id, send.sender_id)).flatten().is_some();
        world.appended(&send.clone().into(), AppendOutcome::New(receipt), is_member);
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
            let outcome = now(world.append_one(store, send.clone().into()))?;
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

fn judge_update(world: &World, store: &MemoryStore, update: &NewUpdate) -> Option<AppendOutcome> {
    let NewUpdate { chat_id, user_id, client_message_id, update_id, target, .. } = *update;
    let commit = || now(world.append_one(store, update.clone().into()));
    // Commits the update, and then undoes a part of it in the row of its message.
    let undo_in_message = |undo: &dyn Fn(&mut Message, Message)| {
        let before = stored_message(store, chat_id, target);
        let outcome = commit()?;
        if let (AppendOutcome::New(_), Some(before)) = (outcome, before) {
            let mut message = stored_message(store, chat_id, target)?;
            undo(&mut message, before);
            store.spoil(Damage::Message(Box::new(message)));
        }
        Some(outcome)
    };
    match (world.plan.bug?, &update.action) {
        (Bug::UpdateForgotten, _) => {
            let [.., last] = update_id.to_bytes();
            let before = store.snapshot();
            let outcome = commit()?;
            if last.is_multiple_of(4) && matches!(outcome, AppendOutcome::New(_)) {
                store.restore(before);
            }
            Some(outcome)
        }
        (Bug::UpdateTwice, _) => {
            store.spoil(Damage::NoSendKey(chat_id, user_id, client_message_id));
            None
        }
        (Bug::EditByAnyMember, UpdateAction::Edit(_)) => {
            let author = stored_message(store, chat_id, target)?.sender_id;
            let is_member = now(store.member(chat_id, user_id)).flatten().is_some();
            let by_author = NewUpdate { user_id: author, ..update.clone() };
            (author != user_id && is_member).then(|| now(world.append_one(store, by_author.into())))?
        }
        (Bug::DeletionKeepsContent, UpdateAction::Delete) => {
            undo_in_message(&|message, before| message.expires_at = before.expires_at)
        }
        (Bug::ReactionsDrift, UpdateAction::Unreact(_)) => {
            undo_in_message(&|message, before| message.state.reactions = before.state.reactions)
        }
        _ => None,
    }
}

/// A page without the updates of messages.
pub(crate) fn without_updates(world: &World, page: Page) -> Page {
    if world.has(Bug::UpdatesNotSynced) { Page { updates: vec![], updated: vec![], ..page } } else { page }
}

/// Adds former members to the recipients of updates.
pub(crate) fn push_to_former_members(world: &World, push: &mut Push) {
    let frame = str::from_utf8(&push.frame).ok().and_then(|text| Outbound::parse(text).ok());
    if let Some(ServerFrame::MessageUpdated(updated)) = frame.map(|outbound| outbound.frame) {
        push.recipients.extend(world.checks.former_members(updated.update.chat_id));
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

/// The bounds that gateways apply to mailboxes.
pub(crate) fn mailbox(world: &World) -> OutboxBounds {
    if world.has(Bug::MailboxUnbounded) { OutboxBounds::default() } else { world.plan.buffers.mailbox }
}

/// Whether a text is a resync.
fn is_resync(text: &str) -> bool {
    Outbound::parse(text).is_ok_and(|outbound| matches!(outbound.frame, ServerFrame::Resync(_)))
}

/// Whether a gateway never writes this frame.
pub(crate) fn is_unwritten(world: &World, text: &str) -> bool {
    world.has(Bug::OverflowForgotten) && is_resync(text)
}

/// Whether a client ignores this frame.
pub(crate) fn is_ignored(world: &World, text: &str) -> bool {
    world.has(Bug::ResyncIgnored) && is_resync(text)
}

/// Records the loss of routes.
pub(crate) fn left(world: &World, routes: &[Route]) {
    if world.has(Bug::OneDeviceDecides) {
        world.memories().left.extend(routes.iter().map(|route| route.user_id));
    }
}

/// Records a new route.
pub(crate) fn came(world: &World, route: &Route) {
    world.memories().left.remove(&route.user_id);
}

/// The gateways of users, without those who have lost a connection.
pub(crate) fn of_one_device(
    world: &World,
    mut gateways: BTreeMap<GatewayId, Vec<UserId>>,
) -> BTreeMap<GatewayId, Vec<UserId>> {
    let memories = world.memories();
    gateways.values_mut().for_each(|users| users.retain(|user_id| !memories.left.contains(user_id)));
    gateways
}

/// A record as a consumer gets it. A broken log gives a message another id when it returns its event again.
pub(crate) fn replayed(world: &World, record: Record) -> Record {
    if !world.has(Bug::ReplayRenamed) || world.memories().handed.insert(record.event.event_id) {
        return record;
    }
    let mut event = (*record.event).clone();
    if let EventBody::MessagePersisted { message, .. } = &mut event.body {
        message.message_id = world.ids.ulid().into();
    }
    Record { event: Arc::new(event), ..record }
}

/// The page that a reader returns. A broken one takes a record that it cannot read for none.
pub(crate) async fn read_page(
    store: &SimStore,
    chat_id: ChatId,
    answer: Result<Page, StoreError>,
) -> Result<Page, StoreError> {
    match answer {
        Err(StoreError::Corrupt { .. }) if store.world.has(Bug::UnreadableTakenForEmpty) => {
            let head = now(store.store.head(chat_id)).flatten().unwrap_or_default().sequence;
            let page = Page { examined: head, head, ..Page::default() };
            store.world.checks.read_page(&store.world, &store.store, chat_id, Sequence::ZERO, &page);
            Ok(page)
        }
        answer => answer,
    }
}
