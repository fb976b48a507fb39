use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use domain::{Timestamp, UserId};

/// Lease time of a claim.
const CLAIM_LIFE: Duration = Duration::from_secs(10);

/// Queue of users with a pending presence announcement, each once, by due time.
#[derive(Debug, Default)]
pub(crate) struct Due {
    entries: BTreeMap<UserId, DueEntry>,
    /// The same by time: the due time, or the end of the claim.
    order: BTreeSet<(Timestamp, UserId)>,
    claims: u64,
}

#[derive(Clone, Copy, Debug)]
struct DueEntry {
    at: Timestamp,
    claim: Option<Claim>,
}

#[derive(Clone, Copy, Debug)]
struct Claim {
    mark: u64,
    /// The next due time, if the user's presence has changed since the claim.
    then: Option<Timestamp>,
}

impl Due {
    /// Queues a user who came online: due now, unless already due.
    pub(crate) fn came_online(&mut self, user_id: UserId, now: Timestamp) {
        let at = self.entries.get(&user_id).map_or(now, |entry| entry.at.min(now));
        self.put(user_id, at);
    }

    /// Queues a user who went offline: due at this time and not earlier.
    pub(crate) fn went_offline(&mut self, user_id: UserId, at: Timestamp) {
        self.put(user_id, at);
    }

    /// Sets the due time. For a claimed user it applies after the claim ends.
    fn put(&mut self, user_id: UserId, at: Timestamp) {
        let entry = match self.entries.get(&user_id) {
            Some(DueEntry { at: until, claim: Some(claim) }) => {
                DueEntry { at: *until, claim: Some(Claim { then: Some(at), ..*claim }) }
            }
            _ => DueEntry { at, claim: None },
        };
        self.set(user_id, entry);
    }

    /// Claims the user who has been due the longest, and returns the mark of the claim.
    pub(crate) fn claim(&mut self, now: Timestamp) -> Option<(UserId, u64)> {
        let (at, user_id) = self.order.first().copied()?;
        if at > now {
            return None;
        }
        self.claims += 1;
        let claim = Claim { mark: self.claims, then: None };
        self.set(user_id, DueEntry { at: now + CLAIM_LIFE, claim: Some(claim) });
        Some((user_id, claim.mark))
    }

    /// Ends a claim, if it still has this mark. A user who changed meanwhile is queued again. `otherwise` is the due
    /// time if no change is queued although the announcement is outdated: the user has changed back to the previously
    /// announced state.
    pub(crate) fn settle(&mut self, user_id: UserId, mark: u64, otherwise: Option<Timestamp>) {
        let Some(DueEntry { claim: Some(claim), at }) = self.entries.get(&user_id).copied() else { return };
        if claim.mark != mark {
            return;
        }
        self.entries.remove(&user_id);
        self.order.remove(&(at, user_id));
        if let Some(at) = claim.then.or(otherwise) {
            self.put(user_id, at);
        }
    }

    /// Clears the queue. Marks continue to count, so an earlier claim cannot settle a later one.
    pub(crate) fn wipe(&mut self) {
        self.entries.clear();
        self.order.clear();
    }

    fn set(&mut self, user_id: UserId, entry: DueEntry) {
        if let Some(before) = self.entries.insert(user_id, entry) {
            self.order.remove(&(before.at, user_id));
        }
        self.order.insert((entry.at, user_id));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user() -> UserId {
        UserId::from_bytes([1; 16])
    }

    fn at(millis: u64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    #[test]
    fn the_first_of_several_online_changes_and_the_last_of_several_offline_changes_count() {
        let mut due = Due::default();
        due.came_online(user(), at(200));
        due.came_online(user(), at(300));
        assert_eq!(due.claim(at(199)), None);
        assert_eq!(due.claim(at(200)), Some((user(), 1)));
        due.settle(user(), 1, None);
        due.went_offline(user(), at(500));
        due.went_offline(user(), at(900));
        assert_eq!(due.claim(at(899)), None);
        assert_eq!(due.claim(at(900)), Some((user(), 2)));
    }

    #[test]
    fn a_claim_that_was_given_out_again_settles_nothing() {
        let mut due = Due::default();
        due.came_online(user(), at(0));
        assert_eq!(due.claim(at(0)), Some((user(), 1)));
        assert_eq!(due.claim(at(9_999)), None);
        assert_eq!(due.claim(at(10_000)), Some((user(), 2)));
        due.settle(user(), 1, None);
        assert_eq!(due.claim(at(19_999)), None);
        due.settle(user(), 2, None);
        assert_eq!(due.claim(at(60_000)), None);
    }

    #[test]
    fn a_claim_from_before_a_wipe_settles_none_from_after() {
        let mut due = Due::default();
        due.came_online(user(), at(0));
        assert_eq!(due.claim(at(0)), Some((user(), 1)));
        due.wipe();
        assert_eq!(due.claim(at(60_000)), None);
        due.came_online(user(), at(60_000));
        assert_eq!(due.claim(at(60_000)), Some((user(), 2)));
        due.settle(user(), 1, None);
        assert_eq!(due.claim(at(70_000)), Some((user(), 3)));
    }
}
