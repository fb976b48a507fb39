use std::sync::Arc;
use std::time::Duration;

use ports::{Delivery, GatewayId, Identity, PresenceReader, SignalSender, WebhookPause};
use tonic::{Request, Response, Status};

use crate::{proto, wire};

/// Serves authentication to processes without table access.
pub(super) struct IdentityService {
    pub(super) identity: Arc<dyn Identity>,
}

#[tonic::async_trait]
impl proto::identity_server::Identity for IdentityService {
    async fn identify(
        &self,
        request: Request<proto::IdentifyRequest>,
    ) -> Result<Response<proto::IdentityReply>, Status> {
        let proto::IdentifyRequest { token, device_id } = request.into_inner();
        let outcome = self.identity.identify(&token, wire::read_device(&device_id)?).await;
        Ok(Response::new(wire::to_identity_reply(outcome)))
    }

    async fn redeem(&self, request: Request<proto::RedeemRequest>) -> Result<Response<proto::IdentityReply>, Status> {
        let proto::RedeemRequest { ticket, device_id } = request.into_inner();
        let outcome = self.identity.redeem(&ticket, wire::read_device(&device_id)?).await;
        Ok(Response::new(wire::to_identity_reply(outcome)))
    }

    async fn live(&self, request: Request<proto::LiveRequest>) -> Result<Response<proto::LiveReply>, Status> {
        let holders = wire::read_holders(request.get_ref())?;
        Ok(Response::new(wire::to_live_reply(self.identity.live(&holders).await)))
    }

    async fn renew(&self, request: Request<proto::RenewRequest>) -> Result<Response<proto::RenewReply>, Status> {
        let renewed = self.identity.renew(&wire::read_renewal(request.into_inner())).await;
        Ok(Response::new(wire::to_renew_reply(renewed)))
    }
}

/// Serves signals.
pub(super) struct SignalsService {
    pub(super) signals: Arc<dyn SignalSender>,
}

#[tonic::async_trait]
impl proto::signals_server::Signals for SignalsService {
    async fn signal(&self, request: Request<proto::SignalRequest>) -> Result<Response<proto::SignalReply>, Status> {
        let signal = wire::read_signal(request.into_inner())?;
        Ok(Response::new(wire::to_signal_reply(self.signals.signal(signal).await)))
    }
}

/// Serves presence queries to processes without table access.
pub(super) struct PresenceService {
    pub(super) presences: Arc<dyn PresenceReader>,
}

#[tonic::async_trait]
impl proto::presence_server::Presence for PresenceService {
    async fn look(&self, request: Request<proto::LookRequest>) -> Result<Response<proto::LookReply>, Status> {
        let lookups = wire::read_looks(request.get_ref())?;
        Ok(Response::new(wire::to_look_reply(self.presences.lookup(&lookups).await)))
    }
}

/// Serves pushes to the connections of this process.
pub(super) struct GatewayService {
    pub(super) id: GatewayId,
    pub(super) delivery: Arc<dyn Delivery>,
}

#[tonic::async_trait]
impl proto::gateway_server::Gateway for GatewayService {
    async fn deliver(&self, request: Request<proto::DeliverRequest>) -> Result<Response<proto::DeliverReply>, Status> {
        let proto::DeliverRequest { gateway_id, pushes } = request.into_inner();
        if *gateway_id != *self.id.0 {
            return Err(Status::failed_precondition(format!("this is gateway `{}`", self.id.0)));
        }
        let taken = self.delivery.deliver(&self.id, &wire::read_pushes(pushes)?).await;
        Ok(Response::new(proto::DeliverReply { error: taken.err().as_ref().map(wire::to_store_error) }))
    }

    async fn revoke(&self, request: Request<proto::RevokeRequest>) -> Result<Response<proto::RevokeReply>, Status> {
        let taken = self.delivery.revoke(wire::read_revocation(request.get_ref())?).await;
        Ok(Response::new(proto::RevokeReply { error: taken.err().as_ref().map(wire::to_store_error) }))
    }
}

/// Serves pauses of the webhook.
pub(super) struct WebhookService {
    pub(super) webhook: Arc<dyn WebhookPause>,
}

#[tonic::async_trait]
impl proto::webhook_server::Webhook for WebhookService {
    async fn pause(&self, request: Request<proto::PauseRequest>) -> Result<Response<proto::PauseReply>, Status> {
        let paused = self.webhook.pause(Duration::from_millis(request.into_inner().time_ms)).await;
        Ok(Response::new(proto::PauseReply { error: paused.err().as_ref().map(wire::to_store_error) }))
    }
}
