use async_trait::async_trait;
use domain::limits::{REPORTS_OPEN_MAX, REPORTS_PERIOD};
use domain::{MessageEvidence, Report, ReportId, Resolution, Sequence, Timestamp, UserId};
use ports::{FilingOutcome, ReportState, ReportStore, Resolved, StoreError};

use crate::DynamoStore;
use crate::db::{self, Bound, PartitionQuery};
use crate::item::{DynamoItem, ItemKey, ItemReader, item, number, text, ttl};
use crate::schema::{TTL, Table};
use crate::write::{AttributeChange, Write};

/// The lists of a report: one of these two, and the list of its reporter. The latter has only the attributes needed to
/// count and find reports.
const OPEN: &str = "open";
const RESOLVED: &str = "resolved";

#[async_trait]
impl ReportStore for DynamoStore {
    async fn file(&self, report: Report) -> Result<FilingOutcome, StoreError> {
        let report = &report;
        db::undisturbed(|| async move {
            if let Some(first) = self.find_report(report.report_id).await? {
                return Ok(Some(FilingOutcome::Kept { created_at: first.created_at }));
            }
            let recent = self.open_since(report.reporter_id, report.created_at).await?;
            if let Some(oldest) = recent.iter().min().filter(|_| recent.len() >= REPORTS_OPEN_MAX) {
                return Ok(Some(FilingOutcome::TooMany { until: *oldest + REPORTS_PERIOD }));
            }
            let writes = || {
                let filed = item([("created_at", Some(text(report.created_at))), ("state", Some(text(OPEN)))]);
                vec![
                    Write::create(key(OPEN, report.report_id), report_item(report)),
                    Write::create(key(report.reporter_id, report.report_id), filed),
                ]
            };
            Ok(self
                .db()
                .transact(writes)
                .await?
                .is_committed()
                .then_some(FilingOutcome::Kept { created_at: report.created_at }))
        })
        .await
    }

    async fn report(&self, report_id: ReportId, now: Timestamp) -> Result<Option<Report>, StoreError> {
        Ok(self.find_report(report_id).await?.filter(|report| !report.is_over(now)))
    }

    async fn reports(
        &self,
        state: ReportState,
        after: Option<ReportId>,
        count: usize,
        now: Timestamp,
    ) -> Result<Vec<Report>, StoreError> {
        let list = match state {
            ReportState::Open => OPEN,
            ReportState::Resolved => RESOLVED,
        };
        let bound = after.map(|id| Bound::Above(text(id)));
        let query = PartitionQuery { bound, ..PartitionQuery::partition(Table::Reports, list) };
        let (mut reports, mut start) = (vec![], None);
        while reports.len() < count {
            let (items, next) = self.db().page(&query, count - reports.len(), start).await?;
            for item in &items {
                reports.extend(Some(read_report(item)?).filter(|report| !report.is_over(now)));
            }
            start = next;
            if start.is_none() {
                break;
            }
        }
        Ok(reports)
    }

    async fn resolve(&self, report_id: ReportId, resolution: Resolution) -> Result<Resolved, StoreError> {
        let resolution = &resolution;
        db::undisturbed(|| async move {
            let Some(report) = self.find_report(report_id).await? else { return Ok(Some(Resolved::NotFound)) };
            if report.resolution.is_some() {
                return Ok(Some(Resolved::Before(report)));
            }
            let report = report.resolved(resolution.clone());
            let writes = || {
                let state = AttributeChange::Set("state", Some(text(RESOLVED)));
                let end = AttributeChange::Set(TTL, report.ends_at().map(ttl));
                vec![
                    Write::delete(key(OPEN, report_id)).if_there(),
                    Write::put(key(RESOLVED, report_id), report_item(&report)),
                    Write::update(key(report.reporter_id, report_id), vec![state, end]).if_there(),
                ]
            };
            Ok(self.db().transact(writes).await?.is_committed().then(|| Resolved::Now(report.clone())))
        })
        .await
    }

    async fn erase_user(&self, user_id: UserId) -> Result<(), StoreError> {
        for item in self.db().query(&filed_by(user_id), usize::MAX).await? {
            let report_id: ReportId = ItemReader { table: Table::Reports, item: &item }.parsed("report_id")?;
            let lists = [key(OPEN, report_id), key(RESOLVED, report_id), key(user_id, report_id)];
            self.db().transact(|| lists.iter().cloned().map(Write::delete).collect()).await?;
        }
        Ok(())
    }
}

