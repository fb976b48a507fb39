use crate::limits::{REFRESH_GRACE, TOKEN_CHAINS_MAX};
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
    /// The chains of tokens of other clients of the device, the last used one first. Two tabs that refresh at once with one
    /// token get different successors, and both go on with theirs.
    pub overtaken: Vec<TokenChain>,
}

/// A valid refresh token and the one before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenChain {
    pub current: TokenDigest,
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
    /// Whether the token itself proves its origin: this server issued it, now or earlier. A forged token is not. Neither
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
    /// The successor of a forgiven token does not replace the one before it. Either the response with that one was lost, or
    /// another tab has it; both are valid from then on.
    ///
    /// Every store calls this inside the transaction that writes the session back or deletes it. A rotation always changes
    /// `current`.
    pub fn refresh(&mut self, attempt: &RefreshAttempt) -> RefreshOutcome {
        if self.expires_at <= attempt.now {
            return RefreshOutcome::Refused;
        }
        let same_device = attempt.device_id == self.device_id;
        let last_used = TokenChain { current: self.current, spent: self.spent.clone() };
        let mut chains: Vec<_> = [last_used].into_iter().chain(self.overtaken.iter().cloned()).collect();
        let spent = match chains.iter().position(|chain| chain.current == attempt.presented) {
            Some(_) if !same_device => return RefreshOutcome::Refused,
            Some(at) => {
                chains.remove(at);
                SpentToken { digest: attempt.presented, spent_at: attempt.now, forgiven: false }
            }
            // Any other token that this server issued for the session has been spent. A session id is not secret, so a
            // token that only contains it proves nothing.
            None => {
                let mut spent = chains.iter_mut().filter_map(|chain| chain.spent.as_mut());
                let Some(spent) = spent.find(|spent| spent.digest == attempt.presented) else {
                    return if attempt.is_authentic { RefreshOutcome::Reused } else { RefreshOutcome::Refused };
                };
                // Its successor is unused: it is still the current one of the chain.
                let forgivable = !spent.forgiven && attempt.now.since(spent.spent_at) <= REFRESH_GRACE;
                if !(forgivable && same_device) {
                    return RefreshOutcome::Reused;
                }
                spent.forgiven = true;
                spent.clone()
            }
        };
        chains.truncate(TOKEN_CHAINS_MAX - 1);
        self.overtaken = chains;
        self.current = attempt.successor;
        self.spent = Some(spent);
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
            overtaken: vec![],
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

    /// Two tabs have token 1 and refresh at once: one gets 2, the other one 3.
    fn two_tabs() -> Session {
        let mut session = session();
        assert_eq!(session.refresh(&present(1, 2, device(1), 0)), RefreshOutcome::Rotated);
        assert_eq!(session.refresh(&present(1, 3, device(1), 1)), RefreshOutcome::Rotated);
        session
    }

    #[test]
    fn two_tabs_that_refresh_at_once_both_go_on() {
        let mut session = two_tabs();
        let (mut one, mut other) = (2, 3);
        for hour in 1..30 {
            let now = hour * 3600;
            // They refresh in turns, in different orders and with pauses of different lengths.
            for is_one in [hour % 2 == 0, hour % 2 != 0] {
                let token = if is_one { &mut one } else { &mut other };
                let successor = *token + 2;
                let attempt = present(*token, successor, device(1), now + u64::from(is_one) * 60);
                assert_eq!(session.refresh(&attempt), RefreshOutcome::Rotated, "{hour}");
                *token = successor;
            }
        }
        assert_eq!(session.overtaken.len(), 1);
    }

    #[test]
    fn each_of_two_tabs_may_lose_an_answer() {
        let mut session = two_tabs();
        assert_eq!(session.refresh(&present(2, 4, device(1), 3000)), RefreshOutcome::Rotated);
        assert_eq!(session.refresh(&present(3, 5, device(1), 3001)), RefreshOutcome::Rotated);
        assert_eq!(session.refresh(&present(2, 6, device(1), 3002)), RefreshOutcome::Rotated);
        assert_eq!(session.refresh(&present(3, 7, device(1), 3003)), RefreshOutcome::Rotated);
        assert_eq!(session.refresh(&present(6, 8, device(1), 9000)), RefreshOutcome::Rotated);
        assert_eq!(session.refresh(&present(7, 9, device(1), 9001)), RefreshOutcome::Rotated);
    }

    #[test]
    fn a_spent_token_of_either_tab_ends_the_session() {
        for stolen in [1, 2, 3] {
            let mut session = two_tabs();
            session.refresh(&present(2, 4, device(1), 60_000));
            session.refresh(&present(3, 5, device(1), 60_001));
            let late = present(stolen, 6, device(1), 60_000 + 10_002);
            assert_eq!(session.refresh(&late), RefreshOutcome::Reused, "{stolen}");
        }
        for (stolen, device_id) in [(1, device(1)), (1, device(2))] {
            assert_eq!(two_tabs().refresh(&present(stolen, 6, device_id, 2)), RefreshOutcome::Reused);
        }
        let mut session = two_tabs();
        let before = session.clone();
        assert_eq!(session.refresh(&present(2, 4, device(2), 2)), RefreshOutcome::Refused);
        assert_eq!(session, before);
    }

    #[test]
    fn a_session_has_four_valid_tokens_at_most_and_drops_the_one_used_longest_ago() {
        let mut session = session();
        for n in 0..9 {
            let (now, valid) = (u64::from(n) * 100_000, 2 * n + 1);
            assert_eq!(session.refresh(&present(valid, valid + 1, device(1), now)), RefreshOutcome::Rotated);
            assert_eq!(session.refresh(&present(valid, valid + 2, device(1), now + 1)), RefreshOutcome::Rotated);
        }
        let valid: Vec<u8> = session.overtaken.iter().map(|chain| chain.current[0]).collect();
        assert_eq!((session.current[0], valid), (19, vec![18, 16, 14]));
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
