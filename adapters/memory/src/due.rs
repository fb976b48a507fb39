use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use domain::{Timestamp, UserId};

/// How long a claim holds.
const CLAIM_LIFE: Duration = Duration::from_secs(10);

/// Users who are due to be announced, each once, in the order of time.
#[derive(Debug, Default)]
pub(crate) struct Due {
    entries: BTreeMap<UserId, Entry>,
    /// The same by time: when each is due, or its claim ends.
    order: BTreeSet<(Timestamp, UserId)>,
    claims: u64,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    at: Timestamp,
    claim: Option<Claim>,
}

#[derive(Clone, Copy, Debug)]
struct Claim {
    mark: u64,
    /// When the user is due again, if they have changed since.
    then: Option<Timestamp>,
}

impl Due {
    /// Makes a user due who has come: now, unless they are so already.
    pub(crate) fn come(&mut self, user_id: UserId, now: Timestamp) {
        let at = self.entries.get(&user_id).map_or(now, |entry| entry.at.min(now));
        self.put(user_id, at);
    }

    /// Makes a user due who has gone, at this time and no sooner.
    pub(crate) fn go(&mut self, user_id: UserId, at: Timestamp) {
        self.put(user_id, at);
    }

    /// Who is claimed keeps their place, and is due behind it.
    fn put(&mut self, user_id: UserId, at: Timestamp) {
        let entry = match self.entries.get(&user_id) {
            Some(Entry { at: until, claim: Some(claim) }) => {
                Entry { at: *until, claim: Some(Claim { then: Some(at), ..*claim }) }
            }
            _ => Entry { at, claim: None },
        };
        self.set(user_id, entry);
    }

    /// The user who has been due for longest, claimed from now on under the mark that comes with it.
    pub(crate) fn claim(&mut self, now: Timestamp) -> Option<(UserId, u64)> {
        let (at, user_id) = self.order.first().copied()?;
        if at > now {
            return None;
        }
        self.claims += 1;
        let claim = Claim { mark: self.claims, then: None };
        self.set(user_id, Entry { at: now + CLAIM_LIFE, claim: Some(claim) });
        Some((user_id, claim.mark))
    }

    /// Ends a claim, if it is still the one of this mark. Who has changed meanwhile is due again, at `otherwise` if what was
    /// announced is not so any more and nobody has said when: they have changed back to what others were told before.
    pub(crate) fn settle(&mut self, user_id: UserId, mark: u64, otherwise: Option<Timestamp>) {
        let Some(Entry { claim: Some(claim), at }) = self.entries.get(&user_id).copied() else { return };
        if claim.mark != mark {
            return;
        }
        self.entries.remove(&user_id);
        self.order.remove(&(at, user_id));
        if let Some(at) = claim.then.or(otherwise) {
            self.put(user_id, at);
        }
    }

    /// Forgets everybody who is due. Marks go on: a claim from before settles none from after.
    pub(crate) fn wipe(&mut self) {
        self.entries.clear();
        self.order.clear();
    }

    fn set(&mut self, user_id: UserId, entry: Entry) {
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
    fn of_several_comings_the_first_counts_and_of_several_goings_the_last() {
        let mut due = Due::default();
        due.come(user(), at(200));
        due.come(user(), at(300));
        assert_eq!(due.claim(at(199)), None);
        assert_eq!(due.claim(at(200)), Some((user(), 1)));
        due.settle(user(), 1, None);
        due.go(user(), at(500));
        due.go(user(), at(900));
        assert_eq!(due.claim(at(899)), None);
        assert_eq!(due.claim(at(900)), Some((user(), 2)));
    }

    #[test]
    fn a_claim_that_was_given_out_again_settles_nothing() {
        let mut due = Due::default();
        due.come(user(), at(0));
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
        due.come(user(), at(0));
        assert_eq!(due.claim(at(0)), Some((user(), 1)));
        due.wipe();
        assert_eq!(due.claim(at(60_000)), None);
        due.come(user(), at(60_000));
        assert_eq!(due.claim(at(60_000)), Some((user(), 2)));
        due.settle(user(), 1, None);
        assert_eq!(due.claim(at(70_000)), Some((user(), 3)));
    }
}
