use crate::Timestamp;
use crate::limits::CODE_LOCKOUT;

/// A keyed digest of a one-time code; the code itself is never stored.
pub type CodeDigest = [u8; 32];

/// The stored state of a phone's one-time code.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OneTimeCode {
    /// The code that is valid now, if any.
    pub pending: Option<PendingCode>,
    /// The end of the lockout; no code of this phone is accepted before it.
    pub locked_until: Option<Timestamp>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingCode {
    pub digest: CodeDigest,
    pub expires_at: Timestamp,
    /// The number of wrong attempts until the code is invalidated and the phone is locked.
    pub tries_left: u32,
}

/// The device that tries a code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CodeDevice {
    /// The owner of the phone is signed in on it, so a lock that others have caused does not apply to it.
    Known,
    Unknown,
}

/// The outcome of one attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CodeAttempt {
    /// The code was right and is now spent.
    Correct,
    /// The code is wrong or expired, or no code is pending; the outcome is deliberately the same.
    Wrong,
    Locked {
        until: Timestamp,
    },
}

impl OneTimeCode {
    /// Replaces any earlier code. A lock stays, and a code that follows another one within the time of a lockout has
    /// only the tries that were left of it.
    pub fn issue(&mut self, code: PendingCode) {
        let earlier = self.pending.take().filter(|earlier| earlier.expires_at + CODE_LOCKOUT > code.expires_at);
        let tries_left = earlier.map_or(code.tries_left, |earlier| earlier.tries_left.min(code.tries_left));
        self.pending = Some(PendingCode { tries_left, ..code });
    }

    /// Tries a code. `matches` compares digests in constant time. A lock applies to unknown devices.
    pub fn attempt(
        &mut self,
        matches: impl FnOnce(&CodeDigest) -> bool,
        device: CodeDevice,
        now: Timestamp,
    ) -> CodeAttempt {
        match self.locked_until.filter(|until| *until > now) {
            Some(until) if device == CodeDevice::Unknown => return CodeAttempt::Locked { until },
            locked_until => self.locked_until = locked_until,
        }
        // An expired code stays until its row is purged, for the count of its tries.
        let Some(pending) = self.pending.as_mut().filter(|pending| pending.expires_at > now) else {
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

    /// The time from which the row may be deleted: no code or lock of it is valid. The tries of an expired code are
    /// lost with it; the rate limit per phone still counts them.
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
        code.attempt(|stored| *stored == digest, CodeDevice::Unknown, now)
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

    #[test]
    fn a_new_code_does_not_renew_the_tries() {
        let mut code = issued();
        for _ in 0..4 {
            attempt(&mut code, BAD, at(10));
        }
        code.issue(pending(320));
        assert_eq!(attempt(&mut code, BAD, at(20)), CodeAttempt::Wrong);
        assert_eq!(attempt(&mut code, GOOD, at(20)), CodeAttempt::Locked { until: at(920) });
    }

    #[test]
    fn an_expired_code_leaves_its_tries_to_the_next_one_for_fifteen_minutes() {
        for (reissued, expected) in [(1199, CodeAttempt::Locked { until: at(1900) }), (1200, CodeAttempt::Correct)] {
            let mut code = issued();
            for _ in 0..4 {
                attempt(&mut code, BAD, at(10));
            }
            assert_eq!(attempt(&mut code, GOOD, at(300)), CodeAttempt::Wrong);
            code.issue(pending(reissued));
            attempt(&mut code, BAD, at(1000));
            assert_eq!(attempt(&mut code, GOOD, at(1000)), expected, "it expires at {reissued}");
        }
    }

    #[test]
    fn a_lock_does_not_apply_to_a_known_device() {
        let mut code = issued();
        for _ in 0..5 {
            attempt(&mut code, BAD, at(10));
        }
        code.issue(pending(320));
        let known = |code: &mut OneTimeCode| code.attempt(|stored| *stored == GOOD, CodeDevice::Known, at(20));
        assert_eq!(known(&mut code), CodeAttempt::Correct);
        assert_eq!(known(&mut code), CodeAttempt::Wrong, "it is spent");
        code.issue(pending(330));
        assert_eq!(attempt(&mut code, GOOD, at(20)), CodeAttempt::Locked { until: at(910) }, "for others it stays");
    }
}
