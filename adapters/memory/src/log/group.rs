use std::collections::BTreeSet;

use super::place::{LANES, Lane, PARTS};

/// A consumer, by the order in which they came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Member(pub(super) u64);

/// Consumers that share the log among them, and how far they have come.
#[derive(Debug, Default)]
pub(super) struct Group {
    members: BTreeSet<Member>,
    /// Who reads each part; nobody while there are no members.
    readers: [Option<Member>; PARTS],
    /// The next event of each lane that is returned to its reader.
    next: [u64; LANES],
    /// Where whoever has the lane next begins.
    committed: [u64; LANES],
}

impl Group {
    pub(super) fn join(&mut self, member: Member) {
        self.members.insert(member);
        self.share();
    }

    pub(super) fn leave(&mut self, member: Member) {
        self.members.remove(&member);
        self.share();
    }

    /// The next event of a lane for this member, if the lane is theirs.
    pub(super) fn next(&self, member: Member, lane: Lane) -> Option<u64> {
        (self.readers[lane.part()] == Some(member)).then(|| self.next[lane.index()])
    }

    /// Moves the reader of a lane on.
    pub(super) fn advance(&mut self, lane: Lane, next: u64) {
        self.next[lane.index()] = next;
    }

    /// Commits what was returned to a member, of the parts that are still theirs.
    pub(super) fn commit(&mut self, member: Member) {
        for lane in Lane::all() {
            if let Some(next) = self.next(member, lane) {
                self.committed[lane.index()] = next;
            }
        }
    }

    /// Has those who come begin elsewhere. `false` if somebody is there.
    pub(super) fn seek(&mut self, starts: [u64; LANES]) -> bool {
        if self.members.is_empty() {
            self.committed = starts;
        }
        self.members.is_empty()
    }

    pub(super) fn committed(&self) -> [u64; LANES] {
        self.committed
    }

    /// Gives each part to one of the members. Whoever gets one begins where it was committed last.
    fn share(&mut self) {
        let mut turns = self.members.iter().copied().cycle();
        for part in 0..PARTS {
            let reader = turns.next();
            if self.readers[part] != reader {
                self.readers[part] = reader;
                for lane in Lane::all().filter(|lane| lane.part() == part) {
                    self.next[lane.index()] = self.committed[lane.index()];
                }
            }
        }
    }
}
