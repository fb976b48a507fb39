use std::collections::BTreeSet;
use std::sync::Arc;

use domain::limits::RETENTION;
use domain::{ChatId, EventBody, Message, Sequence, Timestamp};

use super::{ChatState, MemoryStore, MemoryStoreState};

impl MemoryStore {
    /// Deletes all rows that have expired by `now`, as the background purge of a disk store does: messages with their
    /// content in the inbox and in the log, sessions, dead letters, resolved
    /// reports and invitations.
    pub fn purge_expired(&self, now: Timestamp) {
        self.transaction(|state| {
            state.purge_messages(now);
            let ended: Vec<_> = state.sessions.values().filter(|session| session.expires_at <= now).cloned().collect();
            for session in ended {
                state.end_session(session.session_id);
            }
            state.dead_letters.retain(|_, letter| now.since(letter.dead_at) < RETENTION);
            state.invitations.retain(|_, invitation| !invitation.is_over(now));
            state.reports.retain(|_, report| !report.is_over(now));
        });
    }
}

impl MemoryStoreState {
    fn purge_messages(&mut self, now: Timestamp) {
        let mut purged: BTreeSet<(ChatId, Sequence)> = BTreeSet::new();
        let mut events = vec![];
        for (chat_id, chat) in &mut self.chats {
            let messages = chat.take_expired(now);
            if messages.is_empty() {
                continue;
            }
            for message in &messages {
                self.locations.remove(&message.message_id);
                purged.insert((*chat_id, message.sequence));
            }
            let sequences = messages.iter().map(|message| message.sequence).collect();
            events.push(EventBody::MessagesExpired { chat_id: *chat_id, sequences });
        }
        self.log.retain(|_, event| match &event.body {
            EventBody::MessagePersisted { message, .. } => !purged.contains(&(message.chat_id, message.sequence)),
            _ => true,
        });
        let updates = self.log.iter().filter(|(_, event)| match &event.body {
            EventBody::MessageUpdated { update, .. } => update.is_expired(now),
            _ => false,
        });
        self.expired_updates.extend(updates.map(|(position, _)| *position));
        for event in self.log.values_mut() {
            if let EventBody::MessageUpdated { update, message: Some(_), .. } = &event.body
                && purged.contains(&(update.chat_id, update.target))
                && let EventBody::MessageUpdated { message, .. } = &mut Arc::make_mut(event).body
            {
                *message = None;
            }
        }
        for event in events {
            self.record(now, event);
        }
    }
}

impl ChatState {
    /// Removes the expired messages, and the copy of their content in the head row. The head row itself stays.
    fn take_expired(&mut self, now: Timestamp) -> Vec<Message> {
        let expired = self.messages.extract_if(.., |_, message| message.is_expired(now));
        let expired: Vec<_> = expired.map(|(_, message)| message).collect();
        let gone: BTreeSet<Sequence> = expired.iter().map(|message| message.sequence).collect();
        let last = self.head.as_mut().and_then(|head| head.last_message.as_mut());
        if let Some(last) = last.filter(|last| gone.contains(&last.sequence)) {
            last.preview = None;
        }
        self.reactions.retain(|(sequence, _), _| !gone.contains(sequence));
        self.updates.retain(|_, update| !update.is_expired(now));
        expired
    }
}
