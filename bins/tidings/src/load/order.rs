use std::collections::BTreeSet;
use std::ops::AddAssign;

use serde::Serialize;

/// What must be zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Integrity {
    /// Acknowledged messages that a member neither was pushed nor can sync.
    pub(super) lost: u64,
    /// Messages that came twice.
    pub(super) doubled: u64,
    /// Messages that came in another order than their sequences, or were acknowledged with another sequence.
    pub(super) reordered: u64,
}

impl Integrity {
    pub(super) fn is_sound(&self) -> bool {
        *self == Self::default()
    }
}

impl AddAssign for Integrity {
    fn add_assign(&mut self, other: Self) {
        self.lost += other.lost;
        self.doubled += other.doubled;
        self.reordered += other.reordered;
    }
}

/// Checks the sequences that one connection sees of one chat. One's own messages count when they are acknowledged.
#[derive(Debug)]
pub(super) struct Order {
    next: u64,
    missing: BTreeSet<u64>,
    own: BTreeSet<u64>,
    integrity: Integrity,
}

impl Order {
    /// Nothing up to `head` is expected.
    pub(super) fn after(head: u64) -> Self {
        Self { next: head + 1, missing: BTreeSet::new(), own: BTreeSet::new(), integrity: Integrity::default() }
    }

    /// A message was pushed.
    pub(super) fn pushed(&mut self, sequence: u64) {
        if sequence >= self.next {
            self.missing.extend(self.next..sequence);
            self.next = sequence + 1;
            // What one sent oneself fills its place, whenever its ack comes.
            self.missing.retain(|sequence| !self.own.remove(sequence));
            self.pass_own();
        } else if self.missing.remove(&sequence) {
            self.integrity.reordered += 1;
        } else {
            self.integrity.doubled += 1;
        }
    }

    /// An own message was acknowledged; it is not pushed to the connection that sent it.
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

    /// A sync has shown a message, which fills a hole if there is one.
    pub(super) fn synced(&mut self, sequence: u64) {
        if sequence >= self.next {
            self.missing.extend(self.next..sequence);
            self.next = sequence + 1;
        }
        self.missing.remove(&sequence);
    }

    /// The last sequence before the first one that is missing.
    pub(super) fn contiguous(&self) -> u64 {
        self.missing.first().copied().unwrap_or(self.next) - 1
    }

    /// Whether everything up to `head` has been seen.
    pub(super) fn is_complete(&self, head: u64) -> bool {
        self.contiguous() >= head
    }

    /// The verdict, if the chat's head is `head`.
    pub(super) fn finish(self, head: u64) -> Integrity {
        let unseen = (head + 1).saturating_sub(self.next).saturating_sub(self.own.len() as u64);
        Integrity { lost: self.integrity.lost + self.missing.len() as u64 + unseen, ..self.integrity }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(pushed: &[u64], acked: &[u64], head: u64) -> (u64, u64, u64) {
        let mut order = Order::after(10);
        acked.iter().for_each(|sequence| order.acked(*sequence));
        pushed.iter().for_each(|sequence| order.pushed(*sequence));
        let Integrity { lost, doubled, reordered } = order.finish(head);
        (lost, doubled, reordered)
    }

    #[test]
    fn each_kind_of_damage_is_told_from_the_others() {
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
        let mut order = Order::after(0);
        order.pushed(3);
        assert_eq!(order.contiguous(), 0);
        (1..=4).for_each(|sequence| order.synced(sequence));
        assert!(order.is_complete(4));
        assert_eq!(order.finish(4), Integrity::default());
    }
}
