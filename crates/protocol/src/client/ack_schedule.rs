use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use domain::ChatId;

/// When the acks of one connection are due, by chat.
///
/// An ack waits until its chat has been quiet for [`QUIET`](Self::QUIET), so that a sender sees the delivery soon, and one
/// ack covers a burst. It waits at most [`LONGEST`](Self::LONGEST), also in a chat that is never quiet.
#[derive(Debug, Default)]
pub(super) struct AckSchedule {
    pending: BTreeMap<ChatId, PendingAck>,
}

#[derive(Debug)]
struct PendingAck {
    due_at: Instant,
    /// `due_at` is never moved beyond it.
    latest: Instant,
}

impl AckSchedule {
    /// Quiet time of a chat before its ack.
    pub(super) const QUIET: Duration = Duration::from_millis(200);
    /// Longest delay of an ack.
    pub(super) const LONGEST: Duration = Duration::from_secs(5);

    /// Schedules the ack of a chat in which a message was just stored.
    pub(super) fn stored(&mut self, now: Instant, chat_id: ChatId) {
        let latest = self.pending.get(&chat_id).map_or(now + Self::LONGEST, |pending| pending.latest);
        self.pending.insert(chat_id, PendingAck { due_at: latest.min(now + Self::QUIET), latest });
    }

    /// Schedules the ack of a range without messages, unless the chat has an ack already.
    pub(super) fn proven(&mut self, now: Instant, chat_id: ChatId) {
        let pending = PendingAck { due_at: now + Self::QUIET, latest: now + Self::LONGEST };
        self.pending.entry(chat_id).or_insert(pending);
    }

    /// Schedules an ack that repeats one of the last connection, which has probably arrived: it can wait.
    pub(super) fn repeat(&mut self, now: Instant, chat_id: ChatId) {
        let latest = now + Self::LONGEST;
        self.pending.entry(chat_id).or_insert(PendingAck { due_at: latest, latest });
    }

    /// Removes the ack of a chat, because it was sent or the chat is gone.
    pub(super) fn remove(&mut self, chat_id: ChatId) {
        self.pending.remove(&chat_id);
    }

    /// Removes and returns the chats whose acks are due.
    pub(super) fn take_due(&mut self, now: Instant) -> Vec<ChatId> {
        self.pending.extract_if(.., |_, pending| now >= pending.due_at).map(|(chat_id, _)| chat_id).collect()
    }

    /// When the next ack is due.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.pending.values().map(|pending| pending.due_at).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn two_chats() -> [ChatId; 2] {
        [ChatId::from_bytes([1; 16]), ChatId::from_bytes([2; 16])]
    }

    fn millis(count: u64) -> Duration {
        Duration::from_millis(count)
    }

    #[test]
    fn an_ack_is_due_when_its_chat_is_quiet_whatever_other_chats_do() {
        let (start, mut acks, [a, b]) = (Instant::now(), AckSchedule::default(), two_chats());
        acks.stored(start, a);
        acks.stored(start + millis(150), b);
        assert_eq!(acks.next_due(), Some(start + AckSchedule::QUIET));
        acks.stored(start + millis(180), b);
        assert_eq!(acks.take_due(start + millis(200)), [a]);
        assert_eq!(acks.next_due(), Some(start + millis(380)));
        assert_eq!(acks.take_due(start + millis(379)), []);
        assert_eq!(acks.take_due(start + millis(380)), [b]);
        assert_eq!(acks.next_due(), None);
    }

    #[test]
    fn a_chat_that_is_never_quiet_is_acked_after_the_longest_delay() {
        let (start, mut acks, [a, _]) = (Instant::now(), AckSchedule::default(), two_chats());
        for at in (0..5000).step_by(100) {
            acks.stored(start + millis(at), a);
            assert_eq!(acks.take_due(start + millis(at)), []);
        }
        assert_eq!(acks.next_due(), Some(start + AckSchedule::LONGEST));
    }

    #[test]
    fn a_repeated_ack_waits_unless_a_message_follows() {
        let (start, mut acks, [a, b]) = (Instant::now(), AckSchedule::default(), two_chats());
        acks.repeat(start, a);
        acks.repeat(start, b);
        assert_eq!(acks.next_due(), Some(start + AckSchedule::LONGEST));
        acks.proven(start, a);
        assert_eq!(acks.next_due(), Some(start + AckSchedule::LONGEST), "a proven range does not hurry it");
        acks.stored(start, a);
        acks.repeat(start, a);
        assert_eq!(acks.take_due(start + AckSchedule::QUIET), [a]);
        acks.remove(b);
        assert_eq!(acks.next_due(), None);
    }
}
