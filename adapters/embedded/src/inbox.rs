//! The order of chats in an inbox (`docs/adr/017-the-order-of-an-inbox.md`).
//!
//! The last activity of a chat is in its head row, which every send replaces, and no row orders the chats of a user. A
//! small inbox reads the heads of all its chats. For a large one the [`InboxIndex`] keeps the last activity of each
//! chat in memory after the first read, so that a page reads only its own rows.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard};

use domain::{Chat, ChatId, Sequence, Timestamp, UserId};
use fjall::Slice;
use ports::{Head, InboxSelection, InboxSelector, InboxStart, StoreError, lock};

use crate::error::unreadable;
use crate::keys;
use crate::records::Stored;
use crate::tables::{Table, Tables, View};

/// Inboxes with more chats than this are indexed.
const INDEXED_ABOVE: usize = 200;
/// Maximum number of chats in all indexed inboxes: about 40 MB. An inbox with more chats is not indexed.
const INDEXED_CHATS_MAX: usize = 1 << 18;

/// Reads up to `count` positions of an inbox after `start`.
pub(crate) fn select(
    tables: &Tables,
    user_id: UserId,
    start: InboxStart,
    count: usize,
) -> Result<InboxSelection, StoreError> {
    let mut selector = InboxSelector::new(start, count);
    let cells = match tables.inboxes().cells(user_id) {
        Some(cells) => Some(cells),
        None => index(tables, user_id)?,
    };
    match cells {
        Some(cells) => {
            // Opened after the cells were registered: each commit is in this view, or updates the cells.
            let mut view = None;
            for (chat_id, cell) in &*cells {
                let known = *lock(cell);
                let activity = match known {
                    Some(activity) => Some(activity),
                    None => {
                        let activity = activity(view.get_or_insert_with(|| tables.view()), *chat_id)?;
                        activity.map(|activity| cell_update(cell, activity))
                    }
                };
                activity.into_iter().for_each(|activity| selector.add(activity.at, *chat_id));
            }
        }
        None => {
            let view = tables.view();
            for chat_id in chats(&view, user_id) {
                let chat_id = chat_id?;
                activity(&view, chat_id)?.into_iter().for_each(|activity| selector.add(activity.at, chat_id));
            }
        }
    }
    Ok(selector.finish())
}

/// The number of chats of a user, counted up to `max`.
pub(crate) fn count(tables: &Tables, user_id: UserId, max: usize) -> Result<usize, StoreError> {
    match tables.inboxes().cells(user_id) {
        Some(cells) => Ok(cells.len().min(max)),
        None => chats(&tables.view(), user_id).take(max).try_fold(0, |count, chat_id| chat_id.map(|_| count + 1)),
    }
}

/// Indexes a large inbox; `None` if it is too small or too large, or is being indexed by another read.
fn index(tables: &Tables, user_id: UserId) -> Result<Option<Arc<ChatCells>>, StoreError> {
    if chats(&tables.view(), user_id).take(INDEXED_ABOVE + 1).count() <= INDEXED_ABOVE {
        return Ok(None);
    }
    let Some(registration) = tables.inboxes().register(user_id) else { return Ok(None) };
    // Opened after the registration: each commit is in this view, or updates the registered inbox.
    let view = tables.view();
    let chat_ids: Vec<_> = chats(&view, user_id).take(INDEXED_CHATS_MAX + 1).collect::<Result<_, _>>()?;
    Ok((chat_ids.len() <= INDEXED_CHATS_MAX).then(|| registration.complete(chat_ids)))
}

/// The chats of a user.
fn chats<'a>(view: &'a View<'_>, user_id: UserId) -> impl Iterator<Item = Result<ChatId, StoreError>> + use<'a> {
    let rows = view.prefix(Table::Memberships, &keys::user(user_id));
    rows.map(|row| keys::parse_membership(&row?.0).map_err(|error| unreadable(Table::Memberships, error)))
}

/// The last activity of a chat; `None` if the chat does not exist.
fn activity(view: &View<'_>, chat_id: ChatId) -> Result<Option<Activity>, StoreError> {
    let head: Option<Head> = view.get(Table::Heads, &keys::chat(chat_id))?;
    if let Some(activity) = head.as_ref().and_then(Activity::of) {
        return Ok(Some(activity));
    }
    let chat: Option<Chat> = view.get(Table::Chats, &keys::chat(chat_id))?;
    Ok(chat.map(|chat| Activity { sequence: Sequence::ZERO, at: chat.created_at }))
}

/// The last activity of a chat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Activity {
    /// The head sequence; it orders two activities, because clocks may go back.
    sequence: Sequence,
    at: Timestamp,
}

