use crate::limits::REFRESH_GRACE;
use crate::{DeviceId, SessionId, Timestamp, UserId};

/// SHA-256 of a refresh token; the token itself is never stored.
pub type TokenDigest = [u8; 32];

/// One login of one device. It ends when it expires, is revoked, or the device signs in again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    pub session_id: SessionId,
    pub user_id: UserId,
    pub device_id: DeviceId,
    pub created_at: Timestamp,
    pub last_active_at: Timestamp,
    pub expires_at: Timestamp,
    /// The digest of the valid refresh token.
    pub current: TokenDigest,
    /// The token before it, for as long as a client that lost the response may present it again.
    pub spent: Option<SpentToken>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpentToken {
    pub digest: TokenDigest,
    pub spent_at: Timestamp,
    /// Whether one reuse was already forgiven; a second one is not.
    pub forgiven: bool,
}

/// A refresh token presented by a device, and its successor if the token is valid.
#[derive(Clone, Debug)]
pub struct RefreshAttempt {
    pub presented: TokenDigest,
    /// Whether the token is authentic by itself: this server issued it, now or earlier. A forged token is not. Neither
    /// is a token of an earlier release, which has no MAC.
    pub is_authentic: bool,
    pub device_id: DeviceId,
    pub successor: TokenDigest,
    pub now: Timestamp,
    pub expires_at: Timestamp,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefreshOutcome {
    /// The successor is now the valid token.
    Rotated,
    /// The session has expired, another device presented the valid token, or the token was never issued. The session
    /// stays as it is.
    Refused,
    /// A spent token was reused, so a copy of it exists. The session is to be revoked.
    Reused,
}

impl Session {
    /// Decides a refresh and, if the token is valid, rotates it.
    ///
    /// Every store calls this inside the transaction that writes the session back or deletes it.
    pub fn refresh(&mut self, attempt: &RefreshAttempt) -> RefreshOutcome {
        if self.expires_at <= attempt.now {
            return RefreshOutcome::Refused;
        }
        let same_device = attempt.device_id == self.device_id;
        if attempt.presented == self.current {
            if !same_device {
                return RefreshOutcome::Refused;
            }
            self.spent = Some(SpentToken { digest: self.current, spent_at: attempt.now, forgiven: false });
        } else {
            // Any other token that this server issued for the session has been spent. A session id is not secret, so a
            // token that only contains it proves nothing.
            let last = self.spent.as_ref().filter(|spent| spent.digest == attempt.presented);
            if last.is_none() && !attempt.is_authentic {
                return RefreshOutcome::Refused;
            }
            let forgivable =
                last.is_some_and(|spent| !spent.forgiven && attempt.now.since(spent.spent_at) <= REFRESH_GRACE);
            if !(forgivable && same_device) {
                return RefreshOutcome::Reused;
            }
            if let Some(spent) = &mut self.spent {
                spent.forgiven = true;
            }
        }
        self.current = attempt.successor;
        self.last_active_at = attempt.now;
        self.expires_at = attempt.expires_at;
        RefreshOutcome::Rotated
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device(n: u8) -> DeviceId {
        DeviceId::from_bytes([n; 16])
    }

    fn session() -> Session {
        Session {
            session_id: SessionId::from_bytes([1; 16]),
            user_id: UserId::from_bytes([2; 16]),
            device_id: device(1),
            created_at: Timestamp::default(),
            last_active_at: Timestamp::default(),
            expires_at: Timestamp::from_millis(1_000_000),
            current: [1; 32],
            spent: None,
        }
    }

    fn present(token: u8, successor: u8, device_id: DeviceId, now: u64) -> RefreshAttempt {
        RefreshAttempt {
            presented: [token; 32],
            is_authentic: true,
            device_id,
            successor: [successor; 32],
            now: Timestamp::from_millis(now),
            expires_at: Timestamp::from_millis(2_000_000),
        }
    }

    #[test]
    fn each_refresh_spends_the_token_it_uses() {
        let mut session = session();
        assert_eq!(session.refresh(&present(1, 2, device(1), 0)), RefreshOutcome::Rotated);
        assert_eq!(session.refresh(&present(2, 3, device(1), 60_000)), RefreshOutcome::Rotated);
        assert_eq!(session.refresh(&present(1, 4, device(1), 60_001)), RefreshOutcome::Reused);
    }

    #[test]
    fn a_lost_answer_is_forgiven_once_within_ten_seconds() {
        let mut session = session();
        assert_eq!(session.refresh(&present(1, 2, device(1), 0)), RefreshOutcome::Rotated);
        assert_eq!(session.refresh(&present(1, 3, device(1), 10_000)), RefreshOutcome::Rotated);
        assert_eq!(session.current, [3; 32]);
        assert_eq!(session.refresh(&present(1, 4, device(1), 10_000)), RefreshOutcome::Reused);
    }

    #[test]
    fn a_spent_token_is_not_forgiven_late_or_elsewhere_or_after_its_successor_was_used() {
        let mut late = session();
        late.refresh(&present(1, 2, device(1), 0));
        assert_eq!(late.refresh(&present(1, 3, device(1), 10_001)), RefreshOutcome::Reused);

        let mut elsewhere = session();
        elsewhere.refresh(&present(1, 2, device(1), 0));
        assert_eq!(elsewhere.refresh(&present(1, 3, device(2), 1)), RefreshOutcome::Reused);

        let mut used = session();
        used.refresh(&present(1, 2, device(1), 0));
        used.refresh(&present(2, 3, device(1), 1));
        assert_eq!(used.refresh(&present(1, 4, device(1), 2)), RefreshOutcome::Reused);
    }

    #[test]
    fn a_forged_token_is_refused_without_revoking_and_a_spent_one_of_an_earlier_release_revokes() {
        let without_mac = |attempt| RefreshAttempt { is_authentic: false, ..attempt };
        let mut session = session();
        let before = session.clone();
        assert_eq!(session.refresh(&without_mac(present(9, 2, device(1), 0))), RefreshOutcome::Refused);
        assert_eq!(session, before);
        assert_eq!(session.refresh(&without_mac(present(1, 2, device(1), 0))), RefreshOutcome::Rotated);
        assert_eq!(session.refresh(&without_mac(present(1, 3, device(1), 60_000))), RefreshOutcome::Reused);
    }

    #[test]
    fn another_device_and_an_expired_session_are_refused_without_revoking() {
        assert_eq!(session().refresh(&present(1, 2, device(2), 0)), RefreshOutcome::Refused);
        assert_eq!(session().refresh(&present(1, 2, device(1), 1_000_000)), RefreshOutcome::Refused);
    }
}
