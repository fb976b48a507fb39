use std::sync::Arc;

use async_trait::async_trait;
use domain::{DeviceId, IngestError, Watermarks};
use futures_util::future::BoxFuture;
use ports::{
    AdvanceRequest, Assertion, ConnectionHolder, Identity, IdentityError, Ingest, Page, Principal, SendRequest, Sent,
    StoreError, SyncRequest,
};

use crate::assertion::Asserter;

/// Authentication in the role `api`, which issues an assertion with every answer.
pub struct AssertingIdentity {
    identity: Arc<dyn Identity>,
    asserter: Asserter,
}

impl AssertingIdentity {
    /// Asserts what `identity` authenticates.
    pub fn new(identity: Arc<dyn Identity>, asserter: Asserter) -> Self {
        Self { identity, asserter }
    }

    fn asserted(&self, principal: Principal, device: DeviceId) -> Principal {
        let assertion = self.asserter.assert(&principal, Some(device));
        Principal { assertion: Some(assertion), ..principal }
    }
}

#[async_trait]
impl Identity for AssertingIdentity {
    async fn identify(&self, token: &str, device: DeviceId) -> Result<Principal, IdentityError> {
        Ok(self.asserted(self.identity.identify(token, device).await?, device))
    }

    async fn redeem(&self, ticket: &str, device: DeviceId) -> Result<Principal, IdentityError> {
        Ok(self.asserted(self.identity.redeem(ticket, device).await?, device))
    }

    async fn live(&self, holders: &[ConnectionHolder]) -> Result<Vec<bool>, StoreError> {
        self.identity.live(holders).await
    }

    async fn renew(&self, assertion: &Assertion) -> Result<Assertion, IdentityError> {
        let unknown = |_| IdentityError::InvalidToken("its assertion was not issued by this fleet".into());
        let claims = self.asserter.open(&assertion.proof).map_err(unknown)?;
        if claims.token_expires_at <= self.asserter.now() {
            return Err(IdentityError::InvalidToken("it has expired".into()));
        }
        if self.identity.live(&[claims.holder()]).await? != [true] {
            return Err(IdentityError::TokenRevoked);
        }
        Ok(self.asserter.issue(claims))
    }
}

/// Ingest as the role `api` calls it: REST has authenticated the user in this process, which asserts it itself.
pub struct AssertingIngest {
    ingest: Arc<dyn Ingest>,
    asserter: Asserter,
}

impl AssertingIngest {
    /// Adds an assertion to every request to `ingest`.
    pub fn new(ingest: Arc<dyn Ingest>, asserter: Asserter) -> Self {
        Self { ingest, asserter }
    }
}

#[async_trait]
impl Ingest for AssertingIngest {
    fn send(&self, request: SendRequest) -> BoxFuture<'static, Result<Sent, IngestError>> {
        let assertion = Some(self.asserter.assert_user(request.sender_id));
        self.ingest.send(SendRequest { assertion, ..request })
    }

    async fn sync(&self, request: SyncRequest) -> Result<Page, IngestError> {
        let assertion = Some(self.asserter.assert_user(request.user_id));
        self.ingest.sync(SyncRequest { assertion, ..request }).await
    }

    async fn advance(&self, request: AdvanceRequest) -> Result<Watermarks, IngestError> {
        let assertion = Some(self.asserter.assert_user(request.user_id));
        self.ingest.advance(AdvanceRequest { assertion, ..request }).await
    }
}
