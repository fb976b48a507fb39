use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use domain::{
    Advance, Chat, ChatChange, ChatCommand, ChatId, ChatRefusal, DeliveryState, DirectPair, Event, ExternalId,
    Invariant, Member, MemberChange, Message, MessageId, PhoneNumber, Reaction, Sequence, Timestamp, UpdateAction,
    User, UserId, WatermarkKind,
};
use futures_util::FutureExt;
use memory::{MemoryOutbox, MemoryStore};
use ports::{
    AppendOutcome, BlockStore, ChatReader, ChatWriter, Clock, Committed, ContactStore, CreatedChat, EventProducer,
    Head, InboxSelection, InboxStart, LastSeenStore, MemberReactions, MessageKey, MessageReader, MessageWriter,
    NewDirectChat, NewEntry, NewGroup, NewUser, Notice, NoticeStore, Outbox, Page, PageBounds, PendingChange, Settled,
    StoreError, UnreadCount, UnreadQuery, UserKey, UserReader, UserUpdate, UserWriter, WatermarkStore,
};
use tokio::time::{Instant, sleep};

use crate::bugs::Bug;
use crate::journal::Recovered;
use crate::partitions::{ITEM, Load};
use crate::plan::{ProcessVersion, RunShape};
use crate::process::SimProcess;
use crate::trace::{TraceActor, TraceEvent};
use crate::world::{Dependency, World, until_deadline};

/// The store as seen by one process: over a network with faults, or on a disk with faults.
///
/// In a fleet a call travels to the store and back. It may be lost on both ways, and an executed write stays executed.
/// On a node one commit at a time is written to the disk, as a record of the [journal](crate::journal). It is visible
/// and acknowledged once it is synced. Until then a crash leaves any part of it, and recovery decides from the
/// remaining bytes.
#[derive(Clone)]
pub(crate) struct SimStore {
    pub(crate) world: Arc<World>,
    pub(crate) process: Arc<SimProcess>,
    pub(crate) store: MemoryStore,
    /// Whether this handle belongs to a plane that may write.
    pub(crate) may_write: bool,
}

/// The writes of a commit that matter to the disk.
#[derive(Default)]
struct CommitRows {
    entries: Vec<NewEntry>,
}

impl CommitRows {
    /// Approximate number of bytes that the embedded store would write.
    fn bytes(&self) -> usize {
        100 + self.entries.iter().map(|entry| 500 + 2 * body_size(entry)).sum::<usize>()
    }
}

/// The size of the body that an entry writes.
fn body_size(entry: &NewEntry) -> usize {
    match entry {
        NewEntry::Message(send) => send.body.size(),
        NewEntry::Update(update) => match &update.action {
            UpdateAction::Edit(body) => body.size(),
            UpdateAction::Delete | UpdateAction::React(_) | UpdateAction::Unreact(_) => 0,
        },
    }
}

impl SimStore {
    /// Counts a request for its partitions. The caller then reads or writes.
    pub(crate) fn on(&self, load: Load) -> &Self {
        self.world.charge(&load);
        self
    }

    pub(crate) async fn read<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, StoreError>> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.world.checks.downstream(self.may_write);
        let world = self.world.clone();
        self.world
            .call(&self.process, async move {
                let answer = world.read_store(work).await?;
                if world.is_unavailable(Dependency::Legible) && world.streams.store.chance(0.3) {
                    return Err(StoreError::Corrupt {
                        table: "any",
                        source: "it was written by another version".into(),
                    });
                }
                Ok(answer)
            })
            .await
    }

    pub(crate) async fn write<T: Send + 'static>(
        &self,
        what: &'static str,
        work: impl Future<Output = Result<T, StoreError>> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.write_rows(what, CommitRows::default(), work).await
    }

    /// Writes rows that are known in advance.
    async fn write_rows<T: Send + 'static>(
        &self,
        what: &'static str,
        rows: CommitRows,
        work: impl Future<Output = Result<T, StoreError>> + Send + 'static,
    ) -> Result<T, StoreError> {
        if !self.may_write {
            let (process, invariant) = (&self.process.name, Invariant::DownstreamNeverWritesUpstream);
            self.world.violated(invariant, format!("{process} asks the store to {what}"));
        }
        let (world, process) = (self.world.clone(), self.process.clone());
        self.world
            .call(&self.process, async move {
                match world.plan.shape {
                    RunShape::Node => world.commit(&process, rows, work).await,
                    RunShape::Fleet => world.write_store(work).await,
                }
            })
            .await
    }
}

