use domain::Sequence;

/// How far one chat's messages have been handed out, stored and acknowledged. Stored comes first, then the ack: what the
/// server believes delivered is never lost with this device.
#[derive(Debug)]
pub(super) struct Acks {
    handed_out: Sequence,
    stored: Sequence,
    acked: Sequence,
    /// Whether an ack went out on the present connection and may be lost with it.
    unconfirmed: bool,
}

impl Acks {
    /// Messages after which an ack does not wait for its time.
    const BATCH: u64 = 10;

    /// Nothing is owed for what lies at or below the watermark.
    pub(super) fn new(watermark: Sequence) -> Self {
        Self { handed_out: watermark, stored: watermark, acked: watermark, unconfirmed: false }
    }

    /// The application was given this message.
    pub(super) fn hand_out(&mut self, sequence: Sequence) {
        self.handed_out = sequence;
    }

    /// The application has stored everything up to here.
    pub(super) fn store(&mut self, sequence: Sequence) {
        self.stored = self.stored.max(sequence.min(self.handed_out));
    }

    /// What may be acknowledged with the feed at `watermark`, if it is more than before. Once every message is stored,
    /// that includes the empty range behind the last one.
    pub(super) fn due(&self, watermark: Sequence) -> Option<Sequence> {
        let ackable = if self.stored >= self.handed_out { watermark } else { self.stored };
        (ackable > self.acked).then_some(ackable)
    }

    /// Whether so many are due that the ack goes out now.
    pub(super) fn is_batch(&self, watermark: Sequence) -> bool {
        self.due(watermark).is_some_and(|due| due.0 - self.acked.0 >= Self::BATCH)
    }

    /// An ack up to here goes out.
    pub(super) fn ack(&mut self, sequence: Sequence) {
        self.acked = sequence;
        self.unconfirmed = true;
    }

    /// The connection is gone, and perhaps the acks that were on their way: they are due again.
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
    fn only_what_is_stored_is_due_and_the_empty_rest_with_the_last() {
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
