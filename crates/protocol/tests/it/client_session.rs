use std::time::{Duration, Instant};

use domain::{
    Body, ChatId, ClientMessageId, ConnectionId, ContentType, DeviceId, MessageId, Sequence, Timestamp, Ttl,
    UpdateAction, UserId,
};
use proptest::prelude::*;
use protocol::client::{
    ClientEvent, ClientSession, Ended, LookUpFailure, Output, QueueFull, RefreshFailure, SendBounds,
};
use protocol::frame::{
    ChatChangeKind, ChatUpdated, ClientFrame, ConnectionEstablished, Inbound, MessageBody, MessageUpdated, ReauthAck,
    RequestId, Resync, SendMessage, SendMessageAck, ServerFrame, SyncResponse, UpdateBody, UpdateMessage, UpdateName,
};
use protocol::{CloseReason, ErrorBody, ErrorCode};
use serde_json::json;

const ME: [u8; 16] = [42; 16];

fn chat(n: u8) -> ChatId {
    ChatId::from_bytes([n; 16])
}

fn message(chat_id: ChatId, sequence: u64) -> MessageBody<'static> {
    MessageBody {
        message_id: MessageId::from_bytes([1; 16]),
        chat_id,
        sequence: Sequence(sequence),
        sender_id: UserId::from_bytes([3; 16]),
        content: "hi".into(),
        content_type: ContentType::Text,
        metadata: None,
        created_at: Timestamp::default(),
        expires_at: None,
        client_message_id: None,
        state: None,
    }
}

/// A session, a clock in milliseconds, and a short notation for outputs.
struct SessionHarness {
    session: ClientSession,
    start: Instant,
    now: Instant,
}

impl SessionHarness {
    fn new() -> Self {
        let start = Instant::now();
        Self { session: ClientSession::new(start, SendBounds::default(), 7), start, now: start }
    }

    /// An established connection; chat 1 is tracked from `watermark` and up to date.
    fn established(watermark: u64) -> Self {
        let mut client = Self::new();
        client.session.track(client.now, chat(1), Sequence(watermark));
        client.establish();
        client.page("y0", &[], None, watermark);
        client
    }

    fn at(&mut self, millis: u64) -> &mut Self {
        self.now = self.start + Duration::from_millis(millis);
        self
    }

    fn establish(&mut self) -> Vec<String> {
        self.session.handle_connected(self.now);
        let established = ConnectionEstablished {
            connection_id: ConnectionId::from_bytes([1; 16]),
            user_id: UserId::from_bytes(ME),
            device_id: DeviceId::from_bytes([1; 16]),
            server_time: Timestamp::default(),
            heartbeat_interval_ms: 5000,
            protocol_version: 1,
        };
        self.hear(None, ServerFrame::ConnectionEstablished(established))
    }

    fn hear(&mut self, request_id: Option<&str>, frame: ServerFrame) -> Vec<String> {
        let request_id = request_id.and_then(RequestId::new);
        let text = frame.encode(request_id.as_ref());
        self.session.handle_text(self.now, std::str::from_utf8(&text).unwrap());
        self.outputs()
    }

    fn push(&mut self, sequence: u64) -> Vec<String> {
        self.hear(None, ServerFrame::Message(message(chat(1), sequence)))
    }

    fn page(&mut self, id: &str, sequences: &[u64], next: Option<u64>, head: u64) -> Vec<String> {
        let page = SyncResponse {
            chat_id: chat(1),
            messages: sequences.iter().map(|n| message(chat(1), *n)).collect(),
            updates: vec![],
            updated_messages: vec![],
            has_more: next.is_some(),
            next_sequence: next.map(Sequence),
            head_sequence: Sequence(head),
        };
        self.hear(Some(id), ServerFrame::SyncResponse(page))
    }

    fn refuse(&mut self, id: Option<&str>, code: ErrorCode, details: serde_json::Value) -> Vec<String> {
        self.hear(id, ServerFrame::Error(ErrorBody::new(code, "no").with_details(details)))
    }

    fn send(&mut self, text: &str) -> Result<Vec<String>, QueueFull> {
        self.session.send(
            self.now,
            SendMessage {
                client_message_id: ClientMessageId::from_bytes([5; 16]),
                chat_id: chat(1),
                body: Body::new(text.to_owned().try_into().unwrap(), ContentType::Text),
                ttl: Ttl::from_secs(60),
            },
        )?;
        Ok(self.outputs())
    }

    fn update(&mut self, action: UpdateAction) -> Result<Vec<String>, QueueFull> {
        let client_message_id = ClientMessageId::from_bytes([5; 16]);
        let update = UpdateMessage { client_message_id, chat_id: chat(1), target: Sequence(1), action };
        self.session.update(self.now, update)?;
        Ok(self.outputs())
    }

