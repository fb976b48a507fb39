use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use futures_util::task::AtomicWaker;
use protocol::{CloseReason, Outbox, Pressure, Weight};
use tracing::Span;

use crate::socket::TextFrame;

/// What waits for one connection from outside of it: pushes, and perhaps the order to close.
///
/// Anybody may put something in; the connection's own task takes it out.
#[derive(Debug, Default)]
pub(crate) struct Mailbox {
    inner: Mutex<Inner>,
    waker: AtomicWaker,
}

#[derive(Debug, Default)]
struct Inner {
    outbox: Outbox<Pushed>,
    close: Option<CloseReason>,
}

/// A frame that was pushed. Its span, if it is in a trace, ends when the last of its recipients has written it or never
/// will.
#[derive(Clone, Debug)]
pub(crate) struct Pushed {
    pub(crate) frame: TextFrame,
    pub(crate) span: Option<Box<Span>>,
}

impl From<TextFrame> for Pushed {
    fn from(frame: TextFrame) -> Self {
        Self { frame, span: None }
    }
}

impl Weight for Pushed {
    fn bytes(&self) -> usize {
        self.frame.size()
    }
}

impl Mailbox {
    pub(crate) fn push(&self, pushed: impl Into<Pushed>) {
        self.push_all([pushed.into()].into_iter());
    }

    /// Adds pushes in their order, and returns how many.
    pub(crate) fn push_all(&self, pushed: impl Iterator<Item = Pushed>) -> u64 {
        let mut count = 0;
        let mut inner = self.lock();
        for pushed in pushed {
            inner.outbox.push(pushed);
            count += 1;
        }
        drop(inner);
        if count > 0 {
            self.waker.wake();
        }
        count
    }

    /// Orders the connection to close. The first order stands.
    pub(crate) fn close(&self, reason: CloseReason) {
        self.lock().close.get_or_insert(reason);
        self.waker.wake();
    }

    /// Has `waker` woken by the next push or order.
    pub(crate) fn register(&self, waker: &Waker) {
        self.waker.register(waker);
    }

    pub(crate) fn pop(&self) -> Option<Pushed> {
        self.lock().outbox.pop()
    }

    /// The pushes that wait, and their bytes.
    pub(crate) fn waiting(&self) -> (usize, usize) {
        self.lock().outbox.waiting()
    }

    pub(crate) fn pressure(&self) -> Pressure {
        self.lock().outbox.pressure()
    }

    pub(crate) fn take_missed(&self) -> bool {
        self.lock().outbox.take_missed()
    }

    pub(crate) fn close_order(&self) -> Option<CloseReason> {
        self.lock().close
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // Nothing that runs under the lock can leave the queue half changed.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
