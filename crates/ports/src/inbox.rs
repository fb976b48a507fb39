use std::cmp::Reverse;
use std::collections::BinaryHeap;

use domain::limits::INBOX_NEWER_MAX;
use domain::{ChatId, Timestamp};

use crate::Head;

/// The position of a chat in an inbox: last activity, newest first, then id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct InboxPosition {
    /// The time of the last message, or of the creation of an empty chat.
    pub activity: Reverse<Timestamp>,
    /// The chat.
    pub chat_id: ChatId,
}

impl InboxPosition {
    /// The position of a chat with this last activity.
    pub fn new(activity: Timestamp, chat_id: ChatId) -> Self {
        Self { activity: Reverse(activity), chat_id }
    }
}

impl Head {
    /// The last activity of a chat that was created at `created_at`.
    pub fn activity(&self, created_at: Timestamp) -> Timestamp {
        self.last_message.as_ref().map_or(created_at, |last| last.created_at)
    }
}

/// The start of a page of an inbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InboxStart {
    /// The newest chats.
    First,
    /// The chats after the last one of the page before.
    After {
        /// The newest activity at the time of the first page.
        newest: Timestamp,
        /// The last position of the page before.
        last: InboxPosition,
    },
}

/// The positions of one page of an inbox.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InboxSelection {
    /// The first positions after the start, in order. Chats with activity after `newest` are not among them.
    pub positions: Vec<InboxPosition>,
    /// Chats with activity after `newest`: they had another position in the first page. There are up to
    /// `INBOX_NEWER_MAX + 1` of them; one more than the maximum says that there are too many.
    pub newer: Vec<ChatId>,
}

/// Selects a page from all chats of an inbox, in any order, in memory of the size of the page.
#[derive(Debug)]
pub struct InboxSelector {
    start: InboxStart,
    count: usize,
    /// The smallest positions so far; the largest of them is on top.
    smallest: BinaryHeap<InboxPosition>,
    newer: Vec<ChatId>,
}

impl InboxSelector {
    /// Selects up to `count` positions after `start`.
    pub fn new(start: InboxStart, count: usize) -> Self {
        Self { start, count, smallest: BinaryHeap::with_capacity(count + 1), newer: vec![] }
    }

    /// Adds a chat of the inbox.
    pub fn add(&mut self, activity: Timestamp, chat_id: ChatId) {
        let position = InboxPosition::new(activity, chat_id);
        if let InboxStart::After { newest, last } = self.start {
            if activity > newest {
                if self.newer.len() <= INBOX_NEWER_MAX {
                    self.newer.push(chat_id);
                }
                return;
            }
            if position <= last {
                return;
            }
        }
        self.smallest.push(position);
        if self.smallest.len() > self.count {
            self.smallest.pop();
        }
    }

    /// The page of all added chats.
    pub fn finish(self) -> InboxSelection {
        InboxSelection { positions: self.smallest.into_sorted_vec(), newer: self.newer }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chat(n: u8) -> ChatId {
        ChatId::from_bytes([n; 16])
    }

    #[test]
    fn a_page_has_the_newest_chats_after_its_start() {
        let at = |n: u8| Timestamp::from_millis(1000 + u64::from(n / 2));
        let page = |start, count| {
            let mut selector = InboxSelector::new(start, count);
            [3, 0, 4, 1, 2, 5].into_iter().for_each(|n| selector.add(at(n), chat(n)));
            let InboxSelection { positions, newer } = selector.finish();
            (positions.iter().map(|position| position.chat_id).collect::<Vec<_>>(), newer)
        };
        assert_eq!(page(InboxStart::First, 3), (vec![chat(4), chat(5), chat(2)], vec![]));
        let after =
            |newest, last| InboxStart::After { newest: at(newest), last: InboxPosition::new(at(last), chat(last)) };
        assert_eq!(page(after(5, 2), 10), (vec![chat(3), chat(0), chat(1)], vec![]));
        assert_eq!(page(after(3, 2), 1), (vec![chat(3)], vec![chat(4), chat(5)]));
    }

    #[test]
    fn chats_with_newer_activity_are_bounded() {
        let start = InboxStart::After {
            newest: Timestamp::from_millis(1),
            last: InboxPosition::new(Timestamp::from_millis(1), chat(0)),
        };
        let mut selector = InboxSelector::new(start, 10);
        (0..=255).for_each(|n| selector.add(Timestamp::from_millis(2), chat(n)));
        assert_eq!(selector.finish().newer.len(), INBOX_NEWER_MAX + 1);
    }
}