    /// A push of an update of message 1.
    fn push_update(&mut self, sequence: u64) -> Vec<String> {
        let update = UpdateBody {
            chat_id: chat(1),
            sequence: Sequence(sequence),
            target_sequence: Sequence(1),
            user_id: UserId::from_bytes([3; 16]),
            kind: UpdateName::Edited,
            reaction: None,
            created_at: Timestamp::default(),
            client_message_id: None,
        };
        let message = Some(message(chat(1), 1));
        self.hear(None, ServerFrame::MessageUpdated(MessageUpdated { update, message }))
    }

    fn ack_send(&mut self, id: &str, sequence: u64) -> Vec<String> {
        let ack = SendMessageAck {
            client_message_id: ClientMessageId::from_bytes([5; 16]),
            message_id: MessageId::from_bytes([6; 16]),
            chat_id: chat(1),
            sequence: Sequence(sequence),
            created_at: Timestamp::from_millis(1000),
            deduplicated: false,
        };
        self.hear(Some(id), ServerFrame::SendMessageAck(ack))
    }

    fn stored(&mut self, sequence: u64) -> Vec<String> {
        self.session.stored(self.now, chat(1), Sequence(sequence));
        self.outputs()
    }

    fn timeout(&mut self) -> Vec<String> {
        self.session.handle_timeout(self.now);
        self.outputs()
    }

    fn disconnect(&mut self, ended: Ended) -> Vec<String> {
        self.session.handle_disconnected(self.now, ended);
        self.outputs()
    }

    fn closed(&mut self, reason: CloseReason) -> Vec<String> {
        self.disconnect(Ended::Closed { code: reason.code(), reason: reason.as_str().to_owned() })
    }

    /// The next timeout of the session, in milliseconds after the start.
    fn wakes_at(&self) -> Option<u128> {
        self.session.poll_timeout().map(|at| (at - self.start).as_millis())
    }

    fn outputs(&mut self) -> Vec<String> {
        std::iter::from_fn(|| self.session.poll_output()).map(notation).collect()
    }
}

/// The number of users, and the first of them.
fn users(user_ids: &[UserId]) -> String {
    format!("{} from {}", user_ids.len(), user_ids[0].to_bytes()[15])
}

fn notation(output: Output) -> String {
    match output {
        Output::Connect => "connect".to_owned(),
        Output::Disconnect => "disconnect".to_owned(),
        Output::RefreshToken => "refresh".to_owned(),
        Output::ListChats => "list chats".to_owned(),
        Output::LookUp(chat_id) => format!("look up {}", chat_id.to_bytes()[0]),
        Output::Transmit(text) => {
            let Inbound { request_id, frame } = Inbound::parse(&text).unwrap();
            let id = request_id.map(|id| format!(" {}", id.as_str())).unwrap_or_default();
            match frame {
                ClientFrame::SendMessage(send) => format!("> send{id} {}", send.body.content.as_str()),
                ClientFrame::UpdateMessage(update) => {
                    format!("> {}{id} of {}", update.action.kind().as_str(), update.target)
                }
                ClientFrame::SyncRequest(sync) => format!("> sync{id} after {}", sync.after),
                ClientFrame::Ack { sequence, .. } => format!("> ack {sequence}"),
                ClientFrame::MarkRead { sequence, .. } => format!("> read {sequence}"),
                ClientFrame::Typing { is_typing, .. } => format!("> typing {is_typing}"),
                ClientFrame::PresenceSubscribe { user_ids } => format!("> watch{id} {}", users(&user_ids)),
                ClientFrame::PresenceUnsubscribe { user_ids } => format!("> unwatch {}", users(&user_ids)),
                ClientFrame::Reauth { token } => format!("> reauth{id} {}", token.expose()),
                ClientFrame::Heartbeat => "> heartbeat".to_owned(),
                other => format!("{other:?}"),
            }
        }
        Output::Event(event) => match event {
            ClientEvent::Connected { .. } => "connected".to_owned(),
            ClientEvent::Disconnected { .. } => "disconnected".to_owned(),
            ClientEvent::Message(message) => format!("message {}", message.sequence),
            ClientEvent::Updated(updated) => format!("update {}", updated.update.sequence),
            ClientEvent::Sent(ack) => format!("sent {}", ack.sequence),
            ClientEvent::SendFailed { error, .. } => format!("failed {}", error.code),
            ClientEvent::WatermarkReset { head_sequence, .. } => format!("reset {head_sequence}"),
            ClientEvent::ChatGone { chat_id } => format!("gone {}", chat_id.to_bytes()[0]),
            ClientEvent::Refused(error) => format!("refused {}", error.code),
            ClientEvent::Stopped(reason) => format!("stopped {reason:?}"),
            ClientEvent::ChatUpdated(_) => "chat updated".to_owned(),
            other => format!("{other:?}"),
        },
    }
}

