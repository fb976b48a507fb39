use axum::body::{Body, to_bytes};
use axum::routing::{get, post};
use rustls::ServerConfig;
use rustls::server::ResolvesServerCertUsingSni;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

use super::linger::{LINGER_MAX, SILENCE_MAX};
use super::metered::PROGRESS_TIMEOUT;
use super::unread::{BODY_TIMEOUT, DISCARDED_BYTES_MAX};
use super::*;

/// Length of an answer that exceeds the buffers of a connection.
const LONG_BYTES: usize = 256 << 10;
/// How long a handler waits for a body.
const READ_TIMEOUT: Duration = Duration::from_secs(20);

/// Answers with the length of the body.
async fn read(body: Body) -> Result<String, StatusCode> {
    match tokio::time::timeout(READ_TIMEOUT, to_bytes(body, usize::MAX)).await {
        Ok(Ok(body)) => Ok(format!("{} bytes", body.len())),
        Ok(Err(_)) => Err(StatusCode::BAD_REQUEST),
        Err(_) => Err(StatusCode::SERVICE_UNAVAILABLE),
    }
}

/// Answers `/` with the client address of the request.
fn app() -> Router {
    Router::new()
        .route("/", get(async |ConnectInfo(address): ConnectInfo<SocketAddr>| address.ip().to_string()))
        .route("/read", post(read))
        .route("/long", get(async || vec![b'a'; LONG_BYTES]))
}

/// Admits connections of trusted proxies.
fn admission(connections: usize) -> Arc<Admission> {
    let bounds = ListenerBounds {
        connections,
        connections_per_network: connections,
        request_bytes: 1 << 20,
        unauthenticated: None,
    };
    Admission::new("public", bounds, "127.0.0.0/8".parse().unwrap())
}

struct World {
    address: SocketAddr,
    stop: watch::Sender<bool>,
    serving: tokio::task::JoinHandle<()>,
}

impl World {
    async fn start(connections_max: usize) -> Self {
        Self::start_with(None, connections_max).await
    }

    async fn start_with(tls: Option<TlsAcceptor>, connections_max: usize) -> Self {
        let socket = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = socket.local_addr().unwrap();
        let listener = HttpListener { socket, tls, admission: admission(connections_max) };
        let (stop, stopped) = watch::channel(false);
        let serving = tokio::spawn(listener.serve(app(), stopped));
        Self { address, stop, serving }
    }

    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }
}

const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nhost: x\r\nx-forwarded-for: 192.0.2.7\r\n\r\n";

/// Everything received until the server closes.
async fn rest(socket: &mut (impl AsyncRead + Unpin)) -> String {
    let mut bytes = Vec::new();
    // A reset ends it as well.
    drop(socket.read_to_end(&mut bytes).await);
    String::from_utf8(bytes).unwrap()
}

/// The response to one request. More may follow.
async fn answer(socket: &mut (impl AsyncRead + Unpin)) -> String {
    let mut bytes = vec![0; 4096];
    let read = socket.read(&mut bytes).await.unwrap();
    String::from_utf8_lossy(&bytes[..read]).into_owned()
}

#[tokio::test(start_paused = true)]
async fn a_connection_without_a_request_is_closed_after_ten_seconds() {
    let world = World::start(10).await;
    let began = tokio::time::Instant::now();
    let mut silent = world.connect().await;
    assert_eq!(rest(&mut silent).await, "");
    assert_eq!(began.elapsed().as_secs(), HEAD_TIMEOUT.as_secs());
}

/// TLS without a certificate: no handshake gets that far.
fn tls() -> TlsAcceptor {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let config = config.with_no_client_auth().with_cert_resolver(Arc::new(ResolvesServerCertUsingSni::new()));
    TlsAcceptor::from(Arc::new(config))
}

#[tokio::test(start_paused = true)]
async fn a_tls_handshake_that_does_not_complete_ends_after_ten_seconds() {
    let world = World::start_with(Some(tls()), 10).await;
    // The begin of a record of 512 bytes.
    for begin in [&b""[..], b"\x16\x03\x01\x02\x00\x01"] {
        let mut socket = world.connect().await;
        socket.write_all(begin).await.unwrap();
        let began = tokio::time::Instant::now();
        assert_eq!(rest(&mut socket).await, "");
        assert_eq!(began.elapsed().as_secs(), 10);
    }
}

