use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use domain::{ConnectionId, UserId};
use futures_util::{Sink, Stream};
use gateway::{Incoming, Outgoing, SocketError};
use protocol::CloseReason;
use protocol::frame::{Outbound, ServerFrame};
use tokio::time::{Instant, Sleep, sleep_until};

use crate::process::Process;
use crate::world::World;

/// Bytes on their way to a client before its gateway has to wait.
const WINDOW_BYTES: usize = 64 * 1024;

/// What one end tells the other.
pub(crate) enum Frame {
    Text(Bytes),
    /// The end of the connection; a gateway may say why.
    Close(Option<CloseReason>),
}

/// A connection between a client and a gateway: frames in order, each after a while, until it is cut.
#[derive(Default)]
pub(crate) struct Link {
    up: Pipe,
    down: Pipe,
}

impl Link {
    /// Cuts the connection. What is on its way is lost.
    pub(crate) fn cut(&self) {
        self.up.cut();
        self.down.cut();
    }
}

/// One direction of it.
#[derive(Default)]
struct Pipe(Mutex<Flow>);

#[derive(Default)]
struct Flow {
    frames: VecDeque<(Instant, Frame)>,
    bytes: usize,
    is_cut: bool,
    reader: Option<Waker>,
    writer: Option<Waker>,
}

impl Pipe {
    fn lock(&self) -> MutexGuard<'_, Flow> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn cut(&self) {
        let mut flow = self.lock();
        flow.is_cut = true;
        flow.frames.clear();
        for waker in [flow.reader.take(), flow.writer.take()].into_iter().flatten() {
            waker.wake();
        }
    }

    fn push(&self, delay: Duration, frame: Frame) {
        let mut flow = self.lock();
        if flow.is_cut {
            return;
        }
        // In order, however long each takes.
        let at = flow.frames.back().map_or(Instant::now() + delay, |(at, _)| (*at).max(Instant::now() + delay));
        flow.bytes += frame.len();
        flow.frames.push_back((at, frame));
        if let Some(waker) = flow.reader.take() {
            waker.wake();
        }
    }

    /// The next frame that has arrived; `None` if the connection is cut.
    fn poll_pop(&self, cx: &mut Context<'_>, timer: &mut Pin<Box<Sleep>>) -> Poll<Option<Frame>> {
        loop {
            let mut flow = self.lock();
            if flow.is_cut {
                return Poll::Ready(None);
            }
            flow.reader = Some(cx.waker().clone());
            let Some((at, _)) = flow.frames.front() else { return Poll::Pending };
            if *at > Instant::now() {
                timer.as_mut().reset(*at);
                drop(flow);
                std::task::ready!(timer.as_mut().poll(cx));
                continue;
            }
            let (_, frame) = flow.frames.pop_front().expect("there is a first one");
            flow.bytes -= frame.len();
            if let Some(waker) = flow.writer.take() {
                waker.wake();
            }
            return Poll::Ready(Some(frame));
        }
    }
}

impl Frame {
    fn len(&self) -> usize {
        match self {
            Self::Text(text) => text.len(),
            Self::Close(_) => 0,
        }
    }
}

fn timer() -> Pin<Box<Sleep>> {
    Box::pin(sleep_until(Instant::now()))
}

/// The gateway's end of a connection.
pub(crate) struct GatewaySocket {
    world: Arc<World>,
    process: Arc<Process>,
    link: Arc<Link>,
    user_id: UserId,
    connection: Option<ConnectionId>,
    timer: Pin<Box<Sleep>>,
}

/// The client's end of it.
pub(crate) struct ClientSocket {
    world: Arc<World>,
    link: Arc<Link>,
    timer: Pin<Box<Sleep>>,
}

/// Both ends of a new connection.
pub(crate) fn connection(
    world: &Arc<World>,
    process: &Arc<Process>,
    user_id: UserId,
) -> (Arc<Link>, GatewaySocket, ClientSocket) {
    let link = Arc::new(Link::default());
    let gateway = GatewaySocket {
        world: world.clone(),
        process: process.clone(),
        link: link.clone(),
        user_id,
        connection: None,
        timer: timer(),
    };
    let client = ClientSocket { world: world.clone(), link: link.clone(), timer: timer() };
    (link, gateway, client)
}

impl World {
    fn latency(&self) -> Duration {
        Duration::from_micros(self.streams.network.below(200, 20_000))
    }
}

impl ClientSocket {
    pub(crate) fn send(&self, text: String) {
        self.link.up.push(self.world.latency(), Frame::Text(text.into()));
    }

    /// Says goodbye.
    pub(crate) fn close(&self) {
        self.link.up.push(self.world.latency(), Frame::Close(None));
    }

    pub(crate) fn cut(&self) {
        self.link.cut();
    }

    /// The next frame; `None` if the connection is cut. Cancelling it loses nothing.
    pub(crate) async fn next(&mut self) -> Option<Frame> {
        std::future::poll_fn(|cx| self.link.down.poll_pop(cx, &mut self.timer)).await
    }
}

impl Stream for GatewaySocket {
    type Item = Result<Incoming, SocketError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        if this.process.is_paused() {
            // Looked at again when it goes on, or soon after.
            this.timer.as_mut().reset(Instant::now() + Duration::from_millis(100));
            let _ = this.timer.as_mut().poll(cx);
            return Poll::Pending;
        }
        this.link.up.poll_pop(cx, &mut this.timer).map(|frame| {
            Some(Ok(match frame? {
                Frame::Text(text) => Incoming::Text(text.try_into().expect("clients say what is UTF-8")),
                Frame::Close(_) => Incoming::Close,
            }))
        })
    }
}

impl Sink<Outgoing> for GatewaySocket {
    type Error = SocketError;

    fn poll_ready(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), SocketError>> {
        let mut flow = self.link.down.lock();
        if flow.is_cut {
            return Poll::Ready(Err(SocketError::Failed("the connection is cut".into())));
        }
        if flow.bytes >= WINDOW_BYTES {
            flow.writer = Some(cx.waker().clone());
            return Poll::Pending;
        }
        Poll::Ready(Ok(()))
    }

    fn start_send(mut self: Pin<&mut Self>, frame: Outgoing) -> Result<(), SocketError> {
        let frame = match frame {
            Outgoing::Text(frame) => {
                let text = frame.text();
                let said = std::str::from_utf8(&text).expect("frames are JSON, which is UTF-8");
                if self.connection.is_none()
                    && let Ok(Outbound { frame: ServerFrame::ConnectionEstablished(first), .. }) = Outbound::parse(said)
                {
                    self.connection = Some(first.connection_id);
                }
                if let Some(connection) = self.connection {
                    self.world.written(self.user_id, connection, said);
                }
                Frame::Text(text)
            }
            Outgoing::Close(reason) => {
                if let (CloseReason::SlowConsumer, Some(connection)) = (reason, self.connection) {
                    self.world.cut_for_slowness(connection);
                }
                Frame::Close(Some(reason))
            }
        };
        self.link.down.push(self.world.latency(), frame);
        Ok(())
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Result<(), SocketError>> {
        Poll::Ready(Ok(()))
    }

    fn poll_close(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Result<(), SocketError>> {
        self.link.down.push(self.world.latency(), Frame::Close(None));
        Poll::Ready(Ok(()))
    }
}

impl Drop for GatewaySocket {
    fn drop(&mut self) {
        // A gateway that is done has closed its end; what it wrote last still arrives.
        if !self.process.is_dead() {
            self.link.down.push(self.world.latency(), Frame::Close(None));
        }
    }
}