#[test]
fn nothing_is_sent_before_the_connection_is_established() {
    let mut client = SessionHarness::new();
    assert_eq!(client.outputs(), ["connect"]);
    client.session.track(client.now, chat(1), Sequence(4));
    client.session.mark_read(client.now, chat(1), Sequence(3));
    client.session.typing(client.now, chat(1), true);
    assert_eq!(client.send("early").unwrap(), [""; 0]);
    client.session.handle_connected(client.now);
    assert_eq!(client.push(5), [""; 0], "frames before the first one are ignored");
    assert_eq!(
        client.establish(),
        ["connected", "list chats", "> read 3", "> sync y0 after 4", "> send s0 early"],
        "queued frames are sent, except for typing"
    );
}

#[test]
fn presence_subscriptions_are_repeated_on_every_connection_in_batches_of_100() {
    let user = |n: u8| UserId::from_bytes([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, n]);
    let mut client = SessionHarness::new();
    client.session.watch(client.now, &(1..=101).map(user).collect::<Vec<_>>());
    assert_eq!(client.outputs(), ["connect"]);
    let asked = ["connected", "list chats", "> watch p 100 from 1", "> watch p 1 from 101"];
    assert_eq!(client.establish(), asked);
    client.session.watch(client.now, &[user(7), user(102)]);
    client.session.unwatch(client.now, &[user(1), user(2), user(200)]);
    assert_eq!(
        client.outputs(),
        ["> watch p 1 from 102", "> unwatch 2 from 1"],
        "an existing subscription is not repeated"
    );

    client.disconnect(Ended::Lost);
    client.at(5000).timeout();
    assert_eq!(client.establish(), ["connected", "list chats", "> watch p 100 from 3"]);
    let refused = client.refuse(Some("p"), ErrorCode::RateLimited, json!({}));
    assert_eq!(refused, ["refused RATE_LIMITED"]);
}

#[test]
fn g7_a_hole_is_synced_at_once_and_buffered_messages_are_not_synced_again() {
    let mut client = SessionHarness::established(0);
    assert_eq!(client.push(1), ["message 1"]);
    assert_eq!(client.push(1), [""; 0]);
    assert_eq!(client.push(4), ["> sync y1 after 1"]);
    assert_eq!(client.push(5), [""; 0], "one sync at a time");
    assert_eq!(client.page("y1", &[2, 3], None, 3), ["message 2", "message 3", "message 4", "message 5"]);
    assert_eq!(client.session.watermark(chat(1)), Some(Sequence(5)));
}

#[test]
fn g6_pages_are_followed_to_the_head_including_empty_ones() {
    let mut client = SessionHarness::established(0);
    client.hear(None, ServerFrame::Resync(Resync { reason: String::new() }));
    assert_eq!(client.page("y1", &[1, 2], Some(3), 9), ["message 1", "message 2", "> sync y2 after 2"]);
    assert_eq!(client.page("y2", &[], Some(8), 9), ["> sync y3 after 7"], "3 to 7 have expired");
    assert_eq!(client.page("y3", &[8], None, 9), ["message 8"]);
    assert_eq!(client.push(10), ["message 10"], "9 was proven empty");
    assert_eq!(client.page("y3", &[11], None, 11), [""; 0], "an answer counts once");
}

#[test]
fn g7_a_stale_page_leaves_the_hole_and_asks_again() {
    let mut client = SessionHarness::established(0);
    assert_eq!(client.push(3), ["> sync y1 after 0"]);
    assert_eq!(client.page("y1", &[1], None, 1), ["message 1", "> sync y2 after 1"]);
    assert_eq!(client.page("y2", &[2, 3], None, 3), ["message 2", "message 3"]);
}

#[test]
fn a_resync_during_a_sync_asks_again_since_the_answer_may_be_older() {
    let mut client = SessionHarness::established(0);
    assert_eq!(client.push(2), ["> sync y1 after 0"]);
    assert_eq!(client.hear(None, ServerFrame::Resync(Resync { reason: String::new() })), ["list chats"]);
    assert_eq!(client.page("y1", &[1, 2], None, 2), ["message 1", "message 2", "> sync y2 after 2"]);
    assert_eq!(client.page("y2", &[3], None, 3), ["message 3"]);
}

#[test]
fn g8_the_ack_takes_the_place_of_the_push_that_the_sender_does_not_get() {
    let mut client = SessionHarness::established(0);
    assert_eq!(client.send("mine").unwrap(), ["> send s0 mine"]);
    assert_eq!(client.push(2), ["> sync y1 after 0"]);
    client.session.handle_text(client.now, "");
    let ack = client.ack_send("s0", 1);
    assert_eq!(ack, ["sent 1", "message 1", "message 2"]);
    assert_eq!(client.page("y1", &[1, 2], None, 2), [""; 0], "the sync does not duplicate it");
    assert_eq!(client.ack_send("s0", 1), [""; 0]);
}