impl SimStore {
    /// Purges messages that expired at least `lag` ago.
    pub(crate) async fn purge(&self, lag: Duration) {
        let (store, world) = (self.store.clone(), self.world.clone());
        let purged = self.write("purge", async move {
            store.purge_expired(world.clock.now().minus(lag));
            Ok(())
        });
        // The next purge deletes the rest.
        drop(purged.await);
    }
}

fn unavailable(what: &'static str) -> StoreError {
    StoreError::unavailable(what)
}

impl World {
    async fn read_store<T>(&self, work: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
        if self.plan.shape == RunShape::Node {
            sleep(Duration::from_micros(self.streams.store.below(20, 400))).await;
            return work.await;
        }
        self.reach_store().await?;
        let answer = work.await;
        self.travel().await;
        answer
    }

    async fn write_store<T>(&self, work: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
        self.reach_store().await?;
        if self.streams.store.chance(self.rates().store_slow) {
            // Sometimes longer than the caller waits, so that it executes after the caller has given up.
            sleep(self.streams.store.time(Duration::from_secs(1), Duration::from_secs(8))).await;
        }
        let answer = work.await;
        self.after_write();
        self.travel().await;
        if self.streams.store.chance(self.rates().store_unknown) {
            return Err(unavailable("the answer of the store was lost"));
        }
        answer
    }

    async fn reach_store(&self) -> Result<(), StoreError> {
        let began = Instant::now();
        self.travel().await;
        if self.is_unavailable(Dependency::Store) {
            until_deadline(began).await;
            return Err(unavailable("the store does not answer"));
        }
        let throttled = self.is_unavailable(Dependency::Throttled) && self.streams.store.chance(0.7);
        if throttled || self.streams.store.chance(self.rates().store_fails) {
            return Err(unavailable("the store refuses"));
        }
        Ok(())
    }

    /// Writes one commit to the disk of a node, after the earlier ones. If the process dies meanwhile, the call never
    /// returns and does not block others.
    async fn commit<T>(
        &self,
        process: &SimProcess,
        rows: CommitRows,
        work: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let committing = self.committing.lock().await;
        let answer = Box::pin(self.commit_alone(process, rows, work)).await;
        drop(committing);
        match answer {
            Some(answer) => answer,
            None => std::future::pending().await,
        }
    }

    /// The answer to a commit, unless it is lost with the process.
    async fn commit_alone<T>(
        &self,
        process: &SimProcess,
        rows: CommitRows,
        work: impl Future<Output = Result<T, StoreError>>,
    ) -> Option<Result<T, StoreError>> {
        let cut_off = async |micros: u64| {
            tokio::select! {
                biased;
                () = process.died() => true,
                () = sleep(Duration::from_micros(micros)) => false,
            }
        };
        if process.is_dead() {
            // The process died before it wrote anything to the journal.
            return None;
        }
        while self.journal().rotate() {
            if cut_off(self.streams.disk.below(20, 5_000)).await {
                return None;
            }
        }
        crate::broken::write_back(self);
        let bytes = rows.bytes();
        let number = self.journal().begin(bytes);
        if !rows.entries.is_empty() {
            self.writing.notify_waiters();
        }
        let (writing, syncing) = (self.streams.store.below(20, 300), self.streams.store.below(200, 12_000));
        let mut is_cut_off = cut_off(writing).await;
        if !is_cut_off {
            self.journal().written();
            is_cut_off = cut_off(syncing).await;
        }
        if is_cut_off {
            // Recovery decides whether the record was complete at the power cut.
            if self.journal().has_torn(number) {
                crate::broken::leave_torn(self, rows.entries);
                return None;
            }
            if !self.journal().has(number) {
                return None;
            }
        } else if self.is_unavailable(Dependency::Disk) || self.streams.store.chance(self.rates().store_fails) {
            self.journal().take_back(bytes);
            return Some(Err(unavailable("the disk refuses")));
        } else {
            self.journal().commit();
        }
        let answer = work.await;
        self.after_write();
        crate::broken::remember_state(self, number);
        if !is_cut_off && self.streams.store.chance(self.rates().store_unknown) {
            // The sync failed, but reopening the store found the complete record.
            return Some(Err(unavailable("the disk did not sync")));
        }
        Some(answer)
    }

