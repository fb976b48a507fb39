use domain::{ChatId, MessageId, ReportId, ReportReason, Timestamp, UserId};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::Sensitive;
use crate::schema;

/// Body of POST `/reports`: the reported message, user or chat, and the reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[expect(missing_docs, reason = "the names are the contract's and say it")]
pub struct FileReport {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::MessageId>)]
    pub message_id: Option<MessageId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::UserId>)]
    pub user_id: Option<UserId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::ChatId>)]
    pub chat_id: Option<ChatId>,
    #[schema(value_type = schema::ReportReason)]
    pub reason: ReportReason,
    /// For the operators; 1 to 1000 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, min_length = 1, max_length = 1000)]
    pub comment: Option<Sensitive>,
}

/// A report that operators will see.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[expect(missing_docs, reason = "the names are the contract's and say it")]
pub struct Reported {
    #[schema(value_type = schema::ReportId)]
    pub report_id: ReportId,
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
}
