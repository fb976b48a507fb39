//! Tests of [`ReportStore`](ports::ReportStore).

use std::time::Duration;

use domain::limits::{REPORT_RETENTION, REPORTS_OPEN_MAX, REPORTS_PERIOD};
use domain::{ContentType, MessageEvidence, Report, ReportId, ReportReason, Resolution, Sequence, Timestamp, UserId};

use super::ContractStores;
use super::fixtures::{WORKS, at_once, fresh, now};
use ports::{FilingOutcome, ReportState, Resolved};

/// Every field of a report is read back as it was filed, and an unknown id returns nothing.
pub async fn a_report_is_read_as_it_was_filed(stores: ContractStores) {
    let bare = report(fresh());
    let full = Report {
        reason: ReportReason::Illegal,
        comment: Some("a line\nand another".to_owned().try_into().expect("it is valid")),
        user_id: Some(fresh()),
        chat_id: Some(fresh()),
        message_id: Some(fresh()),
        evidence: Some(evidence(None)),
        ..report(fresh())
    };
    for report in [bare, full] {
        file(&stores, &report).await;
        assert_eq!(find(&stores, report.report_id).await, Some(report));
    }
    assert_eq!(find(&stores, fresh()).await, None);
}

/// Of several filings with one id, the first stays.
pub async fn a_report_is_filed_once_for_its_id(stores: ContractStores) {
    let first = report(fresh());
    let again = Report { reason: ReportReason::Abuse, ..first.clone() };
    for report in [&first, &first, &again] {
        file(&stores, report).await;
    }
    let later = Report { created_at: first.created_at + Duration::from_secs(1), ..first.clone() };
    let kept = FilingOutcome::Kept { created_at: first.created_at };
    assert_eq!(stores.reports.file(later).await.expect(WORKS), kept);
    assert_eq!(list(&stores, ReportState::Open).await, [first.report_id]);
    assert_eq!(find(&stores, first.report_id).await, Some(first.clone()));
    resolve(&stores, first.report_id).await;
    file(&stores, &first).await;
    assert_eq!(list(&stores, ReportState::Open).await, []);
}

/// Reports of a state are listed by id, and each page continues after the last id of the page before.
pub async fn reports_are_oldest_first_page_by_page(stores: ContractStores) {
    let ids = [0x00, 0x03, 0x30, 0x80, 0xff].map(|byte| ReportId::from_bytes([byte; 16]));
    for report_id in [ids[3], ids[0], ids[4], ids[1], ids[2]] {
        file(&stores, &Report { report_id, ..report(fresh()) }).await;
    }
    let page = async |state, after, count| {
        let found = stores.reports.reports(state, after, count, now()).await.expect(WORKS);
        found.into_iter().map(|report| report.report_id).collect::<Vec<_>>()
    };
    assert_eq!(page(ReportState::Open, None, 2).await, ids[..2]);
    for report_id in [ids[3], ids[1]] {
        resolve(&stores, report_id).await;
    }
    assert_eq!(page(ReportState::Open, Some(ids[1]), 2).await, [ids[2], ids[4]]);
    assert_eq!(page(ReportState::Open, Some(ids[4]), 2).await, []);
    assert_eq!(page(ReportState::Resolved, None, 1).await, [ids[1]]);
    assert_eq!(page(ReportState::Resolved, Some(ids[1]), 2).await, [ids[3]]);
    assert_eq!(page(ReportState::Resolved, None, 0).await, []);
}

/// Of concurrent resolutions, one succeeds, and the report stays as that one left it.
pub async fn a_report_is_resolved_once(stores: ContractStores) {
    let filed = Report { evidence: Some(evidence(None)), ..report(fresh()) };
    file(&stores, &filed).await;
    let outcomes = at_once((0..4).map(|n| {
        let (stores, report_id) = (stores.clone(), filed.report_id);
        async move { stores.reports.resolve(report_id, resolution(&format!("by {n}"), now())).await.expect(WORKS) }
    }))
    .await;
    let (mut first, mut others) = (vec![], vec![]);
    for outcome in outcomes {
        match outcome {
            Resolved::Now(report) => first.push(report),
            Resolved::Before(report) => others.push(report),
            Resolved::NotFound => panic!("it was filed"),
        }
    }
    assert_eq!((first.len(), others.len()), (1, 3));
    let resolved = first.remove(0);
    assert_eq!(Report { resolution: None, ..resolved.clone() }, filed, "nothing else has changed");
    assert!(others.iter().all(|other| *other == resolved));
    assert_eq!(find(&stores, filed.report_id).await, Some(resolved));
    let unknown = stores.reports.resolve(fresh(), resolution("nothing", now())).await.expect(WORKS);
    assert_eq!(unknown, Resolved::NotFound);
}

/// Resolving a report deletes its copy of a message with an expiry time.
pub async fn a_resolution_deletes_an_expiring_copy(stores: ContractStores) {
    let filed = Report { evidence: Some(evidence(Some(Timestamp::MAX))), ..report(fresh()) };
    file(&stores, &filed).await;
    assert_eq!(find(&stores, filed.report_id).await, Some(filed.clone()));
    let resolved = resolve(&stores, filed.report_id).await;
    assert_eq!((&resolved.evidence, resolved.reporter_id), (&None, filed.reporter_id));
    assert_eq!(find(&stores, filed.report_id).await, Some(resolved));
}

