mod ingest;
mod services;

use std::sync::Arc;
use std::time::Duration;

use domain::TraceContext;
use ports::{Delivery, GatewayId, Identity, Ingest, PresenceReader, SignalSender, SystemClock, WebhookPause, trace};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::{select, time};
use tonic::service::interceptor::InterceptedService;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use tracing::{Span, debug_span, warn};

use self::ingest::IngestService;
use self::services::{GatewayService, IdentityService, PresenceService, SignalsService, WebhookService};
use crate::assertion::{AssertionCheck, AssertionPolicy};
use crate::config::{DEADLINE, REPLY_BYTES_MAX, REQUEST_BYTES_MAX};
use crate::proto::gateway_server::GatewayServer;
use crate::proto::identity_server::IdentityServer;
use crate::proto::ingest_server::IngestServer;
use crate::proto::presence_server::PresenceServer;
use crate::proto::signals_server::SignalsServer;
use crate::proto::webhook_server::WebhookServer;
use crate::roles::FleetService;
use crate::security::{Security, SecurityError};

/// Limit of concurrent calls per connection; further calls wait at the caller.
const CALLS_MAX: u32 = 2048;
/// Largest header of a call, in bytes.
const HEADER_BYTES_MAX: u32 = 16 * 1024;
/// Interval of keep-alive pings, and their timeout.
pub(crate) const KEEP_ALIVE: Duration = Duration::from_secs(5);
/// Limit of the shutdown time: every pending call is answered within its deadline.
const DRAIN_MAX: Duration = Duration::from_secs(6);

/// The services that a process offers. An absent service is unimplemented for callers.
#[derive(Clone, Default)]
pub struct RpcServices {
    /// The durability plane, and whether its callers need assertions.
    pub ingest: Option<(Arc<dyn Ingest>, AssertionPolicy)>,
    /// Authentication of tokens.
    pub identity: Option<Arc<dyn Identity>>,
    /// Signals of chats.
    pub signals: Option<Arc<dyn SignalSender>>,
    /// Presence queries.
    pub presences: Option<Arc<dyn PresenceReader>>,
    /// The connections of this gateway, with its id.
    pub delivery: Option<(GatewayId, Arc<dyn Delivery>)>,
    /// Pauses of the webhook of this process.
    pub webhook: Option<Arc<dyn WebhookPause>>,
}

/// Why calls cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The certificates cannot be used.
    #[error(transparent)]
    Security(#[from] SecurityError),
    /// Serving failed.
    #[error("calls of other processes cannot be served")]
    Serving(#[source] tonic::transport::Error),
}

/// Serves calls of other processes until `shutdown` resolves. It then answers the pending calls, and asks senders to
/// use another process. The drain takes at most 6 s.
///
/// # Errors
/// If the certificates cannot be used.
pub async fn serve(
    listener: TcpListener,
    services: RpcServices,
    security: Security,
    shutdown: impl Future<Output = ()>,
) -> Result<(), ServeError> {
    let (leave, mut leaving) = watch::channel(false);
    let mut server = Server::builder()
        .timeout(DEADLINE)
        .max_concurrent_streams(CALLS_MAX)
        .http2_max_header_list_size(HEADER_BYTES_MAX)
        .http2_keepalive_interval(Some(KEEP_ALIVE))
        .http2_keepalive_timeout(Some(KEEP_ALIVE))
        .trace_fn(span_of);
    if let Some(tls) = security.server_tls() {
        server = server.tls_config(tls).map_err(SecurityError::from)?;
    }
    macro_rules! guarded {
        ($service:ident, $server:expr) => {{
            let server =
                $server.max_decoding_message_size(REQUEST_BYTES_MAX).max_encoding_message_size(REPLY_BYTES_MAX);
            InterceptedService::new(server, security.guard(FleetService::$service))
        }};
    }
    let ingest = services.ingest.map(|(ingest, policy)| {
        let assertions = Arc::new(AssertionCheck::new(policy, Arc::new(SystemClock)));
        IngestService { ingest, assertions, leaving: leaving.clone() }
    });
    let identity = services.identity.map(|identity| IdentityService { identity });
    let signals = services.signals.map(|signals| SignalsService { signals });
    let presence = services.presences.map(|presences| PresenceService { presences });
    let gateway = services.delivery.map(|(id, delivery)| GatewayService { id, delivery });
    let webhook = services.webhook.map(|webhook| WebhookService { webhook });
    let served = server
        .add_optional_service(ingest.map(|service| guarded!(Ingest, IngestServer::new(service))))
        .add_optional_service(identity.map(|service| guarded!(Identity, IdentityServer::new(service))))
        .add_optional_service(signals.map(|service| guarded!(Signals, SignalsServer::new(service))))
        .add_optional_service(presence.map(|service| guarded!(Presence, PresenceServer::new(service))))
        .add_optional_service(gateway.map(|service| guarded!(Gateway, GatewayServer::new(service))))
        .add_optional_service(webhook.map(|service| guarded!(Webhook, WebhookServer::new(service))))
        .serve_with_incoming_shutdown(TcpIncoming::from(listener).with_nodelay(Some(true)), async {
            shutdown.await;
            leave.send_replace(true);
        });
    let too_long = async {
        // The sender lives in the other future, as long as this one.
        drop(leaving.wait_for(|is_leaving| *is_leaving).await);
        time::sleep(DRAIN_MAX).await;
    };
    select! {
        outcome = served => outcome.map_err(ServeError::Serving),
        () = too_long => {
            warn!("shutdown deadline reached with calls of other processes pending; dropping them");
            Ok(())
        }
    }
}

/// The server span of a traced call. Streams of sends have none, since each send has its own.
fn span_of(call: &tonic::codegen::http::Request<()>) -> Span {
    let Some(context) = call.headers().get(TraceContext::HEADER).and_then(|header| header.to_str().ok()) else {
        return Span::none();
    };
    debug_span!(
        target: trace::TARGET, parent: None, "answer", otel.kind = "server", traceparent = context,
        method = call.uri().path(),
    )
}
