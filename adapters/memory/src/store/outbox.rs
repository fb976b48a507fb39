use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use domain::{ChatId, ConnectionId, Event, EventBody, EventNumber, Sequence, Timestamp};
use ports::{Clock, Committed, Outbox, StoreError};

use super::messages::Entry;
use super::{MemoryStore, MemoryStoreState};

/// Maximum number of messages or changes of a chat returned at once.
const BATCH_LEN_MAX: usize = 100;

/// The outbox of one process, for a store with a [separate](MemoryStore::beside_a_log) log. If the log is part of the
/// store, the outbox stays empty.
pub struct MemoryOutbox {
    store: MemoryStore,
    clock: Arc<dyn Clock>,
}

impl MemoryOutbox {
    /// The outbox of the process of this store handle.
    pub fn new(store: MemoryStore, clock: Arc<dyn Clock>) -> Self {
        Self { store, clock }
    }
}

#[async_trait]
impl Outbox for MemoryOutbox {
    async fn committed(&self) -> Vec<Committed> {
        self.store.commits.take().await
    }

    async fn overdue(&self, before: Timestamp) -> Result<Vec<ChatId>, StoreError> {
        Ok(self.store.transaction(|state| state.overdue(before)))
    }

    async fn unpublished(&self, chat_id: ChatId) -> Result<Vec<Arc<Event>>, StoreError> {
        let now = self.clock.now();
        Ok(self.store.transaction(|state| state.unpublished(chat_id, now)))
    }

    async fn published(&self, chat_id: ChatId, through: Sequence) -> Result<(), StoreError> {
        let now = self.clock.now();
        self.store.transaction(|state| state.published(chat_id, through, now));
        Ok(())
    }

    async fn pending_changes(&self, chat_id: ChatId) -> Result<Vec<ports::PendingChange>, StoreError> {
        Ok(self.store.transaction(|state| state.pending_changes(chat_id)))
    }

    async fn confirm_changes(&self, chat_id: ChatId, keys: &[String]) -> Result<(), StoreError> {
        self.store.transaction(|state| {
            let waiting = state.outbox.as_mut().and_then(|outbox| outbox.chats.get_mut(&chat_id));
            if let Some(waiting) = waiting {
                keys.iter().for_each(|key| drop(waiting.changes.remove(key)));
            }
        });
        Ok(())
    }
}

/// Committed events without confirmation that they are in the log.
#[derive(Clone, Default)]
pub(super) struct PendingEvents {
    pub(super) chats: BTreeMap<ChatId, PendingChat>,
    /// Number of changes and purges so far; each gets its own key.
    keys: u64,
    /// Commits of the running transaction.
    commits: Vec<Committed>,
}

/// Pending events of one chat. Pending entries are the stored messages and updates above the published sequence.
#[derive(Clone, Default)]
pub(super) struct PendingChat {
    pub(super) published: Sequence,
    /// Time of the oldest message above it.
    pub(super) dirty_since: Option<Timestamp>,
    /// Origin connections of these messages, which are not part of a message.
    origins: BTreeMap<Sequence, ConnectionId>,
    /// Event numbers of these messages.
    numbers: BTreeMap<Sequence, EventNumber>,
    /// Changes and purges by key: first changes in commit order, then purges.
    pub(super) changes: BTreeMap<String, Arc<Event>>,
}

impl PendingEvents {
    /// Adds an event of the running transaction.
    pub(super) fn add(&mut self, event: Arc<Event>) {
        let chat_id = event.body.chat_id();
        let of_chat = self.chats.entry(chat_id).or_default();
        let mut same_chat = self.commits.iter_mut().filter(|commit| commit.chat_id == chat_id);
        if let Some(sequence) = event.body.sequence() {
            of_chat.dirty_since.get_or_insert(event.event_time);
            of_chat.numbers.extend(event.event_number.map(|number| (sequence, number)));
            if let EventBody::MessagePersisted { origin_connection_id: Some(origin), .. } = &event.body {
                of_chat.origins.insert(sequence, *origin);
            }
            match same_chat.find(|commit| !commit.messages.is_empty()) {
                Some(commit) => commit.messages.push(event),
                None => self.commits.push(Committed { chat_id, messages: vec![event] }),
            }
            return;
        }
        if same_chat.all(|commit| !commit.messages.is_empty()) {
            self.commits.push(Committed { chat_id, messages: vec![] });
        }
        self.keys += 1;
        let sort = if matches!(event.body, EventBody::MessagesExpired { .. }) { "purge" } else { "change" };
        of_chat.changes.insert(format!("{sort}#{:020}", self.keys), event);
    }

