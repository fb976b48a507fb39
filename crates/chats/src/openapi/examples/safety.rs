use domain::ReportReason;
use protocol::rest::{Blocks, Data, FileReport, Paged, Pagination, Reported};
use protocol::story;

use super::OperationExamples;
use super::people::bob;

/// Ada blocks a user and reports to the operators.
pub(super) fn examples() -> Vec<OperationExamples> {
    let blocks = Paged { data: Blocks { blocks: vec![bob()] }, pagination: Pagination::new(None) };
    let report = FileReport {
        message_id: Some(story::second_message()),
        user_id: None,
        chat_id: None,
        reason: ReportReason::Other,
        comment: Some("He never comes at ten.".into()),
    };
    let reported = Reported { report_id: story::report(), created_at: story::now() };
    vec![
        OperationExamples::of("block").with("user_id", story::bob()).done(()),
        OperationExamples::of("blocks").with("limit", 100).answered(blocks),
        OperationExamples::of("unblock").with("user_id", story::bob()).done(()),
        OperationExamples::of("report").with("Idempotency-Key", "5f2c8e17-9a4b-4d60-8c3f-7e1b6d0a9f42").case(
            "example",
            report,
            201,
            Data { data: reported },
        ),
    ]
}
