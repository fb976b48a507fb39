use std::sync::Arc;
use std::time::Duration;

use domain::IngestError;
use futures_util::future::BoxFuture;
use futures_util::stream::{self, BoxStream, FuturesUnordered};
use futures_util::{FutureExt, StreamExt};
use ports::{Ingest, trace};
use tokio::sync::watch;
use tokio::{select, time};
use tonic::{Request, Response, Status, Streaming};
use tracing::{Instrument, debug_span};

use crate::config::{DEADLINE, RETRY_AFTER};
use crate::proto::send_reply::Kind;
use crate::{proto, wire};

/// Limit of unanswered sends per stream; beyond it the stream is not read.
const SENDS_MAX: usize = 8192;

/// Serves the durability plane of this process to other processes.
pub(super) struct IngestService {
    pub(super) ingest: Arc<dyn Ingest>,
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
            requests: Some(request.into_inner()),
            under_way: FuturesUnordered::new(),
            leaving: self.leaving.clone(),
            was_told: false,
        };
        let replies = stream::unfold(sends, async |mut sends| Some((sends.next().await?, sends)));
        Ok(Response::new(replies.boxed()))
    }

    async fn sync(&self, request: Request<proto::SyncRequest>) -> Result<Response<proto::SyncReply>, Status> {
        let request = wire::read_sync(request.get_ref())?;
        Ok(Response::new(wire::to_sync_reply(self.ingest.sync(request).await)))
    }

    async fn advance(&self, request: Request<proto::AdvanceRequest>) -> Result<Response<proto::AdvanceReply>, Status> {
        let (user_id, chat_id, kind, to) = wire::read_advance(request.get_ref())?;
        Ok(Response::new(wire::to_advance_reply(self.ingest.advance(user_id, chat_id, kind, to).await)))
    }
}

/// One stream of sends. It reads requests, and passes them to ingest in that order, only while the next reply is
/// polled. So a caller that does not read replies is not read either.
struct SendStream {
    ingest: Arc<dyn Ingest>,
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

    fn hand_over(&self, request: proto::SendRequest) {
        let number = request.number;
        let timeout = Duration::from_millis(request.timeout_ms).min(DEADLINE);
        let span = debug_span!(
            target: trace::TARGET, parent: None, "ingest", otel.kind = "server", traceparent = request.traceparent
        );
        let outcome = match wire::read_send(request) {
            Ok(request) => {
                let sent = time::timeout(timeout, span.in_scope(|| self.ingest.send(request)));
                async move {
                    let unknown = Err(IngestError::Unavailable { retry_after: RETRY_AFTER });
                    wire::to_outcome(sent.await.unwrap_or(unknown))
                }
                .instrument(span)
                .left_future()
            }
            Err(malformed) => {
                let kind = proto::send_outcome::Kind::Malformed(malformed.to_string());
                std::future::ready(kind).right_future()
            }
        };
        self.under_way.push(outcome.map(move |kind| proto::SendOutcome { number, kind: Some(kind) }).boxed());
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