#[tokio::test(start_paused = true)]
async fn a_head_that_arrives_byte_by_byte_times_out() {
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
async fn a_later_head_has_ten_seconds_from_its_first_byte() {
    let mut pipe = PipeConnection::open();
    pipe.socket.write_all(REQUEST).await.unwrap();
    assert!(answer(&mut pipe.socket).await.starts_with("HTTP/1.1 200"));
    tokio::time::sleep(Duration::from_secs(30)).await;
    let began = tokio::time::Instant::now();
    pipe.send("GET / HTTP/1.1\r\nhost").await;
    assert_eq!(rest(&mut pipe.socket).await, "");
    assert_eq!(began.elapsed().as_secs(), HEAD_TIMEOUT.as_secs());
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_not_read_ends_the_connection() {
    let pipe = PipeConnection::after("GET /long HTTP/1.1\r\nhost: x\r\n\r\n").await;
    let began = tokio::time::Instant::now();
    pipe.serving.await.unwrap();
    assert_eq!(began.elapsed().as_secs(), PROGRESS_TIMEOUT.as_secs());
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_read_slowly_is_written_to_its_end() {
    let mut pipe = PipeConnection::after("GET /long HTTP/1.1\r\nhost: x\r\n\r\n").await;
    let (mut read, mut bytes) = (0, vec![0; 16 << 10]);
    while read < LONG_BYTES {
        tokio::time::sleep(PROGRESS_TIMEOUT / 5).await;
        read += pipe.socket.read(&mut bytes).await.unwrap();
    }
    pipe.socket.write_all(REQUEST).await.unwrap();
    while !answer(&mut pipe.socket).await.contains("HTTP/1.1 200") {}
}

#[tokio::test(start_paused = true)]
async fn connections_beyond_the_limit_are_accepted_when_others_end() {
    let world = World::start(2).await;
    let held = [world.connect().await, world.connect().await];
    // Both are accepted before the third one connects.
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

/// A connection over an in-process pipe. Written data is available immediately, so paused time cannot advance
/// before it.
struct PipeConnection {
    socket: DuplexStream,
    serving: tokio::task::JoinHandle<()>,
    /// The connection is served until this is dropped.
    _stop: watch::Sender<bool>,
}

impl PipeConnection {
    fn open() -> Self {
        let (socket, stream) = tokio::io::duplex(64 << 10);
        let (stop, stopped) = watch::channel(false);
        let address = SocketAddr::from(([127, 0, 0, 1], 1));
        let admission = admission(10);
        let admitted = admission.admit(address).unwrap();
        let client = HttpConnection { app: app(), admission, admitted, address, lingers: Arc::default() };
        Self { socket, serving: tokio::spawn(client.converse(stream, stopped)), _stop: stop }
    }

    /// A connection over which this was sent.
    async fn after(request: &str) -> Self {
        let mut pipe = Self::open();
        pipe.send(request).await;
        pipe
    }

    async fn send(&mut self, bytes: &str) {
        self.socket.write_all(bytes.as_bytes()).await.unwrap();
    }

    /// Asserts the status of a response, and whether the connection stays open.
    async fn is_answered(&mut self, status: u16, goes_on: bool) {
        let answered = answer(&mut self.socket).await;
        assert!(answered.starts_with(&format!("HTTP/1.1 {status}")), "{answered}");
        assert_eq!(!answered.contains("\r\nconnection: close\r\n"), goes_on, "{answered}");
        if goes_on {
            self.socket.write_all(REQUEST).await.unwrap();
            assert!(answer(&mut self.socket).await.starts_with("HTTP/1.1 200"));
        } else {
            assert_eq!(rest(&mut self.socket).await, "");
        }
    }
}

const UNREAD: &str = "POST /nowhere HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\n";
const UNREAD_CHUNKS: &str = "POST /nowhere HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n";

#[tokio::test(start_paused = true)]
async fn an_unread_body_is_waited_for_and_the_connection_goes_on() {
    for (head, body) in [(UNREAD, "123456789"), (UNREAD_CHUNKS, "3\r\n123\r\n0\r\n\r\n")] {
        let mut pipe = PipeConnection::after(head).await;
        for byte in body.chars() {
            tokio::time::sleep(BODY_TIMEOUT / 20).await;
            pipe.send(&byte.to_string()).await;
        }
        pipe.is_answered(404, true).await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_unread_body_that_does_not_come_ends_the_connection_in_time() {
    for request in [UNREAD.to_owned(), format!("{UNREAD}12345678"), format!("{UNREAD_CHUNKS}1\r\n1\r\n")] {
        let began = tokio::time::Instant::now();
        let mut pipe = PipeConnection::after(&request).await;
        pipe.is_answered(404, false).await;
        assert_eq!(began.elapsed().as_secs(), BODY_TIMEOUT.as_secs());
        pipe.serving.await.unwrap();
        assert_eq!(began.elapsed().as_secs(), (BODY_TIMEOUT + SILENCE_MAX).as_secs());
    }
}

#[tokio::test(start_paused = true)]
async fn a_body_that_a_handler_gave_up_waiting_for_is_not_waited_for_again() {
    let began = tokio::time::Instant::now();
    let mut pipe = PipeConnection::after("POST /read HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\n1234").await;
    pipe.is_answered(503, false).await;
    assert_eq!(began.elapsed().as_secs(), READ_TIMEOUT.as_secs());
}

#[tokio::test(start_paused = true)]
async fn a_body_that_is_too_long_to_discard_is_refused_at_once() {
    let began = tokio::time::Instant::now();
    let length = DISCARDED_BYTES_MAX + 1;
    let head = format!("POST /nowhere HTTP/1.1\r\nhost: x\r\ncontent-length: {length}\r\n\r\n");
    PipeConnection::after(&head).await.is_answered(404, false).await;
    assert_eq!(began.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_goes_on_sending_after_the_announced_close_is_dropped() {
    let mut pipe =
        PipeConnection::after("POST /nowhere HTTP/1.1\r\nhost: x\r\ncontent-length: 999999999\r\n\r\n").await;
    pipe.is_answered(404, false).await;
    let began = tokio::time::Instant::now();
    // Never silent for as long as the server would wait.
    let sending = async {
        while pipe.socket.write_all(b"1").await.is_ok() {
            tokio::time::sleep(SILENCE_MAX / 2).await;
        }
    };
    tokio::join!(sending, async {
        pipe.serving.await.unwrap();
        assert_eq!(began.elapsed().as_secs(), LINGER_MAX.as_secs());
    });
}

#[tokio::test(start_paused = true)]
async fn a_client_that_closes_its_end_is_not_waited_for() {
    let began = tokio::time::Instant::now();
    let mut pipe =
        PipeConnection::after("POST /nowhere HTTP/1.1\r\nhost: x\r\ncontent-length: 999999999\r\n\r\n").await;
    pipe.is_answered(404, false).await;
    drop(pipe.socket);
    pipe.serving.await.unwrap();
    assert_eq!(began.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn a_body_that_is_read_whole_keeps_the_connection_open() {
    let chunks = "1\r\n1\r\n3\r\n234\r\n0\r\n\r\n";
    for request in [
        "POST /read HTTP/1.1\r\nhost: x\r\ncontent-length: 4\r\n\r\n1234".to_owned(),
        format!("POST /read HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n{chunks}"),
    ] {
        PipeConnection::after(&request).await.is_answered(200, true).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_body_that_cannot_be_decoded_ends_the_connection_as_announced() {
    for (path, status) in [("/read", 400), ("/nowhere", 404)] {
        let head = format!("POST {path} HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n");
        PipeConnection::after(&format!("{head}nonsense\r\n")).await.is_answered(status, false).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_that_waits_to_be_asked_for_an_unread_body_is_refused_at_once() {
    let began = tokio::time::Instant::now();
    let head = "POST /nowhere HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\ncontent-length: 9\r\n\r\n";
    PipeConnection::after(head).await.is_answered(404, false).await;
    assert_eq!(began.elapsed(), Duration::ZERO);
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
