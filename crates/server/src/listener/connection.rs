use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::task::{Context, Poll};

use axum::body::Body;
use hyper::body::{Bytes, Frame, SizeHint};
use tokio::sync::Notify;

use super::admission::{Admission, Refusal, ReservedBytes};

/// The current use of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum ConnectionStage {
    /// It waits for the head of a request, or receives one.
    Idle,
    /// A request is in progress.
    Busy,
    /// An answer is complete, and not all of it is written.
    Answered,
    /// A WebSocket has taken it over.
    Upgraded,
}

/// The state of a connection that its stream, its requests and admission control share.
pub(super) struct ListenerConnection {
    pub(super) admission: Arc<Admission>,
    /// Absent for a trusted proxy.
    pub(super) network: Option<IpAddr>,
    stage: AtomicU8,
    /// Requests so far.
    requests: AtomicU32,
    /// Its key among the idle connections, otherwise 0. Changed under the lock of admission control.
    pub(super) idle_key: AtomicU64,
    /// Set when admission control no longer counts it, under the same lock.
    pub(super) is_uncounted: AtomicBool,
    pub(super) shed: Notify,
}

impl ListenerConnection {
    pub(super) fn new(admission: Arc<Admission>, network: Option<IpAddr>) -> Self {
        Self {
            admission,
            network,
            stage: AtomicU8::new(ConnectionStage::Idle as u8),
            requests: AtomicU32::new(0),
            idle_key: AtomicU64::new(0),
            is_uncounted: AtomicBool::new(false),
            shed: Notify::new(),
        }
    }

    pub(super) fn stage(&self) -> ConnectionStage {
        const STAGES: [ConnectionStage; 4] =
            [ConnectionStage::Idle, ConnectionStage::Busy, ConnectionStage::Answered, ConnectionStage::Upgraded];
        STAGES[usize::from(self.stage.load(Ordering::Relaxed))]
    }

    fn enter(&self, stage: ConnectionStage) {
        self.stage.store(stage as u8, Ordering::Relaxed);
    }

    pub(super) fn requests(&self) -> u32 {
        self.requests.load(Ordering::Relaxed)
    }

    pub(super) fn begin_request(&self) {
        self.enter(ConnectionStage::Busy);
        self.requests.fetch_add(1, Ordering::Relaxed);
        self.admission.busy(self);
    }

    pub(super) fn upgrade(&self) {
        self.enter(ConnectionStage::Upgraded);
    }

    /// Everything was written. If that completes an answer, the connection is idle.
    pub(super) fn flushed(self: &Arc<Self>) {
        if self.stage() == ConnectionStage::Answered {
            self.enter(ConnectionStage::Idle);
            self.admission.idle(self);
        }
    }

    /// Reserves bytes for the head of a request.
    pub(super) fn reserve(&self, bytes: usize) -> Option<ReservedBytes> {
        self.admission.reserve(self.network, bytes)
    }

    /// Counts an answer that was not read in time.
    pub(super) fn unread(&self) {
        self.admission.count_refusal(Refusal::UnreadAnswer, self.network);
    }
}

/// The body of an answer. Its end is the end of the request.
pub(super) struct AnswerBody {
    body: Body,
    state: Arc<ListenerConnection>,
}

impl AnswerBody {
    pub(super) fn new(body: Body, state: Arc<ListenerConnection>) -> Self {
        Self { body, state }
    }
}

impl hyper::body::Body for AnswerBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for AnswerBody {
    fn drop(&mut self) {
        if self.state.stage() == ConnectionStage::Busy {
            self.state.enter(ConnectionStage::Answered);
        }
    }
}
