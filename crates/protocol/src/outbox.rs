use std::collections::VecDeque;

use bytes::Bytes;

use crate::frame::{PushClass, ServerFrame};

/// The queue of pushes for a connection's socket, bounded in messages and bytes (G9). `F` is the type of a queued
/// frame.
///
/// Above four fifths of a bound the connection is under pressure: the client is warned, and disconnected if the
/// pressure lasts. A push that does not fit is dropped and recorded as missed; once the queue is empty the client has
/// to resync.
///
/// Only durable pushes count for this. Ephemeral ones use at most half of the queue, and make room for durable ones. So
/// no number of them costs a client a durable push or its connection.
#[derive(Debug)]
pub struct Outbox<F = Bytes> {
    bounds: OutboxBounds,
    queue: VecDeque<F>,
    durable: QueuedLoad,
    ephemeral: QueuedLoad,
    missed_durable: bool,
    missed_ephemeral: bool,
    unwritten_dropped: bool,
}

/// The bounds of an outbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutboxBounds {
    /// Most queued messages.
    pub messages: usize,
    /// Most queued bytes.
    pub bytes: usize,
}

impl Default for OutboxBounds {
    fn default() -> Self {
        Self { messages: 1000, bytes: 1 << 20 }
    }
}

impl OutboxBounds {
    /// One `part` of the bounds.
    fn divided_by(self, part: usize) -> Self {
        Self { messages: self.messages / part, bytes: self.bytes / part }
    }
}

/// A frame that can be queued.
pub trait Queueable {
    /// Its size in bytes.
    fn bytes(&self) -> usize;

    /// The consequence of dropping it.
    fn class(&self) -> PushClass;
}

impl Queueable for Bytes {
    fn bytes(&self) -> usize {
        self.len()
    }

    fn class(&self) -> PushClass {
        ServerFrame::class_of(self)
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

/// The pushes that were dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missed {
    /// Durable pushes: the client has to sync.
    Durable,
    /// Ephemeral pushes only.
    Ephemeral,
}

/// Frames of one class in a queue.
#[derive(Clone, Copy, Debug, Default)]
struct QueuedLoad {
    messages: usize,
    bytes: usize,
}

impl QueuedLoad {
    fn add(&mut self, bytes: usize) {
        self.messages += 1;
        self.bytes += bytes;
    }

    fn remove(&mut self, bytes: usize) {
        self.messages -= 1;
        self.bytes -= bytes;
    }

    /// Whether one more frame keeps it within the bounds.
    fn has_room(self, bytes: usize, bounds: OutboxBounds) -> bool {
        self.messages < bounds.messages && self.bytes + bytes <= bounds.bytes
    }
}

impl<F> Default for Outbox<F> {
    fn default() -> Self {
        Self::new(OutboxBounds::default())
    }
}

impl<F> Outbox<F> {
    /// An empty queue.
    pub fn new(bounds: OutboxBounds) -> Self {
        let (durable, ephemeral) = Default::default();
        Self {
            bounds,
            queue: VecDeque::new(),
            durable,
            ephemeral,
            missed_durable: false,
            missed_ephemeral: false,
            unwritten_dropped: false,
        }
    }
}

impl Outbox {
    /// Capacity that an empty queue may keep; the rest of a burst's allocation is freed.
    const CAPACITY_KEPT: usize = 32;
}

impl<F: Queueable> Outbox<F> {
    /// Queues a push, or drops it and records that one was missed. Returns the number of dropped ephemeral pushes.
    pub fn push(&mut self, frame: F) -> usize {
        let bytes = frame.bytes();
        let dropped = match frame.class() {
            PushClass::Ephemeral if !self.all().has_room(bytes, self.bounds.divided_by(2)) => {
                self.missed_ephemeral = true;
                return 1;
            }
            PushClass::Durable if !self.durable.has_room(bytes, self.bounds) => {
                self.missed_durable = true;
                return 0;
            }
            PushClass::Durable if !self.all().has_room(bytes, self.bounds) => self.drop_ephemeral(),
            PushClass::Durable | PushClass::Ephemeral => 0,
        };
        self.load(&frame).add(bytes);
        self.queue.push_back(frame);
        dropped
    }

    /// The next push to write.
    pub fn pop(&mut self) -> Option<F> {
        let frame = self.queue.pop_front()?;
        self.load(&frame).remove(frame.bytes());
        if self.queue.is_empty() && self.queue.capacity() > Outbox::CAPACITY_KEPT {
            self.queue = VecDeque::new();
        }
        Some(frame)
    }

    /// The number of queued pushes, and their bytes.
    pub fn waiting(&self) -> (usize, usize) {
        let QueuedLoad { messages, bytes } = self.all();
        (messages, bytes)
    }

    /// Whether durable pushes are near the bound: at four fifths of either.
    pub fn pressure(&self) -> Pressure {
        let QueuedLoad { messages, bytes } = self.durable;
        let near = messages * 5 >= self.bounds.messages * 4 || bytes * 5 >= self.bounds.bytes * 4;
        if near || (self.missed_durable && messages > 0) { Pressure::Near } else { Pressure::Easy }
    }

