use std::collections::BTreeSet;
use std::ops::Bound;

use async_trait::async_trait;
use domain::limits::MESSAGE_FIELDS_BYTES;
use domain::{
    ChatId, Event, EventNumber, Message, MessageId, MessageUpdate, Reaction, Sequence, Timestamp, UpdateRefusal,
    UserId, apply_update,
};
use ports::{
    AppendOutcome, Head, MemberReactions, MessageKey, MessageReader, MessageWriter, Moved, NewEntry, NewMessage,
    NewUpdate, Page, PageBounds, Receipt, SendRefusal, StoreError, UnreadCount, UnreadQuery, UnreadTally,
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
    async fn commit(&self, batch: Vec<NewEntry>) -> Result<Vec<AppendOutcome>, StoreError> {
        let commit = |state: &mut MemoryStoreState, entry| state.commit(entry).unwrap_or_else(AppendOutcome::Refused);
        Ok(self.transaction(|state| batch.into_iter().map(|entry| commit(state, entry)).collect()))
    }
}

impl MemoryStoreState {
    fn commit(&mut self, entry: NewEntry) -> Result<AppendOutcome, SendRefusal> {
        let sender_id = entry.sender_id();
        if self.restrictions.get(&sender_id).is_some_and(|restrictions| restrictions.suspension.is_some()) {
            return Err(SendRefusal::Suspended);
        }
        let chat = self.chats.get(&entry.chat_id()).ok_or(SendRefusal::ChatNotFound)?;
        if !chat.members.contains_key(&sender_id) {
            return Err(SendRefusal::NotAMember);
        }
        if let Some(committed) = chat.sends.get(&(sender_id, entry.client_message_id())) {
            return Ok(committed.outcome_of_retry(&entry));
        }
        if let Some(refusal) = self.block_between(chat, sender_id) {
            return Err(refusal);
        }
        let sequence = chat.head.as_ref().ok_or(SendRefusal::CounterMissing)?.sequence.next();
        let receipt = match entry {
            NewEntry::Message(send) => self.write_message(send, sequence),
            NewEntry::Update(update) => self.write_update(update, sequence).map_err(SendRefusal::Update)?,
        };
        Ok(AppendOutcome::New(receipt))
    }

    fn write_update(&mut self, new: NewUpdate, sequence: Sequence) -> Result<Receipt, UpdateRefusal> {
        let chat = self.chats.get_mut(&new.chat_id).expect("the caller has checked that the chat exists");
        let head = chat.head.clone().unwrap_or_default();
        let message = chat.apply(&new, sequence)?;
        let update = new.at(sequence, &message);
        let receipt = Receipt { message_id: update.update_id, sequence, created_at: update.created_at };
        let event_number = EventNumber::at(sequence, head.changes);
        chat.head = Some(head.updated(sequence, &message));
        chat.updates.insert(sequence, update.clone());
        let send = CommittedSend { receipt, fingerprint: new.fingerprint() };
        chat.sends.insert((new.user_id, new.client_message_id), send);
        let left = (!message.is_expired(new.created_at)).then_some(message);
        self.record_event(Event::message_updated(update, left).numbered(Some(event_number)));
        Ok(receipt)
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
            chat.head = Some(Head::at(&message, head.message_ttl, head.changes));
        }
        chat.messages.insert(message.sequence, message.clone());
        chat.sends.insert(key, CommittedSend { receipt, fingerprint: send.fingerprint() });
        self.locations.insert(message.message_id, (message.chat_id, message.sequence));
        let event_number = EventNumber::at(sequence, head.changes);
        self.record_event(Event::message_persisted(message, send.origin_connection_id).numbered(Some(event_number)));
        receipt
    }
}

impl CommittedSend {
    fn outcome_of_retry(&self, retry: &NewEntry) -> AppendOutcome {
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
            None => Page::default(),
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
            let (chat_id, sequence) = state.locations.get(&message_id)?;
            let message = state.chats.get(chat_id)?.messages.get(sequence)?;
            (!message.is_expired(now)).then(|| message.clone())
        }))
    }

    async fn own_reactions(&self, messages: &[MessageKey], user_id: UserId) -> Result<Vec<Vec<Reaction>>, StoreError> {
        let own = |state: &MemoryStoreState, message: &MessageKey| {
            state.chats.get(&message.chat_id)?.reactions.get(&(message.sequence, user_id)).cloned()
        };
        Ok(self.transaction(|state| messages.iter().map(|message| own(state, message).unwrap_or_default()).collect()))
    }

    async fn reactions(
        &self,
        message: MessageKey,
        after: Option<UserId>,
        count: usize,
    ) -> Result<Vec<MemberReactions>, StoreError> {
        let MessageKey { chat_id, sequence, .. } = message;
        Ok(self.transaction(|state| {
            let all = state.chats.get(&chat_id).into_iter().flat_map(|chat| &chat.reactions);
            let of_message = all.filter(|((of, user_id), _)| *of == sequence && Some(*user_id) > after);
            let by_member =
                |((_, user_id), own): (&_, &Vec<_>)| MemberReactions { user_id: *user_id, reactions: own.clone() };
            of_message.take(count).map(by_member).collect()
        }))
    }
}