    /// Applies a crash to the disk of a node, and runs recovery for the next process.
    pub(crate) fn crash_disk(&self, is_power_cut: bool) {
        if self.plan.shape != RunShape::Node {
            return;
        }
        let recovered = self.journal().crash(is_power_cut, &self.streams.disk);
        let found = match recovered {
            Ok(Recovered { last, answered, was_torn }) => {
                if last < answered && !crate::broken::forget_state(self, last) {
                    let detail = format!("{answered} commits were answered, and recovery finds {last}");
                    self.violated(Invariant::AckImpliesPersistence, detail);
                }
                format!("recovery finds {last} commits{}", if was_torn { " and cuts off a torn one" } else { "" })
            }
            Err(refused) => format!("recovery refuses: {refused:?}"),
        };
        self.note(TraceActor::Store, TraceEvent::Fault(found));
    }
}

#[async_trait]
impl MessageWriter for SimStore {
    async fn commit(&self, batch: Vec<NewEntry>) -> Result<Vec<AppendOutcome>, StoreError> {
        let (world, store) = (self.world.clone(), self.store.clone());
        let epoch = self.process.name.clone();
        if world.has(Bug::TwoPhaseAllocation) {
            return crate::broken::append_in_two_phases(self, batch).await;
        }
        if world.has(Bug::AckBeforeFsync) {
            return crate::broken::append_unsynced(self, batch).await;
        }
        if world.has(Bug::PublishBeforeCommit) {
            crate::broken::publish_early(&world, &batch).await;
        }
        if world.has(Bug::ThrottledWithoutBackoff) {
            crate::broken::hammer(self, &batch).await;
        }
        let torn = (world.has(Bug::TornCommit)).then(|| batch.clone());
        let rows = CommitRows { entries: if world.plan.shape == RunShape::Node { batch.clone() } else { vec![] } };
        let is_earlier = self.process.version == ProcessVersion::Earlier;
        let (again, new): (Vec<_>, Vec<_>) = batch.iter().cloned().partition(|entry| world.checks.is_repeated(entry));
        world.fits(&appends(&world, &new));
        let outcome = self.on(appends(&world, &again)).write_rows("append", rows, async move {
            let mut outcomes = vec![];
            for entry in batch {
                if is_earlier {
                    crate::broken::forget_changes(&world, &store, entry.chat_id());
                }
                let is_message = matches!(entry, NewEntry::Message(_));
                let outcome = match crate::broken::judge(&world, &store, &entry, &epoch) {
                    Some(outcome) => outcome,
                    None => world.append_one(&store, entry).await?,
                };
                if let (true, AppendOutcome::New(receipt)) = (is_earlier && is_message, outcome) {
                    world.written_without_location(receipt.message_id);
                }
                outcomes.push(outcome);
            }
            Ok(outcomes)
        });
        match torn {
            None => outcome.await,
            Some(batch) => Box::pin(crate::broken::torn(self, batch, outcome)).await,
        }
    }
}

/// The items that a batch of entries writes: one head for each chat, and for each send its row, key and location. An
/// update writes its row and key, the row of its message, and the reactions of its author.
pub(crate) fn appends(world: &World, batch: &[NewEntry]) -> Load {
    let chats: BTreeSet<ChatId> = batch.iter().map(NewEntry::chat_id).collect();
    let heads = chats.into_iter().map(|chat_id| Load::write("chat_counters", chat_id));
    let entries = batch.iter().map(|entry| {
        let chat_id = entry.chat_id();
        let bytes = crate::broken::item_of(world, chat_id, body_size(entry));
        let rows = Load::write_bytes("messages", chat_id, bytes).and(Load::write("idempotency_keys", chat_id));
        match entry {
            NewEntry::Message(send) => rows.and(Load::write("message_locations", send.message_id)),
            NewEntry::Update(_) => rows.and(Load::write("updates", chat_id)).and(Load::write("reactions", chat_id)),
        }
    });
    heads.chain(entries).collect()
}

/// The bytes of a page of messages.
fn bytes_of(messages: &[Message]) -> usize {
    messages.iter().map(|message| ITEM + message.body.size()).sum()
}

impl World {
    /// Commits one entry of a batch, and records the outcome.
    pub(crate) async fn append_one(&self, store: &MemoryStore, entry: NewEntry) -> Result<AppendOutcome, StoreError> {
        let author = store.member(entry.chat_id(), entry.sender_id()).now_or_never();
        let outcomes = store.commit(vec![entry.clone()]).await?;
        let outcome = outcomes[0];
        self.appended(&entry, outcome, matches!(author, Some(Ok(Some(_)))));
        Ok(outcome)
    }
}

