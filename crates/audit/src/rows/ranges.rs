use std::collections::BTreeMap;

use domain::{ChatId, Sequence};

/// A set of sequences of chats, stored as ranges, because missing sequences are mostly consecutive.
#[derive(Debug, Default)]
pub(crate) struct Ranges {
    /// The last sequence of each range, by chat and first sequence.
    ranges: BTreeMap<(ChatId, u64), u64>,
}

impl Ranges {
    /// Adds the sequences from `first` to `last`. None of them may be in the set.
    pub(crate) fn insert(&mut self, chat_id: ChatId, first: Sequence, last: Sequence) {
        let follows = first.0.checked_sub(1).and_then(|before| {
            let (key, end) = self.ranges.range_mut(..=(chat_id, before)).next_back()?;
            (key.0 == chat_id && *end == before).then_some(end)
        });
        match follows {
            Some(end) => *end = last.0,
            None => drop(self.ranges.insert((chat_id, first.0), last.0)),
        }
    }

    /// Removes a sequence. Returns whether it was in the set.
    pub(crate) fn remove(&mut self, chat_id: ChatId, sequence: Sequence) -> bool {
        let Some((key, last)) = self.ranges.range(..=(chat_id, sequence.0)).next_back() else { return false };
        let (key, last) = (*key, *last);
        if key.0 != chat_id || last < sequence.0 {
            return false;
        }
        self.ranges.remove(&key);
        if key.1 < sequence.0 {
            self.ranges.insert(key, sequence.0 - 1);
        }
        if sequence.0 < last {
            self.ranges.insert((chat_id, sequence.0 + 1), last);
        }
        true
    }

    /// Number of ranges.
    pub(crate) fn len(&self) -> usize {
        self.ranges.len()
    }

    /// Removes and returns the first range.
    pub(crate) fn pop(&mut self) -> Option<(ChatId, Sequence, Sequence)> {
        self.ranges.pop_first().map(|((chat_id, first), last)| (chat_id, Sequence(first), Sequence(last)))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn chat(n: u8) -> ChatId {
        ChatId::from_bytes([n; 16])
    }

    proptest! {
        #[test]
        fn ranges_equal_a_set(steps in proptest::collection::vec((0u8..3, 0u64..12, any::<bool>()), 0..80)) {
            let (mut ranges, mut set) = (Ranges::default(), BTreeSet::new());
            for (of, n, is_added) in steps {
                if !is_added {
                    prop_assert_eq!(ranges.remove(chat(of), Sequence(n)), set.remove(&(of, n)));
                } else if set.insert((of, n)) {
                    ranges.insert(chat(of), Sequence(n), Sequence(n));
                }
            }
            prop_assert!(ranges.len() <= set.len());
            let mut held = BTreeSet::new();
            while let Some((chat_id, first, last)) = ranges.pop() {
                held.extend((first.0..=last.0).map(|n| (chat_id.to_bytes()[0], n)));
            }
            prop_assert_eq!(held, set);
        }
    }

    #[test]
    fn a_range_of_all_sequences_takes_no_more_than_one_of_few() {
        let mut ranges = Ranges::default();
        ranges.insert(chat(1), Sequence(1), Sequence(u64::MAX));
        assert!(ranges.remove(chat(1), Sequence(7)));
        assert_eq!(ranges.len(), 2);
        assert_eq!(ranges.pop(), Some((chat(1), Sequence(1), Sequence(6))));
        assert_eq!(ranges.pop(), Some((chat(1), Sequence(8), Sequence(u64::MAX))));
    }
}