/// A resolved report is in no read after its retention time, whether the store has deleted the row or not.
pub async fn a_resolved_report_ends_after_its_retention(stores: ContractStores) {
    let (old, recent, open) = (report(fresh()), report(fresh()), report(fresh()));
    for report in [&old, &recent, &open] {
        file(&stores, report).await;
    }
    let hour = Duration::from_secs(3600);
    for (report, resolved_at) in
        [(&old, now().minus(REPORT_RETENTION)), (&recent, now().minus(REPORT_RETENTION) + hour)]
    {
        let resolved = stores.reports.resolve(report.report_id, resolution("done", resolved_at)).await.expect(WORKS);
        assert!(matches!(resolved, Resolved::Now(_)), "{resolved:?}");
    }
    for _ in 0..2 {
        assert_eq!(find(&stores, old.report_id).await, None);
        assert_eq!(list(&stores, ReportState::Resolved).await, [recent.report_id]);
        assert_eq!(list(&stores, ReportState::Open).await, [open.report_id]);
        stores.sabotage.purge_expired().await;
    }
    let late = stores.reports.resolve(recent.report_id, resolution("late", now())).await.expect(WORKS);
    assert!(matches!(late, Resolved::Before(_)), "{late:?}");
}

/// A user can have a limited number of open reports per day. A resolution or the end of the day makes room.
pub async fn a_user_has_a_bounded_number_of_open_reports_per_day(stores: ContractStores) {
    let (reporter_id, filed_at) = (fresh(), now());
    let old = Report { created_at: filed_at.minus(REPORTS_PERIOD), ..report(reporter_id) };
    file(&stores, &old).await;
    let filed: Vec<Report> = (0..REPORTS_OPEN_MAX as u64)
        .map(|n| Report { created_at: filed_at + Duration::from_millis(n), ..report(reporter_id) })
        .collect();
    for report in &filed {
        file(&stores, report).await;
    }
    let behind = filed_at + Duration::from_secs(1);
    let more = Report { created_at: behind, ..report(reporter_id) };
    let too_many = FilingOutcome::TooMany { until: filed_at + REPORTS_PERIOD };
    assert_eq!(stores.reports.file(more.clone()).await.expect(WORKS), too_many);
    assert_eq!(find(&stores, more.report_id).await, None);
    file(&stores, &filed[7]).await;
    file(&stores, &report(fresh())).await;

    resolve(&stores, filed[0].report_id).await;
    file(&stores, &more).await;
    let later = Report { created_at: behind + REPORTS_PERIOD, ..report(reporter_id) };
    file(&stores, &later).await;
}

/// Deleting an account deletes the reports that it filed, open and resolved, and none about it.
pub async fn deleting_an_account_deletes_its_reports(stores: ContractStores) {
    let (gone, other): (UserId, UserId) = (fresh(), fresh());
    let [open, resolved] = [report(gone), report(gone)];
    let about = Report { user_id: Some(gone), ..report(other) };
    for report in [&open, &resolved, &about] {
        file(&stores, report).await;
    }
    resolve(&stores, resolved.report_id).await;
    for _ in 0..2 {
        stores.reports.erase_user(gone).await.expect(WORKS);
        for report_id in [open.report_id, resolved.report_id] {
            assert_eq!(find(&stores, report_id).await, None);
        }
        assert_eq!(list(&stores, ReportState::Open).await, [about.report_id]);
        assert_eq!(list(&stores, ReportState::Resolved).await, []);
    }
}

fn report(reporter_id: UserId) -> Report {
    Report {
        report_id: fresh(),
        reporter_id,
        created_at: now(),
        reason: ReportReason::Spam,
        comment: None,
        user_id: None,
        chat_id: None,
        message_id: None,
        evidence: None,
        resolution: None,
    }
}

fn evidence(expires_at: Option<Timestamp>) -> MessageEvidence {
    MessageEvidence {
        sequence: Sequence(7),
        content: "what was said".to_owned().try_into().expect("it is valid"),
        content_type: ContentType::Markdown,
        sent_at: now(),
        expires_at,
    }
}

fn resolution(note: &str, resolved_at: Timestamp) -> Resolution {
    Resolution { resolved_at, note: note.to_owned().try_into().expect("it is valid") }
}

async fn file(stores: &ContractStores, report: &Report) {
    let kept = FilingOutcome::Kept { created_at: report.created_at };
    assert_eq!(stores.reports.file(report.clone()).await.expect(WORKS), kept);
}

async fn resolve(stores: &ContractStores, report_id: ReportId) -> Report {
    match stores.reports.resolve(report_id, resolution("done", now())).await.expect(WORKS) {
        Resolved::Now(report) => report,
        other => panic!("it was open, and this is {other:?}"),
    }
}

async fn find(stores: &ContractStores, report_id: ReportId) -> Option<Report> {
    stores.reports.report(report_id, now()).await.expect(WORKS)
}

async fn list(stores: &ContractStores, state: ReportState) -> Vec<ReportId> {
    let found = stores.reports.reports(state, None, 100, now()).await.expect(WORKS);
    found.into_iter().map(|report| report.report_id).collect()
}
