use std::error::Error;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;
use std::{io, iter};

use domain::TraceContext;
use futures_util::Stream;
use metrics::{counter, gauge, histogram};
use ports::{PeerProcess, ProcessRole, error_chain, lock, trace};
use tokio::sync::{Semaphore, watch};
use tokio::time::{self, Instant};
use tonic::service::interceptor::InterceptedService;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, ConnectError, Request, Response, Status, Streaming};
use tracing::field::Empty;
use tracing::{Instrument, Span, debug, debug_span, info, warn};

use crate::breaker::Breaker;
use crate::config::{Config, REPLY_BYTES_MAX, REQUEST_BYTES_MAX};
use crate::proto;
use crate::proto::gateway_client::GatewayClient;
use crate::proto::identity_client::IdentityClient;
use crate::proto::ingest_client::IngestClient;
use crate::proto::presence_client::PresenceClient;
use crate::proto::signals_client::SignalsClient;
use crate::proto::webhook_client::WebhookClient;
use crate::security::{Badge, Security};
use crate::server::KEEP_ALIVE;
use crate::wire::Malformed;

/// Applies the message size limits to a client.
macro_rules! bounded {
    ($client:expr) => {
        $client.max_decoding_message_size(REPLY_BYTES_MAX).max_encoding_message_size(REQUEST_BYTES_MAX)
    };
}

type PeerChannel = InterceptedService<Channel, Badge>;

/// The connection to one process in one role, which all calls share, and the health of that process.
///
/// The first call opens the connection, pings keep it alive, and it reconnects when it is lost. Dropping the link
/// closes it.
pub(crate) struct PeerLink {
    /// Unique: a process that is removed and found again gets a new link.
    pub(crate) serial: u64,
    pub(crate) peer: PeerProcess,
    caller: PeerChannel,
    connect_timeout: Duration,
    breaker: Mutex<Breaker>,
    /// Whether the breaker is open.
    is_open: watch::Sender<bool>,
    /// Whether the process has announced its shutdown.
    is_leaving: AtomicBool,
    /// Whether the process has ever answered.
    has_answered: AtomicBool,
    uses_tls: bool,
    /// Whether the last call failed, so that only the first failure is logged as a warning.
    is_failing: AtomicBool,
    permits: Semaphore,
    calls_max: usize,
}

/// Why a call has no usable answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PeerCallError {
    #[error("no process with the role `{role}` can be called now")]
    NoProcess { role: ProcessRole },
    #[error("process `{id}` already has {calls_max} pending calls")]
    TooMany { id: String, calls_max: usize },
    #[error("process `{id}` did not answer in time")]
    TooLate { id: String },
    #[error(
        "process `{id}` rejects our secret; give all processes the same one, or list it in `rpc.callers_file` there"
    )]
    Secret { id: String },
    #[error("process `{id}` refuses calls of our role")]
    Role {
        id: String,
        #[source]
        source: Status,
    },
    #[error(
        "process `{id}` and this one reject each other's certificates; give all processes certificates of one \
         authority, each with the names of its roles"
    )]
    Certificate {
        id: String,
        #[source]
        source: Status,
    },
    #[error("process `{id}` cannot be called")]
    Failed {
        id: String,
        #[source]
        source: Status,
    },
    #[error("process `{id}` refused the request")]
    Refused {
        id: String,
        #[source]
        source: Status,
    },
    #[error("the reply of a process is malformed")]
    Answer(#[from] Malformed),
}

impl PeerCallError {
    /// Whether a retry at another process may succeed.
    pub(crate) fn is_of_process(&self) -> bool {
        match self {
            Self::TooLate { .. }
            | Self::Secret { .. }
            | Self::Role { .. }
            | Self::Certificate { .. }
            | Self::Failed { .. } => true,
            Self::NoProcess { .. } | Self::TooMany { .. } | Self::Refused { .. } | Self::Answer(_) => false,
        }
    }
}

impl PeerLink {
    /// Creates the link without connecting. Must run within a Tokio runtime.
    pub(crate) fn new(
        serial: u64,
        role: ProcessRole,
        peer: PeerProcess,
        security: &Security,
        config: &Config,
    ) -> Result<Self, tonic::transport::Error> {
        let channel = endpoint(role, &peer.address, security, config)?.connect_lazy();
        Ok(Self {
            serial,
            peer,
            caller: InterceptedService::new(channel, security.badge()),
            connect_timeout: config.connect_timeout,
            breaker: Mutex::new(Breaker::new(config.breaker_pause)),
            is_open: watch::Sender::new(false),
            is_leaving: AtomicBool::new(false),
            has_answered: AtomicBool::new(false),
            uses_tls: matches!(security, Security::MutualTls { .. }),
            is_failing: AtomicBool::new(false),
            permits: Semaphore::new(config.calls_max),
            calls_max: config.calls_max,
        })
    }

