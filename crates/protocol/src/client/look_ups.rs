use std::collections::BTreeMap;
use std::time::Instant;

use domain::{ChatId, Sequence};

use super::backoff::{Random, pause};

/// Chats that were mentioned by the server but are not tracked yet. Each has at most one look-up in flight, which is
/// retried with backoff.
#[derive(Debug, Default)]
pub(super) struct LookUps {
    chats: BTreeMap<ChatId, LookUp>,
}

#[derive(Debug)]
struct LookUp {
    /// The lowest sequence that was pushed while the chat was not tracked.
    heard: Sequence,
    failures: u32,
    /// Time of the retry; absent while the look-up is in flight.
    again_at: Option<Instant>,
}

impl LookUps {
    /// Records that the chat has to be looked up, and returns whether that is new.
    pub(super) fn begin(&mut self, chat_id: ChatId, heard: Sequence) -> bool {
        let mut is_new = false;
        let look_up = self.chats.entry(chat_id).or_insert_with(|| {
            is_new = true;
            LookUp { heard, failures: 0, again_at: None }
        });
        look_up.heard = look_up.heard.min(heard);
        is_new
    }

    /// Ends the look-up of a chat. Returns the lowest sequence that was pushed for it, if it was being looked up.
    pub(super) fn end(&mut self, chat_id: ChatId) -> Option<Sequence> {
        self.chats.remove(&chat_id).map(|look_up| look_up.heard)
    }

    /// Schedules a retry after a failed look-up.
    pub(super) fn postpone(&mut self, now: Instant, chat_id: ChatId, random: &mut Random) {
        if let Some(look_up) = self.chats.get_mut(&chat_id) {
            look_up.failures = look_up.failures.saturating_add(1);
            look_up.again_at = Some(now + pause(look_up.failures, random));
        }
    }

    /// A chat with a due retry; its look-up counts as in flight again.
    pub(super) fn next_due(&mut self, now: Instant) -> Option<ChatId> {
        let due = |look_up: &LookUp| look_up.again_at.is_some_and(|at| at <= now);
        let (chat_id, look_up) = self.chats.iter_mut().find(|(_, look_up)| due(look_up))?;
        look_up.again_at = None;
        Some(*chat_id)
    }

    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        self.chats.values().filter_map(|look_up| look_up.again_at).min()
    }
}
