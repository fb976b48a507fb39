use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use domain::{ChatId, Event};
use ports::Recipients;
use tracing::Span;

/// An event with the recipients it is pushed to.
pub(crate) struct QueuedEvent {
    pub(crate) event: Arc<Event>,
    pub(crate) recipients: Arc<Recipients>,
    /// Span of the event's processing.
    pub(crate) span: Span,
}

/// Queue of events of large chats.
#[derive(Default)]
pub(crate) struct Backlog {
    events: VecDeque<QueuedEvent>,
    /// Number of queued events of each chat.
    chats: HashMap<ChatId, usize>,
}

impl Backlog {
    pub(crate) fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// Whether events of this chat are queued. Later events of the chat must not overtake them.
    pub(crate) fn has(&self, chat_id: ChatId) -> bool {
        self.chats.contains_key(&chat_id)
    }

    pub(crate) fn push(&mut self, prepared: QueuedEvent) {
        *self.chats.entry(prepared.event.body.chat_id()).or_default() += 1;
        self.events.push_back(prepared);
    }

    pub(crate) fn pop(&mut self) -> Option<QueuedEvent> {
        let prepared = self.events.pop_front()?;
        let chat_id = prepared.event.body.chat_id();
        if let Some(count) = self.chats.get_mut(&chat_id) {
            *count -= 1;
            if *count == 0 {
                self.chats.remove(&chat_id);
            }
        }
        Some(prepared)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use domain::{EventBody, EventId, Timestamp};

    use super::*;

    fn event(chat: u128) -> QueuedEvent {
        let chat_id = ChatId::from_bytes(chat.to_be_bytes());
        let body = EventBody::MessagesExpired { chat_id, sequences: vec![] };
        let event = Event {
            event_id: EventId::from_bytes([0; 16]),
            event_time: Timestamp::from_millis(0),
            event_number: None,
            body,
        };
        let recipients = Recipients { members: Arc::new([]), gateways: BTreeMap::new(), connections: BTreeMap::new() };
        QueuedEvent { event: Arc::new(event), recipients: Arc::new(recipients), span: Span::none() }
    }

    #[test]
    fn a_chat_waits_until_its_last_event_is_served() {
        let chats = [1, 2, 1].map(|chat: u128| ChatId::from_bytes(chat.to_be_bytes()));
        let mut backlog = Backlog::default();
        for chat in [1, 2, 1] {
            backlog.push(event(chat));
        }
        for expected in [[true, true], [true, false], [false, false]] {
            backlog.pop();
            assert_eq!([backlog.has(chats[0]), backlog.has(chats[1])], expected);
        }
        assert!(backlog.pop().is_none());
    }
}
