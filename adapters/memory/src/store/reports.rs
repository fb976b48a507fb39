use std::ops::Bound;

use async_trait::async_trait;
use domain::limits::{REPORTS_OPEN_MAX, REPORTS_PERIOD};
use domain::{Report, ReportId, Resolution, Timestamp, UserId};
use ports::{FilingOutcome, ReportState, ReportStore, Resolved, StoreError};

use super::MemoryStore;

#[async_trait]
impl ReportStore for MemoryStore {
    async fn file(&self, report: Report) -> Result<FilingOutcome, StoreError> {
        Ok(self.transaction(|state| {
            if let Some(first) = state.reports.get(&report.report_id) {
                return FilingOutcome::Kept { created_at: first.created_at };
            }
            let own = state.reports.values().filter(|other| other.reporter_id == report.reporter_id);
            let open = own.filter(|other| other.resolution.is_none()).map(|other| other.created_at);
            let recent: Vec<Timestamp> = open.filter(|at| report.created_at.since(*at) < REPORTS_PERIOD).collect();
            match recent.iter().min() {
                Some(oldest) if recent.len() >= REPORTS_OPEN_MAX => {
                    FilingOutcome::TooMany { until: *oldest + REPORTS_PERIOD }
                }
                _ => {
                    let created_at = report.created_at;
                    state.reports.insert(report.report_id, report);
                    FilingOutcome::Kept { created_at }
                }
            }
        }))
    }

    async fn report(&self, report_id: ReportId, now: Timestamp) -> Result<Option<Report>, StoreError> {
        Ok(self.transaction(|state| state.reports.get(&report_id).filter(|report| !report.is_over(now)).cloned()))
    }

    async fn reports(
        &self,
        state: ReportState,
        after: Option<ReportId>,
        count: usize,
        now: Timestamp,
    ) -> Result<Vec<Report>, StoreError> {
        let from = (after.map_or(Bound::Unbounded, Bound::Excluded), Bound::Unbounded);
        let is_listed = |report: &&Report| {
            let in_state = match state {
                ReportState::Open => report.resolution.is_none(),
                ReportState::Resolved => report.resolution.is_some(),
            };
            in_state && !report.is_over(now)
        };
        Ok(self.transaction(|state| {
            let reports = state.reports.range(from).map(|(_, report)| report);
            reports.filter(is_listed).take(count).cloned().collect()
        }))
    }

    async fn resolve(&self, report_id: ReportId, resolution: Resolution) -> Result<Resolved, StoreError> {
        Ok(self.transaction(|state| match state.reports.get_mut(&report_id) {
            None => Resolved::NotFound,
            Some(report) if report.resolution.is_some() => Resolved::Before(report.clone()),
            Some(report) => {
                *report = report.clone().resolved(resolution);
                Resolved::Now(report.clone())
            }
        }))
    }

    async fn erase_user(&self, user_id: UserId) -> Result<(), StoreError> {
        self.transaction(|state| state.reports.retain(|_, report| report.reporter_id != user_id));
        Ok(())
    }
}