    /// Takes the commits of the transaction that ends here.
    pub(super) fn take_commits(&mut self) -> Vec<Committed> {
        std::mem::take(&mut self.commits)
    }
}

impl PendingChat {
    /// Advances the published sequence, at most to the head.
    fn publish(&mut self, through: Sequence, head: Sequence, now: Timestamp) {
        if (self.published.next()..=head).contains(&through) {
            self.published = through;
            self.origins = self.origins.split_off(&through.next());
            self.numbers = self.numbers.split_off(&through.next());
            // The waiting time of the next message is unknown here. It is short, because otherwise the chat would be
            // overdue.
            self.dirty_since = (through < head).then_some(now);
        }
    }
}

impl MemoryStoreState {
    fn overdue(&self, before: Timestamp) -> Vec<ChatId> {
        let oldest = |(chat_id, of_chat): (&ChatId, &PendingChat)| {
            // The dirty mark is on the head row, and lost with it.
            let dirty_since = self.head_of(*chat_id).and(of_chat.dirty_since);
            let changed = of_chat.changes.values().map(|event| event.event_time);
            changed.chain(dirty_since).min().filter(|since| *since <= before).map(|since| (since, *chat_id))
        };
        let mut overdue: Vec<_> = self.outbox.iter().flat_map(|outbox| &outbox.chats).filter_map(oldest).collect();
        overdue.sort();
        overdue.into_iter().map(|(_, chat_id)| chat_id).collect()
    }

    fn unpublished(&mut self, chat_id: ChatId, now: Timestamp) -> Vec<Arc<Event>> {
        // A chat without a head row accepts no messages, and its marks are lost.
        let Some(head) = self.head_of(chat_id) else { return vec![] };
        let of_chat = self.outbox.as_mut().and_then(|outbox| outbox.chats.get_mut(&chat_id));
        let Some(of_chat) = of_chat.filter(|of_chat| of_chat.published < head) else { return vec![] };
        let chat = &self.chats[&chat_id];
        let live = chat.entries(of_chat.published).filter(|entry| !entry.is_expired(now));
        let event = |entry: Entry<'_>| {
            let sequence = entry.sequence();
            let event = match entry {
                Entry::Message(message) => {
                    Event::message_persisted(message.clone(), of_chat.origins.get(&sequence).copied())
                }
                Entry::Update(update) => {
                    let target = chat.messages.get(&update.target).filter(|message| !message.is_expired(now));
                    Event::message_updated(update.clone(), target.cloned())
                }
            };
            Arc::new(event.numbered(of_chat.numbers.get(&sequence).copied()))
        };
        let events: Vec<_> = live.take(BATCH_LEN_MAX).map(event).collect();
        if events.is_empty() {
            // All pending messages have expired. The relay publishes none of them, so mark them as published here.
            of_chat.publish(head, head, now);
        }
        events
    }

    fn published(&mut self, chat_id: ChatId, through: Sequence, now: Timestamp) {
        let Some(head) = self.head_of(chat_id) else { return };
        if let Some(of_chat) = self.outbox.as_mut().and_then(|outbox| outbox.chats.get_mut(&chat_id)) {
            of_chat.publish(through, head, now);
        }
    }

    fn pending_changes(&self, chat_id: ChatId) -> Vec<ports::PendingChange> {
        let changes =
            self.outbox.as_ref().and_then(|outbox| outbox.chats.get(&chat_id)).map(|of_chat| &of_chat.changes);
        let waiting =
            |(key, event): (&String, &Arc<Event>)| ports::PendingChange { key: key.clone(), event: event.clone() };
        changes.into_iter().flatten().take(BATCH_LEN_MAX).map(waiting).collect()
    }

    /// The sequence in the head row of a chat, unless that is lost.
    fn head_of(&self, chat_id: ChatId) -> Option<Sequence> {
        Some(self.chats.get(&chat_id)?.head.as_ref()?.sequence)
    }
}

#[cfg(test)]
mod tests {
    use domain::{Body, ContentType, UserId};
    use futures_util::FutureExt;
    use ports::{ChatWriter, EventLog, MessageWriter, NewGroup, NewMessage};

    use super::*;
    use crate::{ManualClock, SequentialIds};

    fn chat() -> ChatId {
        ChatId::from_bytes([1; 16])
    }