impl Activity {
    fn of(head: &Head) -> Option<Self> {
        head.last_message.as_ref().map(|last| Self { sequence: head.sequence, at: last.created_at })
    }
}

/// The last activity of a chat that all indexed inboxes share; `None` until it is read.
type ActivityCell = Mutex<Option<Activity>>;
/// The chats of an inbox.
type ChatCells = BTreeMap<ChatId, Arc<ActivityCell>>;

/// Stores an activity unless the cell has a later one, and returns the later one.
fn cell_update(cell: &ActivityCell, activity: Activity) -> Activity {
    let mut known = lock(cell);
    let latest = known.filter(|known| known.sequence > activity.sequence).unwrap_or(activity);
    *known = Some(latest);
    latest
}

/// The last activity of the chats of large inboxes, of one open database.
///
/// A read registers an inbox before it reads the rows, and the committer passes every commit to
/// [`committed`](Self::committed) before it answers. So the index has every commit that was answered. A send costs one
/// lookup, and one update if the chat is in an indexed inbox, for any number of members.
#[derive(Default)]
pub(crate) struct InboxIndex {
    state: Mutex<IndexState>,
}

#[derive(Default)]
struct IndexState {
    inboxes: HashMap<UserId, IndexedInbox>,
    /// The chats of all inboxes, each with the number of inboxes that have it.
    cells: HashMap<ChatId, (Arc<ActivityCell>, usize)>,
    /// The sum of the sizes of all inboxes.
    chats: usize,
    /// Increases with each read.
    reads: u64,
}

#[derive(Default)]
struct IndexedInbox {
    /// Shared with reads in progress, so that they do not hold up the committer.
    chats: Arc<ChatCells>,
    /// The chats that the user has left since the registration; `None` once the inbox is complete.
    left: Option<BTreeSet<ChatId>>,
    /// The number of the last read.
    used: u64,
}

impl InboxIndex {
    fn state(&self) -> MutexGuard<'_, IndexState> {
        lock(&self.state)
    }

    /// The chats of an indexed inbox.
    fn cells(&self, user_id: UserId) -> Option<Arc<ChatCells>> {
        let mut state = self.state();
        state.reads += 1;
        let used = state.reads;
        let inbox = state.inboxes.get_mut(&user_id).filter(|inbox| inbox.left.is_none())?;
        inbox.used = used;
        Some(inbox.chats.clone())
    }

    /// Begins to index an inbox; `None` if another read has begun.
    fn register(&self, user_id: UserId) -> Option<Registration<'_>> {
        let mut state = self.state();
        if state.inboxes.contains_key(&user_id) {
            return None;
        }
        let used = state.reads;
        state.inboxes.insert(user_id, IndexedInbox { left: Some(BTreeSet::new()), used, ..IndexedInbox::default() });
        Some(Registration { index: self, user_id })
    }

    /// Follows the rows of a commit. Only heads and memberships matter.
    pub(crate) fn committed(&self, rows: Vec<(Table, Slice, Option<Slice>)>) {
        let mut state = self.state();
        if state.inboxes.is_empty() {
            return;
        }
        for (table, key, row) in rows {
            match table {
                Table::Heads => state.head(&key, row.as_deref()),
                Table::Memberships => state.membership(&key, row.is_some()),
                _ => {}
            }
        }
    }
}

impl IndexState {
    fn head(&mut self, key: &[u8], row: Option<&[u8]>) {
        let Some((cell, _)) = key.try_into().ok().and_then(|key| self.cells.get(&keys::parse_chat(key))) else {
            return;
        };
        match row.and_then(|row| Head::decode(row).ok()) {
            Some(head) => drop(Activity::of(&head).map(|activity| cell_update(cell, activity))),
            // The next read of the row reports what is wrong with it.
            None => *lock(cell) = None,
        }
    }

    fn membership(&mut self, key: &[u8], is_member: bool) {
        let Ok((user_id, chat_id)) = keys::parse_listing(key) else { return };
        let Some(inbox) = self.inboxes.get_mut(&user_id) else { return };
        if let Some(left) = &mut inbox.left {
            if is_member {
                left.remove(&chat_id)
            } else {
                left.insert(chat_id)
            };
        }
        match (is_member, inbox.chats.contains_key(&chat_id)) {
            (true, false) => {
                let (cell, inboxes) = self.cells.entry(chat_id).or_default();
                *inboxes += 1;
                self.chats += 1;
                Arc::make_mut(&mut inbox.chats).insert(chat_id, cell.clone());
            }
            (false, true) => {
                Arc::make_mut(&mut inbox.chats).remove(&chat_id);
                self.release(chat_id);
            }
            (true, true) | (false, false) => {}
        }
    }

