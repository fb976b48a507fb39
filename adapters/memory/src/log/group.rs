use std::collections::BTreeSet;

use super::place::{LANES, LogLane, PARTS};

/// A consumer, numbered in the order of creation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct GroupMember(pub(super) u64);

/// A consumer group: its members, their partitions and their offsets.
#[derive(Debug, Default)]
pub(super) struct ConsumerGroup {
    members: BTreeSet<GroupMember>,
    /// The assigned member of each partition; `None` without members.
    readers: [Option<GroupMember>; PARTS],
    /// The offset of the next event to return, per lane.
    next: [u64; LANES],
    /// The committed offset of each lane, where its next reader starts.
    committed: [u64; LANES],
}

impl ConsumerGroup {
    pub(super) fn join(&mut self, member: GroupMember) {
        self.members.insert(member);
        self.share();
    }

    pub(super) fn leave(&mut self, member: GroupMember) {
        self.members.remove(&member);
        self.share();
    }

    /// The next offset of a lane, if it is assigned to this member.
    pub(super) fn next(&self, member: GroupMember, lane: LogLane) -> Option<u64> {
        (self.readers[lane.part()] == Some(member)).then(|| self.next[lane.index()])
    }

    /// Advances the offset of a lane.
    pub(super) fn advance(&mut self, lane: LogLane, next: u64) {
        self.next[lane.index()] = next;
    }

    /// Commits the events returned to a member, for the partitions still assigned to it.
    pub(super) fn commit(&mut self, member: GroupMember) {
        for lane in LogLane::all() {
            if let Some(next) = self.next(member, lane) {
                self.committed[lane.index()] = next;
            }
        }
    }

    /// Moves the committed offsets. `false` if the group has members.
    pub(super) fn seek(&mut self, starts: [u64; LANES]) -> bool {
        if self.members.is_empty() {
            self.committed = starts;
        }
        self.members.is_empty()
    }

    pub(super) fn committed(&self) -> [u64; LANES] {
        self.committed
    }

    /// Rebalances: assigns each partition to a member, which starts at the committed offset.
    fn share(&mut self) {
        let mut turns = self.members.iter().copied().cycle();
        for part in 0..PARTS {
            let reader = turns.next();
            if self.readers[part] != reader {
                self.readers[part] = reader;
                for lane in LogLane::all().filter(|lane| lane.part() == part) {
                    self.next[lane.index()] = self.committed[lane.index()];
                }
            }
        }
    }
}
