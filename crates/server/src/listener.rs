//! Answers HTTP/1.1, with or without TLS, and is patient with nobody for ever.
//!
//! What a stranger can hold is bounded: how long the handshake of TLS and the head of a request take, how long a
//! connection is silent between two requests, how long an answer stays unread, and how many connections there are. A
//! WebSocket counts here until its upgrade; from then on it is the gateway's, which has bounds of its own.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use axum::extract::ConnectInfo;
use axum::response::Response;
use http::Request;
use hyper::body::Incoming;
use hyper::rt::{Sleep, Timer};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use metrics::counter;
use nix::sys::socket::{setsockopt, sockopt};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tower::ServiceExt;
use tracing::{debug, warn};

use crate::forwarded::TrustedProxies;

/// How long the handshake of TLS may take.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// How long the head of the first request may take.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// How long the head of another request may take, with the silence before it. Balancers keep a silent connection for a
/// minute, and must not find that it was closed in the moment in which they use it.
const IDLE_TIMEOUT: Duration = Duration::from_secs(75);
/// How long what was written may stay unacknowledged, by a client that does not read or is gone.
const UNREAD_TIMEOUT: Duration = Duration::from_secs(30);
/// Bytes of the head of a request. Tokens of other systems can be long; nothing of ours is.
const HEAD_BYTES_MAX: usize = 32 << 10;
/// What a connection reads ahead.
const BUFFER_BYTES_MAX: usize = 64 << 10;
/// How long to wait when a connection cannot be taken for want of something of ours, such as open files.
const ACCEPT_PAUSE: Duration = Duration::from_secs(1);

/// An address at which requests are answered.
pub(crate) struct Listener {
    /// What metrics call it.
    pub(crate) name: &'static str,
    pub(crate) socket: TcpListener,
    /// Present where it speaks TLS.
    pub(crate) tls: Option<TlsAcceptor>,
    /// Whose word on a client's address is believed.
    pub(crate) proxies: TrustedProxies,
    /// Connections at the most. Those beyond it are accepted when others have ended.
    pub(crate) connections_max: usize,
}

