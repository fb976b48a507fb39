use std::error::Error;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use std::{io, iter};

use domain::TraceContext;
use futures_util::Stream;
use metrics::{counter, gauge, histogram};
use ports::{Peer, ProcessRole, trace};
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
use crate::security::{Badge, Security};
use crate::server::KEEP_ALIVE;
use crate::wire::Malformed;

/// A client that neither sends nor takes messages beyond the bounds.
macro_rules! bounded {
    ($client:expr) => {
        $client.max_decoding_message_size(REPLY_BYTES_MAX).max_encoding_message_size(REQUEST_BYTES_MAX)
    };
}

type Caller = InterceptedService<Channel, Badge>;

/// The way to one process: its connection, which all calls share, and what is known of its health.
///
/// The connection is made by the first call, kept alive by pings, made again when it is lost, and closed with the link.
pub(crate) struct Link {
    /// No other link has had it: a process that is forgotten and found again is another link.
    pub(crate) serial: u64,
    pub(crate) peer: Peer,
    caller: Caller,
    connect_timeout: Duration,
    breaker: Mutex<Breaker>,
    /// Whether calls are kept away from the process.
    is_open: watch::Sender<bool>,
    /// Whether the process has said that it is about to end.
    is_leaving: AtomicBool,
    /// Whether the process has ever answered.
    has_answered: AtomicBool,
    uses_tls: bool,
    /// Whether the last call has failed, so that the first failure is told and not each.
    is_failing: AtomicBool,
    permits: Semaphore,
    calls_max: usize,
}

/// A call without an answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CallError {
    #[error("no process with the role `{role}` can be called now")]
    NoProcess { role: ProcessRole },
    #[error("{calls_max} calls of process `{id}` wait already")]
    TooMany { id: String, calls_max: usize },
    #[error("process `{id}` did not answer in time")]
    TooLate { id: String },
    #[error("process `{id}` does not take our secret; give all processes of the fleet the same one")]
    Secret { id: String },
    #[error(
        "process `{id}` and this one do not take each other's certificates; give all processes certificates of one \
         authority, each good for the host under which its process is announced"
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
    #[error("process `{id}` cannot use the request")]
    Refused {
        id: String,
        #[source]
        source: Status,
    },
    #[error("the answer of a process cannot be used")]
    Answer(#[from] Malformed),
}

impl CallError {
    /// Whether another process may do better.
    pub(crate) fn is_of_process(&self) -> bool {
        match self {
            Self::TooLate { .. } | Self::Secret { .. } | Self::Certificate { .. } | Self::Failed { .. } => true,
            Self::NoProcess { .. } | Self::TooMany { .. } | Self::Refused { .. } | Self::Answer(_) => false,
        }
    }
}

