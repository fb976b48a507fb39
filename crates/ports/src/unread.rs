use domain::limits::{UNREAD_EXACT_MAX, UNREAD_ROWS_MAX};
use domain::{ChatId, Sequence, UserId};

/// A query for the unread count of a member in a chat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnreadQuery {
    /// The chat.
    pub chat_id: ChatId,
    /// The member.
    pub reader: UserId,
    /// The member's read watermark.
    pub read: Sequence,
}

/// The unread count of a member in a chat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnreadCount {
    /// The number of unread messages, or a lower bound of it.
    pub count: u64,
    /// Whether `count` is exact; otherwise it is a lower bound.
    pub is_exact: bool,
}

impl UnreadCount {
    /// No unread messages.
    pub const NONE: Self = Self { count: 0, is_exact: true };
}

/// Counts the unread messages of one chat and stops at the limits, by the same rule in every store.
///
/// The store passes in the rows above the read watermark, newest first. Unread messages are most often the newest, so
/// if there are more rows than the limit, the tally ignores the oldest.
#[derive(Debug, Default)]
pub struct UnreadTally {
    count: u64,
    rows: usize,
}

impl UnreadTally {
    /// Counts the next older row. Returns the result if no further row is needed.
    pub fn row(&mut self, is_unread: bool) -> Option<UnreadCount> {
        let more = UnreadCount { count: self.count, is_exact: false };
        if self.rows == UNREAD_ROWS_MAX || (is_unread && self.count == UNREAD_EXACT_MAX) {
            return Some(more);
        }
        self.rows += 1;
        self.count += u64::from(is_unread);
        None
    }

    /// The result after the last row.
    pub fn finish(self) -> UnreadCount {
        UnreadCount { count: self.count, is_exact: true }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(rows: impl IntoIterator<Item = bool>) -> (u64, bool) {
        let mut tally = UnreadTally::default();
        let early = rows.into_iter().find_map(|is_unread| tally.row(is_unread));
        let UnreadCount { count, is_exact } = early.unwrap_or_else(|| tally.finish());
        (count, is_exact)
    }

    #[test]
    fn a_count_is_exact_up_to_the_limits_and_a_lower_bound_beyond() {
        let exact = UNREAD_EXACT_MAX as usize;
        let rows = |unread, own| [vec![true; unread], vec![false; own]].concat();
        assert_eq!(tally([]), (0, true));
        assert_eq!(tally(rows(exact, 50)), (1000, true));
        assert_eq!(tally(rows(exact + 1, 50)), (1000, false));
        assert_eq!(tally(rows(3, UNREAD_ROWS_MAX - 3)), (3, true));
        assert_eq!(tally(rows(3, UNREAD_ROWS_MAX - 2)), (3, false));
    }
}
