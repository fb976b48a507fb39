use std::collections::HashMap;

use domain::{Timestamp, UserId};

/// Entries below which nothing is pruned.
const PRUNE_MIN: usize = 1024;

/// The users whose assertions were presented on one stream of sends, each with the latest expiry.
///
/// Caller and callee each keep one, so an assertion is transmitted and verified once per stream and not per send. Only
/// users with a valid assertion are added. Expired entries are pruned whenever the number of entries has doubled.
#[derive(Default)]
pub(crate) struct AssertedUsers {
    expiries: HashMap<UserId, Timestamp>,
    prune_at: usize,
}

impl AssertedUsers {
    /// The latest expiry of the user's assertions.
    pub(crate) fn expiry(&self, user_id: UserId) -> Option<Timestamp> {
        self.expiries.get(&user_id).copied()
    }

    /// Adds an assertion that was presented at `now`.
    pub(crate) fn note(&mut self, user_id: UserId, expires_at: Timestamp, now: Timestamp) {
        let known = self.expiries.entry(user_id).or_insert(expires_at);
        *known = expires_at.max(*known);
        if self.expiries.len() >= self.prune_at.max(PRUNE_MIN) {
            self.expiries.retain(|_, expiry| *expiry > now);
            self.prune_at = 2 * self.expiries.len();
        }
    }

    /// Removes a user with a refused assertion.
    pub(crate) fn forget(&mut self, user_id: UserId) {
        self.expiries.remove(&user_id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(n: u64) -> UserId {
        UserId::from_bytes(u128::from(n).to_be_bytes())
    }

    #[test]
    fn the_latest_expiry_counts_until_the_user_is_forgotten() {
        let (mut users, [t1, t2]) = (AssertedUsers::default(), [1, 2].map(Timestamp::from_millis));
        users.note(user(1), t2, t1);
        users.note(user(1), t1, t1);
        assert_eq!((users.expiry(user(1)), users.expiry(user(2))), (Some(t2), None));
        users.forget(user(1));
        assert_eq!(users.expiry(user(1)), None);
    }

    #[test]
    fn expired_users_take_bounded_memory() {
        let mut users = AssertedUsers::default();
        for n in 0..100_000 {
            users.note(user(n), Timestamp::from_millis(n + 10), Timestamp::from_millis(n));
        }
        assert!(users.expiries.len() <= PRUNE_MIN, "{}", users.expiries.len());
        assert!((99_990..100_000).all(|n| users.expiry(user(n)).is_some()));
    }
}
