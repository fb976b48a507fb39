use std::collections::BTreeMap;

use domain::{ChatId, Sequence};

use crate::frame::{MessageBody, MessageUpdated, SyncResponse};

/// An entry of a chat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum FeedEntry {
    Message(MessageBody<'static>),
    Update(MessageUpdated<'static>),
}

impl FeedEntry {
    pub(super) fn chat_id(&self) -> ChatId {
        match self {
            Self::Message(message) => message.chat_id,
            Self::Update(updated) => updated.update.chat_id,
        }
    }

    pub(super) fn sequence(&self) -> Sequence {
        match self {
            Self::Message(message) => message.sequence,
            Self::Update(updated) => updated.update.sequence,
        }
    }

    /// The entries of a sync page, ascending. Each update gets its message from the page.
    pub(super) fn of_page(page: SyncResponse<'static>) -> Vec<Self> {
        let SyncResponse { messages, updates, updated_messages, .. } = page;
        let mut entries: Vec<Self> = Vec::with_capacity(messages.len() + updates.len());
        for update in updates {
            let all = messages.iter().chain(&updated_messages);
            let message = all.clone().find(|message| message.sequence == update.target_sequence).cloned();
            entries.push(Self::Update(MessageUpdated { update, message }));
        }
        entries.extend(messages.into_iter().map(Self::Message));
        entries.sort_by_key(Self::sequence);
        entries
    }
}

/// Puts the entries of one chat in order: each sequence once, without a gap (G7).
///
/// The watermark is the sequence up to which nothing is missing. It advances only over the next entry and over ranges
/// that a sync has proven empty. An entry above a gap is buffered. If the buffer is full the entry is dropped,
/// because the sync that fills the gap returns it too.
#[derive(Debug)]
pub(super) struct Feed {
    watermark: Sequence,
    highest_seen: Sequence,
    early: BTreeMap<Sequence, FeedEntry>,
}

impl Feed {
    /// Most buffered entries above a gap.
    const EARLY_MAX: usize = 256;

    pub(super) fn new(watermark: Sequence) -> Self {
        Self { watermark, highest_seen: watermark, early: BTreeMap::new() }
    }

    pub(super) fn watermark(&self) -> Sequence {
        self.watermark
    }

    /// Takes an entry and returns it if it is the next one. [`next_early`](Self::next_early) may then have more.
    pub(super) fn offer(&mut self, entry: FeedEntry) -> Option<FeedEntry> {
        let sequence = entry.sequence();
        self.highest_seen = self.highest_seen.max(sequence);
        if self.is_next(sequence) {
            self.watermark = sequence;
            return Some(entry);
        }
        if sequence > self.watermark && self.early.len() < Self::EARLY_MAX {
            self.early.insert(sequence, entry);
        }
        None
    }

    /// The next buffered entry, if it follows the watermark.
    pub(super) fn next_early(&mut self) -> Option<FeedEntry> {
        let entry = self.early.first_entry()?;
        let sequence = *entry.key();
        if sequence.0 - 1 != self.watermark.0 {
            return None;
        }
        self.watermark = sequence;
        Some(entry.remove())
    }

    /// Takes an entry of a sync page, and returns it if it is new. A page is complete, so there is no entry between
    /// the watermark and the next entry of the page.
    pub(super) fn offer_from_page(&mut self, entry: FeedEntry) -> Option<FeedEntry> {
        if entry.sequence() <= self.watermark {
            return None;
        }
        self.prove_empty(Sequence(entry.sequence().0 - 1));
        self.offer(entry)
    }

    /// Advances the watermark over a range that a sync has shown to hold no more entries.
    pub(super) fn prove_empty(&mut self, up_to: Sequence) {
        if up_to > self.watermark {
            self.watermark = up_to;
            self.early.retain(|sequence, _| *sequence > up_to);
        }
    }

    /// Whether an entry above the watermark is known to be missing.
    pub(super) fn has_hole(&self) -> bool {
        self.highest_seen > self.watermark
    }

    fn is_next(&self, sequence: Sequence) -> bool {
        sequence.0.checked_sub(1) == Some(self.watermark.0)
    }
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use domain::{ChatId, ContentType, MessageId, Timestamp, UserId};

    use super::*;
    use crate::frame::{UpdateBody, UpdateName};

    fn body(sequence: u64) -> MessageBody<'static> {
        MessageBody {
            message_id: MessageId::from_bytes([1; 16]),
            chat_id: ChatId::from_bytes([2; 16]),
            sequence: Sequence(sequence),
            sender_id: UserId::from_bytes([3; 16]),
            content: Cow::Borrowed("hi"),
            content_type: ContentType::Text,
            metadata: None,
            created_at: Timestamp::default(),
            expires_at: None,
            client_message_id: None,
            state: None,
        }
    }

    fn message(sequence: u64) -> FeedEntry {
        FeedEntry::Message(body(sequence))
    }

    fn update(sequence: u64, target: u64) -> UpdateBody {
        UpdateBody {
            chat_id: ChatId::from_bytes([2; 16]),
            sequence: Sequence(sequence),
            target_sequence: Sequence(target),
            user_id: UserId::from_bytes([3; 16]),
            kind: UpdateName::Edited,
            reaction: None,
            created_at: Timestamp::default(),
            client_message_id: None,
        }
    }

    /// Offers pushes in this order and tells which sequences come out.
    fn push(feed: &mut Feed, sequences: impl IntoIterator<Item = u64>) -> Vec<u64> {
        let mut out = Vec::new();
        for sequence in sequences {
            let next = feed.offer(message(sequence));
            out.extend(
                next.into_iter().chain(std::iter::from_fn(|| feed.next_early())).map(|entry| entry.sequence().0),
            );
        }
        out
    }

    #[test]
    fn pushes_come_out_in_order_and_once() {
        let mut feed = Feed::new(Sequence(4));
        assert_eq!(push(&mut feed, [7, 5, 5, 7, 3, 6, 6, 9]), [5, 6, 7]);
        assert_eq!(feed.watermark(), Sequence(7));
        assert!(feed.has_hole(), "8 is missing");
        assert_eq!(push(&mut feed, [8]), [8, 9]);
        assert!(!feed.has_hole());
    }

    #[test]
    fn a_page_moves_the_watermark_over_expired_messages() {
        let mut feed = Feed::new(Sequence(0));
        assert_eq!(push(&mut feed, [3, 9]), [0; 0]);
        let page: Vec<u64> = [2, 5]
            .into_iter()
            .filter_map(|n| feed.offer_from_page(message(n)))
            .map(|entry| entry.sequence().0)
            .collect();
        assert_eq!(page, [2, 5], "3 has expired since its push");
        feed.prove_empty(Sequence(8));
        assert_eq!(feed.next_early().map(|entry| entry.sequence()), Some(Sequence(9)));
        assert_eq!(feed.offer_from_page(message(9)), None, "it came before");
    }

    #[test]
    fn a_page_is_one_list_in_which_each_update_has_its_message() {
        let page = SyncResponse {
            chat_id: ChatId::from_bytes([2; 16]),
            messages: vec![body(6), body(3)],
            updates: vec![update(7, 1), update(4, 3), update(5, 2), update(8, 1)],
            updated_messages: vec![body(1)],
            has_more: false,
            next_sequence: None,
            head_sequence: Sequence(8),
        };
        let entries: Vec<String> = FeedEntry::of_page(page)
            .into_iter()
            .map(|entry| match entry {
                FeedEntry::Message(message) => format!("{}", message.sequence),
                FeedEntry::Update(MessageUpdated { update, message }) => {
                    let message = message.map_or("none".to_owned(), |message| message.sequence.to_string());
                    format!("{} of {message}", update.sequence)
                }
            })
            .collect();
        assert_eq!(entries, ["3", "4 of 3", "5 of none", "6", "7 of 1", "8 of 1"], "2 was deleted");
    }

    #[test]
    fn messages_beyond_the_buffer_leave_a_hole_to_sync() {
        let mut feed = Feed::new(Sequence(0));
        assert_eq!(push(&mut feed, 2..1000), [0; 0]);
        assert_eq!(push(&mut feed, [1]).len(), 1 + Feed::EARLY_MAX);
        assert!(feed.has_hole(), "the dropped ones are not forgotten");
    }

    #[test]
    fn the_ends_of_the_range_do_not_overflow() {
        let mut feed = Feed::new(Sequence(0));
        assert_eq!(push(&mut feed, [u64::MAX, 0, 1]), [1]);
        feed.prove_empty(Sequence(u64::MAX));
        assert_eq!(push(&mut feed, [u64::MAX, 0]), [0; 0]);
    }
}