#[async_trait]
impl MessageReader for SimStore {
    async fn head(&self, chat_id: ChatId) -> Result<Option<Head>, StoreError> {
        let store = self.store.clone();
        let load = Load::read("chat_counters", chat_id);
        self.on(load).read(async move { store.head(chat_id).await }).await
    }

    async fn heads(&self, chat_ids: &[ChatId]) -> Result<Vec<Option<Head>>, StoreError> {
        let (store, chat_ids) = (self.store.clone(), chat_ids.to_vec());
        let load = Load::reads("chat_counters", &chat_ids);
        self.on(load).read(async move { store.heads(&chat_ids).await }).await
    }

    async fn after(
        &self,
        chat_id: ChatId,
        after: Sequence,
        bounds: PageBounds,
        now: Timestamp,
    ) -> Result<Page, StoreError> {
        let (store, world) = (self.store.clone(), self.world.clone());
        let now = if world.has(Bug::ExpiredShown) { Timestamp::from_millis(0) } else { now };
        let read = async move {
            let page = store.after(chat_id, after, bounds, now).await?;
            let bytes = bytes_of(&page.messages) + bytes_of(&page.updated) + ITEM * page.updates.len();
            world.charge(&Load::read_bytes("messages", chat_id, bytes));
            let page = crate::broken::without_updates(&world, crate::broken::staled(&world, page, now));
            world.checks.read_page(&world, &store, chat_id, after, &page);
            Ok(page)
        };
        crate::broken::read_page(self, chat_id, self.read(read).await).await
    }

    async fn before(
        &self,
        chat_id: ChatId,
        before: Sequence,
        count: usize,
        now: Timestamp,
    ) -> Result<Vec<Message>, StoreError> {
        let (store, world) = (self.store.clone(), self.world.clone());
        let now = if world.has(Bug::ExpiredShown) { Timestamp::from_millis(0) } else { now };
        self.read(async move {
            let messages = store.before(chat_id, before, count, now).await?;
            world.charge(&Load::read_bytes("messages", chat_id, bytes_of(&messages)));
            Ok(messages)
        })
        .await
    }

    async fn unread(&self, of: &[UnreadQuery], now: Timestamp) -> Result<Vec<UnreadCount>, StoreError> {
        let (store, mut of) = (self.store.clone(), of.to_vec());
        if self.world.has(Bug::UnreadCountsOwn) {
            // Count for a user who does not exist, so that no message is excluded as their own.
            of.iter_mut().for_each(|query| query.reader = UserId::from_bytes([0xff; 16]));
        }
        let load = Load::reads("messages", of.iter().map(|query| &query.chat_id));
        self.on(load).read(async move { store.unread(&of, now).await }).await
    }

    async fn by_id(&self, message_id: MessageId, now: Timestamp) -> Result<Option<Message>, StoreError> {
        let (store, world) = (self.store.clone(), self.world.clone());
        self.on(Load::read("message_locations", message_id))
            .read(async move {
                let message = store.by_id(message_id, now).await?.filter(|_| world.is_located(message_id));
                world.charge(&message.iter().map(|message| Load::read("messages", message.chat_id)).collect());
                Ok(message)
            })
            .await
    }

    async fn own_reactions(&self, messages: &[MessageKey], user_id: UserId) -> Result<Vec<Vec<Reaction>>, StoreError> {
        let (store, messages) = (self.store.clone(), messages.to_vec());
        self.read(async move { store.own_reactions(&messages, user_id).await }).await
    }

    async fn reactions(
        &self,
        message: MessageKey,
        after: Option<UserId>,
        count: usize,
    ) -> Result<Vec<MemberReactions>, StoreError> {
        let store = self.store.clone();
        self.read(async move { store.reactions(message, after, count).await }).await
    }
}

#[async_trait]
impl ChatReader for SimStore {
    async fn chat(&self, chat_id: ChatId) -> Result<Option<Chat>, StoreError> {
        let store = self.store.clone();
        let load = Load::read("chats", chat_id);
        self.on(load).read(async move { store.chat(chat_id).await }).await
    }

    async fn chats(&self, chat_ids: &[ChatId]) -> Result<Vec<Option<Chat>>, StoreError> {
        let (store, chat_ids) = (self.store.clone(), chat_ids.to_vec());
        let load = Load::reads("chats", &chat_ids);
        self.on(load).read(async move { store.chats(&chat_ids).await }).await
    }

