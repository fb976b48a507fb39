use std::collections::BTreeMap;
use std::time::Instant;

use domain::{ChatId, Sequence};

use super::backoff::{Random, pause};

/// Chats that are heard of but not yet tracked: each is asked about once at a time, again after a pause if that fails.
#[derive(Debug, Default)]
pub(super) struct LookUps {
    chats: BTreeMap<ChatId, LookUp>,
}

#[derive(Debug)]
struct LookUp {
    /// The lowest sequence that was pushed while the chat was unknown.
    heard: Sequence,
    failures: u32,
    /// Absent while the question is under way.
    again_at: Option<Instant>,
}

impl LookUps {
    /// Notes that the chat is to be looked up, and tells whether the question is new.
    pub(super) fn begin(&mut self, chat_id: ChatId, heard: Sequence) -> bool {
        let mut is_new = false;
        let look_up = self.chats.entry(chat_id).or_insert_with(|| {
            is_new = true;
            LookUp { heard, failures: 0, again_at: None }
        });
        look_up.heard = look_up.heard.min(heard);
        is_new
    }

    /// The chat is known now. Returns the lowest sequence that was heard of it, if somebody wanted to know.
    pub(super) fn end(&mut self, chat_id: ChatId) -> Option<Sequence> {
        self.chats.remove(&chat_id).map(|look_up| look_up.heard)
    }

    /// The chat could not be looked up this time.
    pub(super) fn postpone(&mut self, now: Instant, chat_id: ChatId, random: &mut Random) {
        if let Some(look_up) = self.chats.get_mut(&chat_id) {
            look_up.failures = look_up.failures.saturating_add(1);
            look_up.again_at = Some(now + pause(look_up.failures, random));
        }
    }

    /// A chat whose pause is over; the question is under way again.
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
