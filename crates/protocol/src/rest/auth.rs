use domain::{DeviceId, SessionId, Timestamp};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{Me, Sensitive};
use crate::schema;

/// Body of POST `/auth/request-otp`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RequestOtp {
    /// E.164.
    #[schema(value_type = String)]
    pub phone_number: Sensitive,
}

/// The response to a request for a code; it does not reveal whether the number is known.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[expect(missing_docs, reason = "the names are the contract's and say it")]
pub struct OtpRequested {
    #[schema(value_type = String)]
    pub phone_number: Sensitive,
    #[schema(value_type = String, format = DateTime)]
    pub expires_at: Timestamp,
    /// Time until another code may be requested; 0 if at once.
    pub retry_after_seconds: u64,
}

/// Body of POST `/auth/verify-otp`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[expect(missing_docs, reason = "the names are the contract's and say it")]
pub struct VerifyOtp {
    #[schema(value_type = String)]
    pub phone_number: Sensitive,
    #[schema(value_type = String)]
    pub otp: Sensitive,
    #[schema(value_type = String, format = "uuid")]
    pub device_id: DeviceId,
    /// Display name of a new user; an existing user keeps theirs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 64)]
    pub display_name: Option<String>,
}

/// A successful sign-in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[expect(missing_docs, reason = "the names are the contract's and say it")]
pub struct SignedIn {
    pub user: Me,
    pub session: Session,
    pub tokens: Tokens,
    pub is_new_user: bool,
}

/// The tokens with which a device acts for its user.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[expect(missing_docs, reason = "the names are the contract's and say it")]
pub struct Tokens {
    #[schema(value_type = String)]
    pub access_token: Sensitive,
    /// Valid once.
    #[schema(value_type = String)]
    pub refresh_token: Sensitive,
    /// `Bearer`.
    pub token_type: String,
    /// Seconds until the access token expires.
    pub expires_in: u64,
}

/// Body of POST `/auth/refresh`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[expect(missing_docs, reason = "the names are the contract's and say it")]
pub struct RefreshTokens {
    #[schema(value_type = String)]
    pub refresh_token: Sensitive,
    #[schema(value_type = String, format = "uuid")]
    pub device_id: DeviceId,
}

/// The next pair of tokens.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[expect(missing_docs, reason = "the names are the contract's and say it")]
pub struct TokensRefreshed {
    pub tokens: Tokens,
}

/// A ticket for one WebSocket.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[expect(missing_docs, reason = "the names are the contract's and say it")]
pub struct WsTicket {
    #[schema(value_type = String)]
    pub ticket: Sensitive,
    #[schema(value_type = String, format = DateTime)]
    pub expires_at: Timestamp,
}

/// One login of one device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[expect(missing_docs, reason = "the names are the contract's and say it")]
pub struct Session {
    #[schema(value_type = schema::SessionId)]
    pub session_id: SessionId,
    #[schema(value_type = String, format = "uuid")]
    pub device_id: DeviceId,
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
    #[schema(value_type = String, format = DateTime)]
    pub last_active_at: Timestamp,
    #[schema(value_type = String, format = DateTime)]
    pub expires_at: Timestamp,
    /// Whether it is the session of this request.
    pub is_current: bool,
}

impl Session {
    /// The session as the holder of session `current` sees it.
    pub fn new(session: &domain::Session, current: Option<SessionId>) -> Self {
        Self {
            session_id: session.session_id,
            device_id: session.device_id,
            created_at: session.created_at,
            last_active_at: session.last_active_at,
            expires_at: session.expires_at,
            is_current: current == Some(session.session_id),
        }
    }
}

/// The sessions of a user.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[expect(missing_docs, reason = "the names are the contract's and say it")]
pub struct Sessions {
    pub sessions: Vec<Session>,
}

/// The number of sessions that were revoked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[expect(missing_docs, reason = "the names are the contract's and say it")]
pub struct Revoked {
    pub revoked_count: usize,
}
