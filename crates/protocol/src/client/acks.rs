use domain::Sequence;

/// The sequences up to which one chat's messages are handed out, stored and acknowledged. A message is stored before it
/// is acknowledged, so a message that the server considers delivered is never lost with this device.
#[derive(Debug)]
pub(super) struct Acks {
    handed_out: Sequence,
    stored: Sequence,
    acked: Sequence,
    /// Whether an ack was sent on the current connection and may be lost with it.
    unconfirmed: bool,
}

impl Acks {
    /// Number of stored messages at which an ack is sent without waiting for its delay.
    const BATCH: u64 = 10;

    /// Messages up to the watermark count as acknowledged.
    pub(super) fn new(watermark: Sequence) -> Self {
        Self { handed_out: watermark, stored: watermark, acked: watermark, unconfirmed: false }
    }

    /// Records that the application was given this message.
    pub(super) fn hand_out(&mut self, sequence: Sequence) {
        self.handed_out = sequence;
    }

    /// Records that the application has stored all messages up to this sequence.
    pub(super) fn store(&mut self, sequence: Sequence) {
        self.stored = self.stored.max(sequence.min(self.handed_out));
    }

    /// The sequence to acknowledge with the feed at `watermark`, if it is higher than the last ack. Once every message
    /// is stored, it includes the empty range after the last one.
    pub(super) fn due(&self, watermark: Sequence) -> Option<Sequence> {
        let ackable = if self.stored >= self.handed_out { watermark } else { self.stored };
        (ackable > self.acked).then_some(ackable)
    }

    /// Whether enough messages are due to send the ack now.
    pub(super) fn is_batch(&self, watermark: Sequence) -> bool {
        self.due(watermark).is_some_and(|due| due.0 - self.acked.0 >= Self::BATCH)
    }

    /// Records that an ack up to `sequence` was sent.
    pub(super) fn ack(&mut self, sequence: Sequence) {
        self.acked = sequence;
        self.unconfirmed = true;
    }

    /// Marks the acks of a lost connection as due again, because they may be lost with it.
    pub(super) fn forget_unconfirmed(&mut self) {
        if std::mem::take(&mut self.unconfirmed) {
            self.acked = Sequence::ZERO;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_stored_messages_are_due_and_the_empty_range_after_the_last() {
        let mut acks = Acks::new(Sequence(5));
        assert_eq!(acks.due(Sequence(5)), None);
        acks.hand_out(Sequence(6));
        acks.hand_out(Sequence(9));
        assert_eq!(acks.due(Sequence(12)), None, "handed out is not stored");
        acks.store(Sequence(6));
        assert_eq!(acks.due(Sequence(12)), Some(Sequence(6)));
        acks.store(Sequence(100));
        assert_eq!(acks.due(Sequence(12)), Some(Sequence(12)));
    }

    #[test]
    fn ten_make_a_batch() {
        let mut acks = Acks::new(Sequence(5));
        acks.hand_out(Sequence(15));
        acks.store(Sequence(14));
        assert!(!acks.is_batch(Sequence(15)));
        acks.store(Sequence(15));
        assert!(acks.is_batch(Sequence(15)));
    }

    #[test]
    fn an_ack_that_may_be_lost_is_repeated_once_per_connection() {
        let mut acks = Acks::new(Sequence(5));
        acks.hand_out(Sequence(6));
        acks.store(Sequence(6));
        acks.ack(Sequence(6));
        assert_eq!(acks.due(Sequence(6)), None);
        acks.forget_unconfirmed();
        assert_eq!(acks.due(Sequence(6)), Some(Sequence(6)));
        acks.ack(Sequence(6));
        assert_eq!(acks.due(Sequence(6)), None);
    }
}
