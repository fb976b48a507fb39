use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::mem;
use std::time::Duration;

use domain::{ChatId, Event, EventBody, Message, MessageId, MessageUpdate, Sequence, Timestamp};
use ports::{Clock, MessageReader, Page, PageBounds, StoreError};
use tokio::time::{Interval, MissedTickBehavior, interval};

use super::{ReconcileFinding, Report, Scope};

/// Most chats kept in memory.
pub(super) const CHATS_MAX: usize = 1_000_000;
/// Most events waiting for comparison, over all chats. Comparing many of one chat at once takes few reads.
const WAITING_MAX: usize = 100_000;
/// Messages and bytes in one read.
const PAGE: PageBounds = PageBounds { count: 200, bytes: 1 << 20 };
/// Heads in one read.
const HEADS: usize = 100;

/// Compares the events of a log, as they arrive, with the messages of a store and their updates.
///
/// The log has the events of a chat in order. So an entry is missing if events before and after it have arrived but
/// its own has not. If that event arrives after all, it is late.
pub(super) struct Comparison<'a> {
    messages: &'a dyn MessageReader,
    clock: &'a dyn Clock,
    scope: Scope,
    since: Timestamp,
    chats: HashMap<ChatId, ChatProgress>,
    waiting: HashMap<ChatId, BTreeMap<Sequence, UncomparedEvent>>,
    waiting_len: usize,
    missing: BTreeSet<ReconcileFinding>,
    pace: Interval,
    pub(super) report: Report,
}

/// The position of a chat in the log, and the sequence up to which it was compared with the store.
#[derive(Clone, Copy)]
struct ChatProgress {
    last: Sequence,
    compared: Option<Sequence>,
}

/// An entry of a chat, in the log or in the store: a message, or an update of one.
#[derive(Clone, Copy)]
struct ComparedEntry {
    chat_id: ChatId,
    sequence: Sequence,
    /// The id of the message, or of the update.
    id: MessageId,
    created_at: Timestamp,
    expires_at: Option<Timestamp>,
}

impl ComparedEntry {
    /// The entry of an event; `None` if the event is about the chat or its members.
    fn of(event: &Event) -> Option<Self> {
        match &event.body {
            EventBody::MessagePersisted { message, .. } => Some(message.into()),
            EventBody::MessageUpdated { update, .. } => Some(update.into()),
            EventBody::MembershipChanged { .. }
            | EventBody::ChatCreated { .. }
            | EventBody::ChatRenamed { .. }
            | EventBody::MessageTtlChanged { .. }
            | EventBody::MessagesExpired { .. } => None,
        }
    }

    /// The entries of a page, ascending.
    fn of_page(page: &Page) -> Vec<Self> {
        let mut entries: Vec<Self> = page.messages.iter().map(Self::from).collect();
        entries.extend(page.updates.iter().map(Self::from));
        entries.sort_by_key(|entry| entry.sequence);
        entries
    }

    fn finding(&self) -> ReconcileFinding {
        ReconcileFinding { chat_id: self.chat_id, sequence: self.sequence, message_id: self.id }
    }
}

impl From<&Message> for ComparedEntry {
    fn from(message: &Message) -> Self {
        let Message { chat_id, sequence, message_id: id, created_at, expires_at, .. } = *message;
        Self { chat_id, sequence, id, created_at, expires_at }
    }
}

impl From<&MessageUpdate> for ComparedEntry {
    fn from(update: &MessageUpdate) -> Self {
        let MessageUpdate { chat_id, sequence, update_id: id, created_at, expires_at, .. } = *update;
        Self { chat_id, sequence, id, created_at, expires_at }
    }
}

/// An event that waits for comparison.
#[derive(Clone, Copy)]
struct UncomparedEvent {
    message_id: MessageId,
    expires_at: Option<Timestamp>,
}

impl<'a> Comparison<'a> {
    pub(super) fn new(messages: &'a dyn MessageReader, clock: &'a dyn Clock, scope: Scope, since: Timestamp) -> Self {
        let mut pace = interval(Duration::from_secs(1) / scope.rate.max(1));
        pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let report = Report { since, ..Report::default() };
        Self {
            messages,
            clock,
            scope,
            since,
            chats: HashMap::new(),
            waiting: HashMap::new(),
            waiting_len: 0,
            missing: BTreeSet::new(),
            pace,
            report,
        }
    }

