//! Serves HTTP/1.1, with or without TLS, within time and resource limits.
//!
//! A client's use of resources is bounded: the duration of the TLS handshake and of a request head, the idle time
//! between two requests, the time that a response stays unread, and the number of connections. A WebSocket counts here
//! until its upgrade. From then on the gateway owns it and applies its own limits.
//!
//! `admission` decides which connections and requests are served. `requests` applies its bounds to requests, `metered` to
//! the bytes of a connection, and `connection` has their common state. `token_routes` names the routes that verify tokens.
//! `docs/security.md` lists all bounds.
//!
//! `unread` keeps a connection open if its request was answered without reading the body, also within limits. `linger`
//! closes a connection beyond those limits such that its client can still read the response.

mod admission;
mod connection;
mod linger;
mod metered;
mod requests;
mod token_routes;
mod unread;

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::ConnectInfo;
use axum::response::Response;
use http::header::CONNECTION;
use http::{HeaderValue, Request, StatusCode};
use hyper::body::Incoming;
use hyper::rt::{Sleep, Timer};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use metrics::counter;
use nix::sys::socket::{setsockopt, sockopt};
use ports::error_chain;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tower::ServiceExt;
use tracing::{debug, warn};

use self::admission::AdmittedConnection;
pub(crate) use self::admission::{Admission, ListenerBounds};
use self::connection::{AnswerBody, ConnectionStage};
use self::linger::Lingering;
use self::metered::Metered;
pub(crate) use self::requests::bounded;
use self::requests::refuse_preflight;

/// Timeout of the TLS handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// Timeout of the head of the first request.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// Timeout of the head of each further request, including the idle time before it. It exceeds the minute for which load
/// balancers keep idle connections; otherwise they could use one at the moment we close it.
const IDLE_TIMEOUT: Duration = Duration::from_secs(75);
/// How long written data may stay unacknowledged, by a client that does not read or has disappeared.
const UNREAD_TIMEOUT: Duration = Duration::from_secs(30);
/// Most bytes in the head of a request. Tokens of external identity providers can be long; our own requests are
/// shorter.
const HEAD_BYTES_MAX: usize = 32 << 10;
/// Read buffer of a connection.
const BUFFER_BYTES_MAX: usize = 64 << 10;
/// Unencrypted bytes that a TLS connection buffers: as many as a WebSocket writes at once.
const TLS_BUFFER_BYTES_MAX: usize = 32 << 10;
/// Pause after a failed accept for lack of a local resource, such as file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_secs(1);

/// A listening address and its settings.
pub(crate) struct HttpListener {
    pub(crate) socket: TcpListener,
    /// Present if it serves TLS.
    pub(crate) tls: Option<TlsAcceptor>,
    pub(crate) admission: Arc<Admission>,
}

