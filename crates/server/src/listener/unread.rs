//! Request bodies that no handler reads to their end.
//!
//! On a connection that is kept alive the next request begins where the body of this one ends. hyper does not read a body
//! that was dropped: it closes the connection after the answer, without `Connection: close`, and the client's next request
//! is lost. So an unread body is returned to the listener, which discards it before it answers. If that would take too
//! long, the answer announces the close.
//!
//! Handlers collect a body as parts, and each part of hyper keeps the whole buffer of its read: a client that sends single
//! bytes would take a thousand times the memory of its body. So handlers get copies, in parts as large as a whole body.

use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::Body;
use domain::limits::FRAME_BYTES_MAX;
use futures_util::future::poll_fn;
use http::{Request, header};
use hyper::body::{Body as _, Bytes, Frame, Incoming, SizeHint};
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};

/// Bytes of an unread body that are discarded to keep the connection.
pub(super) const DISCARDED_BYTES_MAX: u64 = 256 << 10;
/// How long a body may take after its head, if no handler waits for it. The answer waits as long at most.
pub(super) const BODY_TIMEOUT: Duration = Duration::from_secs(5);

/// The listener's end of a request body.
pub(super) struct UnreadBody {
    returned: oneshot::Receiver<RemainingBody>,
    deadline: Instant,
    /// The client waits for `100 Continue` before it sends the body.
    expects_continue: bool,
}

/// The unread part of a body.
struct RemainingBody {
    /// Absent if reading has failed.
    body: Option<Incoming>,
    /// A handler has read some of it, or tried to.
    was_begun: bool,
}

/// Makes the body of a request return to the listener if it is dropped unread. A request without a body is left
/// unchanged.
pub(super) fn returning(request: Request<Incoming>) -> (Request<Body>, Option<UnreadBody>) {
    if request.body().is_end_stream() {
        return (request.map(Body::new), None);
    }
    let (sender, returned) = oneshot::channel();
    let unread = UnreadBody {
        returned,
        deadline: Instant::now() + BODY_TIMEOUT,
        expects_continue: request.headers().contains_key(header::EXPECT),
    };
    let returning = |body| Returning { body: Some(body), gathered: Vec::new(), was_begun: false, sender: Some(sender) };
    (request.map(|body| Body::new(returning(body))), Some(unread))
}

impl UnreadBody {
    /// Discards the rest of the body. Returns `false` if its end was not reached, so that no request can follow it.
    ///
    /// Call it when the response is ready: a handler that still reads the body then keeps it.
    pub(super) async fn discard(mut self) -> bool {
        let Ok(RemainingBody { body, was_begun }) = self.returned.try_recv() else { return true };
        let Some(body) = body else { return false };
        // After a final response such a client may send the body or omit it, and the server cannot tell which.
        let is_ambiguous = self.expects_continue && !was_begun;
        if is_ambiguous || body.size_hint().lower() > DISCARDED_BYTES_MAX {
            return false;
        }
        // Boxed: this is rare, and its size would be that of every connection.
        Box::pin(timeout_at(self.deadline, read_to_end(body))).await.unwrap_or(false)
    }
}

/// Whether the body ends within the bound.
async fn read_to_end(mut body: Incoming) -> bool {
    let mut left = DISCARDED_BYTES_MAX;
    while !body.is_end_stream() {
        match poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await {
            None => return true,
            Some(Err(_)) => return false,
            Some(Ok(frame)) => match left.checked_sub(frame.data_ref().map_or(0, |data| data.len() as u64)) {
                Some(less) => left = less,
                None => return false,
            },
        }
    }
    true
}

/// A body that returns to the listener when it is dropped before its end.
struct Returning {
    /// Absent once its end was read, or reading has failed.
    body: Option<Incoming>,
    /// Bytes that the handler gets with the next part.
    gathered: Vec<u8>,
    was_begun: bool,
    /// Absent if there is nothing to return.
    sender: Option<oneshot::Sender<RemainingBody>>,
}

impl hyper::body::Body for Returning {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let this = &mut *self;
        while let Some(body) = &mut this.body
            && this.gathered.len() < FRAME_BYTES_MAX
        {
            this.was_begun = true;
            match ready!(Pin::new(body).poll_frame(context)) {
                None => (this.body, this.sender) = (None, None),
                Some(Err(failure)) => {
                    (this.body, this.gathered) = (None, Vec::new());
                    return Poll::Ready(Some(Err(failure)));
                }
                // Trailers are dropped: no handler reads them.
                Some(Ok(frame)) => {
                    this.gathered.extend_from_slice(&frame.into_data().unwrap_or_default());
                }
            }
        }
        let part = mem::take(&mut this.gathered);
        Poll::Ready((!part.is_empty()).then(|| Ok(Frame::data(part.into()))))
    }

    fn is_end_stream(&self) -> bool {
        self.gathered.is_empty() && self.body.as_ref().is_none_or(Incoming::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        let unread = self.body.as_ref().map_or(SizeHint::with_exact(0), Incoming::size_hint);
        let gathered = self.gathered.len() as u64;
        let mut hint = SizeHint::new();
        hint.set_lower(unread.lower() + gathered);
        if let Some(upper) = unread.upper() {
            hint.set_upper(upper + gathered);
        }
        hint
    }
}

impl Drop for Returning {
    fn drop(&mut self) {
        let body = self.body.take();
        if let Some(sender) = self.sender.take()
            && !body.as_ref().is_some_and(Incoming::is_end_stream)
        {
            // Without a receiver the request has been answered, or its connection has ended. The body is dropped.
            drop(sender.send(RemainingBody { body, was_begun: self.was_begun }));
        }
    }
}
