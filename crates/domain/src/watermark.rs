use crate::{Sequence, Timestamp};

/// The delivered and read positions of one user in one chat. Both only grow, and read never exceeds delivered (G10).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Watermarks {
    pub delivered: Sequence,
    pub read: Sequence,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatermarkKind {
    Delivered,
    Read,
}

/// The outcome of a request to advance a watermark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advance {
    Moved(Watermarks),
    /// The watermark is already at or above the value: a late or repeated request.
    Unchanged(Watermarks),
    /// The value is above the head sequence of the chat.
    AboveHead(Sequence),
    NotAMember,
    ChatNotFound,
}

impl Watermarks {
    /// Both watermarks at the same sequence, as for a new member at the current head.
    pub fn at(sequence: Sequence) -> Self {
        Self { delivered: sequence, read: sequence }
    }

    /// Advances one watermark to `to`, bounded by the chat's `head`.
    pub fn advance(self, kind: WatermarkKind, to: Sequence, head: Sequence) -> Advance {
        if to > head {
            return Advance::AboveHead(head);
        }
        let moved = match kind {
            WatermarkKind::Delivered => Self { delivered: self.delivered.max(to), ..self },
            WatermarkKind::Read => Self { delivered: self.delivered.max(to), read: self.read.max(to) },
        };
        if moved == self { Advance::Unchanged(self) } else { Advance::Moved(moved) }
    }
}

/// The stored receipts of a member in a chat: both watermarks, and when each of them reached its sequence.
///
/// A time is unknown until its watermark moves for the first time. Times never go back, even if the clocks of processes
/// differ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeliveryState {
    pub watermarks: Watermarks,
    pub delivered_at: Option<Timestamp>,
    pub read_at: Option<Timestamp>,
}

impl DeliveryState {
    /// The state after the watermarks have moved to `to` at a time.
    pub fn moved(self, to: Watermarks, at: Timestamp) -> Self {
        let time = |before: Option<Timestamp>, has_moved| if has_moved { before.max(Some(at)) } else { before };
        Self {
            watermarks: to,
            delivered_at: time(self.delivered_at, to.delivered > self.watermarks.delivered),
            read_at: time(self.read_at, to.read > self.watermarks.read),
        }
    }
}

impl From<Watermarks> for DeliveryState {
    /// Watermarks that have not moved yet.
    fn from(watermarks: Watermarks) -> Self {
        Self { watermarks, ..Self::default() }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn marks(delivered: u64, read: u64) -> Watermarks {
        Watermarks { delivered: Sequence(delivered), read: Sequence(read) }
    }

    #[test]
    fn read_implies_delivered() {
        let moved = marks(3, 2).advance(WatermarkKind::Read, Sequence(7), Sequence(9));
        assert_eq!(moved, Advance::Moved(marks(7, 7)));
    }

    #[test]
    fn a_watermark_above_the_head_is_refused_with_the_head() {
        let refused = marks(3, 2).advance(WatermarkKind::Delivered, Sequence(10), Sequence(9));
        assert_eq!(refused, Advance::AboveHead(Sequence(9)));
    }

    #[test]
    fn each_watermark_has_the_time_of_its_own_last_move() {
        let [first, second, third] = [10, 20, 30].map(Timestamp::from_millis);
        let joined = DeliveryState::from(marks(3, 3));
        assert_eq!((joined.delivered_at, joined.read_at), (None, None));
        let delivered = joined.moved(marks(5, 3), first);
        assert_eq!((delivered.delivered_at, delivered.read_at), (Some(first), None));
        let read = delivered.moved(marks(5, 5), second);
        assert_eq!((read.delivered_at, read.read_at), (Some(first), Some(second)));
        // Reading a message that was not delivered before moves both.
        let both = read.moved(marks(7, 7), third);
        assert_eq!((both.watermarks, both.delivered_at, both.read_at), (marks(7, 7), Some(third), Some(third)));
    }

    #[test]
    fn a_slow_clock_takes_no_time_back() {
        let moved = DeliveryState::default().moved(marks(1, 1), Timestamp::from_millis(20));
        let later = moved.moved(marks(2, 2), Timestamp::from_millis(10));
        assert_eq!(later, DeliveryState { watermarks: marks(2, 2), ..moved });
    }

    proptest! {
        #[test]
        fn watermarks_only_grow_and_stay_in_order(steps in proptest::collection::vec((any::<bool>(), 0u64..20), 0..40)) {
            let head = Sequence(15);
            let mut now = Watermarks::default();
            for (read, to) in steps {
                let kind = if read { WatermarkKind::Read } else { WatermarkKind::Delivered };
                match now.advance(kind, Sequence(to), head) {
                    Advance::Moved(next) => {
                        prop_assert!(next.delivered >= now.delivered && next.read >= now.read && next != now);
                        now = next;
                    }
                    Advance::Unchanged(same) => prop_assert_eq!(same, now),
                    Advance::AboveHead(_) => prop_assert!(Sequence(to) > head),
                    other => prop_assert!(false, "{:?}", other),
                }
                prop_assert!(now.read <= now.delivered && now.delivered <= head);
            }
        }
    }
}