    fn owner() -> UserId {
        UserId::from_bytes([2; 16])
    }

    fn fleet() -> MemoryStore {
        MemoryStore::beside_a_log(Arc::new(SequentialIds::default()))
    }

    fn outbox(store: &MemoryStore) -> MemoryOutbox {
        MemoryOutbox::new(store.clone(), Arc::new(ManualClock::default()))
    }

    async fn open(store: &MemoryStore) {
        let name = "group".to_owned().try_into().unwrap();
        let created_at = Timestamp::default();
        let group = NewGroup { chat_id: chat(), name, created_by: owner(), members: vec![], created_at };
        store.create_group(group).await.unwrap();
    }

    async fn send(store: &MemoryStore, n: u8) {
        let message = NewMessage {
            chat_id: chat(),
            sender_id: owner(),
            client_message_id: uuid::Uuid::from_bytes([n; 16]).into(),
            message_id: domain::MessageId::from_bytes([n; 16]),
            body: Body::new("hello".to_owned().try_into().unwrap(), ContentType::Text),
            ttl: None,
            ttl_max: None,
            created_at: Timestamp::default(),
            origin_connection_id: None,
        };
        store.append(vec![message]).await.unwrap();
    }

    fn told(outbox: &MemoryOutbox) -> Vec<Vec<u64>> {
        let sequence = |event: &Arc<Event>| match &event.body {
            EventBody::MessagePersisted { message, .. } => message.sequence.0,
            other => panic!("{other:?}"),
        };
        let commits = outbox.committed().now_or_never().unwrap_or_default();
        commits.iter().map(|commit| commit.messages.iter().map(sequence).collect()).collect()
    }

    #[tokio::test]
    async fn an_outbox_receives_only_the_commits_of_its_process() {
        let one = fleet();
        let other = one.process();
        let (of_one, of_other) = (outbox(&one), outbox(&other));
        open(&one).await;
        send(&other, 1).await;
        send(&one.clone(), 2).await;
        assert_eq!((told(&of_one), told(&of_other)), (vec![vec![], vec![2]], vec![vec![1]]));
        assert_eq!(of_other.unpublished(chat()).await.unwrap().len(), 2, "what waits is everybody's");
    }

    #[tokio::test]
    async fn commits_of_a_lost_process_move_to_the_others() {
        let one = fleet();
        let gone = one.process();
        open(&gone).await;
        send(&gone, 1).await;
        drop(gone);
        assert_eq!(told(&outbox(&one)), Vec::<Vec<u64>>::new());
        assert_eq!(outbox(&one).overdue(Timestamp::default()).await.unwrap(), [chat()]);
    }

    #[tokio::test]
    async fn a_chat_that_has_lost_its_head_publishes_nothing() {
        let store = fleet();
        let outbox = outbox(&store);
        open(&store).await;
        send(&store, 1).await;
        let keys: Vec<_> =
            outbox.pending_changes(chat()).await.unwrap().into_iter().map(|waiting| waiting.key).collect();
        outbox.confirm_changes(chat(), &keys).await.unwrap();
        store.drop_head(chat());
        assert_eq!(outbox.unpublished(chat()).await.unwrap(), []);
        assert_eq!(outbox.overdue(Timestamp::MAX).await.unwrap(), []);
        outbox.published(chat(), Sequence(1)).await.unwrap();
        assert_eq!(store.transaction(|state| state.outbox.as_ref().unwrap().chats[&chat()].published), Sequence::ZERO);
    }

    #[tokio::test]
    async fn a_sequence_above_the_head_is_refused() {
        let store = fleet();
        open(&store).await;
        send(&store, 1).await;
        outbox(&store).published(chat(), Sequence(2)).await.unwrap();
        assert_eq!(outbox(&store).unpublished(chat()).await.unwrap().len(), 1);
    }

    #[tokio::test]
    async fn commits_are_in_one_log_only() {
        let [beside, within] = [fleet(), MemoryStore::new(Arc::new(SequentialIds::default()))];
        for store in [&beside, &within] {
            open(store).await;
            send(store, 1).await;
        }
        assert_eq!((beside.lag("any").await.unwrap(), within.lag("any").await.unwrap()), (0, 2));
        assert_eq!(outbox(&beside).overdue(Timestamp::MAX).await.unwrap(), [chat()]);
        assert_eq!(outbox(&within).overdue(Timestamp::MAX).await.unwrap(), []);
        assert_eq!(outbox(&within).committed().now_or_never(), None);
    }
}