#[test]
fn an_own_message_has_every_field_that_others_see() {
    let mut client = SessionHarness::established(0);
    client.send("mine").unwrap();
    client.session.handle_frame(
        client.now,
        protocol::frame::Outbound {
            request_id: RequestId::new("s0"),
            frame: ServerFrame::SendMessageAck(SendMessageAck {
                client_message_id: ClientMessageId::from_bytes([5; 16]),
                message_id: MessageId::from_bytes([6; 16]),
                chat_id: chat(1),
                sequence: Sequence(1),
                created_at: Timestamp::from_millis(1000),
                deduplicated: false,
            }),
        },
    );
    let outputs: Vec<Output> = std::iter::from_fn(|| client.session.poll_output()).collect();
    let expected = MessageBody {
        message_id: MessageId::from_bytes([6; 16]),
        sender_id: UserId::from_bytes(ME),
        content: "mine".into(),
        created_at: Timestamp::from_millis(1000),
        expires_at: Some(Timestamp::from_millis(61_000)),
        client_message_id: Some(ClientMessageId::from_bytes([5; 16])),
        ..message(chat(1), 1)
    };
    assert_eq!(outputs[1], Output::Event(ClientEvent::Message(expected)));
}

#[test]
fn unacknowledged_sends_go_out_again_on_the_next_connection_and_before_newer_ones() {
    let mut client = SessionHarness::established(0);
    client.send("a").unwrap();
    client.send("b").unwrap();
    assert_eq!(client.ack_send("s1", 1), ["sent 1", "message 1"]);
    assert_eq!(client.disconnect(Ended::Lost), ["disconnected"]);
    assert_eq!(client.send("c").unwrap(), [""; 0]);
    client.at(2000);
    assert_eq!(client.timeout(), ["connect"]);
    assert_eq!(client.establish(), ["connected", "list chats", "> sync y1 after 1", "> send s0 a", "> send s2 c"]);
}

#[test]
fn a_permanently_refused_send_is_reported_and_dropped() {
    let mut client = SessionHarness::established(0);
    client.send("a").unwrap();
    assert_eq!(client.refuse(Some("s0"), ErrorCode::NotAMember, json!({})), ["failed NOT_A_MEMBER"]);
    client.disconnect(Ended::Lost);
    client.at(2000).timeout();
    assert_eq!(client.establish(), ["connected", "list chats", "> sync y1 after 0"]);
}

#[test]
fn updates_wait_among_the_sends_and_go_out_again_on_the_next_connection() {
    let mut client = SessionHarness::new();
    client.session.track(client.now, chat(1), Sequence(1));
    client.outputs();
    assert_eq!(client.send("a").unwrap(), [""; 0]);
    assert_eq!(client.update(UpdateAction::Delete).unwrap(), [""; 0]);
    assert_eq!(client.update(UpdateAction::React("👍".parse().unwrap())).unwrap(), [""; 0]);
    assert_eq!(client.send("b").unwrap(), [""; 0]);
    let queued = ["> send s0 a", "> deleted s1 of 1", "> reacted s2 of 1", "> send s3 b"];
    assert_eq!(client.establish()[3..], queued);
    client.ack_send("s0", 2);
    client.disconnect(Ended::Lost);
    client.at(5000).timeout();
    assert_eq!(client.establish()[3..], queued[1..], "what has no outcome is repeated");
}

#[test]
fn the_ack_of_an_update_does_not_take_the_place_of_its_push() {
    let mut client = SessionHarness::established(1);
    assert_eq!(client.update(UpdateAction::Delete).unwrap(), ["> deleted s0 of 1"]);
    assert_eq!(client.ack_send("s0", 2), ["sent 2"]);
    assert_eq!(client.push_update(2), ["update 2"]);
    assert_eq!(client.push(3), ["message 3"], "the watermark is above the update");
    assert_eq!(client.push_update(2), [""; 0]);
    assert_eq!(client.push_update(5), ["> sync y1 after 3"], "an update above a gap waits like a message");
}

#[test]
fn a_permanently_refused_update_is_reported_and_dropped() {
    let mut client = SessionHarness::established(1);
    client.update(UpdateAction::Delete).unwrap();
    assert_eq!(client.refuse(Some("s0"), ErrorCode::Forbidden, json!({})), ["failed FORBIDDEN"]);
    client.disconnect(Ended::Lost);
    client.at(5000).timeout();
    assert_eq!(client.establish().len(), 3, "it is not repeated");
}

