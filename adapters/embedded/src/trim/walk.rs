//! Finds rows that expired a while ago and still exist, even without their expiry rows: version 0.2 could delete an
//! expiry row and leave its message.

use std::ops::Bound;
use std::time::{Duration, Instant};

use domain::{SessionId, Timestamp};
use ports::{BoxError, DeadLetterId, StoreError};

use super::purge;
use crate::keys::{self, Expiring};
use crate::tables::{Table, Tables};

/// Tables with expiring rows, in the order of the walk.
const TABLES: [Table; 7] = [
    Table::Messages,
    Table::Updates,
    Table::Sessions,
    Table::Codes,
    Table::Requests,
    Table::SendKeys,
    Table::DeadLetters,
];

/// Maximum number of rows that one step examines: a hundred million in six hours, at a step per second.
pub(super) const WALK_LEN_MAX: usize = 5_000;
/// Maximum number of rows that one step returns.
const FOUND_LEN_MAX: usize = 500;
/// Minimum time since the expiry of a row. By then the search by expiry rows has purged it, if it can.
pub(super) const WALK_GRACE: Duration = Duration::from_secs(3600);
/// Pause between the end of one walk and the start of the next.
const PAUSE: Duration = Duration::from_secs(24 * 3600);

/// A walk over all expiring rows, which starts when the store is opened and then once a day.
pub(super) struct Walk {
    state: WalkState,
}

enum WalkState {
    UnderWay(WalkPosition),
    Resting { since: Instant },
}

/// Start of a step of the walk.
struct WalkPosition {
    /// Index of the table in [`TABLES`].
    table: usize,
    after: Bound<Vec<u8>>,
}

/// Result of a step.
pub(super) struct OverdueRows {
    /// Rows that expired a while ago, with their expiry times.
    pub(super) overdue: Vec<(Timestamp, Expiring)>,
    /// The continuation, to be passed to `advance` once they are purged.
    pub(super) next: WalkContinuation,
}

/// Continuation of a walk.
pub(super) struct WalkContinuation(Option<WalkPosition>);

impl Walk {
    pub(super) fn new() -> Self {
        Self { state: WalkState::UnderWay(WalkPosition { table: 0, after: Bound::Unbounded }) }
    }

    #[cfg(test)]
    pub(super) fn is_under_way(&self) -> bool {
        matches!(self.state, WalkState::UnderWay(_))
    }

    /// Examines the next rows; `None` during the pause.
    pub(super) fn step(&mut self, tables: &Tables, now: Timestamp) -> Result<Option<OverdueRows>, StoreError> {
        if let WalkState::Resting { since } = &self.state
            && since.elapsed() >= PAUSE
        {
            *self = Self::new();
        }
        let WalkState::UnderWay(WalkPosition { table, after }) = &self.state else { return Ok(None) };
        let over = now.minus(WALK_GRACE);
        let view = tables.view();
        let mut overdue = vec![];
        let mut last = None;
        let rows = view.range(TABLES[*table], (after.clone(), Bound::Unbounded));
        for (looked_at, row) in (1..).zip(rows) {
            let (key, row) = row?;
            // `verify` reports unreadable rows.
            overdue.extend(end(TABLES[*table], &key, &row).ok().flatten().filter(|(end, _)| *end <= over));
            if looked_at == WALK_LEN_MAX || overdue.len() == FOUND_LEN_MAX {
                last = Some(key);
                break;
            }
        }
        let next = match last {
            Some(key) => Some(WalkPosition { table: *table, after: Bound::Excluded(key.to_vec()) }),
            None if table + 1 < TABLES.len() => Some(WalkPosition { table: table + 1, after: Bound::Unbounded }),
            None => None,
        };
        Ok(Some(OverdueRows { overdue, next: WalkContinuation(next) }))
    }

    /// Continues after a step. A step whose rows could not be purged is repeated.
    pub(super) fn advance(&mut self, WalkContinuation(next): WalkContinuation) {
        self.state = next.map_or_else(|| WalkState::Resting { since: Instant::now() }, WalkState::UnderWay);
    }
}

/// The expiry time of a row, and its reference in expiry rows; `None` for a message without one.
fn end(table: Table, key: &[u8], row: &[u8]) -> Result<Option<(Timestamp, Expiring)>, BoxError> {
    let what = match table {
        Table::Messages => Expiring::Message(keys::parse_message(key)?),
        Table::Updates => Expiring::Update(keys::parse_message(key)?),
        Table::Sessions => Expiring::Session(SessionId::from_bytes(key.try_into()?)),
        Table::Codes => Expiring::Code(key.try_into()?),
        Table::Requests => Expiring::Request(keys::parse_request(key)?),
        Table::SendKeys => Expiring::SendKey(key.try_into()?),
        Table::DeadLetters => Expiring::DeadLetter(DeadLetterId::from_bytes(key.try_into()?)),
        _ => return Ok(None),
    };
    Ok(purge::end(what, row)?.map(|end| (end, what)))
}
