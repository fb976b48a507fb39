use std::fmt;

use serde::{Deserialize, Serialize};

/// The sequence of a message in its chat: 1 for the first message, then one more for each.
///
/// 0 is before the first message: the head of an empty chat, and the watermark of a member who has seen nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Sequence(pub u64);

impl Sequence {
    /// Before the first message.
    pub const ZERO: Self = Self(0);

    /// The sequence after this one.
    ///
    /// # Panics
    /// After 2^64 messages in one chat.
    pub fn next(self) -> Self {
        Self(self.0.checked_add(1).expect("a chat holds fewer than 2^64 messages"))
    }
}

impl fmt::Display for Sequence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
