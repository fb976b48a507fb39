use std::time::{Duration, Instant};

use domain::{ChatId, Sequence, WatermarkKind};

/// How soon after a move of a watermark the next one is made. Others are told of moves as often.
const GATHER: Duration = Duration::from_millis(100);
/// Moves of one watermark that may wait. With so many the next is made at once, and until then no frame is read.
const WAITING_MAX: usize = 64;
/// Watermarks that are gathered at a time. Those of further chats are moved as they come.
const WATERMARKS_MAX: usize = 64;

/// The watermarks that a client moves, gathered.
///
/// A watermark only grows, so of several moves the highest is enough. The first is made at once; those that come within
/// [`GATHER`] of it wait, and then the highest of them is made for all: whoever reads a busy chat costs a commit ten times
/// a second, not one for each of their acks. What clients are told stays the same: a move that is refused is answered,
/// and those below it are made all the same.
#[derive(Debug, Default)]
pub(crate) struct Advances {
    gathered: Vec<Gathered>,
}

/// A watermark, and how far it is to be moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move {
    /// Where.
    pub chat_id: ChatId,
    /// Which.
    pub kind: WatermarkKind,
    /// Up to here.
    pub sequence: Sequence,
}

#[derive(Debug)]
struct Gathered {
    chat_id: ChatId,
    kind: WatermarkKind,
    is_moving: bool,
    /// The lowest first.
    waiting: Vec<Sequence>,
    /// When the next move may be made.
    due: Instant,
}

impl Advances {
    /// Takes a move; returns it if it is to be made now.
    pub(crate) fn take(&mut self, now: Instant, moved: Move) -> Option<Move> {
        if let Some(gathered) = self.find(&moved)
            && !gathered.is_over(now)
        {
            if let Err(place) = gathered.waiting.binary_search(&moved.sequence) {
                gathered.waiting.insert(place, moved.sequence);
            }
            if gathered.is_full() {
                gathered.due = now;
            }
            return None;
        }
        self.gathered.retain(|gathered| !gathered.is_over(now));
        if self.gathered.len() < WATERMARKS_MAX {
            let Move { chat_id, kind, .. } = moved;
            self.gathered.push(Gathered { chat_id, kind, is_moving: true, waiting: vec![], due: now + GATHER });
        }
        Some(moved)
    }

    /// Takes the outcome of a move that was made.
    pub(crate) fn handle_outcome(&mut self, now: Instant, moved: &Move, is_made: bool) {
        let Some(gathered) = self.find(moved) else { return };
        gathered.is_moving = false;
        if is_made {
            gathered.waiting.retain(|sequence| *sequence > moved.sequence);
        } else {
            // Those below it were to be made with it.
            gathered.due = now;
        }
    }

    /// The next move that is to be made now.
    pub(crate) fn poll(&mut self, now: Instant) -> Option<Move> {
        let due = |gathered: &&mut Gathered| gathered.next_at().is_some_and(|at| at <= now);
        let gathered = self.gathered.iter_mut().find(due)?;
        let sequence = gathered.waiting.pop()?;
        (gathered.is_moving, gathered.due) = (true, now + GATHER);
        Some(Move { chat_id: gathered.chat_id, kind: gathered.kind, sequence })
    }

    /// When there is something to [`poll`](Self::poll), if nothing happens before.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        self.gathered.iter().filter_map(Gathered::next_at).min()
    }

    /// Whether no further move can be taken.
    pub(crate) fn is_full(&self) -> bool {
        self.gathered.iter().any(Gathered::is_full)
    }

    /// Everything that waits, each by itself: nobody is left to hear which of them were refused.
    pub(crate) fn finish(&mut self) -> impl Iterator<Item = Move> + use<> {
        let gathered = std::mem::take(&mut self.gathered).into_iter();
        gathered.flat_map(|Gathered { chat_id, kind, waiting, .. }| {
            waiting.into_iter().map(move |sequence| Move { chat_id, kind, sequence })
        })
    }

    fn find(&mut self, moved: &Move) -> Option<&mut Gathered> {
        self.gathered.iter_mut().find(|gathered| gathered.chat_id == moved.chat_id && gathered.kind == moved.kind)
    }
}

impl Gathered {
    /// When the highest of what waits is to be moved to.
    fn next_at(&self) -> Option<Instant> {
        (!self.is_moving && !self.waiting.is_empty()).then_some(self.due)
    }

    fn is_full(&self) -> bool {
        self.waiting.len() >= WAITING_MAX
    }

    /// Whether nothing is left to wait for.
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
    fn a_move_is_made_at_once_and_those_soon_after_it_together() {
        let start = Instant::now();
        let mut advances = Advances::default();
        assert_eq!(advances.take(start, to(1)), Some(to(1)));
        assert_eq!([2, 4, 3].map(|n| advances.take(start, to(n))), [None; 3]);
        assert_eq!(advances.poll_timeout(), None, "while a move is being made there is nothing to wait for");
        advances.handle_outcome(start, &to(1), true);
        assert_eq!(advances.poll_timeout(), Some(start + GATHER));
        assert_eq!(advances.poll(start), None);
        assert_eq!(advances.poll(start + GATHER), Some(to(4)));
        advances.handle_outcome(start + GATHER, &to(4), true);
        assert_eq!(advances.poll(start + 9 * GATHER), None, "the lower ones were made with it");
        assert_eq!(advances.take(start + 9 * GATHER, to(5)), Some(to(5)));
    }

    #[test]
    fn a_refused_move_takes_none_of_those_below_it_along() {
        let start = Instant::now();
        let mut advances = Advances::default();
        advances.take(start, to(1));
        for n in [3, 98, 99, 4] {
            advances.take(start, to(n));
        }
        advances.handle_outcome(start, &to(1), true);
        let later = start + GATHER;
        for refused in [99, 98] {
            assert_eq!(advances.poll(later), Some(to(refused)));
            advances.handle_outcome(later, &to(refused), false);
        }
        assert_eq!(advances.poll(later), Some(to(4)));
        advances.handle_outcome(later, &to(4), true);
        assert_eq!(advances.poll(later + GATHER), None);
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
    fn what_waits_is_bounded_and_comes_out_at_the_end() {
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
        assert_eq!(advances.poll_timeout(), Some(start), "the next is made at once");
        let finished: Vec<_> = advances.finish().collect();
        assert_eq!(finished, (1..=WAITING_MAX as u64).map(to).collect::<Vec<_>>());
        assert_eq!(advances.finish().count(), 0);
    }

    #[test]
    fn the_moves_of_very_many_chats_are_not_gathered_and_not_held_up() {
        let start = Instant::now();
        let mut advances = Advances::default();
        let chat = |n: u8| Move { chat_id: ChatId::from_bytes([n; 16]), ..to(1) };
        for _ in 0..2 {
            let taken = (0..200).filter(|n| advances.take(start, chat(*n)).is_some()).count();
            assert!(taken >= 200 - WATERMARKS_MAX, "{taken} were made");
        }
        assert_eq!(advances.gathered.len(), WATERMARKS_MAX);
        (0..200).for_each(|n| advances.handle_outcome(start, &chat(n), true));
        advances.take(start + GATHER, chat(0));
        assert!(advances.gathered.len() < WATERMARKS_MAX, "what is over is forgotten");
    }
}
