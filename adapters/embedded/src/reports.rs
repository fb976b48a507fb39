use std::ops::Bound;

use async_trait::async_trait;
use domain::limits::{REPORTS_OPEN_MAX, REPORTS_PERIOD};
use domain::{Report, ReportId, Resolution, Timestamp, UserId};
use fjall::Slice;
use ports::{FilingOutcome, ReportState, ReportStore, Resolved, StoreError};

use crate::EmbeddedStore;
use crate::error::unreadable;
use crate::keys;
use crate::records::Stored;
use crate::tables::{Table, Tables, View};
use crate::tx::Tx;

#[async_trait]
impl ReportStore for EmbeddedStore {
    async fn file(&self, report: Report) -> Result<FilingOutcome, StoreError> {
        self.write(move |tx| {
            let key = report.report_id.to_bytes();
            if let Some(first) = tx.get::<Report>(Table::Reports, &key)? {
                return Ok(FilingOutcome::Kept { created_at: first.created_at });
            }
            let recent = open_since(tx, report.reporter_id, report.created_at)?;
            if let Some(oldest) = recent.iter().min().filter(|_| recent.len() >= REPORTS_OPEN_MAX) {
                return Ok(FilingOutcome::TooMany { until: *oldest + REPORTS_PERIOD });
            }
            tx.put(Table::Reports, &key, &report);
            tx.put(Table::ReportIndex, &keys::report_open(report.report_id), &());
            tx.put(Table::ReportIndex, &keys::report_of(report.reporter_id, report.report_id), &());
            Ok(FilingOutcome::Kept { created_at: report.created_at })
        })
        .await
    }

    async fn report(&self, report_id: ReportId, now: Timestamp) -> Result<Option<Report>, StoreError> {
        let report: Option<Report> = self.tables().await?.get(Table::Reports, &report_id.to_bytes())?;
        Ok(report.filter(|report| !report.is_over(now)))
    }

    async fn reports(
        &self,
        state: ReportState,
        after: Option<ReportId>,
        count: usize,
        now: Timestamp,
    ) -> Result<Vec<Report>, StoreError> {
        self.read(move |tables| match state {
            ReportState::Open => open(&tables.view(), after, count),
            ReportState::Resolved => resolved(&tables.view(), after, count, now),
        })
        .await
    }

    async fn resolve(&self, report_id: ReportId, resolution: Resolution) -> Result<Resolved, StoreError> {
        self.write(move |tx| {
            let key = report_id.to_bytes();
            let Some(report) = tx.get::<Report>(Table::Reports, &key)? else { return Ok(Resolved::NotFound) };
            if report.resolution.is_some() {
                return Ok(Resolved::Before(report));
            }
            let report = report.resolved(resolution);
            tx.put(Table::Reports, &key, &report);
            tx.delete(Table::ReportIndex, &keys::report_open(report_id));
            if let Some(end) = report.ends_at() {
                tx.put(Table::ReportIndex, &keys::report_end(end, report_id), &());
            }
            Ok(Resolved::Now(report))
        })
        .await
    }

    async fn erase_user(&self, user_id: UserId) -> Result<(), StoreError> {
        self.write(move |tx| {
            for key in tx.keys(Table::ReportIndex, &keys::reports_of(user_id))? {
                forget(tx, parse(&key)?)?;
            }
            Ok(())
        })
        .await
    }
}

/// The filing times of a user's open reports within the period before `now`.
fn open_since(tx: &Tx<'_>, user_id: UserId, now: Timestamp) -> Result<Vec<Timestamp>, StoreError> {
    let mut recent = vec![];
    for key in tx.keys(Table::ReportIndex, &keys::reports_of(user_id))? {
        let report: Option<Report> = tx.get(Table::Reports, &parse(&key)?.to_bytes())?;
        let open = report.filter(|report| report.resolution.is_none()).map(|report| report.created_at);
        recent.extend(open.filter(|created_at| now.since(*created_at) < REPORTS_PERIOD));
    }
    Ok(recent)
}

fn open(view: &View<'_>, after: Option<ReportId>, count: usize) -> Result<Vec<Report>, StoreError> {
    let from = match after {
        None => Bound::Included(keys::report_open(ReportId::from_bytes([0; 16]))),
        Some(after) => Bound::Excluded(keys::report_open(after)),
    };
    let last = Bound::Included(keys::report_open(ReportId::from_bytes([0xff; 16])));
    let mut reports = vec![];
    for row in view.range(Table::ReportIndex, (from, last)).take(count) {
        reports.extend(view.get::<Report>(Table::Reports, &parse(&row?.0)?.to_bytes())?);
    }
    Ok(reports)
}