/// An entry of a chat.
pub(super) enum Entry<'a> {
    Message(&'a Message),
    Update(&'a MessageUpdate),
}

impl Entry<'_> {
    pub(super) fn sequence(&self) -> Sequence {
        match self {
            Self::Message(message) => message.sequence,
            Self::Update(update) => update.sequence,
        }
    }

    pub(super) fn is_expired(&self, now: Timestamp) -> bool {
        match self {
            Self::Message(message) => message.is_expired(now),
            Self::Update(update) => update.is_expired(now),
        }
    }
}

impl ChatState {
    /// The entries above a sequence, ascending.
    pub(super) fn entries(&self, after: Sequence) -> impl Iterator<Item = Entry<'_>> {
        let above = (Bound::Excluded(after), Bound::Unbounded);
        let mut messages = self.messages.range(above).map(|(_, message)| message).peekable();
        let mut updates = self.updates.range(above).map(|(_, update)| update).peekable();
        std::iter::from_fn(move || match (messages.peek(), updates.peek()) {
            (Some(message), Some(update)) if message.sequence > update.sequence => updates.next().map(Entry::Update),
            (None, _) => updates.next().map(Entry::Update),
            (Some(_), _) => messages.next().map(Entry::Message),
        })
    }

    /// Applies an update to its message and the reactions of its author, and returns the message.
    fn apply(&mut self, new: &NewUpdate, sequence: Sequence) -> Result<Message, UpdateRefusal> {
        let role = self.members.get(&new.user_id).map_or(domain::Role::Member, |member| member.role);
        let stored = self.messages.get_mut(&new.target).ok_or(UpdateRefusal::MessageNotFound)?;
        let key = (new.target, new.user_id);
        let (mut message, mut own) = (stored.clone(), self.reactions.get(&key).cloned().unwrap_or_default());
        apply_update(&mut message, &mut own, new.action.clone(), new.updater(role, sequence))?;
        *stored = message.clone();
        if own.is_empty() {
            self.reactions.remove(&key);
        } else {
            self.reactions.insert(key, own);
        }
        Ok(message)
    }

    /// The reactions to messages that have not expired.
    pub(super) fn exported_reactions(&self, at: Timestamp) -> impl Iterator<Item = Moved> {
        self.reactions.iter().filter_map(move |((sequence, user_id), reactions)| {
            let message = self.messages.get(sequence).filter(|message| !message.is_expired(at))?;
            let member = MemberReactions { user_id: *user_id, reactions: reactions.clone() };
            Some(Moved::Reactions { message: message.into(), member })
        })
    }

    fn page_after(&self, after: Sequence, bounds: PageBounds, now: Timestamp) -> Page {
        let mut page = Page { examined: after, head: self.head_sequence(), ..Page::default() };
        let (mut bytes, mut updated) = (0, BTreeSet::new());
        for (count, entry) in self.entries(after).enumerate() {
            let alive = !entry.is_expired(now);
            // A message below the page is in it once, however many updates of it follow.
            let other = match &entry {
                Entry::Update(update) if alive && update.target <= after && !updated.contains(&update.target) => {
                    self.messages.get(&update.target).filter(|message| !message.is_expired(now))
                }
                _ => None,
            };
            let len = match &entry {
                Entry::Message(message) if alive => message.json_size(),
                Entry::Update(_) if alive => MESSAGE_FIELDS_BYTES + other.map_or(0, Message::json_size),
                _ => 0,
            };
            if count == bounds.count || (count > 0 && bytes + len > bounds.bytes) {
                return page;
            }
            bytes += len;
            page.examined = entry.sequence();
            match entry {
                Entry::Message(message) if alive => page.messages.push(message.clone()),
                Entry::Update(update) if alive => page.updates.push(update.clone()),
                _ => {}
            }
            if let Some(message) = other {
                updated.insert(message.sequence);
                let at = page.updated.partition_point(|known| known.sequence < message.sequence);
                page.updated.insert(at, message.clone());
            }
        }
        page.examined = page.head;
        page
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