impl DynamoStore {
    /// A report on either list.
    async fn find_report(&self, report_id: ReportId) -> Result<Option<Report>, StoreError> {
        // One after the other: a batch does not read its items at one moment, and could look for a report on the
        // second list before, and on the first one after, its move from the first to the second.
        for list in [OPEN, RESOLVED] {
            if let Some(item) = self.db().get_many(&[key(list, report_id)]).await?.pop().flatten() {
                return read_report(&item).map(Some);
            }
        }
        Ok(None)
    }

    /// The filing times of a user's open reports within the period before `now`.
    async fn open_since(&self, user_id: UserId, now: Timestamp) -> Result<Vec<Timestamp>, StoreError> {
        let mut recent = vec![];
        for item in self.db().query(&filed_by(user_id), usize::MAX).await? {
            let row = ItemReader { table: Table::Reports, item: &item };
            let created_at: Timestamp = row.parsed("created_at")?;
            if row.text("state")? == OPEN && now.since(created_at) < REPORTS_PERIOD {
                recent.push(created_at);
            }
        }
        Ok(recent)
    }
}

fn key(list: impl std::fmt::Display, report_id: ReportId) -> ItemKey {
    ItemKey::of(Table::Reports, list, report_id)
}

fn filed_by(user_id: UserId) -> PartitionQuery {
    PartitionQuery {
        attributes: &["report_id", "created_at", "state"],
        ..PartitionQuery::partition(Table::Reports, user_id)
    }
}

fn report_item(report: &Report) -> DynamoItem {
    let (evidence, resolution) = (report.evidence.as_ref(), report.resolution.as_ref());
    item([
        ("reporter_id", Some(text(report.reporter_id))),
        ("created_at", Some(text(report.created_at))),
        ("reason", Some(text(report.reason.as_str()))),
        ("comment", report.comment.as_ref().map(|comment| text(comment.as_str()))),
        ("user_id", report.user_id.map(text)),
        ("chat_id", report.chat_id.map(text)),
        ("message_id", report.message_id.map(text)),
        ("sequence", evidence.map(|evidence| number(evidence.sequence.0))),
        ("content", evidence.map(|evidence| text(evidence.content.as_str()))),
        ("content_type", evidence.map(|evidence| text(evidence.content_type.as_str()))),
        ("sent_at", evidence.map(|evidence| text(evidence.sent_at))),
        ("expires_at", evidence.and_then(|evidence| evidence.expires_at).map(text)),
        ("resolved_at", resolution.map(|resolution| text(resolution.resolved_at))),
        ("note", resolution.map(|resolution| text(resolution.note.as_str()))),
        (TTL, report.ends_at().map(ttl)),
    ])
}

fn read_report(item: &DynamoItem) -> Result<Report, StoreError> {
    let row = ItemReader { table: Table::Reports, item };
    let evidence = match row.has("content") {
        false => None,
        true => Some(MessageEvidence {
            sequence: Sequence(row.number("sequence")?),
            content: row.made("content")?,
            content_type: row.parsed("content_type")?,
            sent_at: row.parsed("sent_at")?,
            expires_at: row.maybe_parsed("expires_at")?,
        }),
    };
    let resolution = match row.maybe_parsed("resolved_at")? {
        None => None,
        Some(resolved_at) => Some(Resolution { resolved_at, note: row.made("note")? }),
    };
    Ok(Report {
        report_id: row.parsed("report_id")?,
        reporter_id: row.parsed("reporter_id")?,
        created_at: row.parsed("created_at")?,
        reason: row.parsed("reason")?,
        comment: row.maybe_made("comment")?,
        user_id: row.maybe_parsed("user_id")?,
        chat_id: row.maybe_parsed("chat_id")?,
        message_id: row.maybe_parsed("message_id")?,
        evidence,
        resolution,
    })
}

/// A report; `None` for an entry in the list of its reporter.
pub(crate) fn read_listed(item: &DynamoItem) -> Result<Option<Report>, StoreError> {
    let row = ItemReader { table: Table::Reports, item };
    if row.has("state") {
        return row.parsed::<Timestamp>("created_at").map(|_| None);
    }
    read_report(item).map(Some)
}
