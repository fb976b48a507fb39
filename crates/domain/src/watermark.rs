use crate::Sequence;

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
