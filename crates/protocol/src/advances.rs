use std::time::{Duration, Instant};

use domain::{ChatId, Sequence, WatermarkKind};

/// Shortest interval between two commits of one watermark. Fanout coalesces receipts over the same interval.
const COALESCE_INTERVAL: Duration = Duration::from_millis(100);
/// Most pending moves of one watermark. At this bound the next move is due at once, and the connection reads no frame
/// until the move is issued.
const WAITING_MAX: usize = 64;
/// Most watermarks that are coalesced at a time. Moves of further chats are issued as they arrive.
const WATERMARKS_MAX: usize = 64;

/// Coalesces the watermark moves of one client.
///
/// A watermark only grows, so the highest of several moves is enough. The first move is issued at once. Moves that
/// arrive within [`COALESCE_INTERVAL`] of it are queued, and the highest of them is then issued for all. A client that
/// reads a busy chat therefore causes at most ten commits a second, not one per ack. Clients see no difference: a
/// refused move is answered with an error, and the lower queued moves are still issued.
#[derive(Debug, Default)]
pub(crate) struct Advances {
    gathered: Vec<CoalescedMoves>,
}

/// A watermark and its target sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move {
    /// The chat.
    pub chat_id: ChatId,
    /// The watermark: delivered or read.
    pub kind: WatermarkKind,
    /// The target sequence.
    pub sequence: Sequence,
}

#[derive(Debug)]
struct CoalescedMoves {
    chat_id: ChatId,
    kind: WatermarkKind,
    is_moving: bool,
    /// Queued targets, in ascending order.
    waiting: Vec<Sequence>,
    /// Earliest time of the next move.
    due: Instant,
}

impl Advances {
    /// Takes a move, and returns it if it is due at once; otherwise the move is queued.
    pub(crate) fn take(&mut self, now: Instant, moved: Move) -> Option<Move> {
        if let Some(gathered) = self.find(&moved)
            && !gathered.is_over(now)
        {
            if let Err(index) = gathered.waiting.binary_search(&moved.sequence) {
                gathered.waiting.insert(index, moved.sequence);
            }
            if gathered.is_full() {
                gathered.due = now;
            }
            return None;
        }
        self.gathered.retain(|gathered| !gathered.is_over(now));
        if self.gathered.len() < WATERMARKS_MAX {
            let Move { chat_id, kind, .. } = moved;
            self.gathered.push(CoalescedMoves {
                chat_id,
                kind,
                is_moving: true,
                waiting: vec![],
                due: now + COALESCE_INTERVAL,
            });
        }
        Some(moved)
    }

    /// Takes the outcome of an issued move.
    pub(crate) fn handle_outcome(&mut self, now: Instant, moved: &Move, is_made: bool) {
        let Some(gathered) = self.find(moved) else { return };
        gathered.is_moving = false;
        if is_made {
            gathered.waiting.retain(|sequence| *sequence > moved.sequence);
        } else {
            // The refused move stood for the lower ones, so they are due now.
            gathered.due = now;
        }
    }

    /// The next move that is due.
    pub(crate) fn poll(&mut self, now: Instant) -> Option<Move> {
        let due = |gathered: &&mut CoalescedMoves| gathered.next_at().is_some_and(|at| at <= now);
        let gathered = self.gathered.iter_mut().find(due)?;
        let sequence = gathered.waiting.pop()?;
        (gathered.is_moving, gathered.due) = (true, now + COALESCE_INTERVAL);
        Some(Move { chat_id: gathered.chat_id, kind: gathered.kind, sequence })
    }

    /// When the next call of [`poll`](Self::poll) is due, if nothing happens before.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        self.gathered.iter().filter_map(CoalescedMoves::next_at).min()
    }

    /// Whether the queue of a watermark is full.
    pub(crate) fn is_full(&self) -> bool {
        self.gathered.iter().any(CoalescedMoves::is_full)
    }

    /// Every queued move, one by one instead of coalesced: the client is gone, so a refusal of the highest could not
    /// trigger the lower ones.
    pub(crate) fn finish(&mut self) -> impl Iterator<Item = Move> + use<> {
        let gathered = std::mem::take(&mut self.gathered).into_iter();
        gathered.flat_map(|CoalescedMoves { chat_id, kind, waiting, .. }| {
            waiting.into_iter().map(move |sequence| Move { chat_id, kind, sequence })
        })
    }

    fn find(&mut self, moved: &Move) -> Option<&mut CoalescedMoves> {
        self.gathered.iter_mut().find(|gathered| gathered.chat_id == moved.chat_id && gathered.kind == moved.kind)
    }
}