    async fn member(&self, chat_id: ChatId, user_id: UserId) -> Result<Option<Member>, StoreError> {
        let store = self.store.clone();
        let load = Load::read("chat_memberships", chat_id);
        self.on(load).read(async move { store.member(chat_id, user_id).await }).await
    }

    async fn members(&self, chat_id: ChatId) -> Result<Vec<Member>, StoreError> {
        let store = self.store.clone();
        let load = Load::read("chat_memberships", chat_id);
        self.on(load).read(async move { store.members(chat_id).await }).await
    }

    async fn first_members(&self, chat_ids: &[ChatId], count: usize) -> Result<Vec<Vec<Member>>, StoreError> {
        let (store, chat_ids) = (self.store.clone(), chat_ids.to_vec());
        let load = Load::reads("chat_memberships", &chat_ids);
        self.on(load).read(async move { store.first_members(&chat_ids, count).await }).await
    }

    async fn memberships(&self, user_id: UserId) -> Result<Vec<(ChatId, Member)>, StoreError> {
        let store = self.store.clone();
        let load = Load::read("delivery_state", user_id);
        self.on(load).read(async move { store.memberships(user_id).await }).await
    }

    async fn memberships_in(&self, user_id: UserId, chat_ids: &[ChatId]) -> Result<Vec<Option<Member>>, StoreError> {
        let (store, chat_ids) = (self.store.clone(), chat_ids.to_vec());
        let load = Load::reads("chat_memberships", &chat_ids);
        self.on(load).read(async move { store.memberships_in(user_id, &chat_ids).await }).await
    }

    async fn chat_count(&self, user_id: UserId, max: usize) -> Result<usize, StoreError> {
        let store = self.store.clone();
        let load = Load::read("delivery_state", user_id);
        self.on(load).read(async move { store.chat_count(user_id, max).await }).await
    }

    async fn direct_chat(&self, pair: DirectPair) -> Result<Option<ChatId>, StoreError> {
        let store = self.store.clone();
        let load = Load::read("direct_chats", pair);
        self.on(load).read(async move { store.direct_chat(pair).await }).await
    }

    async fn inbox_rows(&self, user_id: UserId) -> Result<usize, StoreError> {
        let store = self.store.clone();
        self.read(async move { store.inbox_rows(user_id).await }).await
    }

    async fn inbox(&self, user_id: UserId, start: InboxStart, count: usize) -> Result<InboxSelection, StoreError> {
        let store = self.store.clone();
        let load = Load::read("delivery_state", user_id);
        self.on(load).read(async move { store.inbox(user_id, start, count).await }).await
    }

    async fn blocked_chats(&self, chats: &[(ChatId, UserId)]) -> Result<Vec<bool>, StoreError> {
        let (store, chats) = (self.store.clone(), chats.to_vec());
        if self.world.has(Bug::BlocksForgotten) {
            return Ok(vec![false; chats.len()]);
        }
        let load = Load::reads("blocks", chats.iter().map(|(_, user_id)| user_id));
        self.on(load).read(async move { store.blocked_chats(&chats).await }).await
    }
}

#[async_trait]
impl ChatWriter for SimStore {
    async fn create_direct(&self, chat: NewDirectChat) -> Result<Result<CreatedChat, ChatRefusal>, StoreError> {
        let (store, world) = (self.store.clone(), self.world.clone());
        let load = Load::write("direct_chats", chat.pair).and(opens(chat.chat_id, &chat.pair.users()));
        self.on(load)
            .write("open a direct chat", async move {
                crate::broken::forget_direct_chat(&world, &store, &chat);
                let created = store.create_direct(chat.clone()).await?;
                if created.is_ok() {
                    world.changed_members(&chat.opening());
                }
                Ok(created)
            })
            .await
    }

    async fn create_group(&self, group: NewGroup) -> Result<CreatedChat, StoreError> {
        let (store, world) = (self.store.clone(), self.world.clone());
        let members: Vec<UserId> = group.members.iter().copied().chain([group.created_by]).collect();
        self.on(opens(group.chat_id, &members))
            .write("open a group", async move {
                let created = store.create_group(group.clone()).await?;
                if matches!(created, CreatedChat::New(_)) {
                    world.changed_members(&group.opening(|_| true));
                }
                Ok(created)
            })
            .await
    }

