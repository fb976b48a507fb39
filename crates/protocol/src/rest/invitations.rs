use domain::{ChatId, Timestamp};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::User;
use crate::schema;

/// An invitation of the caller to a group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[expect(missing_docs, reason = "the names are the contract's and say it")]
pub struct Invitation {
    #[schema(value_type = schema::ChatId)]
    pub chat_id: ChatId,
    pub name: String,
    pub member_count: u32,
    pub invited_by: User,
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
    #[schema(value_type = String, format = DateTime)]
    pub expires_at: Timestamp,
}

/// The pending invitations of the caller, newest first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[expect(missing_docs, reason = "the names are the contract's and say it")]
pub struct Invitations {
    pub invitations: Vec<Invitation>,
}
