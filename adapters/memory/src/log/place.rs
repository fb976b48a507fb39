use domain::{ChatId, EventBody, EventKind};
use ports::Position;

/// Number of partitions, enough for a few consumers to share.
pub(super) const PARTS: usize = 4;
/// Each partition has a lane for every kind of event.
pub(super) const LANES: usize = 3 * PARTS;

const OFFSET_BITS: u32 = 48;

/// One kind of event in one partition: the unit of ordering.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LogLane(usize);

/// Location of a record: the upper bits of a [`Position`] are the lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LaneOffset {
    pub(super) lane: LogLane,
    pub(super) offset: u64,
}

impl LogLane {
    pub(super) fn of(body: &EventBody) -> Self {
        let kind = match body.kind() {
            EventKind::Chat => 0,
            EventKind::Member => 1,
            EventKind::Message => 2,
        };
        Self(kind * PARTS + part(body.chat_id()))
    }

    pub(super) fn all() -> impl Iterator<Item = Self> {
        Self::all_from(0)
    }

    /// All lanes in cyclic order, starting with `first`.
    pub(super) fn all_from(first: usize) -> impl Iterator<Item = Self> {
        (0..LANES).map(move |n| Self((first + n) % LANES))
    }

    pub(super) fn index(self) -> usize {
        self.0
    }

    /// The partition of the lane.
    pub(super) fn part(self) -> usize {
        self.0 % PARTS
    }
}

impl LaneOffset {
    /// The location that a position encodes, if the lane exists.
    pub(super) fn of(Position(bits): Position) -> Option<Self> {
        let lane = (bits >> OFFSET_BITS) as usize;
        (lane < LANES).then_some(Self { lane: LogLane(lane), offset: bits & ((1 << OFFSET_BITS) - 1) })
    }

    pub(super) fn position(self) -> Position {
        Position((self.lane.0 as u64) << OFFSET_BITS | self.offset)
    }
}

/// The partition of a chat. Ids differ in few bits, so Fibonacci hashing mixes them.
fn part(chat_id: ChatId) -> usize {
    let bits = u128::from_be_bytes(chat_id.to_bytes());
    let folded = ((bits >> 64) as u64).wrapping_mul(3).wrapping_add(bits as u64);
    (folded.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize % PARTS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chats_with_similar_ids_are_spread() {
        let counted: Vec<_> = (0..64u8).map(|n| u128::from(n).to_be_bytes()).collect();
        let repeated: Vec<_> = (0..64u8).map(|n| [n; 16]).collect();
        for ids in [counted, repeated] {
            let mut chats = [0; PARTS];
            ids.into_iter().for_each(|id| chats[part(ChatId::from_bytes(id))] += 1);
            assert!(chats.iter().all(|count| *count >= 8), "{chats:?}");
        }
    }

    #[test]
    fn a_position_names_the_place_it_is_of() {
        for lane in LogLane::all() {
            let place = LaneOffset { lane, offset: 7 };
            assert_eq!(LaneOffset::of(place.position()), Some(place));
        }
        assert_eq!(LaneOffset::of(Position(u64::MAX)), None);
    }
}
