use std::time::Instant;

use domain::ChatId;

/// Most chats in which one connection types at a time. A `typing_start` beyond them is ignored.
const TYPING_MAX: usize = 8;

/// The chats in which the user of one connection is typing.
///
/// Only a chat with an accepted `typing_start` is stopped, and only once. The limit of starts therefore bounds stops too,
/// and no stop is refused: a refused one would leave the user shown as typing.
#[derive(Debug, Default)]
pub(crate) struct TypingChats(Vec<TypingChat>);

#[derive(Debug)]
struct TypingChat {
    chat_id: ChatId,
    until: Instant,
    /// Starts without an outcome.
    in_flight: usize,
    is_shown: bool,
}

impl TypingChats {
    /// Takes a start, and returns whether to execute it.
    pub(crate) fn start(&mut self, chat_id: ChatId, until: Instant) -> bool {
        if let Some(chat) = self.find(chat_id) {
            (chat.until, chat.in_flight) = (until, chat.in_flight + 1);
            return true;
        }
        let has_room = self.0.len() < TYPING_MAX;
        if has_room {
            self.0.push(TypingChat { chat_id, until, in_flight: 1, is_shown: false });
        }
        has_room
    }

    /// Takes the outcome of a start. A chat without an accepted start is not stopped.
    pub(crate) fn handle_outcome(&mut self, chat_id: ChatId, is_accepted: bool) {
        let Some(chat) = self.find(chat_id) else { return };
        chat.in_flight = chat.in_flight.saturating_sub(1);
        chat.is_shown |= is_accepted;
        if chat.in_flight == 0 && !chat.is_shown {
            self.stop(chat_id);
        }
    }

    /// Ends typing in a chat, and returns whether there was any.
    pub(crate) fn stop(&mut self, chat_id: ChatId) -> bool {
        let before = self.0.len();
        self.0.retain(|chat| chat.chat_id != chat_id);
        self.0.len() < before
    }

    /// The next chat in which typing ends automatically.
    pub(crate) fn poll(&mut self, now: Instant) -> Option<ChatId> {
        let index = self.0.iter().position(|chat| now >= chat.until)?;
        Some(self.0.remove(index).chat_id)
    }

    /// When the next call of [`poll`](Self::poll) is due, if nothing happens before.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        self.0.iter().map(|chat| chat.until).min()
    }

    /// Ends typing in every chat.
    pub(crate) fn finish(&mut self) -> impl Iterator<Item = ChatId> + use<> {
        std::mem::take(&mut self.0).into_iter().map(|chat| chat.chat_id)
    }

    fn find(&mut self, chat_id: ChatId) -> Option<&mut TypingChat> {
        self.0.iter_mut().find(|chat| chat.chat_id == chat_id)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn chat(n: u8) -> ChatId {
        ChatId::from_bytes([n; 16])
    }

    #[test]
    fn only_accepted_starts_are_stopped_and_once() {
        let until = Instant::now();
        let mut typing = TypingChats::default();
        assert!(!typing.stop(chat(1)), "there was no start");
        assert!(typing.start(chat(1), until));
        typing.handle_outcome(chat(1), false);
        assert!(!typing.stop(chat(1)), "the start was refused");
        assert!(typing.start(chat(1), until));
        assert!(typing.start(chat(1), until));
        typing.handle_outcome(chat(1), false);
        typing.handle_outcome(chat(1), true);
        assert!(typing.start(chat(1), until));
        typing.handle_outcome(chat(1), false);
        assert_eq!((typing.stop(chat(1)), typing.stop(chat(1))), (true, false), "one of the starts was accepted");
    }

    #[test]
    fn a_connection_types_in_eight_chats_at_a_time() {
        let start = Instant::now();
        let mut typing = TypingChats::default();
        let until = |n: u8| start + Duration::from_secs(n.into());
        assert_eq!((0..20).filter(|n| typing.start(chat(*n), until(*n))).count(), TYPING_MAX);
        assert_eq!((typing.poll_timeout(), typing.poll(start), typing.poll(start)), (Some(start), Some(chat(0)), None));
        assert!(typing.start(chat(19), until(19)), "one has ended");
        assert_eq!(typing.finish().count(), TYPING_MAX);
        assert_eq!(typing.poll_timeout(), None);
    }
}
