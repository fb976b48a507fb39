//! The secondary indexes of a fleet's store, which lag behind its tables.
//!
//! They serve only reads whose ports allow it: the search for overdue chats, and messages of the earlier version, which
//! writes no location of a message by its id. Every other read of the store is strong.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use domain::{ChatId, MessageId};
use tokio::time::Instant;

use crate::world::World;

/// What the indexes answer.
#[derive(Default)]
pub(crate) struct Indexes {
    /// The messages without a location, and when each of them is in the index.
    messages: BTreeMap<MessageId, Instant>,
    /// The overdue chats as of the last seconds, oldest first.
    overdue: VecDeque<(Instant, Vec<ChatId>)>,
}

impl World {
    fn drawn_lag(&self) -> Duration {
        match self.plan.index_lag_max {
            Duration::ZERO => Duration::ZERO,
            max => self.streams.index.time(Duration::ZERO, max),
        }
    }

    /// Records a message that is found by its id through an index.
    pub(crate) fn written_without_location(&self, message_id: MessageId) {
        let indexed_at = Instant::now() + self.drawn_lag();
        self.indexes().messages.insert(message_id, indexed_at);
    }

    /// Whether a read by id finds a stored message.
    pub(crate) fn is_located(&self, message_id: MessageId) -> bool {
        let is_forgotten = crate::broken::is_unlocated(self, message_id);
        let indexed_at = self.indexes().messages.get(&message_id).copied();
        !is_forgotten && indexed_at.is_none_or(|at| at <= Instant::now())
    }

    /// Whether an index may not have had a message yet at some time.
    pub(crate) fn lagged(&self, message_id: MessageId, at: Instant) -> bool {
        self.indexes().messages.get(&message_id).is_some_and(|indexed_at| *indexed_at > at)
    }

    /// The overdue chats as the index has them: those of some moment before.
    pub(crate) fn indexed_overdue(&self, overdue: Vec<ChatId>) -> Vec<ChatId> {
        if self.plan.index_lag_max.is_zero() {
            return overdue;
        }
        let now = Instant::now();
        let state_of = now - self.drawn_lag();
        let mut indexes = self.indexes();
        indexes.overdue.push_back((now, overdue));
        while indexes.overdue.front().is_some_and(|(at, _)| *at + self.plan.index_lag_max < now) {
            indexes.overdue.pop_front();
        }
        let known = indexes.overdue.iter().rev().find(|(at, _)| *at <= state_of);
        known.or_else(|| indexes.overdue.front()).map(|(_, chats)| chats.clone()).unwrap_or_default()
    }
}
