use async_trait::async_trait;
use domain::{Report, ReportId, Resolution, Timestamp, UserId};

use crate::StoreError;

/// What became of a report that was to be filed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Filed {
    /// It is durable: now, or since an earlier try with the same id.
    Kept {
        /// When it was filed first.
        created_at: Timestamp,
    },
    /// The reporter has as many open ones of the last day as they may have.
    TooMany {
        /// When there is room again, unless an operator makes some earlier.
        until: Timestamp,
    },
}

/// What became of a report that was to be resolved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resolved {
    /// It is resolved as asked.
    Now(Report),
    /// Somebody was first; it stays as they left it.
    Before(Report),
    /// There is no such report.
    NotFound,
}

/// Which reports are listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReportState {
    /// Those that wait for an operator.
    Open,
    /// Those that an operator is done with.
    Resolved,
}

/// Keeps what users report to the operators.
///
/// A report is durable before it is answered. It stays as it was filed until it is resolved, once; of two who resolve it at
/// once one is first. A resolved one is in no read after `REPORT_RETENTION`, and its row is deleted soon after. Whoever
/// files many at once may get a few more than `REPORTS_OPEN_MAX` through.
#[async_trait]
pub trait ReportStore: Send + Sync {
    /// Files a report, which is open. The same id again is the same report.
    async fn file(&self, report: Report) -> Result<Filed, StoreError>;

    /// One report.
    async fn report(&self, report_id: ReportId, now: Timestamp) -> Result<Option<Report>, StoreError>;

    /// Up to `count` reports in a state behind `after`, oldest first.
    async fn reports(
        &self,
        state: ReportState,
        after: Option<ReportId>,
        count: usize,
        now: Timestamp,
    ) -> Result<Vec<Report>, StoreError>;

    /// Resolves a report that is open, as [`Report::resolved`] says.
    async fn resolve(&self, report_id: ReportId, resolution: Resolution) -> Result<Resolved, StoreError>;

    /// Deletes every report that a user has filed, for one who goes. Those about them stay: they are others'.
    async fn forget_user(&self, user_id: UserId) -> Result<(), StoreError>;
}