    /// Whether new work may be assigned to the process.
    pub(crate) fn is_usable(&self) -> bool {
        !self.is_leaving() && self.breaker().is_closed()
    }

    pub(crate) fn is_leaving(&self) -> bool {
        self.is_leaving.load(Ordering::Relaxed)
    }

    /// Whether a call may be made now. The call may be the breaker's probe, so the caller must make it.
    pub(crate) fn admit(&self) -> bool {
        !self.is_leaving() && self.breaker().admit(Instant::now())
    }

    /// The time at which [`admit`](Self::admit) may return true.
    pub(crate) fn admits_at(&self) -> Instant {
        self.breaker().admits_at(Instant::now())
    }

    /// Waits until the breaker opens.
    pub(crate) async fn opened(&self) {
        // The link itself holds the sender, so this cannot fail.
        drop(self.is_open.subscribe().wait_for(|is_open| *is_open).await);
    }

    /// Records that the process is shutting down. It gets no further calls.
    pub(crate) fn handle_leaving(&self) {
        info!(process = &*self.peer.id, "process is shutting down; using the others");
        self.is_leaving.store(true, Ordering::Relaxed);
    }

    /// Waits for the answer to a call, at most until `deadline`.
    pub(crate) async fn call<T>(
        &self,
        method: &'static str,
        deadline: Instant,
        call: impl Future<Output = Result<Response<T>, Status>>,
    ) -> Result<T, PeerCallError> {
        let Ok(_permit) = self.permits.try_acquire() else {
            return Err(PeerCallError::TooMany { id: self.peer.id.to_string(), calls_max: self.calls_max });
        };
        let begun = Instant::now();
        let span = call_span(method, None);
        let outcome = self.answer(deadline, call).instrument(span.clone()).await.map(Response::into_inner);
        if let Err(error) = &outcome {
            span.record("error", tracing::field::display(error));
        }
        record(method, begun, outcome.is_ok());
        outcome
    }

    /// Opens a stream of sends. The first item of `sends` is polled only after the process has accepted the stream, so
    /// an error means that no send was transmitted.
    pub(crate) async fn open_sends(
        &self,
        sends: impl Stream<Item = proto::SendRequest> + Send + 'static,
    ) -> Result<Streaming<proto::SendReply>, PeerCallError> {
        let mut client = self.ingest();
        let opened = self.answer(Instant::now() + self.connect_timeout, client.send(sends)).await;
        opened.map(Response::into_inner)
    }

    async fn answer<T>(
        &self,
        deadline: Instant,
        call: impl Future<Output = Result<T, Status>>,
    ) -> Result<T, PeerCallError> {
        let outcome = match time::timeout_at(deadline, call).await {
            Ok(outcome) => outcome.map_err(|status| self.failure(status)),
            Err(_) => Err(PeerCallError::TooLate { id: self.peer.id.to_string() }),
        };
        match &outcome {
            Err(error) if error.is_of_process() => self.handle_failure(error),
            Ok(_) | Err(_) => self.handle_success(),
        }
        outcome
    }

    fn handle_success(&self) {
        self.has_answered.store(true, Ordering::Relaxed);
        if self.is_failing.swap(false, Ordering::Relaxed) {
            info!(process = &*self.peer.id, "process answers again");
        }
        self.update(Breaker::handle_success);
    }

    /// Records a failure of the process.
    pub(crate) fn handle_failure(&self, error: &PeerCallError) {
        let (process, address, error) = (&*self.peer.id, &*self.peer.address, error_chain(error));
        if self.is_failing.swap(true, Ordering::Relaxed) {
            debug!(process, address, %error, "process still failing");
        } else {
            warn!(process, address, %error, "call to a process failed");
        }
        self.update(|breaker| breaker.handle_failure(Instant::now()));
    }

    /// Maps a gRPC status to an error.
    pub(crate) fn failure(&self, status: Status) -> PeerCallError {
        let id = self.peer.id.to_string();
        match status.code() {
            Code::Unauthenticated => PeerCallError::Secret { id },
            Code::PermissionDenied => PeerCallError::Role { id, source: status },
            Code::InvalidArgument | Code::OutOfRange | Code::FailedPrecondition => {
                PeerCallError::Refused { id, source: status }
            }
            _ if self.is_of_certificates(&status) => PeerCallError::Certificate { id, source: status },
            _ => PeerCallError::Failed { id, source: status },
        }
    }

