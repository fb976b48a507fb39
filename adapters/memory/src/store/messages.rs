use std::ops::Bound;

use async_trait::async_trait;
use domain::{ChatId, Event, Message, MessageId, Sequence, Timestamp};
use ports::{
    AppendOutcome, Head, MessageReader, MessageWriter, NewMessage, Page, PageBounds, Receipt, SendRefusal, StoreError,
    UnreadCount, UnreadQuery, UnreadTally,
};

use super::{ChatState, MemoryStore, MemoryStoreState};

/// The record of a send: its receipt, and the fingerprint to recognize a retry.
#[derive(Clone)]
pub(super) struct CommittedSend {
    pub(super) receipt: Receipt,
    pub(super) fingerprint: [u8; 16],
}

#[async_trait]
impl MessageWriter for MemoryStore {
    async fn append(&self, batch: Vec<NewMessage>) -> Result<Vec<AppendOutcome>, StoreError> {
        Ok(self.transaction(|state| batch.into_iter().map(|send| state.append(send)).collect()))
    }
}

impl MemoryStoreState {
    fn append(&mut self, send: NewMessage) -> AppendOutcome {
        if self.restrictions.get(&send.sender_id).is_some_and(|restrictions| restrictions.suspension.is_some()) {
            return AppendOutcome::Refused(SendRefusal::Suspended);
        }
        let Some(chat) = self.chats.get(&send.chat_id) else {
            return AppendOutcome::Refused(SendRefusal::ChatNotFound);
        };
        if !chat.members.contains_key(&send.sender_id) {
            return AppendOutcome::Refused(SendRefusal::NotAMember);
        }
        let key = (send.sender_id, send.client_message_id);
        if let Some(committed) = chat.sends.get(&key) {
            return committed.outcome_of_retry(&send);
        }
        if let Some(refusal) = self.block_between(chat, send.sender_id) {
            return AppendOutcome::Refused(refusal);
        }
        let Some(head) = &chat.head else {
            return AppendOutcome::Refused(SendRefusal::CounterMissing);
        };

        let sequence = head.sequence.next();
        AppendOutcome::New(self.write_message(send, sequence))
    }

    /// Writes a message at a sequence, with its dependent rows. The head only grows.
    pub(super) fn write_message(&mut self, send: NewMessage, sequence: Sequence) -> Receipt {
        let chat = self.chats.get_mut(&send.chat_id).expect("the caller has checked that the chat exists");
        let head = chat.head.clone().unwrap_or_default();
        let key = (send.sender_id, send.client_message_id);
        let message = send.clone().at(sequence, head.message_ttl);
        let receipt =
            Receipt { message_id: message.message_id, sequence: message.sequence, created_at: message.created_at };
        if sequence > head.sequence {
            chat.head = Some(Head::at(&message, head.message_ttl));
        }
        chat.messages.insert(message.sequence, message.clone());
        chat.sends.insert(key, CommittedSend { receipt, fingerprint: send.fingerprint() });
        self.places.insert(message.message_id, (message.chat_id, message.sequence));
        self.record_event(Event::message_persisted(message, send.origin_connection_id));
        receipt
    }
}

impl CommittedSend {
    fn outcome_of_retry(&self, retry: &NewMessage) -> AppendOutcome {
        let same = self.fingerprint == retry.fingerprint();
        if same { AppendOutcome::Duplicate(self.receipt) } else { AppendOutcome::Refused(SendRefusal::KeyReused) }
    }
}

#[async_trait]
impl MessageReader for MemoryStore {
    async fn head(&self, chat_id: ChatId) -> Result<Option<Head>, StoreError> {
        Ok(self.transaction(|state| state.chats.get(&chat_id)?.head.clone()))
    }

    async fn heads(&self, chat_ids: &[ChatId]) -> Result<Vec<Option<Head>>, StoreError> {
        let head = |state: &MemoryStoreState, chat_id| state.chats.get(chat_id)?.head.clone();
        Ok(self.transaction(|state| chat_ids.iter().map(|chat_id| head(state, chat_id)).collect()))
    }

    async fn after(
        &self,
        chat_id: ChatId,
        after: Sequence,
        bounds: PageBounds,
        now: Timestamp,
    ) -> Result<Page, StoreError> {
        Ok(self.transaction(|state| match state.chats.get(&chat_id) {
            Some(chat) => chat.page_after(after, bounds, now),
            None => Page { messages: vec![], examined: Sequence::ZERO, head: Sequence::ZERO },
        }))
    }

    async fn before(
        &self,
        chat_id: ChatId,
        before: Sequence,
        count: usize,
        now: Timestamp,
    ) -> Result<Vec<Message>, StoreError> {
        Ok(self.transaction(|state| {
            let chat = state.chats.get(&chat_id);
            let below = chat.into_iter().flat_map(|chat| chat.messages.range(..before).rev());
            below.map(|(_, message)| message).filter(|message| !message.is_expired(now)).take(count).cloned().collect()
        }))
    }

    async fn unread(&self, of: &[UnreadQuery], now: Timestamp) -> Result<Vec<UnreadCount>, StoreError> {
        let unread =
            |state: &MemoryStoreState, query: &UnreadQuery| Some(state.chats.get(&query.chat_id)?.unread(query, now));
        Ok(self.transaction(|state| of.iter().map(|query| unread(state, query).unwrap_or(UnreadCount::NONE)).collect()))
    }

    async fn by_id(&self, message_id: MessageId, now: Timestamp) -> Result<Option<Message>, StoreError> {
        Ok(self.transaction(|state| {
            let (chat_id, sequence) = state.places.get(&message_id)?;
            let message = state.chats.get(chat_id)?.messages.get(sequence)?;
            (!message.is_expired(now)).then(|| message.clone())
        }))
    }
}

impl ChatState {
    fn page_after(&self, after: Sequence, bounds: PageBounds, now: Timestamp) -> Page {
        let head = self.head_sequence();
        let (mut messages, mut bytes, mut examined) = (vec![], 0, after);
        let rows = self.messages.range((Bound::Excluded(after), Bound::Unbounded));
        for (count, (sequence, message)) in rows.enumerate() {
            let expired = message.is_expired(now);
            let len = if expired { 0 } else { message.body.size() };
            if count == bounds.count || (count > 0 && bytes + len > bounds.bytes) {
                return Page { messages, examined, head };
            }
            bytes += len;
            examined = *sequence;
            if !expired {
                messages.push(message.clone());
            }
        }
        Page { messages, examined: head, head }
    }

    fn unread(&self, query: &UnreadQuery, now: Timestamp) -> UnreadCount {
        let mut tally = UnreadTally::default();
        let above = self.messages.range((Bound::Excluded(query.read), Bound::Unbounded));
        let mut newest_first = above.rev().map(|(_, message)| message);
        let early = newest_first.find_map(|message| {
            let is_unread = message.sender_id != query.reader && !message.is_expired(now);
            tally.row(is_unread)
        });
        early.unwrap_or_else(|| tally.finish())
    }
}
