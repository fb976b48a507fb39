use std::collections::VecDeque;
use std::future::{pending, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use domain::{Timestamp, TraceContext};
use futures_util::stream::FuturesUnordered;
use futures_util::{SinkExt, Stream, StreamExt};
use metrics::counter;
use protocol::frame::{ConnectionEstablished, ServerFrame};
use protocol::{CloseReason, Command, Connection, Missed, Output, PROTOCOL_VERSION, Pressure};
use tokio::time::Sleep;

use crate::Gateway;
use crate::commands::{Finished, PendingCommand, ResponseKind};
use crate::hub::Admitted;
use crate::mailbox::QueuedPush;
use crate::socket::{Incoming, OutboundFrame, Socket, SocketError, TextFrame};
use crate::spans;

/// Responses that may queue for the socket before the driver stops reading frames, in number and in bytes.
const ANSWERS_MAX: usize = 64;
const ANSWERS_BYTES_MAX: usize = 1 << 20;
/// Message pages that may be in progress. Their size is unknown, so `ANSWERS_BYTES_MAX` does not cover them yet.
const PAGES_MAX: usize = 4;
/// How long a client has to read the last frames and the close frame.
const CLOSE_GRACE: Duration = Duration::from_secs(2);

/// Runs one connection: moves frames between its socket, its [`Connection`] and the planes.
///
/// All events are polled in one place, so a socket that blocks on writes delays neither timers nor a close order.
pub(crate) struct ConnectionDriver<S> {
    socket: S,
    connection: Connection,
    gateway: Arc<Gateway>,
    admitted: Admitted,
    commands: FuturesUnordered<PendingCommand>,
    pages_under_way: usize,
    answers: VecDeque<TextFrame>,
    unflushed: bool,
    timer: Pin<Box<Sleep>>,
    /// The trace context of the client's handshake.
    inbound: Option<TraceContext>,
}

/// The next event of a connection.
enum ConnectionEvent {
    Frame(Incoming),
    /// The client has closed, or the socket has failed.
    Gone,
    TooLarge,
    Finished(Finished),
    Ordered(CloseReason),
    Pressed(Pressure),
    Missed(Missed),
    Timeout,
}

impl<S: Socket> ConnectionDriver<S> {
    pub(crate) fn new(
        socket: S,
        gateway: Arc<Gateway>,
        admitted: Admitted,
        token_expires_at: Timestamp,
        inbound: Option<TraceContext>,
    ) -> Self {
        let now = now();
        let expires_at = now + token_expires_at.since(gateway.now());
        let connection =
            Connection::new(gateway.config.timing, gateway.config.limits.frames_per_connection, now, expires_at);
        let timer = Box::pin(tokio::time::sleep_until(connection.poll_timeout().into()));
        Self {
            socket,
            connection,
            gateway,
            admitted,
            commands: FuturesUnordered::new(),
            pages_under_way: 0,
            answers: VecDeque::new(),
            unflushed: false,
            timer,
            inbound,
        }
    }

    /// Runs the connection to its end.
    pub(crate) async fn run(mut self) {
        self.answers.push_back(self.established());
        let reason = self.converse().await;
        self.admitted.handle_end();
        self.wind_up().await;
        // Finish the client's last commands before answering its close: a client that closes cleanly may rely on an ack it
        // sent just before. Each command has a deadline.
        let mut commands = std::mem::take(&mut self.commands);
        let done = async { while commands.next().await.is_some() {} };
        match reason {
            Some(reason) => {
                counter!("tidings_gateway_closes_total", "reason" => reason.as_str()).increment(1);
                tokio::join!(self.close(reason), done);
            }
            None => done.await,
        }
        drop(tokio::time::timeout(CLOSE_GRACE, self.socket.flush()).await);
    }

    /// Runs until the connection must be closed, for the returned reason, or the client has disconnected.
    async fn converse(&mut self) -> Option<CloseReason> {
        let mut closing = None;
        loop {
            while let Some(output) = self.connection.poll_output() {
                match output {
                    Output::Send(frame) => self.answers.push_back(TextFrame::new(frame)),
                    Output::Command(command) => {
                        self.pages_under_way += usize::from(ResponseKind::of(&command) == ResponseKind::Page);
                        self.begin(command).await;
                    }
                    Output::CountLimited(kind) => {
                        counter!("tidings_gateway_frames_limited_total", "frame" => kind.as_str()).increment(1);
                    }
                    Output::Close(reason) => closing = Some(reason),
                }
            }
            if closing.is_some() && self.connection.drained() {
                return closing;
            }
            let event = poll_fn(|cx| self.poll_event(cx)).await;
            let now = now();
            match event {
                ConnectionEvent::Frame(Incoming::Text(text)) => {
                    self.record_activity();
                    self.connection.handle_text(now, self.gateway.now(), &text);
                }
                ConnectionEvent::Frame(Incoming::Binary) => {
                    self.record_activity();
                    self.connection.handle_binary(now);
                }
                ConnectionEvent::Frame(Incoming::Alive) => {
                    self.record_activity();
                    self.connection.handle_alive(now);
                }
                ConnectionEvent::Frame(Incoming::Close) | ConnectionEvent::Gone => return None,
                ConnectionEvent::TooLarge => self.connection.close(CloseReason::FrameTooLarge),
                ConnectionEvent::Finished(Finished { kind, request_id, outcome }) => {
                    self.pages_under_way -= usize::from(kind == ResponseKind::Page);
                    if let Err(error) = &outcome {
                        counter!("tidings_gateway_errors_total", "code" => error.code.as_str()).increment(1);
                    }
                    match (kind, outcome) {
                        (ResponseKind::Move(moved), outcome) => {
                            self.connection.handle_advanced(now, &moved, outcome.map(drop));
                        }
                        (ResponseKind::TypingStart(chat_id), outcome) => {
                            self.connection.handle_typing(now, chat_id, outcome.map(drop));
                        }
                        (ResponseKind::Reauthenticated(expires_at), Ok(answer)) => {
                            let expires_at = now + expires_at.since(self.gateway.now());
                            self.connection.handle_reauthenticated(expires_at, answer);
                        }
                        (_, Ok(answer)) => self.connection.handle_done(answer),
                        (_, Err(error)) => self.connection.handle_failure(now, request_id.as_ref(), error),
                    }
                }
                ConnectionEvent::Ordered(reason) => self.connection.close(reason),
                ConnectionEvent::Pressed(pressure) => self.connection.handle_pressure(now, pressure),
                ConnectionEvent::Missed(missed) => {
                    if missed == Missed::Durable {
                        counter!("tidings_gateway_pushes_missed_total").increment(1);
                        self.connection.handle_missed();
                    }
                    self.gateway.hub.subscriptions.handle_missed(&self.admitted.peer);
                }
                ConnectionEvent::Timeout => {
                    self.connection.handle_timeout(now);
                    self.timer.as_mut().reset(self.connection.poll_timeout().into());
                }
            }
        }
    }

    /// Writes all that the socket accepts, then returns the next event.
    fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<ConnectionEvent> {
        let open = self.connection.is_open();
        if open {
            self.admitted.peer.mailbox.register(cx.waker());
            if let Some(reason) = self.admitted.peer.mailbox.close_order() {
                return Poll::Ready(ConnectionEvent::Ordered(reason));
            }
        }
        if self.poll_write(cx).is_err() {
            return Poll::Ready(ConnectionEvent::Gone);
        }
        if open {
            let pressure = self.admitted.peer.mailbox.pressure();
            if pressure != self.connection.pressure() {
                return Poll::Ready(ConnectionEvent::Pressed(pressure));
            }
            if let Some(missed) = self.admitted.peer.mailbox.take_missed() {
                return Poll::Ready(ConnectionEvent::Missed(missed));
            }
        }
        if let Poll::Ready(Some(finished)) = Pin::new(&mut self.commands).poll_next(cx) {
            return Poll::Ready(ConnectionEvent::Finished(finished));
        }
        if self.connection.wants_frame() && self.has_room_for_answers() {
            match Pin::new(&mut self.socket).poll_next(cx) {
                Poll::Ready(Some(Ok(message))) => return Poll::Ready(ConnectionEvent::Frame(message)),
                Poll::Ready(Some(Err(SocketError::TooLarge))) => return Poll::Ready(ConnectionEvent::TooLarge),
                Poll::Ready(Some(Err(SocketError::Failed(_))) | None) => return Poll::Ready(ConnectionEvent::Gone),
                Poll::Pending => {}
            }
        }
        if !open {
            // Only the commands in progress remain, and each of them has a deadline.
            return Poll::Pending;
        }
        // A timer that fires too early is cheap: it is reset when it fires. Resetting it for each frame would cost more,
        // because frames are far more frequent than timeouts.
        if self.timer.deadline() > self.connection.poll_timeout().into() {
            self.timer.as_mut().reset(self.connection.poll_timeout().into());
        }
        self.timer.as_mut().poll(cx).map(|()| ConnectionEvent::Timeout)
    }

    /// Writes responses, then pushes, while the socket accepts them, and flushes once at the end.
    fn poll_write(&mut self, cx: &mut Context<'_>) -> Result<(), SocketError> {
        let mut bytes = 0;
        loop {
            if self.answers.is_empty() && !self.connection.is_open() {
                break;
            }
            match Pin::new(&mut self.socket).poll_ready(cx) {
                Poll::Ready(ready) => ready?,
                Poll::Pending => break,
            }
            // Dropping the span at the end of this iteration ends it.
            let (frame, _written) = match self.answers.pop_front() {
                Some(answer) => (answer, None),
                None => match self.admitted.peer.mailbox.pop() {
                    Some(QueuedPush { frame, span, .. }) => (frame, span),
                    None => break,
                },
            };
            bytes += frame.size();
            Pin::new(&mut self.socket).start_send(OutboundFrame::Text(frame))?;
            self.unflushed = true;
        }
        if bytes > 0 {
            self.admitted.peer.handle_written(bytes);
        }
        if self.unflushed
            && let Poll::Ready(flushed) = Pin::new(&mut self.socket).poll_flush(cx)
        {
            flushed?;
            self.unflushed = false;
        }
        Ok(())
    }

    /// Finishes the work of a connection that has ended: stops its typing indicators and writes its last watermarks.
    /// The outcomes are discarded.
    async fn wind_up(&mut self) {
        self.connection.handle_end();
        while let Some(output) = self.connection.poll_output() {
            if let Output::Command(command) = output {
                self.begin(command).await;
            }
        }
    }

    async fn begin(&mut self, command: Command) {
        let pending = spans::begin(&self.gateway, &self.admitted.peer, command, self.inbound).await;
        self.commands.push(pending);
    }

    /// Writes the last responses and the close frame, then waits for the client's close frame, within `CLOSE_GRACE`.
    async fn close(&mut self, reason: CloseReason) {
        let goodbye = async {
            while let Some(frame) = self.answers.pop_front() {
                self.socket.feed(OutboundFrame::Text(frame)).await?;
            }
            self.socket.send(OutboundFrame::Close(reason)).await?;
            // Dropping a socket with unread bytes resets it, and the reset can overtake the close frame.
            while let Some(Ok(_)) = self.socket.next().await {}
            if reason == CloseReason::FrameTooLarge {
                // The rest of the oversized frame cannot be read, so keep the socket open for the whole grace period.
                pending::<()>().await;
            }
            Ok::<_, SocketError>(())
        };
        // A timeout or an error means that the client no longer reads, so the close frame is lost either way.
        drop(tokio::time::timeout(CLOSE_GRACE, goodbye).await);
    }

    /// Whether the response queue has room. Otherwise the driver stops reading, and a client that does not read its
    /// responses runs into the heartbeat timeout (G9).
    fn has_room_for_answers(&self) -> bool {
        self.pages_under_way < PAGES_MAX
            && self.answers.len() < ANSWERS_MAX
            && self.answers.iter().map(TextFrame::size).sum::<usize>() < ANSWERS_BYTES_MAX
    }

    fn record_activity(&self) {
        self.gateway.hub.handle_frame(&self.admitted.peer);
    }

    fn established(&self) -> TextFrame {
        let peer = &self.admitted.peer;
        let established = ConnectionEstablished {
            connection_id: peer.connection_id,
            user_id: peer.user_id,
            device_id: peer.device_id,
            server_time: self.gateway.now(),
            heartbeat_interval_ms: self.gateway.config.heartbeat_interval.as_millis() as u64,
            protocol_version: PROTOCOL_VERSION,
        };
        TextFrame::new(ServerFrame::ConnectionEstablished(established).encode(None))
    }
}

/// The runtime's time: the machine's, except in a simulation.
fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

#[cfg(test)]
mod tests {
    use domain::{ChatId, ConnectionId, UserId};
    use ports::{Delivery, Push, Signal};
    use tokio::net::{TcpListener, TcpStream};
    use tokio::task::JoinSet;
    use tokio_tungstenite::tungstenite;
    use tokio_tungstenite::tungstenite::client::IntoClientRequest;
    use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async};

    use super::*;
    use crate::test_world::World;

    type WebSocketClient = WebSocketStream<MaybeTlsStream<TcpStream>>;

    /// A gateway with its own listener.
    struct GatewayUnderTest {
        world: World,
        address: String,
        _tasks: JoinSet<()>,
    }

    impl GatewayUnderTest {
        async fn start() -> Self {
            let world = World::start().await;
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap().to_string();
            let app = crate::router(world.gateway.clone());
            let mut tasks = JoinSet::new();
            tasks.spawn(async move { axum::serve(listener, app).await.unwrap() });
            Self { world, address, _tasks: tasks }
        }

        /// A client that has received `connection_established`.
        async fn connect(&self, user_id: UserId) -> WebSocketClient {
            let mut request = format!("ws://{}/v1/ws", self.address).into_client_request().unwrap();
            let headers = request.headers_mut();
            headers.insert("authorization", format!("Bearer {user_id}").parse().unwrap());
            headers.insert("x-device-id", "67e55044-10b1-426f-9247-bb680e5fe0c8".parse().unwrap());
            let (mut client, _) = connect_async(request).await.unwrap();
            let first = soon(client.next()).await.unwrap().unwrap();
            assert!(first.to_text().unwrap().contains("connection_established"), "{first}");
            client
        }

        async fn signals(&self, count: usize) -> Vec<Signal> {
            let mut signals = self.world.others.signals.subscribe();
            soon(signals.wait_for(|signals| signals.len() >= count)).await.unwrap().clone()
        }

        async fn until_ended(&self) {
            while self.world.gateway.hub.connections() > 0 {
                tokio::task::yield_now().await;
            }
        }
    }

    async fn soon<T>(event: impl Future<Output = T>) -> T {
        tokio::time::timeout(Duration::from_secs(20), event).await.expect("it happens soon")
    }

    fn push(recipients: &[UserId], except: Option<ConnectionId>, frame: &str) -> Push {
        Push { recipients: recipients.to_vec(), except, frame: frame.to_owned().into(), trace: None }
    }

    async fn type_in(client: &mut WebSocketClient, frame_type: &str, chat_id: ChatId) {
        let frame = format!(r#"{{"type":"{frame_type}","payload":{{"chat_id":"{chat_id}"}}}}"#);
        client.send(tungstenite::Message::text(frame)).await.unwrap();
    }

    #[tokio::test]
    async fn typing_ends_with_the_connection_in_each_chat_once_however_it_ends() {
        let chats = [ChatId::from_bytes([1; 16]), ChatId::from_bytes([2; 16]), ChatId::from_bytes([3; 16])];
        for closes_in_order in [true, false] {
            let service = GatewayUnderTest::start().await;
            let user_id = service.world.user();
            let mut client = service.connect(user_id).await;
            for chat_id in chats {
                type_in(&mut client, "typing_start", chat_id).await;
            }
            type_in(&mut client, "typing_stop", chats[1]).await;
            service.signals(4).await;
            if closes_in_order {
                client.close(None).await.unwrap();
            }
            drop(client);
            soon(service.until_ended()).await;
            let stopped = [1, 0, 2].map(|n| Signal::Typing { chat_id: chats[n], user_id, is_typing: false });
            assert_eq!(service.signals(6).await[3..], stopped, "closes in order: {closes_in_order}");
        }
    }

    #[tokio::test]
    async fn a_connection_has_its_route_once_established_and_none_after_its_end() {
        let service = GatewayUnderTest::start().await;
        let user_id = service.world.user();
        let client = service.connect(user_id).await;
        assert_eq!(service.world.gateway.routes.routes(user_id).await.unwrap().len(), 1);
        drop(client);
        soon(service.until_ended()).await;
        soon(service.world.gateway.hub.deregistrations.none()).await;
        assert_eq!(service.world.gateway.routes.routes(user_id).await.unwrap(), []);
    }

    #[tokio::test]
    async fn a_batch_of_pushes_arrives_in_order_at_its_recipients() {
        let service = GatewayUnderTest::start().await;
        let [ann, bob] = [service.world.user(), service.world.user()];
        let [mut of_ann, mut of_bob] = [service.connect(ann).await, service.connect(bob).await];
        let hub = &service.world.gateway.hub;
        let anns = service.world.gateway.routes.routes(ann).await.unwrap()[0].connection_id;
        let pushes = [
            push(&[ann, bob], None, "1"),
            push(&[bob], None, "2"),
            push(&[bob, ann], Some(anns), "3"),
            push(&[ann, bob], None, "4"),
        ];
        hub.deliver(hub.id(), &pushes).await.unwrap();
        for (client, expected) in [(&mut of_ann, &["1", "4"][..]), (&mut of_bob, &["1", "2", "3", "4"])] {
            for frame in expected {
                assert_eq!(soon(client.next()).await.unwrap().unwrap().to_text().unwrap(), *frame);
            }
        }
    }

    #[tokio::test]
    async fn a_connection_keeps_its_state_when_it_changes_run_queues() {
        let service = GatewayUnderTest::start().await;
        let user_id = service.world.user();
        let mut client = service.connect(user_id).await;
        let hub = &service.world.gateway.hub;
        // A waker of a busy connection holds the run queue, so the reference count shows whether one is busy.
        let is_busy = || Arc::strong_count(&hub.run_queue) > 2;
        let mut number = 0;
        for (becomes_busy, length, pause) in [(true, 16_384, Duration::ZERO), (false, 16, Duration::from_millis(10))] {
            let pushing = async {
                while is_busy() != becomes_busy {
                    let frames = [number, number + 1].map(|number| format!("{number:0length$}"));
                    let pushes = frames.each_ref().map(|frame| push(&[user_id], None, frame));
                    hub.deliver(hub.id(), &pushes).await.unwrap();
                    for frame in frames {
                        assert_eq!(client.next().await.unwrap().unwrap().to_text().unwrap(), frame);
                    }
                    number += 2;
                    tokio::time::sleep(pause).await;
                }
            };
            soon(pushing).await;
            let chat_id = ChatId::from_bytes([1; 16]);
            let (frame_type, is_typing) = if becomes_busy { ("typing_start", true) } else { ("typing_stop", false) };
            type_in(&mut client, frame_type, chat_id).await;
            let heard = service.signals(2 - usize::from(becomes_busy)).await;
            assert_eq!(heard.last(), Some(&Signal::Typing { chat_id, user_id, is_typing }), "it is heard, too");
        }
    }
}
