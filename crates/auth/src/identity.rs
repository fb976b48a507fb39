use std::borrow::Cow;

use async_trait::async_trait;
use domain::{DeviceId, SessionId};
use futures_util::future::try_join_all;
use ports::{Identity, IdentityError, Principal, StoreError};

use crate::{Auth, AuthError};

#[async_trait]
impl Identity for Auth {
    async fn identify(&self, token: &str, device: DeviceId) -> Result<Principal, IdentityError> {
        self.authenticate_device(token, device).await.map_err(identity_error)
    }

    async fn redeem(&self, ticket: &str, device: DeviceId) -> Result<Principal, IdentityError> {
        self.redeem_ticket(ticket, device).await.map_err(identity_error)
    }

    async fn live(&self, session_ids: &[SessionId]) -> Result<Vec<bool>, StoreError> {
        let now = self.now();
        let lookups = session_ids.iter().map(|session_id| self.ports().sessions.session(*session_id, now));
        Ok(try_join_all(lookups).await?.into_iter().map(|session| session.is_some()).collect())
    }
}

fn identity_error(error: AuthError) -> IdentityError {
    match error {
        AuthError::InvalidToken(reason) => IdentityError::InvalidToken(Cow::Borrowed(reason)),
        AuthError::TokenRevoked => IdentityError::TokenRevoked,
        AuthError::Unavailable(failure) => IdentityError::Unavailable(failure),
        other => IdentityError::Unavailable(StoreError::unavailable(other)),
    }
}
