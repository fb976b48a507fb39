use std::sync::Arc;
use std::time::Duration;

use domain::{IngestError, UserId};
use futures_util::future::BoxFuture;
use futures_util::stream::{self, BoxStream, FuturesUnordered};
use futures_util::{FutureExt, StreamExt};
use ports::{Ingest, trace};
use tokio::sync::watch;
use tokio::{select, time};
use tonic::{Request, Response, Status, Streaming};
use tracing::{Instrument, debug_span};

use crate::asserted_users::AssertedUsers;
use crate::assertion::{AssertionCheck, AssertionError};
use crate::config::{DEADLINE, RETRY_AFTER};
use crate::proto::send_reply::Kind;
use crate::{proto, wire};

/// Limit of unanswered sends per stream; beyond it the stream is not read.
const SENDS_MAX: usize = 8192;

/// Serves the durability plane of this process to other processes.
pub(super) struct IngestService {
    pub(super) ingest: Arc<dyn Ingest>,
    pub(super) assertions: Arc<AssertionCheck>,
    pub(super) leaving: watch::Receiver<bool>,
}

#[tonic::async_trait]
impl proto::ingest_server::Ingest for IngestService {
    type SendStream = BoxStream<'static, Result<proto::SendReply, Status>>;

    async fn send(
        &self,
        request: Request<Streaming<proto::SendRequest>>,
    ) -> Result<Response<Self::SendStream>, Status> {
        let sends = SendStream {
            ingest: self.ingest.clone(),
            assertions: self.assertions.clone(),
            asserted: AssertedUsers::default(),
            requests: Some(request.into_inner()),
            under_way: FuturesUnordered::new(),
            leaving: self.leaving.clone(),
            was_told: false,
        };
        let replies = stream::unfold(sends, async |mut sends| Some((sends.next().await?, sends)));
        Ok(Response::new(replies.boxed()))
    }

    async fn sync(&self, request: Request<proto::SyncRequest>) -> Result<Response<proto::SyncReply>, Status> {
        let body = request.get_ref();
        let request = wire::read_sync(body)?;
        self.assertions.check("sync", request.user_id, body.assertion.as_deref()).map_err(unasserted)?;
        Ok(Response::new(wire::to_sync_reply(self.ingest.sync(request).await)))
    }

    async fn advance(&self, request: Request<proto::AdvanceRequest>) -> Result<Response<proto::AdvanceReply>, Status> {
        let body = request.get_ref();
        let request = wire::read_advance(body)?;
        self.assertions.check("advance", request.user_id, body.assertion.as_deref()).map_err(unasserted)?;
        Ok(Response::new(wire::to_advance_reply(self.ingest.advance(request).await)))
    }
}

/// The status of a call that is refused for its assertion. A retry at another process would not help.
fn unasserted(error: AssertionError) -> Status {
    Status::failed_precondition(error.to_string())
}

/// One stream of sends. It reads requests, and passes them to ingest in that order, only while the next reply is
/// polled. So a caller that does not read replies is not read either.
struct SendStream {
    ingest: Arc<dyn Ingest>,
    assertions: Arc<AssertionCheck>,
    /// The senders whose assertions this stream has presented.
    asserted: AssertedUsers,
    /// Absent once the caller has closed its half.
    requests: Option<Streaming<proto::SendRequest>>,
    under_way: FuturesUnordered<BoxFuture<'static, proto::SendOutcome>>,
    leaving: watch::Receiver<bool>,
    was_told: bool,
}

impl SendStream {
    async fn next(&mut self) -> Option<Result<proto::SendReply, Status>> {
        loop {
            if self.requests.is_none() && self.under_way.is_empty() {
                return None;
            }
            let has_room = self.under_way.len() < SENDS_MAX;
            select! {
                Some(outcome) = self.under_way.next() => return Some(reply(Kind::Outcome(outcome))),
                request = read(&mut self.requests), if has_room => match request {
                    Ok(Some(request)) => self.hand_over(request),
                    Ok(None) => self.requests = None,
                    Err(status) => {
                        // The caller has disconnected, or violates the protocol. Accepted sends continue; their
                        // outcomes are discarded.
                        self.requests = None;
                        self.under_way.clear();
                        return Some(Err(status));
                    }
                },
                () = told(&mut self.leaving), if !self.was_told => {
                    self.was_told = true;
                    return Some(reply(Kind::Leaving(proto::Nothing {})));
                }
            }
        }
    }

    fn hand_over(&mut self, mut request: proto::SendRequest) {
        let (number, proof) = (request.number, request.assertion.take());
        let timeout = Duration::from_millis(request.timeout_ms).min(DEADLINE);
        let span = debug_span!(
            target: trace::TARGET, parent: None, "ingest", otel.kind = "server", traceparent = request.traceparent
        );
        let refused = |kind| std::future::ready(kind).right_future();
        let outcome = match wire::read_send(request).map(|request| (self.check(request.sender_id, proof), request)) {
            Ok((Ok(()), request)) => {
                let sent = time::timeout(timeout, span.in_scope(|| self.ingest.send(request)));
                async move {
                    let unknown = Err(IngestError::Unavailable { retry_after: RETRY_AFTER });
                    wire::to_outcome(sent.await.unwrap_or(unknown))
                }
                .instrument(span)
                .left_future()
            }
            Ok((Err(error), _)) => refused(proto::send_outcome::Kind::Unasserted(error.to_string())),
            Err(malformed) => refused(proto::send_outcome::Kind::Malformed(malformed.to_string())),
        };
        self.under_way.push(outcome.map(move |kind| proto::SendOutcome { number, kind: Some(kind) }).boxed());
    }

    /// Checks that the sender has a valid assertion: in this request, or in an earlier one of the stream.
    fn check(&mut self, sender_id: UserId, proof: Option<Vec<u8>>) -> Result<(), AssertionError> {
        let now = self.assertions.now();
        let verified = match (proof, self.asserted.expiry(sender_id)) {
            (Some(proof), _) => self.assertions.verify(sender_id, &proof).map(|expires_at| {
                self.asserted.note(sender_id, expires_at, now);
            }),
            (None, Some(expires_at)) if now < expires_at => Ok(()),
            (None, Some(_)) => Err(AssertionError::Expired),
            (None, None) => Err(AssertionError::Missing),
        };
        self.assertions.decide("send", verified)
    }
}

/// The next request; pending if the caller has closed its half.
async fn read(requests: &mut Option<Streaming<proto::SendRequest>>) -> Result<Option<proto::SendRequest>, Status> {
    match requests {
        Some(requests) => requests.message().await,
        None => std::future::pending().await,
    }
}

/// Waits until this process is shutting down.
async fn told(leaving: &mut watch::Receiver<bool>) {
    // An error means that the server was dropped.
    drop(leaving.wait_for(|is_leaving| *is_leaving).await);
}

fn reply(kind: Kind) -> Result<proto::SendReply, Status> {
    Ok(proto::SendReply { kind: Some(kind) })
}
