use std::borrow::Cow;

use domain::{
    ChatId, Evidence, MessageId, Report, ReportId, ReportReason, ReportText, Resolution, Sequence, Timestamp, UserId,
};
use ports::BoxError;
use serde::{Deserialize, Serialize};

use super::message::ContentTypeRow;
use super::{IdBytes, Millis, Stored, from_bytes, row_enum, to_bytes};

row_enum!(ReportReasonRow for ReportReason { Spam, Abuse, Illegal, Other });

#[derive(Serialize, Deserialize)]
struct ReportRow<'a> {
    report_id: IdBytes,
    reporter_id: IdBytes,
    created_at: Millis,
    reason: ReportReasonRow,
    comment: Option<Cow<'a, str>>,
    user_id: Option<IdBytes>,
    chat_id: Option<IdBytes>,
    message_id: Option<IdBytes>,
    evidence: Option<EvidenceRow<'a>>,
    resolution: Option<ResolutionRow<'a>>,
}

#[derive(Serialize, Deserialize)]
struct EvidenceRow<'a> {
    sequence: u64,
    content: Cow<'a, str>,
    content_type: ContentTypeRow,
    sent_at: Millis,
    expires_at: Option<Millis>,
}

impl<'a> EvidenceRow<'a> {
    fn of(evidence: &'a Evidence) -> Self {
        Self {
            sequence: evidence.sequence.0,
            content: Cow::Borrowed(evidence.content.as_str()),
            content_type: evidence.content_type.into(),
            sent_at: evidence.sent_at.as_millis(),
            expires_at: evidence.expires_at.map(Timestamp::as_millis),
        }
    }

    fn read(self) -> Result<Evidence, BoxError> {
        Ok(Evidence {
            sequence: Sequence(self.sequence),
            content: self.content.into_owned().try_into()?,
            content_type: self.content_type.into(),
            sent_at: Timestamp::from_millis(self.sent_at),
            expires_at: self.expires_at.map(Timestamp::from_millis),
        })
    }
}

#[derive(Serialize, Deserialize)]
struct ResolutionRow<'a> {
    resolved_at: Millis,
    note: Cow<'a, str>,
}

impl<'a> ResolutionRow<'a> {
    fn of(resolution: &'a Resolution) -> Self {
        let Resolution { resolved_at, note } = resolution;
        Self { resolved_at: resolved_at.as_millis(), note: Cow::Borrowed(note.as_str()) }
    }

    fn read(self) -> Result<Resolution, BoxError> {
        Ok(Resolution {
            resolved_at: Timestamp::from_millis(self.resolved_at),
            note: self.note.into_owned().try_into()?,
        })
    }
}

impl Stored for Report {
    fn encode(&self) -> Vec<u8> {
        to_bytes(&ReportRow {
            report_id: self.report_id.to_bytes(),
            reporter_id: self.reporter_id.to_bytes(),
            created_at: self.created_at.as_millis(),
            reason: self.reason.into(),
            comment: self.comment.as_ref().map(|comment| Cow::Borrowed(comment.as_str())),
            user_id: self.user_id.map(UserId::to_bytes),
            chat_id: self.chat_id.map(ChatId::to_bytes),
            message_id: self.message_id.map(MessageId::to_bytes),
            evidence: self.evidence.as_ref().map(EvidenceRow::of),
            resolution: self.resolution.as_ref().map(ResolutionRow::of),
        })
    }

    fn decode(bytes: &[u8]) -> Result<Self, BoxError> {
        let row: ReportRow<'static> = from_bytes(bytes)?;
        Ok(Self {
            report_id: ReportId::from_bytes(row.report_id),
            reporter_id: UserId::from_bytes(row.reporter_id),
            created_at: Timestamp::from_millis(row.created_at),
            reason: row.reason.into(),
            comment: row.comment.map(|comment| ReportText::try_from(comment.into_owned())).transpose()?,
            user_id: row.user_id.map(UserId::from_bytes),
            chat_id: row.chat_id.map(ChatId::from_bytes),
            message_id: row.message_id.map(MessageId::from_bytes),
            evidence: row.evidence.map(EvidenceRow::read).transpose()?,
            resolution: row.resolution.map(ResolutionRow::read).transpose()?,
        })
    }
}
