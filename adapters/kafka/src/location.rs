use domain::EventKind;
use ports::Position;

const OFFSET_BITS: u32 = 48;
const PARTITION_BITS: u32 = 14;
/// Limit of partitions per topic, given by the bits of a position.
pub(crate) const PARTITIONS_MAX: i32 = 1 << PARTITION_BITS;
const OFFSETS_MAX: i64 = 1 << OFFSET_BITS;

/// A partition of an event topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Partition {
    pub(crate) kind: EventKind,
    pub(crate) number: i32,
}

/// The location of a record: a decoded [`Position`].
///
/// From the highest bit on, a position has the kind of event in 2 bits (chats 0, members 1, messages 2), the partition
/// in 14 and the offset in 48. Positions of one chat and kind are therefore in event order. The first events of a new
/// chat are ordered across kinds too, since a chat is created before its first message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RecordLocation {
    pub(crate) partition: Partition,
    pub(crate) offset: i64,
}

/// A location that does not fit into a position.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("partition {partition} and offset {offset} are beyond what a position can name")]
pub(crate) struct Unnameable {
    partition: i32,
    offset: i64,
}

impl RecordLocation {
    pub(crate) fn new(partition: Partition, offset: i64) -> Result<Self, Unnameable> {
        match (0..PARTITIONS_MAX).contains(&partition.number) && (0..OFFSETS_MAX).contains(&offset) {
            true => Ok(Self { partition, offset }),
            false => Err(Unnameable { partition: partition.number, offset }),
        }
    }

    /// Decodes a position; `None` if its kind is unknown, as for a position past all events.
    pub(crate) fn of(Position(bits): Position) -> Option<Self> {
        let kind = match bits >> (OFFSET_BITS + PARTITION_BITS) {
            0 => EventKind::Chat,
            1 => EventKind::Member,
            2 => EventKind::Message,
            _ => return None,
        };
        let number = (bits >> OFFSET_BITS) as i32 & (PARTITIONS_MAX - 1);
        Some(Self { partition: Partition { kind, number }, offset: bits as i64 & (OFFSETS_MAX - 1) })
    }

    pub(crate) fn position(self) -> Position {
        let kind = match self.partition.kind {
            EventKind::Chat => 0,
            EventKind::Member => 1,
            EventKind::Message => 2,
        };
        Position((kind << PARTITION_BITS | self.partition.number as u64) << OFFSET_BITS | self.offset as u64)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn location(kind: EventKind, number: i32, offset: i64) -> RecordLocation {
        RecordLocation::new(Partition { kind, number }, offset).unwrap()
    }

    #[test]
    fn the_bits_of_a_position_are_kind_partition_and_offset() {
        assert_eq!(location(EventKind::Chat, 0, 7).position(), Position(7));
        assert_eq!(location(EventKind::Member, 5, 7).position(), Position(0x4005_0000_0000_0007));
        let last = location(EventKind::Message, PARTITIONS_MAX - 1, OFFSETS_MAX - 1);
        assert_eq!(last.position(), Position(0xbfff_ffff_ffff_ffff));
    }

    #[test]
    fn a_position_after_the_last_kind_has_no_row() {
        assert_eq!(RecordLocation::of(Position(0xc000_0000_0000_0000)), None);
        assert_eq!(RecordLocation::of(Position(u64::MAX)), None);
    }

    #[test]
    fn a_malformed_position_is_refused() {
        for (number, offset) in [(PARTITIONS_MAX, 0), (-1, 0), (0, OFFSETS_MAX), (0, -1)] {
            let partition = Partition { kind: EventKind::Message, number };
            assert_eq!(RecordLocation::new(partition, offset), Err(Unnameable { partition: number, offset }));
        }
    }

    proptest! {
        #[test]
        fn positions_round_trip(bits in 0..0xc000_0000_0000_0000u64) {
            prop_assert_eq!(RecordLocation::of(Position(bits)).unwrap().position(), Position(bits));
        }

        #[test]
        fn later_records_of_a_partition_have_higher_positions(
            number in 0..PARTITIONS_MAX,
            offset in 0..OFFSETS_MAX - 1,
        ) {
            let [first, second] = [offset, offset + 1].map(|offset| location(EventKind::Member, number, offset));
            prop_assert!(first.position() < second.position());
        }
    }
}