#[test]
fn handed_out_updates_are_acknowledged_like_messages() {
    let mut client = SessionHarness::established(1);
    client.push_update(2);
    assert_eq!(client.stored(2), [""; 0]);
    client.at(1000);
    assert_eq!(client.timeout(), ["> ack 2"]);
}

#[test]
fn a_rate_limited_send_is_retried_after_the_requested_delay() {
    let mut client = SessionHarness::established(0);
    client.send("a").unwrap();
    assert_eq!(client.refuse(Some("s0"), ErrorCode::RateLimited, json!({ "retry_after_seconds": 2 })), [""; 0]);
    assert_eq!(client.wakes_at(), Some(2000));
    assert_eq!(client.at(1999).timeout(), [""; 0]);
    assert_eq!(client.at(2000).timeout(), ["> send s0 a"]);
}

#[test]
fn the_queue_of_sends_is_bounded() {
    let mut client = SessionHarness::new();
    for _ in 0..1000 {
        client.send("a").unwrap();
    }
    assert_eq!(client.send("a"), Err(QueueFull(1000)));
    assert_eq!(client.update(UpdateAction::Delete), Err(QueueFull(1000)), "updates are in the same queue");
}

#[test]
fn g5_a_request_without_an_answer_for_ten_seconds_breaks_the_connection() {
    let mut client = SessionHarness::established(0);
    client.send("a").unwrap();
    for seconds in [4, 8] {
        client.at(seconds * 1000).hear(None, ServerFrame::Unknown);
    }
    assert_eq!(client.at(9999).timeout(), ["> heartbeat"]);
    client.hear(None, ServerFrame::Unknown);
    assert_eq!(client.at(10_000).timeout(), ["disconnect", "disconnected"]);
}

#[test]
fn acks_of_stored_messages_wait_until_the_chat_is_quiet_or_for_ten_messages() {
    let mut client = SessionHarness::established(0);
    for sequence in 1..=12 {
        client.push(sequence);
    }
    assert_eq!(client.at(1000).stored(3), [""; 0]);
    assert_eq!(client.at(1150).stored(4), [""; 0]);
    assert_eq!(client.at(1200).timeout(), [""; 0], "the chat is not quiet yet");
    assert_eq!(client.wakes_at(), Some(1350));
    assert_eq!(client.at(1350).timeout(), ["> ack 4"]);
    assert_eq!(client.stored(12), [""; 0]);
    for sequence in 13..=14 {
        client.push(sequence);
    }
    assert_eq!(client.stored(14), ["> ack 14"], "ten");
    assert_eq!(client.stored(99), [""; 0], "only handed-out messages can be stored");
}

#[test]
fn acks_go_out_before_a_close() {
    let mut client = SessionHarness::established(0);
    client.push(1);
    client.stored(1);
    client.session.close(client.now);
    assert_eq!(client.outputs(), ["> ack 1", "disconnect", "stopped Closed"]);
    client.session.close(client.now);
    assert_eq!(client.outputs(), [""; 0]);
    assert!(client.session.is_stopped());
    assert_eq!(client.wakes_at(), None);
}

#[test]
fn an_ack_that_may_be_lost_with_its_connection_is_repeated() {
    let mut client = SessionHarness::established(0);
    client.push(1);
    client.stored(1);
    assert_eq!(client.at(5000).timeout(), ["> heartbeat", "> ack 1"]);
    client.disconnect(Ended::Lost);
    client.at(7000).timeout();
    client.establish();
    client.page("y1", &[], None, 1);
    assert_eq!(client.at(12_000).timeout(), ["> heartbeat", "> ack 1"]);
}

#[test]
fn heartbeats_are_sent_when_idle_and_a_silent_server_is_disconnected() {
    let mut client = SessionHarness::established(0);
    assert_eq!(client.wakes_at(), Some(5000));
    assert_eq!(client.at(5000).timeout(), ["> heartbeat"]);
    client.at(6000).hear(None, ServerFrame::Unknown);
    client.session.typing(client.now, chat(1), true);
    client.outputs();
    assert_eq!(client.wakes_at(), Some(11_000), "any sent frame counts as a heartbeat");
    assert_eq!(client.at(11_000).timeout(), ["> heartbeat"]);
    assert_eq!(client.at(16_000).timeout(), ["> heartbeat"]);
    assert_eq!(client.at(21_000).timeout(), ["disconnect", "disconnected"], "three intervals after the last frame");
}

#[test]
fn a_client_that_sends_only_frames_without_reply_still_sends_heartbeats() {
    let mut client = SessionHarness::established(0);
    let mut said = Vec::new();
    for sequence in 1..=4 {
        client.at(sequence * 2000);
        client.session.mark_read(client.now, chat(1), Sequence(sequence));
        said.extend(client.timeout());
    }
    assert_eq!(said, ["> read 1", "> read 2", "> read 3", "> heartbeat", "> read 4"]);
}

