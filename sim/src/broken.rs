//! The known bugs, as the world around the planes makes them. Nothing here happens unless a plan says so.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use domain::{Advance, ChatId, Event, Sequence, Timestamp, User, UserId, WatermarkKind, Watermarks};
use futures_util::FutureExt;
use memory::{Damage, MemoryStore};
use ports::{
    Appended, ChatReader, EventProducer, MessageReader, NewDirectChat, NewMessage, Page, Receipt, StoreError,
    WatermarkStore,
};
use tokio::time::sleep;

use crate::bugs::Bug;
use crate::store::SimStore;
use crate::world::{Part, World};

/// What broken parts remember.
#[derive(Default)]
pub(crate) struct Memories {
    /// The sequences that were taken, by chat.
    taken: BTreeMap<ChatId, u64>,
    /// Which process has committed which send.
    committers: BTreeMap<(ChatId, UserId, domain::ClientMessageId), String>,
    sends: BTreeMap<(ChatId, domain::ClientMessageId), Receipt>,
    users: BTreeMap<UserId, User>,
}

fn now<T>(answer: impl Future<Output = Result<T, StoreError>>) -> Option<T> {
    answer.now_or_never()?.ok()
}

/// Takes sequences first, and writes their messages when it gets to it.
pub(crate) async fn append_in_two_phases(
    store: &SimStore,
    batch: Vec<NewMessage>,
) -> Result<Vec<Appended>, StoreError> {
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
            world.appended(&send, Appended::New(receipt), true);
            Ok(Appended::New(receipt))
        });
        outcomes.push(outcome.await?);
    }
    Ok(outcomes)
}

/// Writes, answers, and syncs a while later: what a crash finds unsynced is gone.
pub(crate) async fn append_unsynced(store: &SimStore, batch: Vec<NewMessage>) -> Result<Vec<Appended>, StoreError> {
    let (world, inner, process) = (store.world.clone(), store.store.clone(), store.process.clone());
    if world.is_away(Part::Disk) {
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

/// Leaves rows without what belongs to them when the process dies at the wrong moment.
pub(crate) async fn torn(
    store: &SimStore,
    batch: Vec<NewMessage>,
    commit: impl Future<Output = Result<Vec<Appended>, StoreError>>,
) -> Result<Vec<Appended>, StoreError> {
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

/// Publishes messages that may never be committed.
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

/// What a broken store says of a send, if it says anything of its own.
pub(crate) fn judge(world: &World, store: &MemoryStore, send: &NewMessage, process: &str) -> Option<Appended> {
    let key = (send.chat_id, send.sender_id, send.client_message_id);
    let head = now(store.head(send.chat_id)).flatten()?;
    let force = || {
        let receipt = store.force(send.clone(), head.sequence.next())?;
        let is_member = now(store.member(send.chat_id, send.sender_id)).flatten().is_some();
        world.appended(send, Appended::New(receipt), is_member);
        Some(Appended::New(receipt))
    };
    match world.plan.bug? {
        Bug::DedupeForgotten => {
            let before = world.memories().committers.insert(key, process.to_owned());
            before.filter(|before| before != process).and_then(|_| force())
        }
        Bug::DedupeWithoutSender => {
            let known = world.memories().sends.get(&(send.chat_id, send.client_message_id)).copied();
            if let Some(receipt) = known {
                return Some(Appended::Duplicate(receipt));
            }
            let outcome = now(world.append_one(store, send.clone()))?;
            if let Appended::New(receipt) = outcome {
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

/// What a replica shows that is two seconds behind.
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

/// Moves a watermark as it comes.
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

/// Forgets that two users have a chat, so that they get another.
pub(crate) fn forget_direct_chat(world: &World, store: &MemoryStore, chat: &NewDirectChat) {
    if world.has(Bug::DirectChatDoubled) {
        store.spoil(Damage::Pair(chat.pair, ChatId::from_bytes([0xff; 16])));
    }
}

/// Users as they were when they were first looked at.
pub(crate) fn remembered(world: &World, users: Vec<Option<User>>) -> Vec<Option<User>> {
    if !world.has(Bug::PrivacyRemembered) {
        return users;
    }
    let mut memories = world.memories();
    let mut remember = |user: User| memories.users.entry(user.user_id).or_insert(user).clone();
    users.into_iter().map(|user| user.map(&mut remember)).collect()
}
