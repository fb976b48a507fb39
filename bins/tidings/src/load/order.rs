use std::collections::BTreeSet;
use std::ops::AddAssign;

use serde::Serialize;

/// Integrity violations; all counts must be zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct IntegrityViolations {
    /// Acknowledged messages that a member neither received by push nor finds in a sync.
    pub(super) lost: u64,
    /// Messages received twice.
    pub(super) doubled: u64,
    /// Messages received out of sequence order, or acknowledged with another sequence.
    pub(super) reordered: u64,
}

impl IntegrityViolations {
    pub(super) fn is_sound(&self) -> bool {
        *self == Self::default()
    }
}

impl AddAssign for IntegrityViolations {
    fn add_assign(&mut self, other: Self) {
        self.lost += other.lost;
        self.doubled += other.doubled;
        self.reordered += other.reordered;
    }
}

/// Checks the sequences that one connection sees of one chat. Own messages count when they are acknowledged.
#[derive(Debug)]
pub(super) struct SequenceChecker {
    next: u64,
    missing: BTreeSet<u64>,
    own: BTreeSet<u64>,
    integrity: IntegrityViolations,
}

impl SequenceChecker {
    /// Nothing up to `head` is expected.
    pub(super) fn after(head: u64) -> Self {
        Self {
            next: head + 1,
            missing: BTreeSet::new(),
            own: BTreeSet::new(),
            integrity: IntegrityViolations::default(),
        }
    }

    /// Records a pushed message.
    pub(super) fn pushed(&mut self, sequence: u64) {
        if sequence >= self.next {
            self.missing.extend(self.next..sequence);
            self.next = sequence + 1;
            // Own messages are not pushed, so an ack fills their gap, whenever it arrives.
            self.missing.retain(|sequence| !self.own.remove(sequence));
            self.pass_own();
        } else if self.missing.remove(&sequence) {
            self.integrity.reordered += 1;
        } else {
            self.integrity.doubled += 1;
        }
    }

    /// Records the ack of an own message, which is not pushed to the sending connection.
    pub(super) fn acked(&mut self, sequence: u64) {
        if sequence >= self.next {
            self.own.insert(sequence);
            self.pass_own();
        } else if !self.missing.remove(&sequence) {
            self.integrity.doubled += 1;
        }
    }

    fn pass_own(&mut self) {
        while self.own.remove(&self.next) {
            self.next += 1;
        }
    }

    /// Records a message from a sync, which may fill a gap.
    pub(super) fn synced(&mut self, sequence: u64) {
        if sequence >= self.next {
            self.missing.extend(self.next..sequence);
            self.next = sequence + 1;
        }
        self.missing.remove(&sequence);
    }

    /// The last sequence before the first gap.
    pub(super) fn contiguous(&self) -> u64 {
        self.missing.first().copied().unwrap_or(self.next) - 1
    }

    /// Whether everything up to `head` was received.
    pub(super) fn is_complete(&self, head: u64) -> bool {
        self.contiguous() >= head
    }

    /// The violations, given the head of the chat.
    pub(super) fn finish(self, head: u64) -> IntegrityViolations {
        let unseen = (head + 1).saturating_sub(self.next).saturating_sub(self.own.len() as u64);
        IntegrityViolations { lost: self.integrity.lost + self.missing.len() as u64 + unseen, ..self.integrity }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(pushed: &[u64], acked: &[u64], head: u64) -> (u64, u64, u64) {
        let mut order = SequenceChecker::after(10);
        acked.iter().for_each(|sequence| order.acked(*sequence));
        pushed.iter().for_each(|sequence| order.pushed(*sequence));
        let IntegrityViolations { lost, doubled, reordered } = order.finish(head);
        (lost, doubled, reordered)
    }

    #[test]
    fn losses_duplicates_and_reorderings_are_distinguished() {
        assert_eq!(verdict(&[11, 12, 13], &[], 13), (0, 0, 0));
        assert_eq!(verdict(&[11, 13], &[], 13), (1, 0, 0));
        assert_eq!(verdict(&[11], &[], 13), (2, 0, 0), "the end is missing");
        assert_eq!(verdict(&[11, 12, 12], &[], 12), (0, 1, 0));
        assert_eq!(verdict(&[11, 13, 12], &[], 13), (0, 0, 1));
        assert_eq!(verdict(&[11, 10], &[], 11), (0, 1, 0));
    }

    #[test]
    fn own_messages_fill_their_places() {
        assert_eq!(verdict(&[11, 13], &[12, 14], 14), (0, 0, 0));
        assert_eq!(verdict(&[11, 12], &[12], 12), (0, 1, 0), "a push of one's own is one too many");
    }

    #[test]
    fn a_sync_fills_holes() {
        let mut order = SequenceChecker::after(0);
        order.pushed(3);
        assert_eq!(order.contiguous(), 0);
        (1..=4).for_each(|sequence| order.synced(sequence));
        assert!(order.is_complete(4));
        assert_eq!(order.finish(4), IntegrityViolations::default());
    }
}
