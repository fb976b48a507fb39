use std::borrow::Cow;

use async_trait::async_trait;
use domain::{DeviceId, SessionId, Timestamp, UserId};

use crate::StoreError;

/// Who is asking.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Principal {
    /// The user.
    pub user_id: UserId,
    /// The session; users of another system have none.
    pub session_id: Option<SessionId>,
    /// The session's device, if there is a session.
    pub device_id: Option<DeviceId>,
    /// When the token is void, and with it a connection it opened.
    pub token_expires_at: Timestamp,
}

/// Why somebody is not who they say.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// The token, or ticket, is not one to act on. The reason may be shown to whoever sent it.
    #[error("the token is not valid: {0}")]
    InvalidToken(Cow<'static, str>),
    /// The token was good and its session is not any more.
    #[error("the session of this token has ended")]
    TokenRevoked,
    /// Something that has to be asked did not answer.
    #[error("sign-in is unavailable")]
    Unavailable(#[from] StoreError),
}

/// Says who is behind a token, for those who hold sockets and no tables.
///
/// The answer is the authority's: a session that was revoked before the call is not live in it.
#[async_trait]
pub trait Identity: Send + Sync {
    /// Who an access token speaks for on a device. A session's token is good on its own device only.
    async fn identify(&self, token: &str, device: DeviceId) -> Result<Principal, IdentityError>;

    /// Takes a ticket back and says who it was given to. It is spent even if it is refused.
    async fn redeem(&self, ticket: &str, device: DeviceId) -> Result<Principal, IdentityError>;

    /// Which of these sessions are still there, in the order asked.
    async fn live(&self, session_ids: &[SessionId]) -> Result<Vec<bool>, StoreError>;
}
