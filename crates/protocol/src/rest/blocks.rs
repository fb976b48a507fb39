use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::User;

/// A page of a user's blocked users, ordered by id.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[expect(missing_docs, reason = "the names are the contract's and say it")]
pub struct Blocks {
    pub blocks: Vec<User>,
}