#[test]
fn reaction_to_each_close_reason() {
    let cases = [
        (CloseReason::ServerShutdown, "disconnected"),
        (CloseReason::ProtocolError, "disconnected"),
        (CloseReason::Internal, "disconnected"),
        (CloseReason::Overloaded, "disconnected"),
        (CloseReason::TokenExpired, "refresh"),
        (CloseReason::SessionRevoked, "stopped SignedOut"),
        (CloseReason::IdleTimeout, "disconnected"),
        (CloseReason::DuplicateConnection, "stopped DuplicateConnection"),
        (CloseReason::FrameTooLarge, "disconnected"),
        (CloseReason::RateLimited, "disconnected"),
        (CloseReason::SlowConsumer, "disconnected"),
    ];
    for (reason, expected) in cases {
        assert_eq!(SessionHarness::established(0).closed(reason), [expected], "{reason:?}");

        let mut announced = SessionHarness::established(0);
        announced.hear(None, ServerFrame::ConnectionClosing(reason.closing_frame()));
        assert_eq!(announced.disconnect(Ended::Lost), [expected], "{reason:?}, announced and then lost");
        if expected == "disconnected" {
            let least = u128::from(reason.closing_frame().reconnect_delay_ms).max(750);
            let wakes_at = announced.wakes_at().unwrap();
            assert!((least..=least.max(1000) * 5 / 4).contains(&wakes_at), "{reason:?}: {wakes_at}");
        }
    }
}

/// A stalled server completes queued handshakes when it resumes, also of clients that have disconnected.
#[test]
fn a_duplicate_from_an_abandoned_handshake_does_not_stop_the_session() {
    let given_up: [fn(&mut SessionHarness) -> Vec<String>; 2] =
        [|client| client.at(10_000).timeout(), |client| client.at(10_000).disconnect(Ended::Lost)];
    for give_up in given_up {
        let mut client = SessionHarness::new();
        client.outputs();
        assert_eq!(give_up(&mut client).last().unwrap(), "disconnected");
        client.at(12_000).timeout();
        client.establish();
        assert_eq!(client.at(12_100).closed(CloseReason::DuplicateConnection), ["disconnected"]);
        client.at(14_000).timeout();
        client.establish();
        assert_eq!(client.at(70_000).closed(CloseReason::DuplicateConnection), ["stopped DuplicateConnection"]);
    }
}

#[test]
fn reconnects_back_off_without_limit_and_reset_once_established() {
    let mut client = SessionHarness::new();
    client.outputs();
    for expected in [1, 2, 4, 8, 16, 30, 30, 30] {
        let from = client.now;
        assert_eq!(client.disconnect(Ended::Lost), ["disconnected"]);
        let until = client.session.poll_timeout().unwrap();
        let ratio = (until - from).as_secs_f64() / f64::from(expected);
        assert!((0.75..1.25).contains(&ratio), "{expected} s: {ratio}");
        client.now = until;
        assert_eq!(client.timeout(), ["connect"]);
    }
    client.establish();
    let from = client.now;
    client.disconnect(Ended::Lost);
    assert!(client.session.poll_timeout().unwrap() - from < Duration::from_millis(1250));
}

#[test]
fn a_refused_handshake_waits_for_the_requested_delay() {
    let mut client = SessionHarness::new();
    client.outputs();
    client.disconnect(Ended::Refused { status: 429, retry_after: Some(Duration::from_secs(40)) });
    assert!((40_000..=50_000).contains(&client.wakes_at().unwrap()));
}

#[test]
fn an_attempt_that_hangs_is_given_up_after_ten_seconds() {
    let mut client = SessionHarness::new();
    client.outputs();
    assert_eq!(client.at(10_000).timeout(), ["disconnect", "disconnected"]);
    client.at(12_000).timeout();
    client.session.handle_connected(client.now);
    assert_eq!(client.at(22_000).timeout(), ["disconnect", "disconnected"], "an open socket without a greeting too");
}

#[test]
fn a_refused_token_is_refreshed_once_and_then_the_user_is_signed_out() {
    let refused = Ended::Refused { status: 401, retry_after: None };
    let mut client = SessionHarness::new();
    client.outputs();
    assert_eq!(client.disconnect(refused.clone()), ["refresh"]);
    client.session.handle_token_refreshed(client.now);
    assert_eq!(client.outputs(), ["connect"], "at once");
    assert_eq!(client.disconnect(refused), ["stopped SignedOut"]);
}