    /// Drops the cell of a chat that an inbox no longer has, if no other inbox has it.
    fn release(&mut self, chat_id: ChatId) {
        self.chats -= 1;
        if let Entry::Occupied(mut cell) = self.cells.entry(chat_id) {
            cell.get_mut().1 -= 1;
            if cell.get().1 == 0 {
                cell.remove();
            }
        }
    }

    fn evict(&mut self, user_id: UserId) {
        let inbox = self.inboxes.remove(&user_id).unwrap_or_default();
        inbox.chats.keys().for_each(|chat_id| self.release(*chat_id));
    }
}

/// An inbox that is being indexed. Dropped without completion, it is removed from the index.
struct Registration<'a> {
    index: &'a InboxIndex,
    user_id: UserId,
}

impl Registration<'_> {
    /// Completes the inbox with the chats of the rows, and evicts the inboxes that were not read for the longest time if
    /// there are too many chats.
    fn complete(self, chat_ids: Vec<ChatId>) -> Arc<ChatCells> {
        let mut state = self.index.state();
        let left = state.inboxes.get_mut(&self.user_id).and_then(|inbox| inbox.left.take()).unwrap_or_default();
        for chat_id in chat_ids.into_iter().filter(|chat_id| !left.contains(chat_id)) {
            state.membership(&keys::membership(self.user_id, chat_id), true);
        }
        while state.chats > INDEXED_CHATS_MAX {
            let others = state.inboxes.iter().filter(|(user_id, _)| **user_id != self.user_id);
            let Some(oldest) = others.min_by_key(|(_, inbox)| inbox.used).map(|(user_id, _)| *user_id) else { break };
            state.evict(oldest);
        }
        state.inboxes.get(&self.user_id).map(|inbox| inbox.chats.clone()).unwrap_or_default()
    }
}

impl Drop for Registration<'_> {
    fn drop(&mut self) {
        let mut state = self.index.state();
        if state.inboxes.get(&self.user_id).is_some_and(|inbox| inbox.left.is_some()) {
            state.evict(self.user_id);
        }
    }
}

#[cfg(test)]
mod tests {
    use domain::{Body, ChatCommand, ClientMessageId, ContentType, Role};
    use ports::{ChatReader, ChatWriter, Clock, Ids, MessageWriter, NewGroup, NewMessage, RandomIds, SystemClock};
    use tokio::task::JoinSet;

    use super::*;
    use crate::{Config, EmbeddedStore};

    const PAGE: usize = 20;

    fn owner() -> UserId {
        UserId::from_bytes([7; 16])
    }

    impl InboxIndex {
        /// The sum of the sizes of all inboxes, and the number of their chats.
        fn sizes(&self) -> (usize, usize) {
            let state = self.state();
            (state.chats, state.cells.len())
        }
    }

    async fn group(store: &EmbeddedStore, created_by: UserId) -> ChatId {
        let group = NewGroup {
            chat_id: RandomIds.ulid().into(),
            name: "group".to_owned().try_into().unwrap(),
            created_by,
            members: vec![],
            created_at: SystemClock.now(),
        };
        store.create_group(group).await.unwrap().chat().chat_id
    }

    /// Creates groups concurrently, so that they share commits.
    async fn groups(store: &EmbeddedStore, created_by: UserId, count: usize) -> Vec<ChatId> {
        let mut groups = JoinSet::new();
        for _ in 0..count {
            let store = store.clone();
            groups.spawn(async move { group(&store, created_by).await });
        }
        groups.join_all().await
    }

    async fn send(store: &EmbeddedStore, chat_id: ChatId, sender_id: UserId, created_at: Timestamp) {
        let message = NewMessage {
            chat_id,
            sender_id,
            client_message_id: ClientMessageId::from_bytes(RandomIds.ulid().to_bytes()),
            message_id: RandomIds.ulid().into(),
            body: Body::new("hello".to_owned().try_into().unwrap(), ContentType::Text),
            ttl: None,
            ttl_max: None,
            created_at,
            origin_connection_id: None,
        };
        store.append(vec![message]).await.unwrap();
    }

    /// The chats of the first page, and the rows that it reads.
    async fn page(store: &EmbeddedStore, user_id: UserId) -> (Vec<ChatId>, u64) {
        let tables = store.tables().await.unwrap();
        let before = tables.rows_read();
        let page = store.inbox(user_id, InboxStart::First, PAGE).await.unwrap();
        (page.positions.iter().map(|position| position.chat_id).collect(), tables.rows_read() - before)
    }

