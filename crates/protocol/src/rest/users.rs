use domain::{GroupInvites, PresenceVisibility, Timestamp, UserId};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::Sensitive;
use crate::schema;

/// A user as other users see them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[expect(missing_docs, reason = "the names are the contract's and say it")]
pub struct User {
    #[schema(value_type = schema::UserId)]
    pub user_id: UserId,
    pub display_name: String,
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
}

impl From<&domain::User> for User {
    fn from(user: &domain::User) -> Self {
        Self { user_id: user.user_id, display_name: user.display_name.as_str().to_owned(), created_at: user.created_at }
    }
}

/// A user as they see themselves.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[expect(missing_docs, reason = "the names are the contract's and say it")]
pub struct Me {
    #[serde(flatten)]
    pub user: User,
    /// Absent for users who authenticate with another system's tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false)]
    pub phone_number: Option<Sensitive>,
    /// The user's id at the identity provider; absent for users of a phone number. Other users do not see it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false)]
    pub external_id: Option<Sensitive>,
    #[schema(value_type = schema::PresenceVisibility)]
    pub presence_visibility: PresenceVisibility,
    /// The users who may add the user to a group at once. Others can only invite the user.
    // A server of an earlier version does not send it.
    #[serde(default)]
    #[schema(value_type = schema::GroupInvites, required = true)]
    pub group_invites: GroupInvites,
    #[schema(value_type = String, format = DateTime)]
    pub updated_at: Timestamp,
}

impl From<&domain::User> for Me {
    fn from(user: &domain::User) -> Self {
        Self {
            user: user.into(),
            phone_number: user.phone_number.as_ref().map(|number| number.as_str().into()),
            external_id: user.external_id.as_ref().map(|external_id| external_id.as_str().into()),
            presence_visibility: user.presence_visibility,
            group_invites: user.group_invites,
            updated_at: user.updated_at,
        }
    }
}

/// Body of PATCH `/users/me`; absent fields stay unchanged.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[expect(missing_docs, reason = "the names are the contract's and say it")]
pub struct UpdateMe {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 64)]
    pub display_name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = schema::maybe_presence_visibility, required = false)]
    pub presence_visibility: Option<PresenceVisibility>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = schema::maybe_group_invites, required = false)]
    pub group_invites: Option<GroupInvites>,
}

/// Body of POST `/users/lookup`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Lookup {
    /// E.164.
    #[schema(value_type = Vec<String>, max_items = 100)]
    pub phone_numbers: Vec<Sensitive>,
}

/// For each requested number, in order, its user or `null`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[expect(missing_docs, reason = "the names are the contract's and say it")]
pub struct LookupResults {
    pub results: Vec<Option<User>>,
}

/// A page of a user's contacts, ordered by id.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[expect(missing_docs, reason = "the names are the contract's and say it")]
pub struct Contacts {
    pub contacts: Vec<User>,
}

/// Body of POST `/presence/query`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[expect(missing_docs, reason = "the names are the contract's and say it")]
pub struct PresenceQuery {
    #[schema(value_type = Vec<schema::UserId>, max_items = 100)]
    pub user_ids: Vec<UserId>,
}