    /// Whether the limit of findings is reached.
    pub(super) fn is_full(&self) -> bool {
        self.report.findings() + self.missing.len() >= self.scope.limit
    }

    /// Takes the next event of the log.
    pub(super) async fn take(&mut self, event: &Event) -> Result<(), StoreError> {
        let Some(entry) = ComparedEntry::of(event) else { return Ok(()) };
        let out_of_scope = self.scope.chat_id.is_some_and(|chat_id| chat_id != entry.chat_id);
        if out_of_scope || entry.created_at < self.since {
            return Ok(());
        }
        if self.chats.len() >= CHATS_MAX && !self.chats.contains_key(&entry.chat_id) {
            self.report.uncovered_events += 1;
            return Ok(());
        }
        self.add_event(&entry);
        if self.waiting_len >= WAITING_MAX {
            self.compare_waiting().await?;
        }
        Ok(())
    }

    /// Records the position of an entry's event in the order of its chat.
    fn add_event(&mut self, entry: &ComparedEntry) {
        let ComparedEntry { chat_id, sequence, id: message_id, expires_at, .. } = *entry;
        let finding = entry.finding();
        let progress = self.chats.entry(chat_id).or_insert(ChatProgress { last: Sequence::ZERO, compared: None });
        let waiting = self.waiting.entry(chat_id).or_default();
        match waiting.get(&sequence) {
            Some(known) if known.message_id == message_id => return self.report.repeated += 1,
            // Two entries cannot have one sequence.
            Some(_) => return self.report.orphaned.push(finding),
            None => {}
        }
        if progress.compared.is_some_and(|compared| sequence <= compared) {
            match self.missing.remove(&finding) {
                true => self.report.late.push(finding),
                false => return self.report.repeated += 1,
            }
        } else {
            if sequence < progress.last {
                self.report.late.push(finding);
            }
            progress.last = progress.last.max(sequence);
            waiting.insert(sequence, UncomparedEvent { message_id, expires_at });
            self.waiting_len += 1;
        }
        self.report.events += 1;
    }

    /// Compares the waiting events with the store.
    async fn compare_waiting(&mut self) -> Result<(), StoreError> {
        self.waiting_len = 0;
        for (chat_id, events) in mem::take(&mut self.waiting) {
            let (Some((&first, _)), Some((&last, _))) = (events.first_key_value(), events.last_key_value()) else {
                continue;
            };
            let from = match self.chats.get(&chat_id).and_then(|progress| progress.compared) {
                Some(compared) => compared,
                None => {
                    self.compare_below(chat_id, first, Timestamp::MAX).await?;
                    Sequence(first.0.saturating_sub(1))
                }
            };
            let compared = self.compare_run(chat_id, from, last, events).await?;
            self.chats.insert(chat_id, ChatProgress { last: compared, compared: Some(compared) });
        }
        Ok(())
    }

    /// Compares the events of a chat with its messages in a range of sequences. Returns the sequence up to which it
    /// compared, which is never above the head of the chat, even if an event has a higher sequence.
    async fn compare_run(
        &mut self,
        chat_id: ChatId,
        from: Sequence,
        to: Sequence,
        mut events: BTreeMap<Sequence, UncomparedEvent>,
    ) -> Result<Sequence, StoreError> {
        let mut examined = from;
        while examined < to {
            if self.is_full() {
                return Ok(examined);
            }
            let page = self.page(chat_id, examined).await?;
            for entry in ComparedEntry::of_page(&page).iter().filter(|entry| entry.sequence <= to) {
                self.report.messages += 1;
                match events.remove(&entry.sequence) {
                    Some(event) if event.message_id == entry.id => {}
                    Some(event) => {
                        self.report.orphaned.push(ReconcileFinding { message_id: event.message_id, ..entry.finding() });
                    }
                    None => self.miss(entry),
                }
            }
            if page.examined <= examined {
                break;
            }
            examined = page.examined;
        }
        let now = self.clock.now();
        for (sequence, event) in events {
            // Expired messages are rightly absent from the store (G11).
            if event.expires_at.is_none_or(|expires_at| expires_at > now) {
                self.report.orphaned.push(ReconcileFinding { chat_id, sequence, message_id: event.message_id });
            }
        }
        Ok(examined.min(to))
    }

