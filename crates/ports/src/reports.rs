use async_trait::async_trait;
use domain::{Report, ReportId, Resolution, Timestamp, UserId};

use crate::StoreError;

/// The outcome of filing a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FilingOutcome {
    /// The report is durable, from this call or from an earlier one with the same id.
    Kept {
        /// The time at which it was first filed.
        created_at: Timestamp,
    },
    /// The reporter has reached the maximum number of open reports of the last day.
    TooMany {
        /// The time at which the oldest of them no longer counts. An operator who resolves one makes room earlier.
        until: Timestamp,
    },
}

/// The outcome of resolving a report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resolved {
    /// The report is resolved as requested.
    Now(Report),
    /// The report was already resolved and stays unchanged.
    Before(Report),
    /// The report does not exist.
    NotFound,
}

/// The state of the reports to list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReportState {
    /// Reports that no operator has resolved yet.
    Open,
    /// Resolved reports.
    Resolved,
}

/// Keeps the reports of users to the operators.
///
/// A report is durable before the call returns. It does not change until it is resolved, and it is resolved once: of
/// two concurrent resolutions, the first one stays. From `REPORT_RETENTION` after its resolution on, no read returns a
/// report; its row is deleted soon after. Concurrent filings of one reporter may exceed `REPORTS_OPEN_MAX` by a few.
#[async_trait]
pub trait ReportStore: Send + Sync {
    /// Files an open report. Filing the same id again changes nothing.
    async fn file(&self, report: Report) -> Result<FilingOutcome, StoreError>;

    /// One report.
    async fn report(&self, report_id: ReportId, now: Timestamp) -> Result<Option<Report>, StoreError>;

    /// Up to `count` reports of a state after `after`, oldest first.
    async fn reports(
        &self,
        state: ReportState,
        after: Option<ReportId>,
        count: usize,
        now: Timestamp,
    ) -> Result<Vec<Report>, StoreError>;

    /// Resolves an open report by [`Report::resolved`].
    async fn resolve(&self, report_id: ReportId, resolution: Resolution) -> Result<Resolved, StoreError>;

    /// Deletes all reports that a user has filed, when their account is deleted. Reports about the user stay.
    async fn erase_user(&self, user_id: UserId) -> Result<(), StoreError>;
}
