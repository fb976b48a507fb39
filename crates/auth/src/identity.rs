use std::borrow::Cow;

use async_trait::async_trait;
use domain::DeviceId;
use futures_util::future::try_join_all;
use ports::{ConnectionHolder, Identity, IdentityError, Principal, StoreError};

use crate::{Auth, AuthError};

#[async_trait]
impl Identity for Auth {
    async fn identify(&self, token: &str, device: DeviceId) -> Result<Principal, IdentityError> {
        self.authenticate_device(token, device).await.map_err(identity_error)
    }

    async fn redeem(&self, ticket: &str, device: DeviceId) -> Result<Principal, IdentityError> {
        self.redeem_ticket(ticket, device).await.map_err(identity_error)
    }

    async fn live(&self, holders: &[ConnectionHolder]) -> Result<Vec<bool>, StoreError> {
        try_join_all(holders.iter().map(|holder| self.may_stay(holder))).await
    }
}

impl Auth {
    /// Whether a connection may stay open, by the stored state of this moment.
    async fn may_stay(&self, holder: &ConnectionHolder) -> Result<bool, StoreError> {
        let (user_id, began_at) = match holder.session_id {
            None => (holder.user_id, holder.connected_at),
            Some(session_id) => match self.ports().sessions.session(session_id, self.now()).await? {
                Some(session) => (session.user_id, session.created_at),
                None => return Ok(false),
            },
        };
        let restrictions = self.ports().restrictions.current_restrictions(user_id).await?;
        Ok(restrictions.check(began_at, None).is_ok() && restrictions.check_ticket(holder.connected_at).is_ok())
    }
}

fn identity_error(error: AuthError) -> IdentityError {
    match error {
        AuthError::InvalidToken(reason) => IdentityError::InvalidToken(Cow::Borrowed(reason)),
        AuthError::TokenRevoked => IdentityError::TokenRevoked,
        AuthError::Suspended => IdentityError::Suspended,
        AuthError::Unavailable(failure) => IdentityError::Unavailable(failure),
        other => IdentityError::Unavailable(StoreError::unavailable(other)),
    }
}
