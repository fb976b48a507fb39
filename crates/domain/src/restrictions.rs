use std::time::Duration;

use crate::limits::DENIED_TOKENS_MAX;
use crate::{SuspensionReason, Timestamp};

/// SHA-256 of the id of a token (`jti`).
pub type TokenIdDigest = [u8; 32];

/// The limits that operators have put on the access of a user. The default limits nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Restrictions {
    /// Present while the user may not use the service at all.
    pub suspension: Option<Suspension>,
    /// Sessions that began and tokens that were issued before this time are invalid.
    pub not_before: Option<Timestamp>,
    /// Single tokens that are invalid, at most `DENIED_TOKENS_MAX`, oldest first.
    pub denied: Vec<DeniedToken>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Suspension {
    pub since: Timestamp,
    pub reason: Option<SuspensionReason>,
}

/// A token that is invalid, although it has not expired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeniedToken {
    pub token_id: TokenIdDigest,
    pub denied_at: Timestamp,
    /// The entry is dropped then, because the token has expired.
    pub expires_at: Timestamp,
}

/// A change of the restrictions of a user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RestrictionChange {
    /// Suspends the user, or replaces the reason of the suspension.
    Suspend { reason: Option<SuspensionReason> },
    /// Ends the suspension. `not_before` and denied tokens stay.
    Resume,
    /// Invalidates all sessions and tokens of the user up to now.
    SignOut,
    /// Invalidates one token for `lifetime`.
    DenyToken { token_id: TokenIdDigest, lifetime: Duration },
}

/// The list of denied tokens of the user is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the user has {DENIED_TOKENS_MAX} revoked tokens already; sign them out everywhere instead")]
pub struct TooManyDeniedTokens;

/// Why a credential is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessRefusal {
    /// The user is suspended.
    Suspended,
    /// The session or token is invalid; the user may sign in again.
    Revoked,
}

impl Restrictions {
    /// Applies a change. Every store calls this inside the transaction that writes the restrictions back.
    pub fn apply(&mut self, change: &RestrictionChange, now: Timestamp) -> Result<(), TooManyDeniedTokens> {
        self.denied.retain(|denied| denied.expires_at > now);
        match change {
            RestrictionChange::Suspend { reason } => {
                let since = self.suspension.as_ref().map_or(now, |suspension| suspension.since);
                self.suspension = Some(Suspension { since, reason: reason.clone() });
            }
            RestrictionChange::Resume => self.suspension = None,
            RestrictionChange::SignOut => self.not_before = self.not_before.max(Some(now)),
            RestrictionChange::DenyToken { token_id, lifetime } => {
                self.denied.retain(|denied| denied.token_id != *token_id);
                if self.denied.len() >= DENIED_TOKENS_MAX {
                    return Err(TooManyDeniedTokens);
                }
                let denied = DeniedToken { token_id: *token_id, denied_at: now, expires_at: now + *lifetime };
                self.denied.push(denied);
            }
        }
        Ok(())
    }

    /// Checks a token with this issue time and id, or a session that began then.
    pub fn check(&self, issued_at: Timestamp, token_id: Option<&TokenIdDigest>) -> Result<(), AccessRefusal> {
        let is_denied = |token_id: &TokenIdDigest| self.denied.iter().any(|denied| denied.token_id == *token_id);
        if self.suspension.is_some() {
            Err(AccessRefusal::Suspended)
        } else if self.not_before.is_some_and(|not_before| issued_at < not_before) || token_id.is_some_and(is_denied) {
            Err(AccessRefusal::Revoked)
        } else {
            Ok(())
        }
    }

    /// Checks a ticket with this issue time. It does not name its token, so every later denial makes it invalid.
    pub fn check_ticket(&self, issued_at: Timestamp) -> Result<(), AccessRefusal> {
        self.check(issued_at, None)?;
        let is_newer = |denied: &DeniedToken| denied.denied_at >= issued_at;
        if self.denied.iter().any(is_newer) { Err(AccessRefusal::Revoked) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    fn after(changes: &[(RestrictionChange, u64)]) -> Restrictions {
        let mut restrictions = Restrictions::default();
        for (change, millis) in changes {
            restrictions.apply(change, at(*millis)).unwrap();
        }
        restrictions
    }

    fn deny(n: u8, lifetime_ms: u64) -> RestrictionChange {
        RestrictionChange::DenyToken { token_id: [n; 32], lifetime: Duration::from_millis(lifetime_ms) }
    }

    #[test]
    fn a_suspended_user_is_refused_until_the_suspension_ends() {
        let reason = |text: &str| Some(SuspensionReason::try_from(text.to_owned()).unwrap());
        let suspend = |text| RestrictionChange::Suspend { reason: reason(text) };
        let twice = after(&[(suspend("spam"), 1), (suspend("abuse"), 2)]);
        assert_eq!(twice.suspension, Some(Suspension { since: at(1), reason: reason("abuse") }));
        assert_eq!(twice.check(at(9), None), Err(AccessRefusal::Suspended));
        assert_eq!(twice.check_ticket(at(9)), Err(AccessRefusal::Suspended));
        let resumed = after(&[(suspend("spam"), 1), (RestrictionChange::Resume, 2)]);
        assert_eq!(resumed, Restrictions::default());
    }

    #[test]
    fn signing_out_refuses_everything_from_before_and_nothing_after() {
        let signed_out = after(&[(RestrictionChange::SignOut, 5), (RestrictionChange::SignOut, 3)]);
        assert_eq!(signed_out.check(at(4), None), Err(AccessRefusal::Revoked));
        assert_eq!(signed_out.check(at(5), None), Ok(()));
    }

    #[test]
    fn a_denied_token_is_refused_and_another_is_not() {
        let denied = after(&[(deny(1, 10), 5)]);
        assert_eq!(denied.check(at(0), Some(&[1; 32])), Err(AccessRefusal::Revoked));
        assert_eq!(denied.check(at(0), Some(&[2; 32])), Ok(()));
        assert_eq!(denied.check(at(0), None), Ok(()));
        assert_eq!(denied.check_ticket(at(4)), Err(AccessRefusal::Revoked));
        assert_eq!(denied.check_ticket(at(6)), Ok(()));
    }

    #[test]
    fn denied_tokens_are_bounded_and_expire() {
        let mut full = Restrictions::default();
        for n in 0..DENIED_TOKENS_MAX {
            full.apply(&deny(n as u8, 10), at(0)).unwrap();
        }
        assert_eq!(full.apply(&deny(200, 10), at(9)), Err(TooManyDeniedTokens));
        full.apply(&deny(0, 10), at(9)).unwrap();
        full.apply(&deny(200, 10), at(10)).unwrap();
        assert_eq!(full.denied.len(), 2);
    }
}
