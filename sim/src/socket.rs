use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use domain::{ConnectionId, UserId};
use futures_util::{Sink, Stream};
use gateway::{Incoming, OutboundFrame, SocketError};
use ports::lock;
use protocol::CloseReason;
use protocol::frame::{Outbound, ServerFrame};
use tokio::time::{Instant, Sleep, sleep_until};

use crate::process::SimProcess;
use crate::world::World;

/// A frame between the two ends.
pub(crate) enum SocketFrame {
    Text(Bytes),
    /// Closes the connection; a gateway may add a reason.
    Close(Option<CloseReason>),
}

/// A connection between a client and a gateway: frames arrive in order, each after a delay, until it is cut.
#[derive(Default)]
pub(crate) struct SocketLink {
    up: SocketPipe,
    down: SocketPipe,
}

impl SocketLink {
    /// Cuts the connection. Frames in flight are lost.
    pub(crate) fn cut(&self) {
        self.up.cut();
        self.down.cut();
    }
}

/// One direction of it.
#[derive(Default)]
struct SocketPipe(Mutex<Flow>);

#[derive(Default)]
struct Flow {
    frames: VecDeque<(Instant, SocketFrame)>,
    bytes: usize,
    is_cut: bool,
    reader: Option<Waker>,
    writer: Option<Waker>,
}

impl SocketPipe {
    fn lock(&self) -> MutexGuard<'_, Flow> {
        lock(&self.0)
    }

    fn cut(&self) {
        let mut flow = self.lock();
        flow.is_cut = true;
        flow.frames.clear();
        for waker in [flow.reader.take(), flow.writer.take()].into_iter().flatten() {
            waker.wake();
        }
    }

    fn push(&self, delay: Duration, frame: SocketFrame) {
        let mut flow = self.lock();
        if flow.is_cut {
            return;
        }
        // A delayed frame delays all later ones.
        let at = flow.frames.back().map_or(Instant::now() + delay, |(at, _)| (*at).max(Instant::now() + delay));
        flow.bytes += frame.len();
        flow.frames.push_back((at, frame));
        if let Some(waker) = flow.reader.take() {
            waker.wake();
        }
    }

    /// The next frame that has arrived; `None` if the connection is cut.
    fn poll_pop(&self, cx: &mut Context<'_>, timer: &mut Pin<Box<Sleep>>) -> Poll<Option<SocketFrame>> {
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

impl SocketFrame {
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
    process: Arc<SimProcess>,
    link: Arc<SocketLink>,
    user_id: UserId,
    connection: Option<ConnectionId>,
    timer: Pin<Box<Sleep>>,
}

/// The client's end of a connection.
pub(crate) struct ClientSocket {
    world: Arc<World>,
    link: Arc<SocketLink>,
    timer: Pin<Box<Sleep>>,
}

/// Both ends of a new connection.
pub(crate) fn connection(
    world: &Arc<World>,
    process: &Arc<SimProcess>,
    user_id: UserId,
) -> (Arc<SocketLink>, GatewaySocket, ClientSocket) {
    let link = Arc::new(SocketLink::default());
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
        self.link.up.push(self.world.latency(), SocketFrame::Text(text.into()));
    }

    /// Closes the connection.
    pub(crate) fn close(&self) {
        self.link.up.push(self.world.latency(), SocketFrame::Close(None));
    }

    pub(crate) fn cut(&self) {
        self.link.cut();
    }

    /// The next frame; `None` if the connection is cut. It is cancel-safe.
    pub(crate) async fn next(&mut self) -> Option<SocketFrame> {
        std::future::poll_fn(|cx| self.link.down.poll_pop(cx, &mut self.timer)).await
    }
}

impl GatewaySocket {
    fn note_end(&self) {
        if let Some(connection) = self.connection {
            self.world.ended(connection);
        }
    }
}

impl Stream for GatewaySocket {
    type Item = Result<Incoming, SocketError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        if this.process.is_paused() {
            // Poll again when the process resumes, or soon after.
            this.timer.as_mut().reset(Instant::now() + Duration::from_millis(100));
            let _ = this.timer.as_mut().poll(cx);
            return Poll::Pending;
        }
        this.link.up.poll_pop(cx, &mut this.timer).map(|frame| {
            Some(Ok(match frame? {
                SocketFrame::Text(text) => Incoming::Text(text.try_into().expect("clients say what is UTF-8")),
                SocketFrame::Close(_) => Incoming::Close,
            }))
        })
    }
}

impl Sink<OutboundFrame> for GatewaySocket {
    type Error = SocketError;

    fn poll_ready(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), SocketError>> {
        let mut flow = self.link.down.lock();
        if flow.is_cut {
            return Poll::Ready(Err(SocketError::Failed("the connection is cut".into())));
        }
        if flow.bytes >= self.world.plan.buffers.window_bytes {
            flow.writer = Some(cx.waker().clone());
            return Poll::Pending;
        }
        Poll::Ready(Ok(()))
    }

    fn start_send(mut self: Pin<&mut Self>, frame: OutboundFrame) -> Result<(), SocketError> {
        let frame = match frame {
            OutboundFrame::Text(frame) => {
                let text = frame.text();
                let said = std::str::from_utf8(&text).expect("frames are JSON, which is UTF-8");
                if self.connection.is_none()
                    && let Ok(Outbound { frame: ServerFrame::ConnectionEstablished(first), .. }) = Outbound::parse(said)
                {
                    self.connection = Some(first.connection_id);
                    self.world.established(self.user_id, first.connection_id, &self.process.name);
                }
                if crate::broken::is_unwritten(&self.world, said) {
                    return Ok(());
                }
                if let Some(connection) = self.connection {
                    self.world.written(self.user_id, connection, said);
                }
                SocketFrame::Text(text)
            }
            OutboundFrame::Close(reason) => {
                if let (CloseReason::SlowConsumer, Some(connection)) = (reason, self.connection) {
                    self.world.cut_for_slowness(connection);
                }
                self.note_end();
                SocketFrame::Close(Some(reason))
            }
        };
        self.link.down.push(self.world.latency(), frame);
        Ok(())
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Result<(), SocketError>> {
        Poll::Ready(Ok(()))
    }

    fn poll_close(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Result<(), SocketError>> {
        self.link.down.push(self.world.latency(), SocketFrame::Close(None));
        Poll::Ready(Ok(()))
    }
}

impl Drop for GatewaySocket {
    fn drop(&mut self) {
        self.note_end();
        // A gateway that is done has closed its end; its last frames still arrive.
        if !self.process.is_dead() {
            self.link.down.push(self.world.latency(), SocketFrame::Close(None));
        }
    }
}