    fn open(directory: &tempfile::TempDir) -> EmbeddedStore {
        EmbeddedStore::open(directory.path(), Config::default(), Arc::new(SystemClock), Arc::new(RandomIds)).unwrap()
    }

    #[tokio::test]
    async fn a_page_of_a_large_inbox_reads_no_more_rows_than_one_of_a_small_inbox() {
        let directory = tempfile::tempdir().unwrap();
        let store = open(&directory);
        let small = UserId::from_bytes([8; 16]);
        groups(&store, small, INDEXED_ABOVE).await;
        let (_, rows_of_small) = page(&store, small).await;
        let chats = groups(&store, owner(), 5000).await;
        page(&store, owner()).await;

        let later = SystemClock.now() + std::time::Duration::from_secs(60);
        send(&store, chats[4321], owner(), later).await;
        let new = group(&store, owner()).await;
        let (newest, rows_of_large) = page(&store, owner()).await;
        assert_eq!((newest.len(), newest[0], newest[1]), (PAGE, chats[4321], new));
        assert!(rows_of_large <= rows_of_small, "{rows_of_large} rows of 5001 chats, {rows_of_small} of a small inbox");
        store.close().await;
    }

    #[tokio::test]
    async fn an_indexed_inbox_follows_every_commit() {
        let directory = tempfile::tempdir().unwrap();
        let store = open(&directory);
        let chats = groups(&store, owner(), INDEXED_ABOVE + 1).await;
        page(&store, owner()).await;
        let start = SystemClock.now() + std::time::Duration::from_secs(60);
        let at = |millis| start + std::time::Duration::from_millis(millis);

        let other = UserId::from_bytes([9; 16]);
        let foreign = group(&store, other).await;
        send(&store, foreign, other, at(9)).await;
        let join = ChatCommand::AddMember { user_id: owner(), role: Role::Member };
        store.apply(foreign, other, join, at(9)).await.unwrap().unwrap();
        for (chat, millis) in [(5, 3), (6, 8), (5, 4)] {
            send(&store, chats[chat], owner(), at(millis)).await;
        }
        // The clock of a later message is behind.
        send(&store, chats[6], owner(), at(2)).await;
        assert_eq!(page(&store, owner()).await.0[..3], [foreign, chats[5], chats[6]]);

        store.apply(foreign, owner(), ChatCommand::Leave, at(10)).await.unwrap().unwrap();
        assert_eq!(page(&store, owner()).await.0[..2], [chats[5], chats[6]]);
        store.close().await;
    }

    #[test]
    fn a_chat_that_a_user_leaves_while_the_inbox_is_indexed_is_not_in_it() {
        let index = InboxIndex::default();
        let registration = index.register(owner()).unwrap();
        assert!(index.register(owner()).is_none() && index.cells(owner()).is_none());
        let [left, joined, kept] = [1, 2, 3].map(|n| ChatId::from_bytes([n; 16]));
        let membership = |chat_id, row: Option<&[u8]>| {
            (Table::Memberships, Slice::from(keys::membership(owner(), chat_id)), row.map(Slice::from))
        };
        index.committed(vec![membership(left, None), membership(joined, Some(&[]))]);
        let cells = registration.complete(vec![left, kept]);
        assert_eq!(cells.keys().copied().collect::<Vec<_>>(), [joined, kept]);
        assert_eq!(index.sizes(), (2, 2));
        index.state().evict(owner());
        assert_eq!(index.sizes(), (0, 0));
        drop(index.register(owner()));
        assert!(index.state().inboxes.is_empty(), "a registration without completion leaves nothing");
    }

    #[test]
    fn the_index_is_bounded_and_keeps_the_inboxes_that_were_read_last() {
        let index = InboxIndex::default();
        let user = |n| UserId::from_bytes([n; 16]);
        let chats = |n: u8| {
            (0..INDEXED_CHATS_MAX as u128 / 2)
                .map(move |c| ChatId::from_bytes((u128::from(n) << 120 | c).to_be_bytes()))
        };
        for n in [1, 2] {
            index.register(user(n)).unwrap().complete(chats(n).collect());
        }
        assert!(index.cells(user(1)).is_some());
        index.register(user(3)).unwrap().complete(chats(3).collect());
        let indexed = [1, 2, 3].map(|n| index.cells(user(n)).is_some());
        assert_eq!(indexed, [true, false, true]);
        assert_eq!(index.sizes(), (INDEXED_CHATS_MAX, INDEXED_CHATS_MAX));
    }
}