/// Lists resolved reports without an index: nearly all stored reports are resolved.
fn resolved(view: &View<'_>, after: Option<ReportId>, count: usize, now: Timestamp) -> Result<Vec<Report>, StoreError> {
    let from = after.map_or(Bound::Unbounded, |after| Bound::Excluded(after.to_bytes()));
    let rows = view.range(Table::Reports, (from, Bound::Unbounded));
    let reports = rows.map(|row| Report::decode(&row?.1).map_err(|error| unreadable(Table::Reports, error)));
    let is_listed = |report: &Result<Report, _>| {
        report.as_ref().map_or(true, |report| report.resolution.is_some() && !report.is_over(now))
    };
    reports.filter(is_listed).take(count).collect()
}

/// Index keys of expired reports.
pub(crate) fn over(tables: &Tables, now: Timestamp, count: usize) -> Result<Vec<Slice>, StoreError> {
    let view = tables.view();
    view.range(Table::ReportIndex, keys::reports_over(now)).take(count).map(|row| Ok(row?.0)).collect()
}

/// Deletes the given reports that have expired at the time of the commit, and returns their number. It keeps the index
/// row of an unexpired report, so that a later search finds it again.
pub(crate) fn purge(tx: &mut Tx<'_>, over: &[Slice]) -> Result<usize, StoreError> {
    let mut purged = 0;
    for key in over {
        let report_id = parse(key)?;
        match tx.get::<Report>(Table::Reports, &report_id.to_bytes())? {
            Some(report) if report.is_over(tx.now()) => forget(tx, report_id)?,
            Some(_) => continue,
            None => {}
        }
        tx.delete(Table::ReportIndex, key);
        purged += 1;
    }
    Ok(purged)
}

/// Deletes a report and its index rows.
fn forget(tx: &mut Tx<'_>, report_id: ReportId) -> Result<(), StoreError> {
    let key = report_id.to_bytes();
    let Some(report) = tx.get::<Report>(Table::Reports, &key)? else { return Ok(()) };
    tx.delete(Table::Reports, &key);
    tx.delete(Table::ReportIndex, &keys::report_open(report_id));
    tx.delete(Table::ReportIndex, &keys::report_of(report.reporter_id, report_id));
    if let Some(end) = report.ends_at() {
        tx.delete(Table::ReportIndex, &keys::report_end(end, report_id));
    }
    Ok(())
}

fn parse(key: &[u8]) -> Result<ReportId, StoreError> {
    keys::parse_report(key).map_err(|error| unreadable(Table::ReportIndex, error))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use domain::ReportReason;
    use domain::limits::REPORT_RETENTION;
    use memory::ManualClock;
    use ports::{Clock, RandomIds, SystemClock};

    use super::*;
    use crate::{Config, trim};

    #[tokio::test]
    async fn of_a_report_that_is_over_nothing_is_left() {
        let directory = tempfile::tempdir().unwrap();
        let now = SystemClock.now();
        // The commit's clock is earlier than the clock of the search.
        let clock = Arc::new(ManualClock::at(now.minus(Duration::from_secs(3600))));
        let store =
            EmbeddedStore::open(directory.path(), Config::default(), clock.clone(), Arc::new(RandomIds)).unwrap();
        for (n, resolved_at) in [(1, now.minus(REPORT_RETENTION)), (2, now)] {
            let report = Report {
                report_id: ReportId::from_bytes([n; 16]),
                reporter_id: UserId::from_bytes([3; 16]),
                created_at: now,
                reason: ReportReason::Spam,
                comment: None,
                user_id: None,
                chat_id: None,
                message_id: None,
                evidence: None,
                resolution: None,
            };
            store.file(report).await.unwrap();
            let note = "done".to_owned().try_into().unwrap();
            store.resolve(ReportId::from_bytes([n; 16]), Resolution { resolved_at, note }).await.unwrap();
        }
        let rows =
            async |table| store.read(move |tables| Ok(tables.view().range::<&[u8]>(table, ..).count())).await.unwrap();
        assert_eq!((rows(Table::Reports).await, rows(Table::ReportIndex).await), (2, 4));
        trim::purge_all(store.link().clone(), Arc::new(ManualClock::at(now))).await;
        assert_eq!((rows(Table::Reports).await, rows(Table::ReportIndex).await), (2, 4), "not over for the commit");
        clock.set(now);
        trim::purge_all(store.link().clone(), Arc::new(ManualClock::at(now))).await;
        assert_eq!((rows(Table::Reports).await, rows(Table::ReportIndex).await), (1, 2));
    }
}
