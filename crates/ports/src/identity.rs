use std::borrow::Cow;

use async_trait::async_trait;
use domain::{DeviceId, SessionId, Timestamp, UserId};

use crate::{Assertion, StoreError};

/// The authenticated caller of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Principal {
    /// The user.
    pub user_id: UserId,
    /// The session; absent for users of an external identity provider.
    pub session_id: Option<SessionId>,
    /// The session's device, if there is a session.
    pub device_id: Option<DeviceId>,
    /// The expiry time of the token. A connection that was opened with it closes then.
    pub token_expires_at: Timestamp,
    /// The proof of this authentication, for other processes of a fleet.
    pub assertion: Option<Assertion>,
}

/// Why authentication failed.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// The token or ticket is invalid. The reason may be shown to the client.
    #[error("the token is not valid: {0}")]
    InvalidToken(Cow<'static, str>),
    /// The token is valid, but its session was revoked or has expired.
    #[error("the session of this token has ended")]
    TokenRevoked,
    /// The token is valid, but its user is suspended.
    #[error("this account is suspended")]
    Suspended,
    /// A system that authentication depends on is unavailable.
    #[error("sign-in is unavailable")]
    Unavailable(#[from] StoreError),
}

/// The facts on which the right of a connection to stay open depends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionHolder {
    /// The user.
    pub user_id: UserId,
    /// The session; absent for users of an external identity provider.
    pub session_id: Option<SessionId>,
    /// When the connection was opened; `Timestamp::MAX` if its token was checked a moment ago.
    pub connected_at: Timestamp,
}

/// Authenticates tokens and tickets, for processes that hold sockets and have no store.
///
/// Answers come from the stores, not from a cache: a session that was revoked, or a user who was restricted, before the
/// call is refused.
#[async_trait]
pub trait Identity: Send + Sync {
    /// The principal of an access token on a device. The token of a session is valid on the session's own device only.
    async fn identify(&self, token: &str, device: DeviceId) -> Result<Principal, IdentityError>;

    /// Redeems a ticket and returns its principal. The ticket is spent even if the call refuses it.
    async fn redeem(&self, ticket: &str, device: DeviceId) -> Result<Principal, IdentityError>;

    /// Whether each of these connections may stay open, in the order of the arguments: its session exists, its user is
    /// not suspended, and none of their tokens was invalidated since it was opened.
    async fn live(&self, holders: &[ConnectionHolder]) -> Result<Vec<bool>, StoreError>;

    /// Renews an assertion, expired or not, while the token that it stands for is valid and the connection may stay
    /// open. An implementation that issues no assertions refuses.
    async fn renew(&self, _assertion: &Assertion) -> Result<Assertion, IdentityError> {
        Err(IdentityError::InvalidToken("this process issues no assertions".into()))
    }
}