#[test]
fn a_new_token_renews_an_open_connection_and_a_refusal_changes_nothing() {
    let mut client = SessionHarness::new();
    assert!(!client.session.reauth(client.now, "early".to_owned().into()), "there is no connection yet");
    assert_eq!(client.outputs(), ["connect"]);
    let mut client = SessionHarness::established(0);
    assert!(client.session.reauth(client.now, "new".to_owned().into()));
    assert_eq!(client.outputs(), ["> reauth reauth new"]);
    let expires_at = Timestamp::from_millis(7_200_000);
    assert_eq!(client.hear(Some("reauth"), ServerFrame::ReauthAck(ReauthAck { expires_at })), [""; 0]);
    assert_eq!(client.refuse(Some("reauth"), ErrorCode::Unauthorized, json!({})), [""; 0]);
    // A server of an earlier version does not answer: the connection goes on until it ends with its token.
    assert_eq!(client.at(11_000).push(1), ["message 1"]);
    assert_eq!(client.closed(CloseReason::TokenExpired), ["refresh"]);
}

#[test]
fn an_unreachable_refresh_is_retried_and_a_refused_one_signs_out() {
    for (failure, expected) in
        [(RefreshFailure::Unreachable, "disconnected"), (RefreshFailure::Refused, "stopped SignedOut")]
    {
        let mut client = SessionHarness::established(0);
        assert_eq!(client.closed(CloseReason::TokenExpired), ["refresh"]);
        client.session.handle_refresh_failed(client.now, failure);
        assert_eq!(client.outputs(), [expected]);
    }
}

#[test]
fn a_token_that_is_refused_during_a_connection_is_refreshed() {
    let mut client = SessionHarness::established(0);
    client.send("a").unwrap();
    assert_eq!(client.refuse(Some("s0"), ErrorCode::Unauthorized, json!({})), ["disconnect", "refresh"]);
    client.session.handle_token_refreshed(client.now);
    client.outputs();
    assert_eq!(client.establish().last().unwrap(), "> send s0 a");
}

#[test]
fn an_unknown_chat_is_looked_up_once_and_tracked_from_there() {
    let mut client = SessionHarness::established(0);
    let push = ServerFrame::Message(message(chat(2), 9));
    assert_eq!(client.hear(None, push.clone()), ["look up 2"]);
    assert_eq!(client.hear(None, push.clone()), [""; 0]);
    client.session.handle_look_up_failed(client.now, chat(2), LookUpFailure::Unreachable);
    let again_at = client.session.poll_timeout().unwrap();
    assert!(again_at < client.now + Duration::from_millis(1250));
    client.now = again_at;
    assert_eq!(client.timeout(), ["look up 2"]);
    client.session.track(client.now, chat(2), Sequence(7));
    assert_eq!(client.outputs(), ["> sync y1 after 7"], "the sync returns the pushed message");
    client.session.list(client.now, chat(2), Sequence(7), Sequence(9));
    assert_eq!(client.outputs(), [""; 0], "a tracked chat keeps its watermark");
}

/// Another device of the user may acknowledge a message before this one has looked up the chat.
#[test]
fn a_push_to_an_unknown_chat_is_handed_out_even_if_another_device_acknowledged_it() {
    for learn in [
        (|session, now| session.track(now, chat(2), Sequence(9))) as fn(&mut ClientSession, Instant),
        |session, now| session.list(now, chat(2), Sequence(9), Sequence(9)),
    ] {
        let mut client = SessionHarness::established(0);
        for sequence in [8, 7, 9] {
            client.hear(None, ServerFrame::Message(message(chat(2), sequence)));
        }
        learn(&mut client.session, client.now);
        assert_eq!(client.outputs(), ["> sync y1 after 6"]);
    }
}

#[test]
fn a_listed_chat_is_synced_only_if_something_was_missed() {
    let mut client = SessionHarness::established(0);
    client.session.list(client.now, chat(2), Sequence(7), Sequence(7));
    assert_eq!(client.outputs(), [""; 0], "nothing is missing");
    client.session.list(client.now, chat(3), Sequence(7), Sequence(9));
    assert_eq!(client.outputs(), ["> sync y1 after 7"]);
}

#[test]
fn a_listed_chat_is_synced_if_a_push_came_while_it_was_unknown() {
    let mut client = SessionHarness::established(0);
    let created = ChatUpdated { chat_id: chat(2), change: ChatChangeKind::Created, user_id: None };
    assert_eq!(client.hear(None, ServerFrame::ChatUpdated(created)), ["chat updated", "look up 2"]);
    client.session.list(client.now, chat(2), Sequence(7), Sequence(7));
    assert_eq!(client.outputs(), ["> sync y1 after 7"]);
}

#[test]
fn a_deleted_chat_is_not_looked_up_again_before_its_next_push() {
    let mut client = SessionHarness::established(0);
    let created = ChatUpdated { chat_id: chat(2), change: ChatChangeKind::Created, user_id: None };
    assert_eq!(client.hear(None, ServerFrame::ChatUpdated(created.clone())), ["chat updated", "look up 2"]);
    client.session.handle_look_up_failed(client.now, chat(2), LookUpFailure::Gone);
    assert_eq!(client.outputs(), [""; 0]);
    assert_eq!(client.hear(None, ServerFrame::ChatUpdated(created)), ["chat updated", "look up 2"]);
}