    async fn apply(
        &self,
        chat_id: ChatId,
        actor: UserId,
        command: ChatCommand,
        now: Timestamp,
    ) -> Result<Result<ChatChange, ChatRefusal>, StoreError> {
        let (store, world) = (self.store.clone(), self.world.clone());
        let departs = matches!(command, ChatCommand::Depart { .. });
        let is_earlier = self.process.version == ProcessVersion::Earlier;
        let load = Load::write("chats", chat_id)
            .and(Load::write("chat_counters", chat_id))
            .and(Load::write("pending_changes", chat_id))
            .and(Load::write("chat_memberships", chat_id));
        self.on(load)
            .write("change a chat", async move {
                if is_earlier {
                    crate::broken::forget_changes(&world, &store, chat_id);
                }
                let applied = store.apply(chat_id, actor, command, now).await?;
                if let Ok(change) = &applied {
                    world.changed_members(change);
                    if departs {
                        world.departed(chat_id, actor);
                    }
                }
                Ok(applied)
            })
            .await
    }
}

/// The items of a new chat.
fn opens(chat_id: ChatId, members: &[UserId]) -> Load {
    let of_chat = ["chats", "chat_counters", "pending_changes"].map(|table| Load::write(table, chat_id));
    let of_members = members
        .iter()
        .map(|user_id| Load::write("chat_memberships", chat_id).and(Load::write("delivery_state", *user_id)));
    of_chat.into_iter().chain(of_members).collect()
}

impl World {
    /// Records members who joined or left.
    fn changed_members(&self, change: &ChatChange) {
        let chat_id = change.chat.chat_id;
        for member in &change.members {
            let (user_id, joined) = match member {
                MemberChange::Added(member) => (member.user_id, true),
                MemberChange::Removed(user_id) => (*user_id, false),
                MemberChange::Updated(_) => continue,
            };
            self.note(TraceActor::Store, TraceEvent::Members { chat_id, user_id, joined });
            self.checks.member_changed(chat_id, user_id, joined);
            if !joined {
                self.deleted_user_left(chat_id, user_id);
            }
        }
    }
}

#[async_trait]
impl WatermarkStore for SimStore {
    async fn advance(
        &self,
        user_id: UserId,
        chat_id: ChatId,
        kind: WatermarkKind,
        to: Sequence,
        at: Timestamp,
    ) -> Result<Advance, StoreError> {
        let (store, world) = (self.store.clone(), self.world.clone());
        self.on(Load::write("delivery_state", user_id))
            .write("move a watermark", async move {
                if let Some(advance) = crate::broken::advance(&world, &store, user_id, chat_id, kind, to) {
                    return Ok(advance);
                }
                world.checks.touch(chat_id);
                store.advance(user_id, chat_id, kind, to, at).await
            })
            .await
    }

    async fn delivery_states(&self, of: &[(UserId, ChatId)]) -> Result<Vec<DeliveryState>, StoreError> {
        let (store, of) = (self.store.clone(), of.to_vec());
        let load = Load::reads("delivery_state", of.iter().map(|(user_id, _)| user_id));
        self.on(load).read(async move { store.delivery_states(&of).await }).await
    }
}

#[async_trait]
impl UserReader for SimStore {
    async fn users(&self, user_ids: &[UserId]) -> Result<Vec<Option<User>>, StoreError> {
        let (store, world, user_ids) = (self.store.clone(), self.world.clone(), user_ids.to_vec());
        self.on(Load::reads("users", &user_ids))
            .read(async move {
                let users = store.users(&user_ids).await?;
                Ok(crate::broken::remembered(&world, users))
            })
            .await
    }

    async fn by_phone(&self, phone_numbers: &[PhoneNumber]) -> Result<Vec<Option<User>>, StoreError> {
        let (store, phone_numbers) = (self.store.clone(), phone_numbers.to_vec());
        self.read(async move { store.by_phone(&phone_numbers).await }).await
    }

    async fn by_external_id(&self, issuer: &str, external_id: &ExternalId) -> Result<Option<User>, StoreError> {
        let (store, issuer, external_id) = (self.store.clone(), issuer.to_owned(), external_id.clone());
        self.read(async move { store.by_external_id(&issuer, &external_id).await }).await
    }
}

#[async_trait]
impl UserWriter for SimStore {
    async fn find_or_create(&self, key: UserKey, new: NewUser) -> Result<(User, bool), StoreError> {
        let store = self.store.clone();
        self.write("make a user", async move { store.find_or_create(key, new).await }).await
    }

