use std::sync::{Mutex, MutexGuard};
use std::task::Waker;

use futures_util::task::AtomicWaker;
use metrics::counter;
use ports::lock;
use protocol::frame::{PushClass, ServerFrame};
use protocol::{CloseReason, Missed, Outbox, OutboxBounds, Pressure, Queueable};
use tracing::Span;

use crate::socket::TextFrame;

/// Queue of pushes for one connection, with an optional close order.
///
/// Any task may add to it; only the connection's task takes from it.
#[derive(Debug, Default)]
pub(crate) struct Mailbox {
    inner: Mutex<Inner>,
    waker: AtomicWaker,
}

#[derive(Debug, Default)]
struct Inner {
    outbox: Outbox<QueuedPush>,
    close: Option<CloseReason>,
}

/// A pushed frame. Its trace span, if any, ends when the last recipient has written or discarded the frame.
#[derive(Clone, Debug)]
pub(crate) struct QueuedPush {
    pub(crate) frame: TextFrame,
    pub(crate) class: PushClass,
    pub(crate) span: Option<Box<Span>>,
}

impl Queueable for QueuedPush {
    fn bytes(&self) -> usize {
        self.frame.size()
    }

    fn class(&self) -> PushClass {
        self.class
    }
}

impl Mailbox {
    pub(crate) fn new(bounds: OutboxBounds) -> Self {
        Self { inner: Mutex::new(Inner { outbox: Outbox::new(bounds), close: None }), waker: AtomicWaker::new() }
    }

    /// Queues a push. Returns `false` if it is ephemeral and there is no room for it.
    pub(crate) fn push(&self, frame: TextFrame) -> bool {
        let class = ServerFrame::class_of(&frame.text());
        let dropped = self.lock().outbox.push(QueuedPush { frame, class, span: None });
        self.note_dropped(dropped);
        self.waker.wake();
        class == PushClass::Durable || dropped == 0
    }

    /// Queues pushes in order and returns their number.
    pub(crate) fn push_all(&self, pushed: impl Iterator<Item = QueuedPush>) -> u64 {
        let (mut count, mut dropped) = (0, 0);
        let mut inner = self.lock();
        for pushed in pushed {
            dropped += inner.outbox.push(pushed);
            count += 1;
        }
        drop(inner);
        self.note_dropped(dropped);
        if count > 0 {
            self.waker.wake();
        }
        count
    }

    fn note_dropped(&self, dropped: usize) {
        if dropped > 0 {
            counter!("tidings_gateway_ephemeral_pushes_dropped_total").increment(dropped as u64);
        }
    }

    /// Orders the connection to close. Only the first order counts.
    pub(crate) fn close(&self, reason: CloseReason) {
        self.lock().close.get_or_insert(reason);
        self.waker.wake();
    }

    /// Registers `waker` for the next push or close order.
    pub(crate) fn register(&self, waker: &Waker) {
        self.waker.register(waker);
    }

    pub(crate) fn pop(&self) -> Option<QueuedPush> {
        self.lock().outbox.pop()
    }

    /// The number of queued pushes and their size in bytes.
    pub(crate) fn waiting(&self) -> (usize, usize) {
        self.lock().outbox.waiting()
    }

    pub(crate) fn pressure(&self) -> Pressure {
        self.lock().outbox.pressure()
    }

    pub(crate) fn take_missed(&self) -> Option<Missed> {
        self.lock().outbox.take_missed()
    }

    pub(crate) fn take_unwritten_dropped(&self) -> bool {
        self.lock().outbox.take_unwritten_dropped()
    }

    pub(crate) fn close_order(&self) -> Option<CloseReason> {
        self.lock().close
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        lock(&self.inner)
    }
}
