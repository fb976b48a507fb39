use std::time::Duration;

use domain::IngestError;
use metrics::counter;
use ports::{AppendOutcome, SendRefusal, Sent};
use tokio::sync::oneshot;

/// Retry delay for a client after a failed commit.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// The outcome of a send that the store has not decided.
pub(crate) fn unavailable() -> IngestError {
    IngestError::Unavailable { retry_after: RETRY_AFTER }
}

/// The outcome of a send that the store has decided.
pub(crate) fn decided(outcome: AppendOutcome) -> Result<Sent, IngestError> {
    match outcome {
        AppendOutcome::New(receipt) => Ok(Sent { receipt, deduplicated: false }),
        AppendOutcome::Duplicate(receipt) => Ok(Sent { receipt, deduplicated: true }),
        AppendOutcome::Refused(SendRefusal::ChatNotFound) => Err(IngestError::ChatNotFound),
        AppendOutcome::Refused(SendRefusal::NotAMember) => Err(IngestError::NotAMember),
        AppendOutcome::Refused(SendRefusal::KeyReused) => Err(IngestError::IdempotencyKeyReused),
        AppendOutcome::Refused(SendRefusal::Blocked) => Err(IngestError::Blocked),
        AppendOutcome::Refused(SendRefusal::Blocking) => Err(IngestError::Blocking),
        AppendOutcome::Refused(SendRefusal::Suspended) => Err(IngestError::Suspended),
        AppendOutcome::Refused(SendRefusal::CounterMissing) => Err(IngestError::CounterMissing),
        AppendOutcome::Refused(SendRefusal::StorageFull(limit)) => Err(IngestError::StorageFull(limit)),
        AppendOutcome::Refused(SendRefusal::Update(refusal)) => Err(IngestError::Update(refusal)),
        AppendOutcome::Refused(SendRefusal::Unreadable) => Err(IngestError::Unreadable),
    }
}

/// Answers a send and counts its outcome.
pub(crate) fn answer(reply: oneshot::Sender<Result<Sent, IngestError>>, outcome: Result<Sent, IngestError>) {
    let label = match &outcome {
        Ok(Sent { deduplicated: false, .. }) => "new",
        Ok(Sent { deduplicated: true, .. }) => "duplicate",
        Err(IngestError::ChatNotFound) => "chat_not_found",
        Err(IngestError::NotAMember) => "not_a_member",
        Err(IngestError::IdempotencyKeyReused) => "key_reused",
        Err(IngestError::Blocked) => "blocked",
        Err(IngestError::Blocking) => "blocking",
        Err(IngestError::Suspended) => "suspended",
        Err(IngestError::CounterMissing) => "counter_missing",
        Err(IngestError::Update(_)) => "update_refused",
        Err(IngestError::StorageFull(_)) => "storage_full",
        Err(IngestError::Unreadable) => "unreadable",
        Err(IngestError::AboveHead { .. }) => "above_head",
        Err(IngestError::Busy) => "busy",
        Err(IngestError::Unavailable { .. }) => "unavailable",
    };
    counter!("tidings_ingest_sends_total", "outcome" => label).increment(1);
    // A client that has disconnected does not receive it; its retry has the same outcome.
    drop(reply.send(outcome));
}