impl CoalescedMoves {
    /// When the highest queued move is due.
    fn next_at(&self) -> Option<Instant> {
        (!self.is_moving && !self.waiting.is_empty()).then_some(self.due)
    }

    fn is_full(&self) -> bool {
        self.waiting.len() >= WAITING_MAX
    }

    /// Whether nothing is in flight or queued, and the interval has passed.
    fn is_over(&self, now: Instant) -> bool {
        !self.is_moving && self.waiting.is_empty() && self.due <= now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn to(sequence: u64) -> Move {
        Move { chat_id: ChatId::from_bytes([1; 16]), kind: WatermarkKind::Delivered, sequence: Sequence(sequence) }
    }

    #[test]
    fn the_first_move_is_issued_at_once_and_later_ones_are_coalesced() {
        let start = Instant::now();
        let mut advances = Advances::default();
        assert_eq!(advances.take(start, to(1)), Some(to(1)));
        assert_eq!([2, 4, 3].map(|n| advances.take(start, to(n))), [None; 3]);
        assert_eq!(advances.poll_timeout(), None, "no timeout while a move is in flight");
        advances.handle_outcome(start, &to(1), true);
        assert_eq!(advances.poll_timeout(), Some(start + COALESCE_INTERVAL));
        assert_eq!(advances.poll(start), None);
        assert_eq!(advances.poll(start + COALESCE_INTERVAL), Some(to(4)));
        advances.handle_outcome(start + COALESCE_INTERVAL, &to(4), true);
        assert_eq!(advances.poll(start + 9 * COALESCE_INTERVAL), None, "the highest move covers the lower ones");
        assert_eq!(advances.take(start + 9 * COALESCE_INTERVAL, to(5)), Some(to(5)));
    }

    #[test]
    fn lower_moves_are_issued_after_a_refused_move() {
        let start = Instant::now();
        let mut advances = Advances::default();
        advances.take(start, to(1));
        for n in [3, 98, 99, 4] {
            advances.take(start, to(n));
        }
        advances.handle_outcome(start, &to(1), true);
        let later = start + COALESCE_INTERVAL;
        for refused in [99, 98] {
            assert_eq!(advances.poll(later), Some(to(refused)));
            advances.handle_outcome(later, &to(refused), false);
        }
        assert_eq!(advances.poll(later), Some(to(4)));
        advances.handle_outcome(later, &to(4), true);
        assert_eq!(advances.poll(later + COALESCE_INTERVAL), None);
    }

    #[test]
    fn watermarks_do_not_wait_for_each_other() {
        let start = Instant::now();
        let mut advances = Advances::default();
        let read = Move { kind: WatermarkKind::Read, ..to(1) };
        let elsewhere = Move { chat_id: ChatId::from_bytes([2; 16]), ..to(1) };
        for moved in [to(1), read, elsewhere] {
            assert_eq!(advances.take(start, moved), Some(moved));
        }
    }

    #[test]
    fn the_queue_is_bounded_and_finish_returns_it() {
        let start = Instant::now();
        let mut advances = Advances::default();
        advances.take(start, to(0));
        for n in 1..=WAITING_MAX as u64 {
            assert!(!advances.is_full());
            advances.take(start, to(n));
            advances.take(start, to(n));
        }
        assert!(advances.is_full());
        advances.handle_outcome(start, &to(0), true);
        assert_eq!(advances.poll_timeout(), Some(start), "a full queue makes the next move due at once");
        let finished: Vec<_> = advances.finish().collect();
        assert_eq!(finished, (1..=WAITING_MAX as u64).map(to).collect::<Vec<_>>());
        assert_eq!(advances.finish().count(), 0);
    }

    #[test]
    fn moves_beyond_the_watermark_bound_are_not_delayed() {
        let start = Instant::now();
        let mut advances = Advances::default();
        let chat = |n: u8| Move { chat_id: ChatId::from_bytes([n; 16]), ..to(1) };
        for _ in 0..2 {
            let taken = (0..200).filter(|n| advances.take(start, chat(*n)).is_some()).count();
            assert!(taken >= 200 - WATERMARKS_MAX, "{taken} were issued");
        }
        assert_eq!(advances.gathered.len(), WATERMARKS_MAX);
        (0..200).for_each(|n| advances.handle_outcome(start, &chat(n), true));
        advances.take(start + COALESCE_INTERVAL, chat(0));
        assert!(advances.gathered.len() < WATERMARKS_MAX, "finished watermarks are removed");
    }
}
