use std::borrow::Cow;

use domain::{
    ChatId, MessageEvidence, MessageId, Report, ReportId, ReportReason, ReportText, Resolution, Sequence, Timestamp,
    UserId,
};
use ports::BoxError;
use serde::{Deserialize, Serialize};

use super::message::ContentTypeRow;
use super::{Millis, Stored, from_bytes, row_enum, to_bytes};

row_enum!(ReportReasonRow for ReportReason { Spam, Abuse, Illegal, Other });

#[derive(Serialize, Deserialize)]
struct ReportRow<'a> {
    report_id: ReportId,
    reporter_id: UserId,
    created_at: Millis,
    reason: ReportReasonRow,
    comment: Option<Cow<'a, str>>,
    user_id: Option<UserId>,
    chat_id: Option<ChatId>,
    message_id: Option<MessageId>,
    evidence: Option<EvidenceRow<'a>>,
    resolution: Option<ResolutionRow<'a>>,
}

#[derive(Serialize, Deserialize)]
struct EvidenceRow<'a> {
    sequence: Sequence,
    content: Cow<'a, str>,
    content_type: ContentTypeRow,
    sent_at: Millis,
    expires_at: Option<Millis>,
}

impl<'a> EvidenceRow<'a> {
    fn of(evidence: &'a MessageEvidence) -> Self {
        Self {
            sequence: evidence.sequence,
            content: Cow::Borrowed(evidence.content.as_str()),
            content_type: evidence.content_type.into(),
            sent_at: evidence.sent_at.as_millis(),
            expires_at: evidence.expires_at.map(Timestamp::as_millis),
        }
    }

    fn read(self) -> Result<MessageEvidence, BoxError> {
        Ok(MessageEvidence {
            sequence: self.sequence,
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
            report_id: self.report_id,
            reporter_id: self.reporter_id,
            created_at: self.created_at.as_millis(),
            reason: self.reason.into(),
            comment: self.comment.as_ref().map(|comment| Cow::Borrowed(comment.as_str())),
            user_id: self.user_id,
            chat_id: self.chat_id,
            message_id: self.message_id,
            evidence: self.evidence.as_ref().map(EvidenceRow::of),
            resolution: self.resolution.as_ref().map(ResolutionRow::of),
        })
    }

    fn decode(bytes: &[u8]) -> Result<Self, BoxError> {
        let row: ReportRow<'static> = from_bytes(bytes)?;
        Ok(Self {
            report_id: row.report_id,
            reporter_id: row.reporter_id,
            created_at: Timestamp::from_millis(row.created_at),
            reason: row.reason.into(),
            comment: row.comment.map(|comment| ReportText::try_from(comment.into_owned())).transpose()?,
            user_id: row.user_id,
            chat_id: row.chat_id,
            message_id: row.message_id,
            evidence: row.evidence.map(EvidenceRow::read).transpose()?,
            resolution: row.resolution.map(ResolutionRow::read).transpose()?,
        })
    }
}
