use std::sync::Arc;
use std::time::Duration;

use domain::EventId;
use metrics::{counter, gauge, histogram};
use ports::{Appended, IngestError, MessageWriter, NewMessage, SendRefusal, Sent, trace};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;
use tracing::field::Empty;
use tracing::{Instrument, Span, debug_span, error};

use crate::checks::{Asked, Outcomes};
use crate::hot_chats::HotChats;

/// A send that waits for its commit.
pub(crate) struct Waiting {
    pub(crate) message: NewMessage,
    pub(crate) deadline: Instant,
    pub(crate) reply: oneshot::Sender<Result<Sent, IngestError>>,
    /// The send, as its trace shows it.
    pub(crate) span: Span,
}

/// When a client whose send could not be committed is asked to try again.
pub(crate) const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Commits the sends of one lane in the order in which they were queued, until the queue is closed and empty.
///
/// One batch is under way at a time: order needs it, and it is what makes batches grow under load. Every send is
/// answered by its deadline. The oldest of a batch sets the time for the whole batch; the younger ones behind it have
/// theirs later, so none waits longer than its own.
pub(crate) async fn run(mut queue: mpsc::Receiver<Waiting>, store: Arc<dyn MessageWriter>, batch_len_max: usize) {
    let mut gathered = Vec::with_capacity(batch_len_max);
    let mut checked = Outcomes::default();
    let mut hot = HotChats::new(Instant::now());
    while queue.recv_many(&mut gathered, batch_len_max).await > 0 {
        gauge!("tidings_ingest_queue_sends").decrement(gathered.len() as f64);
        let now = Instant::now();
        let mut batch = Vec::with_capacity(gathered.len());
        let mut replies = Vec::with_capacity(gathered.len());
        let mut spans = Vec::new();
        let mut deadline = None;
        for Waiting { message, deadline: own, reply, span } in gathered.drain(..) {
            if own <= now {
                // Its sender has been kept waiting as long as we promised; a commit now would be one nobody expects.
                answer(reply, Err(unavailable()));
                continue;
            }
            deadline.get_or_insert(own);
            if hot.is_over(message.chat_id, now) {
                counter!("tidings_ingest_hot_chat_minutes_total").increment(1);
            }
            if trace::is_on() {
                spans.push(commit_span(&span, spans.first(), &message));
            }
            replies.push((Asked::of(&message), reply));
            batch.push(message);
        }
        let Some(deadline) = deadline else { continue };
        histogram!("tidings_ingest_batch_sends").record(batch.len() as f64);
        let committing = store.append(batch).instrument(spans.first().cloned().unwrap_or_else(Span::none));
        match tokio::time::timeout_at(deadline, committing).await {
            Ok(Ok(outcomes)) if checked.answer_all(replies.len(), outcomes.len()) => {
                for ((asked, reply), outcome) in replies.into_iter().zip(outcomes) {
                    let may_be_told = checked.may_be_told(&asked, &outcome);
                    answer(reply, if may_be_told { outcome_of(outcome) } else { Err(unavailable()) });
                }
            }
            // Whose outcome is missing is unknown.
            Ok(Ok(_)) => refuse_all(replies),
            Ok(Err(failure)) => {
                error!(error = &failure as &dyn std::error::Error, "a batch of sends was not committed");
                fail(&spans, "the batch was not committed");
                refuse_all(replies);
            }
            Err(_elapsed) => {
                error!("the store did not commit a batch of sends within the deadline");
                fail(&spans, "the batch was not committed within the deadline");
                refuse_all(replies);
            }
        }
    }
}

/// The commit of one send of a batch, under the send. It links that of the first send, under which the store does its work
/// for all of them. Whoever processes the event goes on from here.
fn commit_span(send: &Span, first: Option<&Span>, message: &NewMessage) -> Span {
    let (chat_id, message_id) = (message.chat_id, message.message_id);
    let span = debug_span!(target: trace::TARGET, parent: send, "commit", %chat_id, %message_id, error = Empty);
    if let Some(first) = first {
        span.follows_from(first);
    }
    if let Some(context) = trace::context(&span) {
        trace::remember(EventId::from_bytes(message_id.to_bytes()), context);
    }
    span
}

fn fail(spans: &[Span], reason: &str) {
    for span in spans {
        span.record("error", reason);
    }
}

fn outcome_of(outcome: Appended) -> Result<Sent, IngestError> {
    match outcome {
        Appended::New(receipt) => Ok(Sent { receipt, deduplicated: false }),
        Appended::Duplicate(receipt) => Ok(Sent { receipt, deduplicated: true }),
        Appended::Refused(SendRefusal::ChatNotFound) => Err(IngestError::ChatNotFound),
        Appended::Refused(SendRefusal::NotAMember) => Err(IngestError::NotAMember),
        Appended::Refused(SendRefusal::KeyReused) => Err(IngestError::IdempotencyKeyReused),
        Appended::Refused(SendRefusal::Blocked) => Err(IngestError::Blocked),
        Appended::Refused(SendRefusal::Blocking) => Err(IngestError::Blocking),
        Appended::Refused(SendRefusal::CounterMissing) => Err(IngestError::CounterMissing),
        Appended::Refused(SendRefusal::Unreadable) => Err(IngestError::Unreadable),
    }
}

fn refuse_all(replies: Vec<(Asked, oneshot::Sender<Result<Sent, IngestError>>)>) {
    for (_, reply) in replies {
        answer(reply, Err(unavailable()));
    }
}

fn unavailable() -> IngestError {
    IngestError::Unavailable { retry_after: RETRY_AFTER }
}

pub(crate) fn answer(reply: oneshot::Sender<Result<Sent, IngestError>>, outcome: Result<Sent, IngestError>) {
    let label = match &outcome {
        Ok(Sent { deduplicated: false, .. }) => "new",
        Ok(Sent { deduplicated: true, .. }) => "duplicate",
        Err(IngestError::ChatNotFound) => "chat_not_found",
        Err(IngestError::NotAMember) => "not_a_member",
        Err(IngestError::IdempotencyKeyReused) => "key_reused",
        Err(IngestError::Blocked) => "blocked",
        Err(IngestError::Blocking) => "blocking",
        Err(IngestError::CounterMissing) => "counter_missing",
        Err(IngestError::Unreadable) => "unreadable",
        Err(IngestError::AboveHead { .. }) => "above_head",
        Err(IngestError::Busy) => "busy",
        Err(IngestError::Unavailable { .. }) => "unavailable",
    };
    counter!("tidings_ingest_sends_total", "outcome" => label).increment(1);
    // A sender whose connection is gone does not hear it; the retry will be told the same.
    drop(reply.send(outcome));
}
