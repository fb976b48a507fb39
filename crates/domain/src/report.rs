use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::limits::{REPORT_RETENTION, REPORT_TEXT_CHARS_MAX};
use crate::{ChatId, Content, ContentType, Message, MessageId, ReportId, Sequence, Timestamp, UserId};

/// A user's report to the operators about a user, a chat or a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    pub report_id: ReportId,
    /// The user who filed the report.
    pub reporter_id: UserId,
    pub created_at: Timestamp,
    pub reason: ReportReason,
    pub comment: Option<ReportText>,
    /// The reported user; for a message, its sender.
    pub user_id: Option<UserId>,
    /// The reported chat; for a message, its chat.
    pub chat_id: Option<ChatId>,
    pub message_id: Option<MessageId>,
    /// A copy of the message at the time of the report.
    pub evidence: Option<MessageEvidence>,
    /// Present once an operator has resolved the report.
    pub resolution: Option<Resolution>,
}

impl Report {
    /// The report after its resolution. The copy of a message that had an expiry time when it was reported is removed,
    /// because it was kept only until the operator had seen it. Any other copy stays with the report, also if the message
    /// was deleted for everyone since: its author must not be able to remove the evidence.
    pub fn resolved(self, resolution: Resolution) -> Self {
        let evidence = self.evidence.filter(|evidence| evidence.expires_at.is_none());
        Self { evidence, resolution: Some(resolution), ..self }
    }

    /// The end of the retention time; `None` while the report is open.
    pub fn ends_at(&self) -> Option<Timestamp> {
        self.resolution.as_ref().map(|resolution| resolution.resolved_at + REPORT_RETENTION)
    }

    /// Whether the retention time is over at `now`. Every read checks this itself.
    pub fn is_over(&self, now: Timestamp) -> bool {
        self.ends_at().is_some_and(|end| end <= now)
    }
}

/// A copy of a reported message, as the reporter could read it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessageEvidence {
    pub sequence: Sequence,
    pub content: Content,
    pub content_type: ContentType,
    pub sent_at: Timestamp,
    /// The expiry time of the message at the time of the report.
    pub expires_at: Option<Timestamp>,
}

impl From<Message> for MessageEvidence {
    fn from(message: Message) -> Self {
        Self {
            sequence: message.sequence,
            content: message.body.content,
            content_type: message.body.content_type,
            sent_at: message.created_at,
            expires_at: message.expires_at,
        }
    }
}

/// An operator's resolution of a report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resolution {
    pub resolved_at: Timestamp,
    pub note: ReportText,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReportReason {
    Spam,
    Abuse,
    Illegal,
    Other,
}

impl ReportReason {
    pub const ALL: [Self; 4] = [Self::Spam, Self::Abuse, Self::Illegal, Self::Other];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Spam => "spam",
            Self::Abuse => "abuse",
            Self::Illegal => "illegal",
            Self::Other => "other",
        }
    }
}

/// An unknown reason for a report.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not one of spam, abuse, illegal, other")]
pub struct UnknownReason(String);

impl FromStr for ReportReason {
    type Err = UnknownReason;

    fn from_str(text: &str) -> Result<Self, UnknownReason> {
        Self::ALL.into_iter().find(|reason| reason.as_str() == text).ok_or_else(|| UnknownReason(text.to_owned()))
    }
}

/// A text of a report: 1 to 1000 characters without NUL. `Debug` hides it, because it may quote a message.
#[derive(Clone, PartialEq, Eq)]
pub struct ReportText(String);

/// Why a text is not valid in a report.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReportTextError {
    #[error("is empty")]
    Empty,
    #[error("has {0} characters, limit is {REPORT_TEXT_CHARS_MAX}")]
    TooLong(usize),
    #[error("has a NUL character")]
    Nul,
}

impl ReportText {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for ReportText {
    type Error = ReportTextError;

    fn try_from(text: String) -> Result<Self, ReportTextError> {
        let chars = text.chars().count();
        if text.trim().is_empty() {
            Err(ReportTextError::Empty)
        } else if chars > REPORT_TEXT_CHARS_MAX {
            Err(ReportTextError::TooLong(chars))
        } else if text.contains('\0') {
            Err(ReportTextError::Nul)
        } else {
            Ok(Self(text))
        }
    }
}

impl fmt::Debug for ReportText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "<{} bytes>", self.0.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(expires_at: Option<Timestamp>) -> Report {
        Report {
            report_id: ReportId::from_bytes([1; 16]),
            reporter_id: UserId::from_bytes([2; 16]),
            created_at: Timestamp::from_millis(1),
            reason: ReportReason::Spam,
            comment: None,
            user_id: None,
            chat_id: None,
            message_id: Some(MessageId::from_bytes([3; 16])),
            evidence: Some(MessageEvidence {
                sequence: Sequence(1),
                content: "buy now".to_owned().try_into().unwrap(),
                content_type: ContentType::Text,
                sent_at: Timestamp::default(),
                expires_at,
            }),
            resolution: None,
        }
    }

    fn resolution(millis: u64) -> Resolution {
        let note = "warned".to_owned().try_into().unwrap();
        Resolution { resolved_at: Timestamp::from_millis(millis), note }
    }

    #[test]
    fn a_resolution_removes_only_an_expiring_copy() {
        let lasting = report(None);
        let resolved = lasting.clone().resolved(resolution(5));
        assert_eq!(resolved, Report { resolution: Some(resolution(5)), ..lasting });
        assert_eq!(report(Some(Timestamp::MAX)).resolved(resolution(5)).evidence, None);
    }

    #[test]
    fn a_report_is_over_ninety_days_after_it_was_resolved_and_never_before() {
        assert!(!report(None).is_over(Timestamp::MAX));
        let resolved = report(None).resolved(resolution(0));
        let end = Timestamp::from_millis(90 * 24 * 3600 * 1000);
        assert!(!resolved.is_over(Timestamp::from_millis(end.as_millis() - 1)) && resolved.is_over(end));
    }

    #[test]
    fn texts_are_bounded_in_characters_and_not_shown() {
        let text = ReportText::try_from("é".repeat(1000)).unwrap();
        assert_eq!(format!("{text:?}"), "<2000 bytes>");
        for (text, error) in [
            ("é".repeat(1001), ReportTextError::TooLong(1001)),
            (" \n".to_owned(), ReportTextError::Empty),
            ("a\0".to_owned(), ReportTextError::Nul),
        ] {
            assert_eq!(ReportText::try_from(text), Err(error));
        }
    }

    #[test]
    fn reasons_are_read_as_they_are_written() {
        for reason in ReportReason::ALL {
            assert_eq!(reason.as_str().parse(), Ok(reason));
            assert_eq!(serde_json::to_value(reason).unwrap(), reason.as_str());
        }
        let said = "`boring` is not one of spam, abuse, illegal, other";
        assert_eq!("boring".parse::<ReportReason>().unwrap_err().to_string(), said);
    }
}