    /// Whether a call failed because of certificates. A process that rejects our certificate closes the connection
    /// after our side considers it established, so the visible error depends on timing.
    fn is_of_certificates(&self, status: &Status) -> bool {
        let causes = || iter::successors(status.source(), |error| (*error).source());
        let is_of_tls = |error: &(dyn Error + 'static)| {
            let inner = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
            error.is::<rustls::Error>() || inner.is_some_and(|inner| inner.is::<rustls::Error>())
        };
        let is_connected = causes().next().is_some() && !causes().any(|error| error.is::<ConnectError>());
        causes().any(is_of_tls) || (self.uses_tls && is_connected && !self.has_answered.load(Ordering::Relaxed))
    }

    /// The error for a send or a stream that was not answered in time.
    pub(crate) fn too_late(&self) -> PeerCallError {
        PeerCallError::TooLate { id: self.peer.id.to_string() }
    }

    fn update(&self, change: impl FnOnce(&mut Breaker)) {
        let is_open = {
            let mut breaker = self.breaker();
            change(&mut breaker);
            !breaker.is_closed()
        };
        if self.is_open.send_if_modified(|was_open| std::mem::replace(was_open, is_open) != is_open) {
            warn!(process = &*self.peer.id, is_open, "circuit breaker of a process changed");
            gauge!("tidings_rpc_breakers_open").increment(if is_open { 1.0 } else { -1.0 });
        }
    }

    fn breaker(&self) -> MutexGuard<'_, Breaker> {
        lock(&self.breaker)
    }

    pub(crate) fn ingest(&self) -> IngestClient<PeerChannel> {
        bounded!(IngestClient::new(self.caller.clone()))
    }

    pub(crate) fn identity(&self) -> IdentityClient<PeerChannel> {
        bounded!(IdentityClient::new(self.caller.clone()))
    }

    pub(crate) fn signals(&self) -> SignalsClient<PeerChannel> {
        bounded!(SignalsClient::new(self.caller.clone()))
    }

    pub(crate) fn presence(&self) -> PresenceClient<PeerChannel> {
        bounded!(PresenceClient::new(self.caller.clone()))
    }

    pub(crate) fn gateway(&self) -> GatewayClient<PeerChannel> {
        bounded!(GatewayClient::new(self.caller.clone()))
    }

    pub(crate) fn webhook(&self) -> WebhookClient<PeerChannel> {
        bounded!(WebhookClient::new(self.caller.clone()))
    }
}

impl Drop for PeerLink {
    fn drop(&mut self) {
        if *self.is_open.borrow() {
            gauge!("tidings_rpc_breakers_open").decrement(1.0);
        }
    }
}

/// The trace span of a call.
pub(crate) fn call_span(method: &'static str, parent: Option<TraceContext>) -> Span {
    let parent = parent.map(tracing::field::display);
    debug_span!(target: trace::TARGET, "rpc", otel.kind = "client", method, traceparent = parent, error = Empty)
}

/// Builds a request that carries its timeout and the trace context.
pub(crate) fn timed<T>(timeout: Duration, body: T) -> Request<T> {
    let mut request = Request::new(body);
    request.set_timeout(timeout);
    if let Some(Ok(context)) = trace::current().map(|context| context.to_string().parse()) {
        request.metadata_mut().insert(TraceContext::HEADER, context);
    }
    request
}

/// Counts a call and records its duration.
pub(crate) fn record(method: &'static str, begun: Instant, is_answered: bool) {
    let outcome = if is_answered { "answered" } else { "failed" };
    counter!("tidings_rpc_calls_total", "method" => method, "outcome" => outcome).increment(1);
    histogram!("tidings_rpc_call_seconds", "method" => method).record(begun.elapsed());
}

/// The endpoint of a process in this role at `HOST:PORT`.
pub(crate) fn endpoint(
    role: ProcessRole,
    address: &str,
    security: &Security,
    config: &Config,
) -> Result<Endpoint, tonic::transport::Error> {
    let tls = security.client_tls(role);
    let scheme = if tls.is_some() { "https" } else { "http" };
    let endpoint = Endpoint::from_shared(format!("{scheme}://{address}"))?
        .connect_timeout(config.connect_timeout)
        .http2_keep_alive_interval(KEEP_ALIVE)
        .keep_alive_timeout(KEEP_ALIVE)
        .keep_alive_while_idle(true);
    match tls {
        Some(tls) => endpoint.tls_config(tls),
        None => Ok(endpoint),
    }
}
