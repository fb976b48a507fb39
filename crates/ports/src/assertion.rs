use std::fmt;
use std::sync::Arc;

use domain::Timestamp;

/// A short-lived proof, issued by the role `api`, that it has authenticated a user.
///
/// A gateway presents it with the calls that it makes for the user. It is opaque to all processes but those that issue
/// and verify it. One machine has none: its planes run in one process. `Debug` does not reveal the proof.
#[derive(Clone, PartialEq, Eq)]
pub struct Assertion {
    /// The proof.
    pub proof: Arc<[u8]>,
    /// When to renew it; its expiry if a renewal would not last longer.
    pub renew_at: Timestamp,
    /// When it expires; never after the token of the user.
    pub expires_at: Timestamp,
}

impl fmt::Debug for Assertion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Assertion(***, expires at {})", self.expires_at)
    }
}