impl HttpListener {
    /// Serves until stopped, then completes the requests in progress.
    pub(crate) async fn serve(self, app: Router, stopped: watch::Receiver<bool>) {
        let Self { socket: listener, tls, admission } = self;
        let mut connections = JoinSet::new();
        loop {
            let accepted = tokio::select! {
                biased;
                () = stop(stopped.clone()) => break,
                Some(_) = connections.join_next() => continue,
                accepted = listener.accept(), if connections.len() < admission.connections_max() => accepted,
            };
            let (socket, address) = match accepted {
                Ok(accepted) => accepted,
                // The client disconnected before it was accepted.
                Err(failure) if is_of_the_client(&failure) => continue,
                Err(failure) => {
                    warn!(
                        listener = admission.listener(),
                        error = %error_chain(&failure),
                        "could not accept a connection; retrying after a pause"
                    );
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            };
            let Some(admitted) = admission.admit(address) else { continue };
            tune(&socket);
            let client = HttpConnection {
                app: app.clone(),
                admission: admission.clone(),
                admitted,
                address,
                lingers: Arc::default(),
            };
            match &tls {
                None => connections.spawn(client.converse(socket, stopped.clone())),
                Some(tls) => connections.spawn(client.converse_in_secret(tls.clone(), socket, stopped.clone())),
            };
        }
        drop(listener);
        while connections.join_next().await.is_some() {}
    }
}

fn is_of_the_client(failure: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(failure.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}

/// Sets socket options. The socket works without them, so failures are ignored.
fn tune(socket: &TcpStream) {
    // Frames are small and interactive: a delayed one costs a round trip.
    drop(socket.set_nodelay(true));
    let _ = setsockopt(socket, sockopt::TcpUserTimeout, &(UNREAD_TIMEOUT.as_millis() as u32));
}

async fn stop(mut stopped: watch::Receiver<bool>) {
    drop(stopped.wait_for(|stopped| *stopped).await);
}

/// The peer of a connection, and the state to serve it.
struct HttpConnection {
    app: Router,
    admission: Arc<Admission>,
    admitted: AdmittedConnection,
    address: SocketAddr,
    /// Set when a response has announced the close while the client may still be sending.
    lingers: Arc<AtomicBool>,
}

impl HttpConnection {
    /// Serves the connection over TLS, after the handshake.
    async fn converse_in_secret(self, tls: TlsAcceptor, socket: TcpStream, stopped: watch::Receiver<bool>) {
        let listener = self.admission.listener();
        let accepting = tls.accept_with(socket, |tls| tls.set_buffer_limit(Some(TLS_BUFFER_BYTES_MAX)));
        let handshake = tokio::time::timeout(HANDSHAKE_TIMEOUT, accepting);
        let reason = tokio::select! {
            biased;
            () = stop(stopped.clone()) => return,
            () = self.admitted.state().shed.notified() => return,
            shaken = handshake => match shaken {
                Ok(Ok(stream)) => return self.converse(stream, stopped).await,
                Ok(Err(failure)) => {
                    debug!(listener, error = %error_chain(&failure), "TLS handshake failed");
                    "failed"
                }
                Err(_) => "timeout",
            },
        };
        counter!("tidings_tls_handshakes_failed_total", "listener" => listener, "reason" => reason).increment(1);
    }

    /// Serves requests until the client disconnects, is too slow, or upgrades to a WebSocket.
    async fn converse(
        self,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        stopped: watch::Receiver<bool>,
    ) {
        let mut http = http1::Builder::new();
        http.timer(Patience::default())
            .header_read_timeout(HEAD_TIMEOUT)
            .max_header_size(HEAD_BYTES_MAX)
            .max_buf_size(BUFFER_BYTES_MAX);
        let service = service_fn(|request| self.answer(request));
        let state = self.admitted.state();
        let stream = TokioIo::new(Metered::new(Lingering::new(stream, self.lingers.clone()), state.clone()));
        let mut connection = pin!(http.serve_connection(stream, service).with_upgrades());
        let ended = tokio::select! {
            ended = connection.as_mut() => ended,
            () = stop(stopped) => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
            () = state.shed.notified() => match state.stage() {
                ConnectionStage::Idle => return,
                // It became busy at the same time: the request in progress is answered.
                _ => {
                    connection.as_mut().graceful_shutdown();
                    connection.await
                }
            },
        };
        if let Err(failure) = ended {
            debug!(error = %error_chain(&failure), "connection failed");
        }
    }

    /// Answers one request. By then its body has been read to the end, or the response announces the close of the
    /// connection.
    async fn answer(&self, request: Request<Incoming>) -> Result<Response<AnswerBody>, Infallible> {
        let state = self.admitted.state();
        state.begin_request();
        let (mut request, unread) = unread::returning(request);
        let address = self.admission.client(self.address, request.headers());
        request.extensions_mut().insert(ConnectInfo(address));
        let mut response = match refuse_preflight(&self.admission, address, &request) {
            Some(refusal) => refusal,
            None => self.app.clone().oneshot(request).await?,
        };
        if response.status() == StatusCode::SWITCHING_PROTOCOLS {
            // No request follows.
            state.upgrade();
        } else if let Some(unread) = unread
            && !unread.discard().await
        {
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
            self.lingers.store(true, Ordering::Relaxed);
        }
        Ok(response.map(|body| AnswerBody::new(body, state.clone())))
    }
}

/// Applies different timeouts to request heads: one to the first, and one to each further head with the idle time
/// before it.
#[derive(Default)]
struct Patience {
    first_is_over: AtomicBool,
}

impl Timer for Patience {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Sleep>> {
        self.sleep_until(self.now() + duration)
    }

    fn sleep_until(&self, deadline: Instant) -> Pin<Box<dyn Sleep>> {
        let is_first = !self.first_is_over.swap(true, Ordering::Relaxed);
        let deadline = if is_first { deadline } else { deadline + (IDLE_TIMEOUT - HEAD_TIMEOUT) };
        TokioTimer::new().sleep_until(deadline)
    }

    fn now(&self) -> Instant {
        TokioTimer::new().now()
    }
}

#[cfg(test)]
mod tests;
