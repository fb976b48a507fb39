mod ingest;
mod services;

use std::sync::Arc;
use std::time::Duration;

use domain::TraceContext;
use ports::{Delivery, GatewayId, Identity, Ingest, Presences, Signals, trace};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::{select, time};
use tonic::service::InterceptorLayer;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use tracing::{Span, debug_span, warn};

use self::ingest::IngestService;
use self::services::{GatewayService, IdentityService, PresenceService, SignalsService};
use crate::config::{DEADLINE, REPLY_BYTES_MAX, REQUEST_BYTES_MAX};
use crate::proto::gateway_server::GatewayServer;
use crate::proto::identity_server::IdentityServer;
use crate::proto::ingest_server::IngestServer;
use crate::proto::presence_server::PresenceServer;
use crate::proto::signals_server::SignalsServer;
use crate::security::{Security, SecurityError};

/// Calls of one connection under way, at the most; the next ones wait with the caller.
const CALLS_MAX: u32 = 2048;
/// Bytes of the headers of a call, at the most.
const HEADER_BYTES_MAX: u32 = 16 * 1024;
/// How often a silent connection is asked whether it is alive, and how long it may think about it.
pub(crate) const KEEP_ALIVE: Duration = Duration::from_secs(5);
/// How long a shutdown may take: whatever is under way has its answer by then.
const DRAIN_MAX: Duration = Duration::from_secs(6);

/// What a process offers to the others. What is absent does not exist for them.
#[derive(Clone, Default)]
pub struct Services {
    /// The durability plane.
    pub ingest: Option<Arc<dyn Ingest>>,
    /// Who is behind a token.
    pub identity: Option<Arc<dyn Identity>>,
    /// The way of signals.
    pub signals: Option<Arc<dyn Signals>>,
    /// What users may see of one another.
    pub presences: Option<Arc<dyn Presences>>,
    /// The connections of this gateway, under its own name.
    pub delivery: Option<(GatewayId, Arc<dyn Delivery>)>,
}

/// Why a process cannot be called.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The certificates cannot be used.
    #[error(transparent)]
    Security(#[from] SecurityError),
    /// Serving failed.
    #[error("calls of other processes cannot be served")]
    Serving(#[source] tonic::transport::Error),
}

/// Answers the calls of other processes until `shutdown` is ready, then answers what is under way, and tells those who
/// send to go to another process. That takes 6 s at the most.
///
/// # Errors
/// If the certificates cannot be used.
pub async fn serve(
    listener: TcpListener,
    services: Services,
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
    macro_rules! bounded {
        ($server:expr) => {
            $server.max_decoding_message_size(REQUEST_BYTES_MAX).max_encoding_message_size(REPLY_BYTES_MAX)
        };
    }
    let ingest = services.ingest.map(|ingest| IngestService { ingest, leaving: leaving.clone() });
    let identity = services.identity.map(|identity| IdentityService { identity });
    let signals = services.signals.map(|signals| SignalsService { signals });
    let presence = services.presences.map(|presences| PresenceService { presences });
    let gateway = services.delivery.map(|(id, delivery)| GatewayService { id, delivery });
    let served = server
        .layer(InterceptorLayer::new(security.door()))
        .add_optional_service(ingest.map(|service| bounded!(IngestServer::new(service))))
        .add_optional_service(identity.map(|service| bounded!(IdentityServer::new(service))))
        .add_optional_service(signals.map(|service| bounded!(SignalsServer::new(service))))
        .add_optional_service(presence.map(|service| bounded!(PresenceServer::new(service))))
        .add_optional_service(gateway.map(|service| bounded!(GatewayServer::new(service))))
        .serve_with_incoming_shutdown(TcpIncoming::from(listener).with_nodelay(Some(true)), async {
            shutdown.await;
            leave.send_replace(true);
        });
    let too_long = async {
        // The sender is in the other future, which is there as long as this one.
        drop(leaving.wait_for(|is_leaving| *is_leaving).await);
        time::sleep(DRAIN_MAX).await;
    };
    select! {
        outcome = served => outcome.map_err(ServeError::Serving),
        () = too_long => {
            warn!("calls of other processes were still under way at the end of the shutdown");
            Ok(())
        }
    }
}

/// The answer to a call that is part of a trace. A stream of sends is not: each send is.
fn span_of(call: &tonic::codegen::http::Request<()>) -> Span {
    let Some(context) = call.headers().get(TraceContext::HEADER).and_then(|header| header.to_str().ok()) else {
        return Span::none();
    };
    debug_span!(
        target: trace::TARGET, parent: None, "answer", otel.kind = "server", traceparent = context,
        method = call.uri().path(),
    )
}