#[test]
fn a_chat_that_the_user_is_removed_from_is_dropped() {
    let removed = |user| ChatUpdated {
        chat_id: chat(1),
        change: ChatChangeKind::MemberRemoved,
        user_id: Some(UserId::from_bytes(user)),
    };
    let mut client = SessionHarness::established(0);
    assert_eq!(client.hear(None, ServerFrame::ChatUpdated(removed([9; 16]))), ["chat updated"]);
    assert_eq!(client.hear(None, ServerFrame::ChatUpdated(removed(ME))), ["chat updated", "gone 1"]);
    assert_eq!(client.session.watermark(chat(1)), None);
}

#[test]
fn consequences_of_each_refused_sync() {
    let cases = [
        (ErrorCode::InvalidSequence, json!({ "head_sequence": 3 }), vec!["reset 3"], Some(3)),
        (ErrorCode::NotAMember, json!({}), vec!["gone 1"], None),
        (ErrorCode::NotFound, json!({}), vec!["gone 1"], None),
        (ErrorCode::CounterMissing, json!({}), vec!["refused COUNTER_MISSING"], Some(9)),
        (ErrorCode::RateLimited, json!({ "retry_after_seconds": 1 }), vec![], Some(9)),
        (ErrorCode::SlowConsumer, json!({}), vec!["disconnect", "disconnected"], Some(9)),
    ];
    for (code, details, expected, watermark) in cases {
        let mut client = SessionHarness::established(9);
        assert_eq!(client.push(12), ["> sync y1 after 9"]);
        assert_eq!(client.refuse(Some("y1"), code, details), expected, "{code}");
        assert_eq!(client.session.watermark(chat(1)), watermark.map(Sequence), "{code}");
    }
}

#[test]
fn after_a_reset_messages_continue_after_the_head() {
    let mut client = SessionHarness::established(9);
    client.push(12);
    client.refuse(Some("y1"), ErrorCode::InvalidSequence, json!({ "head_sequence": 3 }));
    assert_eq!(client.push(4), ["message 4"]);
}

#[test]
fn errors_without_a_request_are_reported_except_slow_consumer() {
    let mut client = SessionHarness::established(0);
    assert_eq!(client.refuse(None, ErrorCode::InvalidSequence, json!({})), ["refused INVALID_SEQUENCE"]);
    assert_eq!(client.refuse(None, ErrorCode::SlowConsumer, json!({})), [""; 0]);
}

#[test]
fn extreme_numbers_of_a_server_do_not_overflow() {
    let mut client = SessionHarness::established(0);
    client.push(u64::MAX);
    client.page("y1", &[u64::MAX], Some(u64::MAX), u64::MAX);
    client.page("y2", &[u64::MAX], Some(0), u64::MAX);
    client.send("a").unwrap();
    client.ack_send("s0", u64::MAX);
    client.stored(u64::MAX);
    client.refuse(Some("s0"), ErrorCode::RateLimited, json!({ "retry_after_seconds": u64::MAX }));
    let closing = protocol::frame::ConnectionClosing {
        reason: "server_shutdown".to_owned(),
        message: String::new(),
        reconnect_delay_ms: u64::MAX,
    };
    client.hear(None, ServerFrame::ConnectionClosing(closing));
    client.disconnect(Ended::Refused { status: 503, retry_after: Some(Duration::MAX) });
    assert!(client.wakes_at().is_some());
}

proptest! {
    #[test]
    fn any_texts_are_taken_without_a_panic(texts in proptest::collection::vec(".{0,80}", 0..30)) {
        let mut client = SessionHarness::established(0);
        for text in texts {
            client.session.handle_text(client.now, &text);
            client.outputs();
        }
    }

    #[test]
    fn any_damage_to_a_frame_is_taken_without_a_panic(
        sequence in any::<u64>(),
        at in any::<prop::sample::Index>(),
        with in any::<u8>(),
    ) {
        let mut client = SessionHarness::established(0);
        let page = SyncResponse {
            chat_id: chat(1),
            messages: vec![message(chat(1), sequence)],
            updates: vec![],
            updated_messages: vec![],
            has_more: true,
            next_sequence: Some(Sequence(sequence)),
            head_sequence: Sequence(sequence),
        };
        client.push(2);
        let mut bytes = page.encode(RequestId::new("y1").as_ref()).to_vec();
        let at = at.index(bytes.len());
        bytes[at] = with;
        if let Ok(text) = std::str::from_utf8(&bytes) {
            client.session.handle_text(client.now, text);
            client.outputs();
        }
    }
}