    /// Records the messages of a chat below a sequence as missing, if they are within the compared time and not younger
    /// than `settled`. Updates below it are not compared: no read lists them backwards.
    async fn compare_below(&mut self, chat_id: ChatId, below: Sequence, settled: Timestamp) -> Result<(), StoreError> {
        let mut below = below;
        while below > Sequence(1) && !self.is_full() {
            self.pace.tick().await;
            let messages = self.messages.before(chat_id, below, PAGE.count, self.clock.now()).await?;
            for message in &messages {
                if message.created_at < self.since {
                    return Ok(());
                }
                self.report.messages += 1;
                if message.created_at <= settled {
                    self.miss(&message.into());
                }
            }
            match messages.last() {
                Some(oldest) => below = oldest.sequence,
                None => return Ok(()),
            }
        }
        Ok(())
    }

    /// Compares the rest after the log was read: the waiting events, and the messages above the last event of each
    /// chat. Messages younger than `settled` do not count as missing yet.
    pub(super) async fn finish(mut self, settled: Timestamp) -> Result<Report, StoreError> {
        self.compare_waiting().await?;
        let unread = self.scope.chat_id.into_iter().chain(self.report.overdue.clone());
        let unread: HashSet<ChatId> = unread.filter(|chat_id| !self.chats.contains_key(chat_id)).collect();
        self.report.chats = (self.chats.len() + unread.len()) as u64;
        for chat_id in unread {
            self.compare_below(chat_id, Sequence(u64::MAX), settled).await?;
        }
        let read: Vec<ChatId> = self.chats.keys().copied().collect();
        for chats in read.chunks(HEADS) {
            self.pace.tick().await;
            let heads = self.messages.heads(chats).await?;
            for (chat_id, head) in chats.iter().zip(heads) {
                let last = self.chats.get(chat_id).and_then(|progress| progress.compared).unwrap_or_default();
                // A chat without a head row is examined as well: its messages may exist.
                if head.is_none_or(|head| head.sequence > last) && !self.is_full() {
                    self.compare_above(*chat_id, last, settled).await?;
                }
            }
        }
        self.report.stopped_at_limit = self.is_full();
        self.report.missing = self.missing.into_iter().collect();
        Ok(self.report)
    }

    async fn compare_above(&mut self, chat_id: ChatId, last: Sequence, settled: Timestamp) -> Result<(), StoreError> {
        let mut examined = last;
        loop {
            let page = self.page(chat_id, examined).await?;
            for entry in &ComparedEntry::of_page(&page) {
                if entry.created_at > settled {
                    return Ok(());
                }
                self.report.messages += 1;
                self.miss(entry);
            }
            if page.examined <= examined || page.examined >= page.head || self.is_full() {
                return Ok(());
            }
            examined = page.examined;
        }
    }

    async fn page(&mut self, chat_id: ChatId, after: Sequence) -> Result<Page, StoreError> {
        self.pace.tick().await;
        self.messages.after(chat_id, after, PAGE, self.clock.now()).await
    }

