use std::collections::HashMap;
use std::time::Duration;

use domain::ChatId;
use metrics::counter;
use tokio::time::Instant;

/// Most chats that are counted in one minute. A chat beyond it is counted in the next minute. A hot chat has so many
/// messages that it is usually among the first.
const CHATS_LEN_MAX: usize = 4096;
/// Messages per minute above which a chat is hot (ADR-004 §12).
const MESSAGES_MAX: u32 = 100;
const MINUTE: Duration = Duration::from_secs(60);

/// Detects hot chats.
pub(crate) struct HotChats {
    since: Instant,
    messages: HashMap<ChatId, u32>,
}

impl HotChats {
    pub(crate) fn new(now: Instant) -> Self {
        Self { since: now, messages: HashMap::new() }
    }

    /// Counts messages, and reports the chats that exceed the limit.
    pub(crate) fn count(&mut self, chat_ids: impl Iterator<Item = ChatId>, now: Instant) {
        for chat_id in chat_ids {
            if self.is_over(chat_id, now) {
                counter!("tidings_ingest_hot_chat_minutes_total").increment(1);
            }
        }
    }

    /// Counts a message. Returns `true` when its chat exceeds the limit for the first time in this minute.
    fn is_over(&mut self, chat_id: ChatId, now: Instant) -> bool {
        if now.duration_since(self.since) >= MINUTE {
            self.messages.clear();
            self.since = now;
        }
        if let Some(messages) = self.messages.get_mut(&chat_id) {
            *messages = messages.saturating_add(1);
            return *messages == MESSAGES_MAX + 1;
        }
        if self.messages.len() < CHATS_LEN_MAX {
            self.messages.insert(chat_id, 1);
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How often chats exceed the limit for messages at these times.
    fn times_over(messages: impl IntoIterator<Item = (u16, Duration)>) -> usize {
        let start = Instant::now();
        let mut hot = HotChats::new(start);
        let over = messages.into_iter().filter(|(chat, after)| {
            let mut id = [0; 16];
            id[..2].copy_from_slice(&chat.to_be_bytes());
            hot.is_over(ChatId::from_bytes(id), start + *after)
        });
        over.count()
    }

    fn many(count: usize, chat: u16, after: Duration) -> impl Iterator<Item = (u16, Duration)> {
        std::iter::repeat_n((chat, after), count)
    }

    #[test]
    fn a_chat_over_the_bound_counts_once_a_minute() {
        assert_eq!(times_over(many(100, 1, Duration::ZERO)), 0);
        assert_eq!(times_over(many(101, 1, Duration::ZERO)), 1);
        assert_eq!(times_over(many(500, 1, Duration::ZERO).chain(many(500, 1, MINUTE))), 2);
        assert_eq!(times_over(many(100, 1, Duration::ZERO).chain(many(100, 1, MINUTE))), 0);
    }

    #[test]
    fn memory_is_bounded_and_the_next_minute_has_places_again() {
        let crowd = || (0..CHATS_LEN_MAX as u16).map(|chat| (chat, Duration::ZERO));
        assert_eq!(times_over(crowd().chain(many(200, u16::MAX, Duration::ZERO))), 0);
        assert_eq!(times_over(crowd().chain(many(200, u16::MAX, MINUTE))), 1);
    }
}
