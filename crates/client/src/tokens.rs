use std::fmt;
use std::time::{Duration, Instant};

use protocol::rest::Tokens;

/// How long before its expiry an access token is renewed.
const EARLY: Duration = Duration::from_secs(5 * 60);

/// Callback that stores new tokens before they are used, and receives `None` after sign-out.
pub(crate) type Keeper = Box<dyn Fn(Option<&Tokens>) + Send + Sync>;

/// The tokens of a session, and when to renew them. `Debug` prints neither token.
#[derive(Clone)]
pub(crate) struct HeldTokens {
    pub(crate) access_token: String,
    pub(crate) refresh_token: String,
    pub(crate) renew_at: Instant,
}

impl HeldTokens {
    /// Tokens that were received at `now`. Tokens with a lifetime shorter than the margin are renewed half way through
    /// it.
    pub(crate) fn new(tokens: Tokens, now: Instant) -> Self {
        let life = Duration::from_secs(tokens.expires_in);
        let good_for = life.checked_sub(EARLY).filter(|left| !left.is_zero()).unwrap_or(life / 2);
        // A lifetime that overflows the clock counts as a year.
        let renew_at = now.checked_add(good_for).unwrap_or(now + Duration::from_secs(365 * 24 * 3600));
        Self { access_token: tokens.access_token.0, refresh_token: tokens.refresh_token.0, renew_at }
    }
}

impl fmt::Debug for HeldTokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HeldTokens").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(expires_in: u64, now: Instant) -> HeldTokens {
        let tokens = Tokens {
            access_token: "secret-a".into(),
            refresh_token: "secret-r".into(),
            token_type: "Bearer".to_owned(),
            expires_in,
        };
        HeldTokens::new(tokens, now)
    }

    #[test]
    fn tokens_are_renewed_five_minutes_early_and_short_ones_half_way() {
        let now = Instant::now();
        for (expires_in, renewed_after) in [(3600, 3300), (301, 1), (300, 150), (60, 30)] {
            assert_eq!(held(expires_in, now).renew_at - now, Duration::from_secs(renewed_after), "{expires_in} s");
        }
        assert!(held(u64::MAX, now).renew_at > now);
    }

    #[test]
    fn debug_shows_no_token() {
        assert_eq!(format!("{:?}", held(60, Instant::now())), "HeldTokens { .. }");
    }
}