impl Listener {
    /// Answers until stopped, and then what is under way.
    pub(crate) async fn serve(self, app: Router, stopped: watch::Receiver<bool>) {
        let Self { name, socket: listener, tls, proxies, connections_max } = self;
        let proxies = Arc::new(proxies);
        let mut connections = JoinSet::new();
        loop {
            let accepted = tokio::select! {
                biased;
                () = stop(stopped.clone()) => break,
                Some(_) = connections.join_next() => continue,
                accepted = listener.accept(), if connections.len() < connections_max => accepted,
            };
            let (socket, address) = match accepted {
                Ok(accepted) => accepted,
                // The client was gone before its turn came.
                Err(failure) if is_of_the_client(&failure) => continue,
                Err(failure) => {
                    warn!(listener = name, error = &failure as &dyn std::error::Error, "a connection was not accepted");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            };
            tune(&socket);
            let client = Client { app: app.clone(), proxies: proxies.clone(), address };
            match &tls {
                None => connections.spawn(client.converse(socket, stopped.clone())),
                Some(tls) => connections.spawn(client.converse_in_secret(name, tls.clone(), socket, stopped.clone())),
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

/// A socket that does not take an option works all the same.
fn tune(socket: &TcpStream) {
    // Frames are small and wait for each other's answers: a delayed one costs a round trip.
    drop(socket.set_nodelay(true));
    let _ = setsockopt(socket, sockopt::TcpUserTimeout, &(UNREAD_TIMEOUT.as_millis() as u32));
}

async fn stop(mut stopped: watch::Receiver<bool>) {
    drop(stopped.wait_for(|stopped| *stopped).await);
}

/// Whoever is at the other end of a connection.
struct Client {
    app: Router,
    proxies: Arc<TrustedProxies>,
    address: SocketAddr,
}

impl Client {
    /// The same over TLS, once both have agreed on keys.
    async fn converse_in_secret(
        self,
        listener: &'static str,
        tls: TlsAcceptor,
        socket: TcpStream,
        stopped: watch::Receiver<bool>,
    ) {
        let handshake = tokio::time::timeout(HANDSHAKE_TIMEOUT, tls.accept(socket));
        let reason = tokio::select! {
            biased;
            () = stop(stopped.clone()) => return,
            shaken = handshake => match shaken {
                Ok(Ok(stream)) => return self.converse(stream, stopped).await,
                Ok(Err(failure)) => {
                    debug!(listener, error = &failure as &dyn std::error::Error, "a handshake of TLS has failed");
                    "failed"
                }
                Err(_) => "timeout",
            },
        };
        counter!("tidings_tls_handshakes_failed_total", "listener" => listener, "reason" => reason).increment(1);
    }

    /// Answers requests until the client leaves, is too slow, or becomes a WebSocket.
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
        let mut connection = pin!(http.serve_connection(TokioIo::new(stream), service).with_upgrades());
        let ended = tokio::select! {
            ended = connection.as_mut() => ended,
            () = stop(stopped) => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        };
        if let Err(failure) = ended {
            debug!(error = &failure as &dyn std::error::Error, "a connection has failed");
        }
    }

    fn answer(&self, request: Request<Incoming>) -> impl Future<Output = Result<Response, Infallible>> + use<> {
        let mut request = request.map(Body::new);
        let address = self.proxies.client(self.address, request.headers());
        request.extensions_mut().insert(ConnectInfo(address));
        self.app.clone().oneshot(request)
    }
}

/// Measures how long a head may take: the first one of a connection, and each of the others with the silence before it.
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
mod tests {
    use axum::routing::get;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    /// A listener that answers `/` with the address that it takes its clients to be at.
    struct World {
        address: SocketAddr,
        stop: watch::Sender<bool>,
        serving: tokio::task::JoinHandle<()>,
    }

    impl World {
        async fn start(connections_max: usize) -> Self {
            let socket = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = socket.local_addr().unwrap();
            let proxies = "127.0.0.0/8".parse().unwrap();
            let listener = Listener { name: "public", socket, tls: None, proxies, connections_max };
            let app = Router::new()
                .route("/", get(async |ConnectInfo(address): ConnectInfo<SocketAddr>| address.ip().to_string()));
            let (stop, stopped) = watch::channel(false);
            let serving = tokio::spawn(listener.serve(app, stopped));
            Self { address, stop, serving }
        }

        async fn connect(&self) -> TcpStream {
            TcpStream::connect(self.address).await.unwrap()
        }
    }

    const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nhost: x\r\nx-forwarded-for: 192.0.2.7\r\n\r\n";

    /// Everything that comes until the server closes.
    async fn rest(socket: &mut TcpStream) -> String {
        let mut bytes = Vec::new();
        // A reset ends it as well.
        drop(socket.read_to_end(&mut bytes).await);
        String::from_utf8(bytes).unwrap()
    }

    /// The answer to one request. More may follow.
    async fn answer(socket: &mut TcpStream) -> String {
        let mut bytes = vec![0; 4096];
        let read = socket.read(&mut bytes).await.unwrap();
        String::from_utf8_lossy(&bytes[..read]).into_owned()
    }

    #[tokio::test(start_paused = true)]
    async fn who_connects_and_says_nothing_is_dropped_after_ten_seconds() {
        let world = World::start(10).await;
        let began = tokio::time::Instant::now();
        let mut silent = world.connect().await;
        assert_eq!(rest(&mut silent).await, "");
        assert_eq!(began.elapsed().as_secs(), HEAD_TIMEOUT.as_secs());
    }

    #[tokio::test(start_paused = true)]
    async fn a_head_that_comes_byte_by_byte_is_not_waited_for() {
        let world = World::start(10).await;
        let began = tokio::time::Instant::now();
        let (mut reading, mut writing) = world.connect().await.into_split();
        let dripping = tokio::spawn(async move {
            for byte in REQUEST.iter().cycle() {
                tokio::time::sleep(Duration::from_secs(1)).await;
                if writing.write_all(&[*byte]).await.is_err() {
                    return;
                }
            }
        });
        let mut said = Vec::new();
        drop(reading.read_to_end(&mut said).await);
        dripping.abort();
        assert_eq!(String::from_utf8_lossy(&said), "");
        let seconds = began.elapsed().as_secs();
        assert!((HEAD_TIMEOUT.as_secs()..HEAD_TIMEOUT.as_secs() + 5).contains(&seconds), "{seconds} s");
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_may_be_silent_for_a_minute_between_two_requests() {
        let world = World::start(10).await;
        let mut kept = world.connect().await;
        for _ in 0..2 {
            kept.write_all(REQUEST).await.unwrap();
            assert!(answer(&mut kept).await.ends_with("192.0.2.7"), "as a trusted proxy says");
            tokio::time::sleep(Duration::from_secs(60)).await;
        }
        let began = tokio::time::Instant::now();
        assert_eq!(rest(&mut kept).await, "");
        assert_eq!(began.elapsed().as_secs(), IDLE_TIMEOUT.as_secs() - 60);
    }

    #[tokio::test(start_paused = true)]
    async fn connections_beyond_the_bound_have_their_turn_when_others_end() {
        let world = World::start(2).await;
        let held = [world.connect().await, world.connect().await];
        // Both are accepted before the third one asks.
        tokio::time::sleep(Duration::from_secs(1)).await;
        let mut third = world.connect().await;
        third.write_all(REQUEST).await.unwrap();
        let began = tokio::time::Instant::now();
        assert!(answer(&mut third).await.starts_with("HTTP/1.1 200"));
        assert_eq!(began.elapsed().as_secs(), HEAD_TIMEOUT.as_secs() - 1, "until the silent ones are dropped");
        drop(held);
    }

    #[tokio::test]
    async fn a_head_that_is_too_long_is_refused() {
        let world = World::start(10).await;
        for head in [
            format!("GET /{} HTTP/1.1\r\nhost: x\r\n\r\n", "a".repeat(HEAD_BYTES_MAX)),
            format!("GET / HTTP/1.1\r\nhost: x\r\ncookie: {}\r\n\r\n", "a".repeat(HEAD_BYTES_MAX)),
            format!("GET / HTTP/1.1\r\nhost: x\r\n{}\r\n", "a: b\r\n".repeat(101)),
        ] {
            let mut socket = world.connect().await;
            socket.write_all(head.as_bytes()).await.unwrap();
            let said = rest(&mut socket).await;
            assert!(said.starts_with("HTTP/1.1 431"), "{said}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_stop_ends_silent_connections_at_once() {
        let world = World::start(10).await;
        let (mut fresh, mut kept) = (world.connect().await, world.connect().await);
        kept.write_all(REQUEST).await.unwrap();
        assert!(answer(&mut kept).await.starts_with("HTTP/1.1 200"));
        tokio::time::sleep(Duration::from_millis(10)).await;
        let began = tokio::time::Instant::now();
        world.stop.send_replace(true);
        world.serving.await.unwrap();
        assert_eq!((rest(&mut fresh).await, rest(&mut kept).await), (String::new(), String::new()));
        assert_eq!(began.elapsed(), Duration::ZERO);
    }
}