impl Link {
    /// Prepares everything and connects to nothing yet. Needs a Tokio runtime to be there.
    pub(crate) fn new(
        serial: u64,
        peer: Peer,
        security: &Security,
        config: &Config,
    ) -> Result<Self, tonic::transport::Error> {
        let channel = endpoint(&peer.address, security, config)?.connect_lazy();
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

    /// Whether the process is one to begin something with.
    pub(crate) fn is_usable(&self) -> bool {
        !self.is_leaving() && self.breaker().is_closed()
    }

    pub(crate) fn is_leaving(&self) -> bool {
        self.is_leaving.load(Ordering::Relaxed)
    }

    /// Whether a call may be made now. It may be the probe, so it has to be made.
    pub(crate) fn admit(&self) -> bool {
        !self.is_leaving() && self.breaker().admit(Instant::now())
    }

    /// When [`admit`](Self::admit) may say yes.
    pub(crate) fn admits_at(&self) -> Instant {
        self.breaker().admits_at(Instant::now())
    }

    /// Waits until calls are kept away from the process.
    pub(crate) async fn opened(&self) {
        // The link itself holds the sender.
        drop(self.is_open.subscribe().wait_for(|is_open| *is_open).await);
    }

    /// Takes note that the process is about to end. It is not called again.
    pub(crate) fn handle_leaving(&self) {
        info!(process = &*self.peer.id, "a process is about to end");
        self.is_leaving.store(true, Ordering::Relaxed);
    }

    /// Waits for the answer to a call, no longer than `deadline`.
    pub(crate) async fn call<T>(
        &self,
        method: &'static str,
        deadline: Instant,
        call: impl Future<Output = Result<Response<T>, Status>>,
    ) -> Result<T, CallError> {
        let Ok(_permit) = self.permits.try_acquire() else {
            return Err(CallError::TooMany { id: self.peer.id.to_string(), calls_max: self.calls_max });
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

    /// Opens a stream of sends. Nothing is taken from `sends` before the process has agreed to read them, so that an error
    /// means that none was handed over.
    pub(crate) async fn open_sends(
        &self,
        sends: impl Stream<Item = proto::SendRequest> + Send + 'static,
    ) -> Result<Streaming<proto::SendReply>, CallError> {
        let mut client = self.ingest();
        let opened = self.answer(Instant::now() + self.connect_timeout, client.send(sends)).await;
        opened.map(Response::into_inner)
    }

    async fn answer<T>(
        &self,
        deadline: Instant,
        call: impl Future<Output = Result<T, Status>>,
    ) -> Result<T, CallError> {
        let outcome = match time::timeout_at(deadline, call).await {
            Ok(outcome) => outcome.map_err(|status| self.failure(status)),
            Err(_) => Err(CallError::TooLate { id: self.peer.id.to_string() }),
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
            info!(process = &*self.peer.id, "a process answers again");
        }
        self.update(Breaker::handle_success);
    }

    /// Takes note of a failure of the process.
    pub(crate) fn handle_failure(&self, error: &CallError) {
        let (process, address, error) = (&*self.peer.id, &*self.peer.address, error as &dyn Error);
        if self.is_failing.swap(true, Ordering::Relaxed) {
            debug!(process, address, error, "a process fails still");
        } else {
            warn!(process, address, error, "a process fails");
        }
        self.update(|breaker| breaker.handle_failure(Instant::now()));
    }

    /// The failure that a status is.
    pub(crate) fn failure(&self, status: Status) -> CallError {
        let id = self.peer.id.to_string();
        match status.code() {
            Code::Unauthenticated => CallError::Secret { id },
            Code::InvalidArgument | Code::OutOfRange | Code::FailedPrecondition => {
                CallError::Refused { id, source: status }
            }
            _ if self.is_of_certificates(&status) => CallError::Certificate { id, source: status },
            _ => CallError::Failed { id, source: status },
        }
    }

    /// Whether a call failed because of certificates. A process that does not take ours closes the connection after we
    /// believe that it is made, and what we see of it depends on who is quicker.
    fn is_of_certificates(&self, status: &Status) -> bool {
        let causes = || iter::successors(status.source(), |error| (*error).source());
        let is_of_tls = |error: &(dyn Error + 'static)| {
            let inner = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
            error.is::<rustls::Error>() || inner.is_some_and(|inner| inner.is::<rustls::Error>())
        };
        let is_connected = causes().next().is_some() && !causes().any(|error| error.is::<ConnectError>());
        causes().any(is_of_tls) || (self.uses_tls && is_connected && !self.has_answered.load(Ordering::Relaxed))
    }

    /// A send or a stream of them that was not answered in time.
    pub(crate) fn too_late(&self) -> CallError {
        CallError::TooLate { id: self.peer.id.to_string() }
    }

    fn update(&self, change: impl FnOnce(&mut Breaker)) {
        let is_open = {
            let mut breaker = self.breaker();
            change(&mut breaker);
            !breaker.is_closed()
        };
        if self.is_open.send_if_modified(|was_open| std::mem::replace(was_open, is_open) != is_open) {
            warn!(process = &*self.peer.id, is_open, "calls of a process are kept away from it, or are not any more");
            gauge!("tidings_rpc_breakers_open").increment(if is_open { 1.0 } else { -1.0 });
        }
    }

    fn breaker(&self) -> MutexGuard<'_, Breaker> {
        // Nothing that runs under this lock can leave the breaker half changed.
        self.breaker.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn ingest(&self) -> IngestClient<Caller> {
        bounded!(IngestClient::new(self.caller.clone()))
    }

    pub(crate) fn identity(&self) -> IdentityClient<Caller> {
        bounded!(IdentityClient::new(self.caller.clone()))
    }

    pub(crate) fn signals(&self) -> SignalsClient<Caller> {
        bounded!(SignalsClient::new(self.caller.clone()))
    }

    pub(crate) fn presence(&self) -> PresenceClient<Caller> {
        bounded!(PresenceClient::new(self.caller.clone()))
    }

    pub(crate) fn gateway(&self) -> GatewayClient<Caller> {
        bounded!(GatewayClient::new(self.caller.clone()))
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        if *self.is_open.borrow() {
            gauge!("tidings_rpc_breakers_open").decrement(1.0);
        }
    }
}

/// A call as its trace shows it.
pub(crate) fn call_span(method: &'static str, parent: Option<TraceContext>) -> Span {
    let parent = parent.map(tracing::field::display);
    debug_span!(target: trace::TARGET, "rpc", otel.kind = "client", method, traceparent = parent, error = Empty)
}

/// A request that tells how long its caller waits, and where it stands in a trace.
pub(crate) fn timed<T>(timeout: Duration, body: T) -> Request<T> {
    let mut request = Request::new(body);
    request.set_timeout(timeout);
    if let Some(Ok(context)) = trace::current().map(|context| context.to_string().parse()) {
        request.metadata_mut().insert(TraceContext::HEADER, context);
    }
    request
}

/// Counts a call and how long it took.
pub(crate) fn record(method: &'static str, begun: Instant, is_answered: bool) {
    let outcome = if is_answered { "answered" } else { "failed" };
    counter!("tidings_rpc_calls_total", "method" => method, "outcome" => outcome).increment(1);
    histogram!("tidings_rpc_call_seconds", "method" => method).record(begun.elapsed());
}

/// How a process at `HOST:PORT` is reached.
pub(crate) fn endpoint(
    address: &str,
    security: &Security,
    config: &Config,
) -> Result<Endpoint, tonic::transport::Error> {
    let tls = security.client_tls();
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
