use std::sync::Arc;

use domain::{ChatId, EventId, IngestError};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use metrics::histogram;
use ports::{AppendOutcome, MessageWriter, NewEntry, Sent, error_chain, trace};
use tokio::sync::oneshot;
use tokio::time::Instant;
use tracing::field::Empty;
use tracing::{Instrument, Span, debug_span, error};

use crate::checks::{ExpectedEntry, OutcomeChecker};
use crate::hot_chats::HotChats;
use crate::outcome::{answer, decided, unavailable};
use crate::queue::{Batch, BatchBounds, SendQueue, UncommittedSend};

/// Commits the sends of `queue`, at most `commits_max` batches at a time, until the queue is closed and empty.
pub(crate) async fn run(queue: Arc<SendQueue>, store: Arc<dyn MessageWriter>, commits_max: usize, bounds: BatchBounds) {
    let _closing = ClosedAtEnd(&queue);
    let mut commits = FuturesUnordered::new();
    let mut checker = OutcomeChecker::default();
    let mut hot = HotChats::new(Instant::now());
    loop {
        while commits.len() < commits_max
            && let Some(batch) = queue.next_batch(bounds, Instant::now())
        {
            hot.count(batch.sends.iter().map(|send| send.entry.chat_id()), Instant::now());
            commits.push(commit(&*store, batch));
        }
        if commits.is_empty() && queue.is_done() {
            return;
        }
        tokio::select! {
            biased;
            Some((commit, outcomes)) = commits.next() => commit.settle(&queue, &mut checker, outcomes),
            () = queue.changed(), if commits.len() < commits_max => {}
        }
    }
}

/// Fails the queued sends if the task ends early, so that their callers do not wait in vain.
struct ClosedAtEnd<'a>(&'a SendQueue);

impl Drop for ClosedAtEnd<'_> {
    fn drop(&mut self) {
        self.0.close_now();
    }
}

/// A batch whose entries are with the store.
struct Commit {
    chats: Vec<ChatId>,
    replies: Vec<(ExpectedEntry, oneshot::Sender<Result<Sent, IngestError>>)>,
    /// A span for each send, if sends are traced.
    spans: Vec<Span>,
}

/// Commits a batch. Without outcomes, the store has decided nothing, and the reason is logged.
///
/// The commit ends by the earliest deadline of its sends, so every send is answered by its own deadline.
async fn commit(store: &dyn MessageWriter, batch: Batch) -> (Commit, Option<Vec<AppendOutcome>>) {
    let mut entries = Vec::with_capacity(batch.sends.len());
    let mut commit = Commit { chats: batch.chats, replies: Vec::with_capacity(batch.sends.len()), spans: vec![] };
    let deadline = batch.sends.iter().map(|send| send.deadline).min().unwrap_or_else(Instant::now);
    for UncommittedSend { entry, reply, span, .. } in batch.sends {
        if trace::is_on() {
            commit.spans.push(commit_span(&span, commit.spans.first(), &entry));
        }
        commit.replies.push((ExpectedEntry::of(&entry), reply));
        entries.push(entry);
    }
    histogram!("tidings_ingest_batch_sends").record(entries.len() as f64);
    let committing = store.commit(entries).instrument(commit.spans.first().cloned().unwrap_or_else(Span::none));
    let outcomes = match tokio::time::timeout_at(deadline, committing).await {
        Ok(Ok(outcomes)) => Some(outcomes),
        Ok(Err(failure)) => {
            error!(error = %error_chain(&failure), "commit of a batch of sends failed; the clients are asked to retry");
            commit.fail_spans("the batch was not committed");
            None
        }
        Err(_elapsed) => {
            error!("commit of a batch of sends exceeded the deadline; the clients are asked to retry");
            commit.fail_spans("the batch was not committed within the deadline");
            None
        }
    };
    (commit, outcomes)
}

impl Commit {
    /// Answers the sends of the batch, and the queued sends that a failure takes along. If outcomes cannot be matched to
    /// sends, all are unknown.
    fn settle(self, queue: &SendQueue, checker: &mut OutcomeChecker, outcomes: Option<Vec<AppendOutcome>>) {
        let outcomes = outcomes.filter(|outcomes| checker.begin_commit(self.replies.len(), outcomes.len()));
        let behind = queue.finish(&self.chats, outcomes.is_some());
        let mut outcomes = outcomes.into_iter().flatten();
        for (expected, reply) in self.replies {
            let outcome = outcomes.next().filter(|outcome| checker.may_be_sent(&expected, outcome));
            answer(reply, outcome.map_or_else(|| Err(unavailable()), decided));
        }
        behind.answer();
    }

    fn fail_spans(&self, reason: &str) {
        for span in &self.spans {
            span.record("error", reason);
        }
    }
}

/// Span of the commit of one send, as a child of the send. It links to the span of the first send of the batch, under which
/// the store works for all of them. Consumers of the event continue the trace from here.
fn commit_span(send: &Span, first: Option<&Span>, entry: &NewEntry) -> Span {
    let (chat_id, message_id) = (entry.chat_id(), entry.message_id());
    let span = debug_span!(target: trace::TARGET, parent: send, "commit", %chat_id, %message_id, error = Empty);
    if let Some(first) = first {
        span.follows_from(first);
    }
    if let Some(context) = trace::context(&span) {
        trace::remember(EventId::from_bytes(message_id.to_bytes()), context);
    }
    span
}