    /// The pushes that were dropped, once, and only when all durable ones in the queue are written; ephemeral ones when
    /// the queue is empty.
    pub fn take_missed(&mut self) -> Option<Missed> {
        if self.durable.messages == 0 && std::mem::take(&mut self.missed_durable) {
            self.missed_ephemeral = false;
            return Some(Missed::Durable);
        }
        (self.queue.is_empty() && std::mem::take(&mut self.missed_ephemeral)).then_some(Missed::Ephemeral)
    }

    /// Whether ephemeral pushes were dropped after they had been queued, once. Refused ones do not count: their callers know.
    pub fn take_unwritten_dropped(&mut self) -> bool {
        std::mem::take(&mut self.unwritten_dropped)
    }

    fn all(&self) -> QueuedLoad {
        QueuedLoad {
            messages: self.durable.messages + self.ephemeral.messages,
            bytes: self.durable.bytes + self.ephemeral.bytes,
        }
    }

    fn load(&mut self, frame: &F) -> &mut QueuedLoad {
        match frame.class() {
            PushClass::Durable => &mut self.durable,
            PushClass::Ephemeral => &mut self.ephemeral,
        }
    }

    /// Drops all ephemeral pushes at once: a scan for each of them would cost more.
    fn drop_ephemeral(&mut self) -> usize {
        self.queue.retain(|frame| frame.class() == PushClass::Durable);
        let QueuedLoad { messages, .. } = std::mem::take(&mut self.ephemeral);
        self.missed_ephemeral |= messages > 0;
        self.unwritten_dropped |= messages > 0;
        messages
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
        assert_eq!(outbox.take_missed(), Some(Missed::Durable));
        assert_eq!(outbox.take_missed(), None, "told once");
    }

    #[test]
    fn g9_the_queue_is_bounded_in_bytes() {
        let mut outbox = Outbox::default();
        fill(&mut outbox, 40, 64 * 1024);
        assert_eq!(std::iter::from_fn(|| outbox.pop()).map(|frame| frame.len()).sum::<usize>(), 1 << 20);
    }

    #[test]
    fn a_queue_keeps_the_bounds_that_it_is_given() {
        let mut outbox = Outbox::new(OutboxBounds { messages: 5, bytes: 100 });
        for _ in 0..5 {
            outbox.push(typing());
        }
        assert_eq!(outbox.waiting().0, 1, "half of the bytes are for ephemeral pushes");
        fill(&mut outbox, 3, 1);
        assert_eq!(outbox.pressure(), Pressure::Easy);
        fill(&mut outbox, 1, 1);
        assert_eq!(outbox.pressure(), Pressure::Near);
        fill(&mut outbox, 9, 1);
        assert_eq!(outbox.waiting(), (5, 5));
        let mut outbox = Outbox::new(OutboxBounds { messages: 5, bytes: 100 });
        fill(&mut outbox, 3, 40);
        assert_eq!(outbox.waiting(), (2, 80));
    }

    #[test]
    fn a_missed_push_keeps_the_pressure_until_the_queue_is_empty() {
        let mut outbox = Outbox::default();
        fill(&mut outbox, 1001, 1);
        while outbox.queue.len() > 1 {
            outbox.pop();
        }
        assert_eq!(outbox.take_missed(), None, "not before the queue is empty");
        assert_eq!(outbox.pressure(), Pressure::Near);
        outbox.pop();
        assert_eq!(outbox.pressure(), Pressure::Easy);
    }

    fn typing() -> Bytes {
        Bytes::from_static(br#"{"type":"typing_indicator","payload":{}}"#)
    }

    #[test]
    fn ephemeral_pushes_cause_no_pressure_and_use_half_of_the_queue() {
        let mut outbox = Outbox::default();
        let dropped: usize = (0..5000).map(|_| outbox.push(typing())).sum();
        assert_eq!((outbox.queue.len(), dropped, outbox.pressure()), (500, 4500, Pressure::Easy));
        fill(&mut outbox, 799, 1);
        assert_eq!(outbox.pressure(), Pressure::Easy);
        fill(&mut outbox, 1, 1);
        assert_eq!(outbox.pressure(), Pressure::Near, "only durable pushes count");
    }

    #[test]
    fn ephemeral_pushes_are_dropped_before_durable_ones() {
        let mut outbox = Outbox::default();
        (0..500).for_each(|_| assert_eq!(outbox.push(typing()), 0));
        fill(&mut outbox, 500, 1);
        assert_eq!(outbox.waiting().0, 1000);
        assert_eq!(outbox.push(Bytes::from_static(b"x")), 500, "all make room for one");
        fill(&mut outbox, 499, 1);
        assert_eq!((outbox.waiting(), outbox.push(typing())), ((1000, 1000), 1));
        assert!(std::iter::from_fn(|| outbox.pop()).all(|frame| frame == "x"));
        assert_eq!(outbox.take_missed(), Some(Missed::Ephemeral), "no durable push is missed");
        assert_eq!((outbox.take_missed(), outbox.waiting()), (None, (0, 0)));
    }

    #[test]
    fn a_flood_of_ephemeral_pushes_does_not_delay_the_resync() {
        let mut outbox = Outbox::default();
        fill(&mut outbox, 1001, 1);
        for _ in 0..1000 {
            outbox.pop();
            outbox.push(typing());
        }
        assert!(outbox.waiting().0 > 0);
        assert_eq!((outbox.pressure(), outbox.take_missed()), (Pressure::Easy, Some(Missed::Durable)));
    }
}
