//! Closes a connection without losing the response if the client is still sending.
//!
//! A socket that is closed with unread input sends a reset, and a client that receives it can lose an answer that it has not
//! read yet. A lingering close ends the output, then discards input until the client closes its end.

use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

/// How long a closing connection stays without input.
pub(super) const SILENCE_MAX: Duration = Duration::from_secs(2);
/// How long a closing connection stays at most.
pub(super) const LINGER_MAX: Duration = Duration::from_secs(30);
/// Bytes that a closing connection discards at most.
const LINGER_BYTES_MAX: usize = 16 << 20;

/// A stream whose shutdown lingers if `requested` says so by then.
pub(super) struct Lingering<S> {
    stream: S,
    requested: Arc<AtomicBool>,
    /// Present while the close lingers.
    closing: Option<Closing>,
}

struct Closing {
    end: Instant,
    timer: Pin<Box<Sleep>>,
    bytes_left: usize,
}

impl<S> Lingering<S> {
    pub(super) fn new(stream: S, requested: Arc<AtomicBool>) -> Self {
        Self { stream, requested, closing: None }
    }
}

impl Closing {
    fn new() -> Self {
        Self { end: Instant::now() + LINGER_MAX, timer: Box::pin(sleep(SILENCE_MAX)), bytes_left: LINGER_BYTES_MAX }
    }

    /// Ready when the client has closed its end, or a limit is reached.
    fn poll_discard(&mut self, mut stream: Pin<&mut impl AsyncRead>, context: &mut Context<'_>) -> Poll<()> {
        let mut bytes = [MaybeUninit::uninit(); 8 << 10];
        loop {
            let mut input = ReadBuf::uninit(&mut bytes);
            let read = match stream.as_mut().poll_read(context, &mut input) {
                Poll::Ready(Ok(())) => input.filled().len(),
                // The client has reset the connection; the response cannot be saved.
                Poll::Ready(Err(_)) => return Poll::Ready(()),
                Poll::Pending => return self.timer.as_mut().poll(context),
            };
            let now = Instant::now();
            if read == 0 || read > self.bytes_left || now >= self.end {
                return Poll::Ready(());
            }
            self.bytes_left -= read;
            self.timer.as_mut().reset(self.end.min(now + SILENCE_MAX));
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Lingering<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Lingering<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if this.closing.is_none() {
            ready!(Pin::new(&mut this.stream).poll_shutdown(context))?;
            if !this.requested.load(Ordering::Relaxed) {
                return Poll::Ready(Ok(()));
            }
        }
        let closing = this.closing.get_or_insert_with(Closing::new);
        closing.poll_discard(Pin::new(&mut this.stream), context).map(Ok)
    }
}