    async fn update(&self, user_id: UserId, update: UserUpdate, now: Timestamp) -> Result<Option<User>, StoreError> {
        let (store, world) = (self.store.clone(), self.world.clone());
        self.on(Load::write("users", user_id))
            .write("change a user", async move {
                let updated = store.update(user_id, update, now).await?;
                world.checks.privacy_changed(&world);
                Ok(updated)
            })
            .await
    }
}

#[async_trait]
impl ContactStore for SimStore {
    async fn add(&self, user_id: UserId, contact_id: UserId) -> Result<(), StoreError> {
        let (store, world) = (self.store.clone(), self.world.clone());
        self.on(Load::write("contacts", user_id))
            .write("list a contact", async move {
                ContactStore::add(&store, user_id, contact_id).await?;
                world.checks.privacy_changed(&world);
                Ok(())
            })
            .await
    }

    async fn remove(&self, user_id: UserId, contact_id: UserId) -> Result<(), StoreError> {
        let (store, world) = (self.store.clone(), self.world.clone());
        self.on(Load::write("contacts", user_id))
            .write("unlist a contact", async move {
                ContactStore::remove(&store, user_id, contact_id).await?;
                world.checks.privacy_changed(&world);
                Ok(())
            })
            .await
    }

    async fn contacts(&self, user_id: UserId, after: Option<UserId>, limit: usize) -> Result<Vec<UserId>, StoreError> {
        let store = self.store.clone();
        let load = Load::read("contacts", user_id);
        self.on(load).read(async move { store.contacts(user_id, after, limit).await }).await
    }

    async fn listed(&self, pairs: &[(UserId, UserId)]) -> Result<Vec<bool>, StoreError> {
        let (store, pairs) = (self.store.clone(), pairs.to_vec());
        let load = Load::reads("contacts", pairs.iter().map(|(user_id, _)| user_id));
        self.on(load).read(async move { store.listed(&pairs).await }).await
    }
}

#[async_trait]
impl BlockStore for SimStore {
    async fn block(&self, user_id: UserId, blocked_id: UserId) -> Result<bool, StoreError> {
        let (store, world) = (self.store.clone(), self.world.clone());
        self.on(Load::write("blocks", user_id))
            .write("block a user", async move {
                let is_blocked = store.block(user_id, blocked_id).await?;
                world.checks.privacy_changed(&world);
                Ok(is_blocked)
            })
            .await
    }

    async fn unblock(&self, user_id: UserId, blocked_id: UserId) -> Result<(), StoreError> {
        let (store, world) = (self.store.clone(), self.world.clone());
        self.on(Load::write("blocks", user_id))
            .write("unblock a user", async move {
                store.unblock(user_id, blocked_id).await?;
                world.checks.privacy_changed(&world);
                Ok(())
            })
            .await
    }

    async fn blocks(&self, user_id: UserId, after: Option<UserId>, limit: usize) -> Result<Vec<UserId>, StoreError> {
        let store = self.store.clone();
        let load = Load::read("blocks", user_id);
        self.on(load).read(async move { store.blocks(user_id, after, limit).await }).await
    }

    async fn blocked(&self, pairs: &[(UserId, UserId)]) -> Result<Vec<bool>, StoreError> {
        let (store, pairs) = (self.store.clone(), pairs.to_vec());
        if self.world.has(Bug::BlocksForgotten) {
            return Ok(vec![false; pairs.len()]);
        }
        let load = Load::reads("blocks", pairs.iter().map(|(user_id, _)| user_id));
        self.on(load).read(async move { store.blocked(&pairs).await }).await
    }
}

#[async_trait]
impl LastSeenStore for SimStore {
    async fn update_last_seen(&self, users: &[(UserId, Timestamp)]) -> Result<(), StoreError> {
        let (store, users) = (self.store.clone(), users.to_vec());
        let load = users.iter().map(|(user_id, _)| Load::write("users", *user_id)).collect();
        self.on(load).write("note who was seen", async move { store.update_last_seen(&users).await }).await
    }
}

#[async_trait]
impl NoticeStore for SimStore {
    async fn add_notices(&self, notices: Vec<Notice>) -> Result<(), StoreError> {
        let (store, world) = (self.store.clone(), self.world.clone());
        let load = notices.iter().map(|notice| Load::write("notices", notice.user_id)).collect();
        self.on(load)
            .write("add notices", async move {
                store.add_notices(notices.clone()).await?;
                world.noticed(&notices);
                Ok(())
            })
            .await
    }

