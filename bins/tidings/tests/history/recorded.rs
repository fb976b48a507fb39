use std::fs::{self, File};
use std::path::Path;

use audit::history::{Checker, Client, HistoryOp, Page, Reader, Recorder, Seen, fingerprint};
use client::{Api, ClientEvent, HistoryRange};
use domain::{ChatId, Invariant, Sequence, UserId};
use protocol::frame::{MessageBody, SendMessage, SendMessageAck, SyncResponse};
use tempfile::NamedTempFile;

/// Messages expire by the server's clock in milliseconds, and the checker uses the test's clock.
const SKEW_MS: u64 = 10;
/// Messages per REST page.
const PAGE: usize = 100;

/// The recorded operations and observations of a test's clients. It is checked at the end, and kept on a violation.
pub(crate) struct RecordedHistory {
    file: NamedTempFile,
    recorder: Recorder<File>,
}

impl RecordedHistory {
    pub(crate) fn new() -> Self {
        let file = tempfile::Builder::new().suffix(".history").tempfile_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let recorder = Recorder::new(file.reopen().unwrap());
        Self { file, recorder }
    }

    pub(crate) fn note(&self, client: Client, op: HistoryOp) {
        self.recorder.record(client, op);
    }

    /// Records a new chat with these members.
    pub(crate) fn founded(&self, founder: Client, chat_id: ChatId, members: &[UserId]) {
        for user_id in members.iter().copied() {
            self.note(founder, HistoryOp::Joining { chat_id, user_id });
            self.note(founder, HistoryOp::Joined { chat_id, user_id });
        }
    }

    /// Records a send before it is made.
    pub(crate) fn began(&self, client: Client, message: &SendMessage, ordered: bool) {
        let SendMessage { client_message_id, chat_id, body, ttl } = message;
        let op = HistoryOp::SendBegan {
            chat_id: *chat_id,
            client_message_id: *client_message_id,
            content: fingerprint(body.content.as_str()),
            ttl_seconds: ttl.map(|ttl| ttl.as_duration().as_secs()),
            ordered,
        };
        self.note(client, op);
    }

    pub(crate) fn acked(&self, client: Client, ack: &SendMessageAck) {
        let SendMessageAck { chat_id, client_message_id, message_id, sequence, .. } = *ack;
        self.note(client, HistoryOp::SendAcked { chat_id, client_message_id, message_id, sequence });
    }

    /// Records an event that the SDK delivered to an application.
    pub(crate) fn told(&self, client: Client, event: &ClientEvent) {
        let op = match event {
            ClientEvent::Connected { connection_id, .. } => HistoryOp::Connected { connection: *connection_id },
            ClientEvent::Disconnected { .. } => HistoryOp::Disconnected,
            ClientEvent::Message(message) => HistoryOp::Rendered { chat_id: message.chat_id, message: seen(message) },
            _ => return,
        };
        self.note(client, op);
    }

    /// Records a sync page from above `after`.
    pub(crate) fn synced(&self, client: Client, chat_id: ChatId, after: Sequence, page: &SyncResponse<'_>) {
        let through = match (page.has_more, page.next_sequence) {
            (false, _) => page.head_sequence,
            (true, Some(next)) => Sequence(next.0 - 1),
            (true, None) => page.messages.last().map_or(after, |message| message.sequence),
        };
        let messages = page.messages.iter().map(seen).collect();
        let page = Page { after, through, is_last: !page.has_more, messages };
        self.note(client, HistoryOp::SyncDone { chat_id, page });
    }

    /// Reads a whole chat over REST, and records it.
    pub(crate) async fn store(&self, reader: Client, api: &Api, chat_id: ChatId) -> Sequence {
        let mut after = Sequence::ZERO;
        loop {
            let began_at = self.recorder.now();
            let range = HistoryRange { after: Some(after), limit: Some(PAGE), ..HistoryRange::default() };
            let page = api.history(chat_id, range).await.unwrap();
            let is_last = page.messages.is_empty();
            let last = page.messages.last().map(|row| row.message.sequence);
            let through = last.unwrap_or_else(|| page.head_sequence.max(after));
            let messages = page.messages.iter().map(|row| seen(&row.message)).collect();
            let page = Page { after, through, is_last, messages };
            self.note(reader, HistoryOp::Stored { chat_id, began_at, page });
            if is_last {
                return after;
            }
            after = through;
        }
    }

    /// Checks the history against the guarantees. All of `exercised` must have been exercised.
    pub(crate) fn check(&self, exercised: &[Invariant]) {
        self.recorder.flush().unwrap();
        let mut checker = Checker::new().with_skew_ms(SKEW_MS);
        for entry in Reader::open(self.file.path()).unwrap() {
            checker.observe(&entry.unwrap());
        }
        let entries = checker.entries();
        let findings = checker.finish();
        if !findings.is_clean() {
            let kept = Path::new(env!("CARGO_TARGET_TMPDIR")).join("violated.history");
            fs::copy(self.file.path(), &kept).unwrap();
            let violations: Vec<String> = findings
                .violations()
                .map(|violation| format!("{}: {}", violation.invariant, violation.detail))
                .collect();
            panic!("{} is no history of a correct service:\n{}", kept.display(), violations.join("\n"));
        }
        let missed: Vec<_> = exercised.iter().filter(|of| findings.tally(**of).checked == 0).collect();
        assert!(missed.is_empty(), "nothing in the history is about {missed:?}");
        let checks: u64 = findings.iter().map(|(_, tally)| tally.checked).sum();
        eprintln!("a history of {entries} entries passed {checks} checks");
    }
}

fn seen(message: &MessageBody<'_>) -> Seen {
    Seen {
        sequence: message.sequence,
        message_id: message.message_id,
        sender_id: message.sender_id,
        client_message_id: message.client_message_id,
        content: fingerprint(&message.content),
    }
}