    fn miss(&mut self, entry: &ComparedEntry) {
        if entry.created_at >= self.since {
            self.missing.insert(entry.finding());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use domain::{Body, ContentType, UpdateAction, UserId};
    use memory::MemoryStore;
    use ports::{ChatWriter, Ids, MessageWriter, NewEntry, NewGroup, NewMessage, NewUpdate, RandomIds, SystemClock};
    use uuid::Uuid;

    use super::*;

    const EVERYTHING: Scope = Scope { chat_id: None, since: None, limit: 1000, rate: 100_000 };

    /// A chat with messages of these ages in minutes, and their events.
    async fn chat(store: &MemoryStore, minutes: &[u64]) -> (ChatId, Vec<Event>) {
        let (chat_id, sender_id): (ChatId, UserId) = (RandomIds.ulid().into(), RandomIds.ulid().into());
        let name = "group".to_owned().try_into().unwrap();
        let created_at = SystemClock.now();
        store
            .create_group(NewGroup { chat_id, name, created_by: sender_id, members: vec![], created_at })
            .await
            .unwrap();
        let send = |minutes: &u64| NewMessage {
            chat_id,
            sender_id,
            client_message_id: Uuid::new_v4().into(),
            message_id: RandomIds.ulid().into(),
            body: Body::new("hello".to_owned().try_into().unwrap(), ContentType::Text),
            ttl: None,
            ttl_max: None,
            created_at: created_at.minus(Duration::from_secs(60 * minutes)),
            origin_connection_id: None,
        };
        let sends: Vec<_> = minutes.iter().map(send).collect();
        store.append(sends.clone()).await.unwrap();
        let event =
            |(send, sequence): (NewMessage, u64)| Event::message_persisted(send.at(Sequence(sequence), None), None);
        (chat_id, sends.into_iter().zip(1..).map(event).collect())
    }

    fn new_store() -> MemoryStore {
        MemoryStore::new(Arc::new(RandomIds))
    }

    fn since_an_hour(store: &MemoryStore, scope: Scope) -> Comparison<'_> {
        Comparison::new(store, &SystemClock, scope, SystemClock.now().minus(Duration::from_secs(3600)))
    }

    /// The report on events in this order, with messages older than a minute counted as settled.
    async fn compare(store: &MemoryStore, events: &[Event]) -> Report {
        let mut comparison = since_an_hour(store, EVERYTHING);
        for event in events {
            comparison.take(event).await.unwrap();
        }
        comparison.finish(SystemClock.now().minus(Duration::from_secs(60))).await.unwrap()
    }

    fn sequences(findings: &[ReconcileFinding]) -> Vec<u64> {
        findings.iter().map(|finding| finding.sequence.0).collect()
    }

    fn pick(events: &[Event], sequences: &[usize]) -> Vec<Event> {
        sequences.iter().map(|sequence| events[sequence - 1].clone()).collect()
    }

    #[tokio::test]
    async fn a_store_and_a_log_that_agree_have_no_findings() {
        let store = new_store();
        let (_, events) = chat(&store, &[9, 8, 7]).await;
        let report = compare(&store, &events).await;
        assert!(!report.has_findings(), "{report:?}");
        assert_eq!((report.chats, report.events, report.messages, report.repeated), (1, 3, 3, 0));
    }

    #[tokio::test]
    async fn updates_are_compared_like_messages() {
        let store = new_store();
        let (chat_id, mut events) = chat(&store, &[9]).await;
        let EventBody::MessagePersisted { message, .. } = events[0].body.clone() else { panic!("a message was sent") };
        let update = |minutes: u64| NewUpdate {
            chat_id,
            user_id: message.sender_id,
            client_message_id: Uuid::new_v4().into(),
            update_id: RandomIds.ulid().into(),
            target: Sequence(1),
            action: UpdateAction::React(format!("r{minutes}").parse().unwrap()),
            window: None,
            ttl_max: None,
            created_at: SystemClock.now().minus(Duration::from_secs(60 * minutes)),
        };
        let updates = [update(8), update(7), update(6)];
        store.commit(updates.clone().map(NewEntry::Update).to_vec()).await.unwrap();
        let event = |(update, sequence): (NewUpdate, u64)| {
            Event::message_updated(update.at(Sequence(sequence), &message), Some(message.clone()))
        };
        events.extend(updates.into_iter().zip(2..).map(event));

        let report = compare(&store, &events).await;
        assert!(!report.has_findings(), "{report:?}");
        assert_eq!((report.events, report.messages), (4, 4));
        assert_eq!(sequences(&compare(&store, &pick(&events, &[1, 3])).await.missing), [2, 4]);
        let mut strange = events[2].clone();
        if let EventBody::MessageUpdated { update, .. } = &mut strange.body {
            update.update_id = RandomIds.ulid().into();
        }
        let report = compare(&store, &[events[0].clone(), events[1].clone(), strange, events[3].clone()]).await;
        assert_eq!((sequences(&report.orphaned), sequences(&report.missing)), (vec![3], vec![]));
    }

    #[tokio::test]
    async fn messages_before_between_and_after_the_events_are_missing() {
        let store = new_store();
        let (_, events) = chat(&store, &[90, 9, 8, 7, 6, 5]).await;
        let report = compare(&store, &pick(&events, &[3, 5])).await;
        // The first one is older than the compared time.
        assert_eq!(sequences(&report.missing), [2, 4, 6]);
        assert_eq!((sequences(&report.orphaned), sequences(&report.late)), (vec![], vec![]));
    }

    #[tokio::test]
    async fn a_young_message_may_be_on_its_way() {
        let store = new_store();
        let (_, events) = chat(&store, &[9, 8, 0]).await;
        assert!(!compare(&store, &pick(&events, &[1, 2])).await.has_findings());
    }

    #[tokio::test]
    async fn an_event_after_a_later_one_is_late_and_a_repeated_one_is_not() {
        let store = new_store();
        let (_, events) = chat(&store, &[9, 8, 7]).await;
        let report = compare(&store, &pick(&events, &[1, 3, 2, 3, 1])).await;
        assert_eq!((sequences(&report.missing), sequences(&report.late)), (vec![], vec![2]));
        assert_eq!((report.events, report.repeated), (3, 2));
    }

    #[tokio::test]
    async fn a_missing_event_that_arrives_after_its_comparison_is_late() {
        let store = new_store();
        let (_, events) = chat(&store, &[9, 8, 7]).await;
        let mut comparison = since_an_hour(&store, EVERYTHING);
        for event in pick(&events, &[2, 3]) {
            comparison.take(&event).await.unwrap();
        }
        comparison.compare_waiting().await.unwrap();
        assert_eq!(comparison.missing.len(), 1);
        for event in pick(&events, &[1, 3]) {
            comparison.take(&event).await.unwrap();
        }
        let report = comparison.finish(SystemClock.now()).await.unwrap();
        assert_eq!((sequences(&report.missing), sequences(&report.late)), (vec![], vec![1]));
        assert_eq!((report.events, report.repeated), (3, 1));
    }

    #[tokio::test]
    async fn an_event_without_its_message_is_orphaned_and_hides_nothing() {
        let store = new_store();
        let (_, events) = chat(&store, &[9, 8, 7]).await;
        let mut strange = events[0].clone();
        if let EventBody::MessagePersisted { message, .. } = &mut strange.body {
            message.sequence = Sequence(u64::MAX);
        }
        let mut comparison = since_an_hour(&store, EVERYTHING);
        comparison.take(&events[0]).await.unwrap();
        comparison.take(&strange).await.unwrap();
        comparison.compare_waiting().await.unwrap();
        let report = comparison.finish(SystemClock.now()).await.unwrap();
        assert_eq!((sequences(&report.orphaned), sequences(&report.missing)), (vec![u64::MAX], vec![2, 3]));
    }

    #[tokio::test]
    async fn an_event_of_another_message_at_the_same_sequence_is_orphaned() {
        let store = new_store();
        let (_, events) = chat(&store, &[9]).await;
        let mut other = events[0].clone();
        if let EventBody::MessagePersisted { message, .. } = &mut other.body {
            message.message_id = RandomIds.ulid().into();
        }
        for events in [vec![other.clone()], vec![events[0].clone(), other]] {
            let report = compare(&store, &events).await;
            assert_eq!((sequences(&report.orphaned), sequences(&report.missing)), (vec![1], vec![]), "{events:?}");
        }
    }

    #[tokio::test]
    async fn it_stops_at_the_limit_and_says_so() {
        let store = new_store();
        let (chat_id, _) = chat(&store, &[9; 500]).await;
        let scope = Scope { chat_id: Some(chat_id), limit: 3, ..EVERYTHING };
        let report = since_an_hour(&store, scope).finish(SystemClock.now()).await.unwrap();
        assert!(report.stopped_at_limit);
        assert!(report.missing.len() < 500, "{}", report.missing.len());
    }
}
