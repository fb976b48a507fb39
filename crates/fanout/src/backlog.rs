use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use domain::{ChatId, Event, UserId};
use tokio::time::Instant;
use tracing::Span;

/// Events that wait at the most. Beyond them nothing more is read.
const EVENTS_MAX: usize = 1024;
/// How long the place in the log is not kept for those that wait. Then they are all served first: a crash repeats no more
/// than this.
const PLACE_KEPT_WITHIN: Duration = Duration::from_secs(10);

/// An event and who is to hear of it.
pub(crate) struct Prepared {
    pub(crate) event: Arc<Event>,
    pub(crate) members: Arc<[UserId]>,
    /// What is done for it.
    pub(crate) span: Span,
}

/// Events of large chats that wait for their turn, in their order.
#[derive(Default)]
pub(crate) struct Backlog {
    events: VecDeque<Prepared>,
    /// How many events of each chat there are.
    chats: HashMap<ChatId, usize>,
    /// Since when there were always some.
    since: Option<Instant>,
}

impl Backlog {
    pub(crate) fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    pub(crate) fn has_room(&self) -> bool {
        self.events.len() < EVENTS_MAX && self.since.is_none_or(|since| since.elapsed() < PLACE_KEPT_WITHIN)
    }

    /// Whether an event of this chat waits, which the next ones of the chat must not overtake.
    pub(crate) fn has(&self, chat_id: ChatId) -> bool {
        self.chats.contains_key(&chat_id)
    }

    pub(crate) fn push(&mut self, prepared: Prepared) {
        self.since.get_or_insert_with(Instant::now);
        *self.chats.entry(prepared.event.body.chat_id()).or_default() += 1;
        self.events.push_back(prepared);
    }

    pub(crate) fn pop(&mut self) -> Option<Prepared> {
        let prepared = self.events.pop_front()?;
        let chat_id = prepared.event.body.chat_id();
        if let Some(count) = self.chats.get_mut(&chat_id) {
            *count -= 1;
            if *count == 0 {
                self.chats.remove(&chat_id);
            }
        }
        if self.events.is_empty() {
            self.since = None;
        }
        Some(prepared)
    }
}

#[cfg(test)]
mod tests {
    use domain::{EventBody, EventId, Timestamp};

    use super::*;

    fn event(chat: u128) -> Prepared {
        let chat_id = ChatId::from_bytes(chat.to_be_bytes());
        let body = EventBody::MessagesExpired { chat_id, sequences: vec![] };
        let event = Event { event_id: EventId::from_bytes([0; 16]), event_time: Timestamp::from_millis(0), body };
        Prepared { event: Arc::new(event), members: Arc::new([]), span: Span::none() }
    }

    #[tokio::test(start_paused = true)]
    async fn it_is_read_no_further_when_too_many_wait_or_any_for_too_long() {
        let mut backlog = Backlog::default();
        for _ in 1..EVENTS_MAX {
            backlog.push(event(1));
        }
        assert!(backlog.has_room());
        backlog.push(event(1));
        assert!(!backlog.has_room());
        backlog.pop();
        assert!(backlog.has_room());

        tokio::time::advance(PLACE_KEPT_WITHIN).await;
        while !backlog.is_empty() {
            assert!(!backlog.has_room(), "others may have come and gone, but there were always some");
            backlog.pop();
        }
        backlog.push(event(1));
        assert!(backlog.has_room());
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
