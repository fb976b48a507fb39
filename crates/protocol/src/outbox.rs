use std::collections::VecDeque;

use bytes::Bytes;

/// Pushes waiting for a connection's socket, bounded in messages and bytes (G9). Frames may have something with them.
///
/// Above the mark the connection is under pressure: the client is warned, and cut if it stays there. A push that does
/// not fit is dropped and remembered as missed; when there is room again the client is told to sync.
#[derive(Debug)]
pub struct Outbox<F = Bytes> {
    queue: VecDeque<F>,
    bytes: usize,
    missed: bool,
}

/// What takes so much of the room of an outbox.
pub trait Weight {
    /// Its bytes.
    fn bytes(&self) -> usize;
}

impl Weight for Bytes {
    fn bytes(&self) -> usize {
        self.len()
    }
}

/// How full an outbox is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pressure {
    /// There is room.
    Easy,
    /// Near its bound.
    Near,
}

impl<F> Default for Outbox<F> {
    fn default() -> Self {
        Self { queue: VecDeque::new(), bytes: 0, missed: false }
    }
}

impl Outbox {
    /// Messages waiting, at the most.
    pub const MESSAGES_MAX: usize = 1000;
    /// Bytes waiting, at the most.
    pub const BYTES_MAX: usize = 1 << 20;
    /// Capacity that an empty queue may keep; a burst's worth goes back to the allocator.
    const CAPACITY_KEPT: usize = 32;
}

impl<F: Weight> Outbox<F> {
    /// Takes a push, or drops it and remembers that one was missed.
    pub fn push(&mut self, frame: F) {
        let bytes = frame.bytes();
        if self.queue.len() < Outbox::MESSAGES_MAX && self.bytes + bytes <= Outbox::BYTES_MAX {
            self.bytes += bytes;
            self.queue.push_back(frame);
        } else {
            self.missed = true;
        }
    }

    /// The next push to write.
    pub fn pop(&mut self) -> Option<F> {
        let frame = self.queue.pop_front()?;
        self.bytes -= frame.bytes();
        if self.queue.is_empty() && self.queue.capacity() > Outbox::CAPACITY_KEPT {
            self.queue = VecDeque::new();
        }
        Some(frame)
    }

    /// The pushes that wait, and their bytes.
    pub fn waiting(&self) -> (usize, usize) {
        (self.queue.len(), self.bytes)
    }

    /// Whether the queue is near its bound: at four fifths of either.
    pub fn pressure(&self) -> Pressure {
        let near = self.queue.len() * 5 >= Outbox::MESSAGES_MAX * 4 || self.bytes * 5 >= Outbox::BYTES_MAX * 4;
        if near || (self.missed && !self.queue.is_empty()) { Pressure::Near } else { Pressure::Easy }
    }

    /// Whether pushes were dropped; asked once the queue is empty, and then forgotten.
    pub fn take_missed(&mut self) -> bool {
        self.queue.is_empty() && std::mem::take(&mut self.missed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fill(outbox: &mut Outbox, frames: usize, bytes: usize) {
        for _ in 0..frames {
            outbox.push(Bytes::from(vec![b'x'; bytes]));
        }
    }

    #[test]
    fn g9_the_queue_is_bounded_in_messages_and_warns_near_the_bound() {
        let mut outbox = Outbox::default();
        fill(&mut outbox, 799, 1);
        assert_eq!(outbox.pressure(), Pressure::Easy);
        fill(&mut outbox, 1, 1);
        assert_eq!(outbox.pressure(), Pressure::Near);
        fill(&mut outbox, 5000, 1);
        assert_eq!(std::iter::from_fn(|| outbox.pop()).count(), 1000);
        assert!(outbox.take_missed());
        assert!(!outbox.take_missed(), "told once");
    }

    #[test]
    fn g9_the_queue_is_bounded_in_bytes() {
        let mut outbox = Outbox::default();
        fill(&mut outbox, 40, 64 * 1024);
        assert_eq!(std::iter::from_fn(|| outbox.pop()).map(|frame| frame.len()).sum::<usize>(), 1 << 20);
    }

    #[test]
    fn a_missed_push_keeps_the_pressure_until_the_queue_is_empty() {
        let mut outbox = Outbox::default();
        fill(&mut outbox, 1001, 1);
        while outbox.queue.len() > 1 {
            outbox.pop();
        }
        assert!(!outbox.take_missed(), "not before the queue is empty");
        assert_eq!(outbox.pressure(), Pressure::Near);
        outbox.pop();
        assert_eq!(outbox.pressure(), Pressure::Easy);
    }
}
