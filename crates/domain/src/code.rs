use crate::Timestamp;
use crate::limits::CODE_LOCKOUT;

/// A keyed digest of a one-time code; the code itself is never stored.
pub type CodeDigest = [u8; 32];

/// What is kept for a phone between the request of a code and its use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OneTimeCode {
    /// The code that may be used now, if one is waiting.
    pub pending: Option<PendingCode>,
    /// Until when no code of this phone is looked at.
    pub locked_until: Option<Timestamp>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingCode {
    pub digest: CodeDigest,
    pub expires_at: Timestamp,
    /// Wrong tries until the code dies and its phone is locked.
    pub tries_left: u32,
}

/// What became of one try.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CodeAttempt {
    /// The code is spent now.
    Correct,
    /// A wrong code, an expired one, or none at all: the answer is the same.
    Wrong,
    Locked {
        until: Timestamp,
    },
}

impl OneTimeCode {
    /// Puts a new code in the place of any earlier one. A lock stays.
    pub fn issue(&mut self, code: PendingCode) {
        self.pending = Some(code);
    }

    /// Tries a code. `matches` compares digests in constant time.
    pub fn attempt(&mut self, matches: impl FnOnce(&CodeDigest) -> bool, now: Timestamp) -> CodeAttempt {
        if let Some(until) = self.locked_until.filter(|until| *until > now) {
            return CodeAttempt::Locked { until };
        }
        self.locked_until = None;
        let Some(pending) = self.pending.as_mut().filter(|pending| pending.expires_at > now) else {
            self.pending = None;
            return CodeAttempt::Wrong;
        };
        if matches(&pending.digest) {
            self.pending = None;
            return CodeAttempt::Correct;
        }
        pending.tries_left = pending.tries_left.saturating_sub(1);
        if pending.tries_left == 0 {
            self.pending = None;
            self.locked_until = Some(now + CODE_LOCKOUT);
        }
        CodeAttempt::Wrong
    }

    /// When the row says nothing any more and may be deleted.
    pub fn forgettable_at(&self) -> Timestamp {
        let expires = self.pending.as_ref().map(|pending| pending.expires_at);
        expires.max(self.locked_until).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: CodeDigest = [1; 32];
    const BAD: CodeDigest = [2; 32];

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_millis(seconds * 1000)
    }

    fn issued() -> OneTimeCode {
        let mut code = OneTimeCode::default();
        code.issue(pending(300));
        code
    }

    fn pending(expires_at: u64) -> PendingCode {
        PendingCode { digest: GOOD, expires_at: at(expires_at), tries_left: 5 }
    }

    fn attempt(code: &mut OneTimeCode, digest: CodeDigest, now: Timestamp) -> CodeAttempt {
        code.attempt(|stored| *stored == digest, now)
    }

    #[test]
    fn a_code_works_once() {
        let mut code = issued();
        assert_eq!(attempt(&mut code, GOOD, at(1)), CodeAttempt::Correct);
        assert_eq!(attempt(&mut code, GOOD, at(1)), CodeAttempt::Wrong);
    }

    #[test]
    fn an_expired_code_is_wrong() {
        assert_eq!(attempt(&mut issued(), GOOD, at(300)), CodeAttempt::Wrong);
    }

    #[test]
    fn five_wrong_tries_kill_the_code_and_lock_the_phone_for_fifteen_minutes() {
        let mut code = issued();
        for _ in 0..5 {
            assert_eq!(attempt(&mut code, BAD, at(10)), CodeAttempt::Wrong);
        }
        assert_eq!(attempt(&mut code, GOOD, at(10)), CodeAttempt::Locked { until: at(910) });
        code.issue(pending(1200));
        assert_eq!(attempt(&mut code, GOOD, at(909)), CodeAttempt::Locked { until: at(910) });
        assert_eq!(attempt(&mut code, GOOD, at(910)), CodeAttempt::Correct);
    }
}
