//! Bounds the memory and the time that the requests of a connection take on their way in, and its answers on their way
//! out.
//!
//! hyper doubles its read buffer while reads fill it, and keeps a partial head in it. So reads are short, and a head
//! beyond its free part needs reserved bytes. Both ends of a WebSocket pass through this stream too; it does nothing for
//! them.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

use super::HEAD_TIMEOUT;
use super::admission::ReservedBytes;
use super::connection::{ConnectionStage, ListenerConnection};

/// Most bytes of one read: less than hyper's smallest buffer, which would grow if a read filled it.
const READ_BYTES_MAX: u64 = (8 << 10) - 1;
/// Bytes of a head that need no reservation. Most heads are shorter.
const HEAD_FREE_BYTES: u64 = 4 << 10;
/// Bytes that a longer head reserves: the largest buffer that hyper may need for it.
const HEAD_RESERVED_BYTES: usize = 64 << 10;
/// How long an answer may take for [`PROGRESS_BYTES_MIN`].
pub(super) const PROGRESS_TIMEOUT: Duration = Duration::from_secs(30);
/// Bytes of an answer that a client reads in that time at least.
const PROGRESS_BYTES_MIN: usize = 32 << 10;

/// A stream of HTTP/1.1 within these bounds.
pub(super) struct Metered<S> {
    stream: S,
    /// Absent after an upgrade.
    meter: Option<Meter>,
}

struct Meter {
    state: Arc<ListenerConnection>,
    /// Requests before the head that is being received.
    requests: u32,
    head_bytes: u64,
    /// Present while the head, or its request, exceeds the free part.
    reserved: Option<ReservedBytes>,
    /// Present while the rest of a head is awaited.
    head_timer: Option<Pin<Box<Sleep>>>,
    /// Present while the rest of an answer cannot be written.
    progress_timer: Option<Pin<Box<Sleep>>>,
    /// Bytes written since that timer was set.
    written: usize,
}

impl<S> Metered<S> {
    pub(super) fn new(stream: S, state: Arc<ListenerConnection>) -> Self {
        let meter = Meter {
            state,
            requests: 0,
            head_bytes: 0,
            reserved: None,
            head_timer: None,
            progress_timer: None,
            written: 0,
        };
        Self { stream, meter: Some(meter) }
    }
}

impl Meter {
    fn poll_read(
        &mut self,
        stream: &mut (impl AsyncRead + Unpin),
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.state.stage() == ConnectionStage::Busy {
            return Pin::new(&mut stream.take(READ_BYTES_MAX)).poll_read(context, buffer);
        }
        if self.requests != self.state.requests() {
            self.requests = self.state.requests();
            (self.head_bytes, self.reserved, self.head_timer) = (0, None, None);
        }
        if self.head_bytes >= HEAD_FREE_BYTES && self.reserved.is_none() {
            let reserved = self.state.reserve(HEAD_RESERVED_BYTES);
            self.reserved = Some(reserved.ok_or_else(|| io::Error::other("the bytes for requests are reserved"))?);
        }
        let left = if self.reserved.is_some() { READ_BYTES_MAX } else { HEAD_FREE_BYTES - self.head_bytes };
        let filled = buffer.filled().len();
        if let Poll::Ready(read) = Pin::new(&mut stream.take(left)).poll_read(context, buffer) {
            self.head_bytes += (buffer.filled().len() - filled) as u64;
            return Poll::Ready(read);
        }
        if self.head_bytes > 0 {
            let timer = self.head_timer.get_or_insert_with(|| Box::pin(sleep(HEAD_TIMEOUT)));
            ready!(timer.as_mut().poll(context));
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        Poll::Pending
    }

    /// Checks the progress of an answer after a write.
    fn poll_progress(&mut self, context: &mut Context<'_>, wrote: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if let Poll::Ready(wrote) = wrote {
            self.written += wrote.as_ref().map_or(0, |bytes| *bytes);
            return Poll::Ready(wrote);
        }
        let timer = match &mut self.progress_timer {
            Some(timer) => timer,
            none => {
                self.written = 0;
                none.insert(Box::pin(sleep(PROGRESS_TIMEOUT)))
            }
        };
        while timer.as_mut().poll(context).is_ready() {
            if self.written < PROGRESS_BYTES_MIN {
                self.state.unread();
                return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
            }
            self.written = 0;
            timer.as_mut().reset(Instant::now() + PROGRESS_TIMEOUT);
        }
        Poll::Pending
    }
}

impl<S> Metered<S> {
    /// The meter, unless a WebSocket has taken the connection over.
    fn meter(&mut self) -> Option<&mut Meter> {
        if self.meter.as_ref().is_some_and(|meter| meter.state.stage() == ConnectionStage::Upgraded) {
            self.meter = None;
        }
        self.meter.as_mut()
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Metered<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.meter();
        let this = &mut *self;
        match &mut this.meter {
            None => Pin::new(&mut this.stream).poll_read(context, buffer),
            Some(meter) => meter.poll_read(&mut this.stream, context, buffer),
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Metered<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let wrote = Pin::new(&mut self.stream).poll_write(context, bytes);
        match self.meter() {
            None => wrote,
            Some(meter) => meter.poll_progress(context, wrote),
        }
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let wrote = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        match self.meter() {
            None => wrote,
            Some(meter) => meter.poll_progress(context, wrote),
        }
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(Pin::new(&mut self.stream).poll_flush(context))?;
        if let Some(meter) = self.meter() {
            meter.progress_timer = None;
            meter.state.flushed();
        }
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