    async fn take_due(&self, now: Timestamp, again_at: Timestamp, count: usize) -> Result<Vec<Notice>, StoreError> {
        let (store, world) = (self.store.clone(), self.world.clone());
        self.write("take due notices", async move {
            let taken = store.take_due(now, again_at, count).await?;
            world.notices_taken(&taken);
            crate::broken::forget_notices(&world, &store, &taken).await?;
            Ok(taken)
        })
        .await
    }

    async fn settle(&self, notice: &Notice, settled: Settled) -> Result<(), StoreError> {
        let (store, world, notice) = (self.store.clone(), self.world.clone(), notice.clone());
        let settled = crate::broken::settled(&world, &notice, settled);
        let load = Load::write("notices", notice.user_id);
        self.on(load)
            .write("settle a notice", async move {
                store.settle(&notice, settled).await?;
                world.notice_settled(&notice, settled);
                Ok(())
            })
            .await
    }
}

/// The outbox of a process of a fleet.
pub(crate) struct SimOutbox {
    pub(crate) store: SimStore,
    pub(crate) outbox: Arc<MemoryOutbox>,
}

#[async_trait]
impl Outbox for SimOutbox {
    async fn committed(&self) -> Vec<Committed> {
        self.store.process.runs().await;
        self.outbox.committed().await
    }

    async fn overdue(&self, before: Timestamp) -> Result<Vec<ChatId>, StoreError> {
        if self.store.world.has(Bug::RetryWithoutRepublish) {
            return Ok(vec![]);
        }
        let (outbox, world) = (self.outbox.clone(), self.store.world.clone());
        self.store.read(async move { Ok(world.indexed_overdue(outbox.overdue(before).await?)) }).await
    }

    async fn unpublished(&self, chat_id: ChatId) -> Result<Vec<Arc<Event>>, StoreError> {
        if self.store.world.has(Bug::RetryWithoutRepublish) {
            return Ok(vec![]);
        }
        let outbox = self.outbox.clone();
        let load = Load::read("messages", chat_id);
        self.store.on(load).read(async move { outbox.unpublished(chat_id).await }).await
    }

    async fn published(&self, chat_id: ChatId, through: Sequence) -> Result<(), StoreError> {
        let outbox = self.outbox.clone();
        let load = Load::write("chat_counters", chat_id);
        self.store.on(load).write("mark as published", async move { outbox.published(chat_id, through).await }).await
    }

    async fn pending_changes(&self, chat_id: ChatId) -> Result<Vec<PendingChange>, StoreError> {
        let outbox = self.outbox.clone();
        let load = Load::read("pending_changes", chat_id);
        self.store.on(load).read(async move { outbox.pending_changes(chat_id).await }).await
    }

    async fn confirm_changes(&self, chat_id: ChatId, keys: &[String]) -> Result<(), StoreError> {
        let (outbox, keys) = (self.outbox.clone(), keys.to_vec());
        let load = Load::write("pending_changes", chat_id);
        let forgets = async move { outbox.confirm_changes(chat_id, &keys).await };
        self.store.on(load).write("forget what is published", forgets).await
    }
}

/// The log producer of one process.
pub(crate) struct SimProducer {
    pub(crate) world: Arc<World>,
    pub(crate) process: Arc<SimProcess>,
}

#[async_trait]
impl EventProducer for SimProducer {
    async fn publish(&self, events: &[Arc<Event>]) -> Result<(), StoreError> {
        let (world, mut events) = (self.world.clone(), events.to_vec());
        self.world
            .call(&self.process, async move {
                let began = Instant::now();
                world.travel().await;
                if world.is_unavailable(Dependency::Log) {
                    until_deadline(began).await;
                    return Err(unavailable("the log does not answer"));
                }
                let fails = world.streams.log.chance(world.rates().log_fails);
                if fails && world.streams.log.chance(0.5) {
                    return Err(unavailable("the log refuses"));
                }
                if world.has(Bug::DisorderedLog) {
                    events.reverse();
                }
                world.log.publish(&events).await?;
                world.published(&events);
                events.iter().for_each(|event| world.logged(event));
                world.travel().await;
                if fails { Err(unavailable("the answer of the log was lost")) } else { Ok(()) }
            })
            .await
    }
}
