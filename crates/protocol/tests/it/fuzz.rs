//! Parsers of frames and events against almost valid input.

use std::time::{Duration, Instant};

use domain::{ChatId, Sequence, Timestamp};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use protocol::client::{ClientSession, SendBounds};
use protocol::event::EventEnvelope;
use protocol::frame::{ClientFrame, Inbound, Outbound};
use protocol::{Connection, Output, Timing};

/// One frame of each client type.
const OF_CLIENT: &[&str] = &[
    r#"{"type":"send_message","request_id":"r1","payload":{"client_message_id":"2f1e8a04-6c4b-4a5e-9a57-0f6d3f6e7a10","chat_id":"chat_01ARZ3NDEKTSV4RRFFQ69G5FAV","content":"Grüße \"du\" \\ 😀","content_type":"text/markdown","ttl_seconds":60}}"#,
    r#"{"type":"ack","payload":{"chat_id":"chat_01ARZ3NDEKTSV4RRFFQ69G5FAV","last_acked_sequence":7}}"#,
    r#"{"type":"mark_read","payload":{"chat_id":"chat_01ARZ3NDEKTSV4RRFFQ69G5FAV","last_read_sequence":18446744073709551615}}"#,
    r#"{"type":"sync_request","request_id":"r2","payload":{"chat_id":"chat_01ARZ3NDEKTSV4RRFFQ69G5FAV","last_acked_sequence":3,"limit":500}}"#,
    r#"{"type":"typing_start","payload":{"chat_id":"chat_01ARZ3NDEKTSV4RRFFQ69G5FAV"}}"#,
    r#"{"type":"presence_subscribe","request_id":"r3","payload":{"user_ids":["user_01ARZ3NDEKTSV4RRFFQ69G5FAV","user_02081040G2081040G2081040G2"]}}"#,
    r#"{"type":"reauth","request_id":"r1","payload":{"token":"eyJhbGciOiJFUzI1NiJ9.e30.c2ln"}}"#,
    r#"{"type":"presence_unsubscribe","payload":{"user_ids":["user_01ARZ3NDEKTSV4RRFFQ69G5FAV"]}}"#,
    r#"{"type":"heartbeat"}"#,
];

/// One frame of each server type.
const OF_SERVER: &[&str] = &[
    r#"{"type":"connection_established","payload":{"connection_id":"conn_01ARZ3NDEKTSV4RRFFQ69G5FAV","user_id":"user_01ARZ3NDEKTSV4RRFFQ69G5FAV","device_id":"2f1e8a04-6c4b-4a5e-9a57-0f6d3f6e7a10","server_time":"2026-01-30T14:30:00.000Z","heartbeat_interval_ms":5000,"protocol_version":1}}"#,
    r#"{"type":"send_message_ack","request_id":"s0","payload":{"client_message_id":"2f1e8a04-6c4b-4a5e-9a57-0f6d3f6e7a10","message_id":"msg_01ARZ3NDEKTSV4RRFFQ69G5FAV","chat_id":"chat_01ARZ3NDEKTSV4RRFFQ69G5FAV","sequence":4,"created_at":"2026-01-30T14:30:00.000Z","deduplicated":false}}"#,
    r#"{"type":"message","payload":{"message_id":"msg_01ARZ3NDEKTSV4RRFFQ69G5FAV","chat_id":"chat_01ARZ3NDEKTSV4RRFFQ69G5FAV","sequence":5,"sender_id":"user_01ARZ3NDEKTSV4RRFFQ69G5FAV","content":"hello","content_type":"text/plain","created_at":"2026-01-30T14:30:00.000Z","expires_at":"2026-01-30T14:31:00.000Z"}}"#,
    r#"{"type":"sync_response","request_id":"y0","payload":{"chat_id":"chat_01ARZ3NDEKTSV4RRFFQ69G5FAV","messages":[{"message_id":"msg_01ARZ3NDEKTSV4RRFFQ69G5FAV","chat_id":"chat_01ARZ3NDEKTSV4RRFFQ69G5FAV","sequence":1,"sender_id":"user_01ARZ3NDEKTSV4RRFFQ69G5FAV","content":"hello","content_type":"text/plain","created_at":"2026-01-30T14:30:00.000Z"}],"has_more":true,"next_sequence":2,"head_sequence":5}}"#,
    r#"{"type":"receipt","payload":{"chat_id":"chat_01ARZ3NDEKTSV4RRFFQ69G5FAV","user_id":"user_01ARZ3NDEKTSV4RRFFQ69G5FAV","delivered_sequence":3,"read_sequence":2}}"#,
    r#"{"type":"message_expired","payload":{"chat_id":"chat_01ARZ3NDEKTSV4RRFFQ69G5FAV","sequences":[1,2]}}"#,
    r#"{"type":"chat_updated","payload":{"chat_id":"chat_01ARZ3NDEKTSV4RRFFQ69G5FAV","change":"member_added","user_id":"user_01ARZ3NDEKTSV4RRFFQ69G5FAV"}}"#,
    r#"{"type":"typing_indicator","payload":{"chat_id":"chat_01ARZ3NDEKTSV4RRFFQ69G5FAV","user_id":"user_01ARZ3NDEKTSV4RRFFQ69G5FAV","is_typing":true}}"#,
    r#"{"type":"presence_snapshot","request_id":"p0","payload":{"presences":[{"user_id":"user_01ARZ3NDEKTSV4RRFFQ69G5FAV","status":"offline","last_seen":"2026-01-30T14:30:00.000Z"}]}}"#,
    r#"{"type":"resync","payload":{"reason":"overflow"}}"#,
    r#"{"type":"heartbeat_ack","payload":{"server_time":"2026-01-30T14:30:00.000Z"}}"#,
    r#"{"type":"error","request_id":"s0","payload":{"code":"RATE_LIMITED","message":"slow down","details":{"retry_after_seconds":3}}}"#,
    r#"{"type":"connection_closing","payload":{"reason":"server_shutdown","message":"the server is going away","reconnect_delay_ms":1000}}"#,
];

/// One event of each type.
const OF_LOG: &[&str] = &[
    r#"{"event_type":"MessagePersisted","event_id":"evt_050M2GA1850M2GA1850M2GA185","event_time":"2026-01-30T14:30:00.007Z","event_version":1,"partition_key":"chat_02081040G2081040G2081040G2","payload":{"message_id":"msg_01040G2081040G2081040G2081","chat_id":"chat_02081040G2081040G2081040G2","sequence":47,"sender_id":"user_030C1G60R30C1G60R30C1G60R3","content":"Hello, \"world\"!","content_type":"text/plain","created_at":"2026-01-30T14:30:00.000Z","client_message_id":"04040404-0404-0404-0404-040404040404","expires_at":"2026-01-30T14:31:00.000Z","origin_connection_id":"conn_060R30C1G60R30C1G60R30C1G6"},"position":12}"#,
    r#"{"event_type":"MembershipChanged","event_id":"evt_050M2GA1850M2GA1850M2GA185","event_time":"2026-01-30T14:30:00.007Z","event_version":1,"partition_key":"chat_02081040G2081040G2081040G2","payload":{"chat_id":"chat_02081040G2081040G2081040G2","user_id":"user_030C1G60R30C1G60R30C1G60R3","change_type":"added","role":"admin","changed_by":"user_070W3GE1R70W3GE1R70W3GE1R7"}}"#,
    r#"{"event_type":"ChatCreated","event_id":"evt_050M2GA1850M2GA1850M2GA185","event_time":"2026-01-30T14:30:00.007Z","event_version":1,"partition_key":"chat_02081040G2081040G2081040G2","payload":{"chat_id":"chat_02081040G2081040G2081040G2","chat_type":"group","name":"Project Team","created_by":"user_030C1G60R30C1G60R30C1G60R3","initial_members":["user_030C1G60R30C1G60R30C1G60R3","user_070W3GE1R70W3GE1R70W3GE1R7"]}}"#,
    r#"{"event_type":"ChatRenamed","event_id":"evt_050M2GA1850M2GA1850M2GA185","event_time":"2026-01-30T14:30:00.007Z","event_version":1,"partition_key":"chat_02081040G2081040G2081040G2","payload":{"chat_id":"chat_02081040G2081040G2081040G2","name":"Team","changed_by":"user_030C1G60R30C1G60R30C1G60R3"}}"#,
    r#"{"event_type":"MessageTtlChanged","event_id":"evt_050M2GA1850M2GA1850M2GA185","event_time":"2026-01-30T14:30:00.007Z","event_version":1,"partition_key":"chat_02081040G2081040G2081040G2","payload":{"chat_id":"chat_02081040G2081040G2081040G2","message_ttl_seconds":3600,"changed_by":"user_030C1G60R30C1G60R30C1G60R3"}}"#,
    r#"{"event_type":"MessagesExpired","event_id":"evt_050M2GA1850M2GA1850M2GA185","event_time":"2026-01-30T14:30:00.007Z","event_version":1,"partition_key":"chat_02081040G2081040G2081040G2","payload":{"chat_id":"chat_02081040G2081040G2081040G2","sequences":[3,4]}}"#,
];

fn frames(valid: &'static [&'static str]) -> impl Strategy<Value = String> {
    damage::text(select(valid).prop_map(str::to_owned))
}

proptest! {
    #[test]
    fn a_damaged_client_frame_is_refused_or_round_trips(text in frames(OF_CLIENT)) {
        match Inbound::parse(&text) {
            // `Unknown` stands for frames of later versions and has no encoding of its own.
            Ok(Inbound { frame: ClientFrame::Unknown, .. }) => {}
            Ok(inbound) => prop_assert_eq!(Inbound::parse(&inbound.encode()).unwrap(), inbound),
            Err(refused) => prop_assert!(refused.error.code.http_status() < 500, "{:?}", refused),
        }
    }

    #[test]
    fn a_damaged_server_frame_is_refused_or_round_trips(text in frames(OF_SERVER)) {
        if let Ok(outbound) = Outbound::parse(&text) {
            let again = outbound.frame.encode(outbound.request_id.as_ref());
            prop_assert_eq!(Outbound::parse(std::str::from_utf8(&again).unwrap()).unwrap(), outbound);
        }
    }

    #[test]
    fn a_connection_answers_any_frames_with_readable_frames(
        texts in vec(prop_oneof![1 => select(OF_CLIENT).prop_map(str::to_owned), 3 => frames(OF_CLIENT)], 1..20),
    ) {
        let start = Instant::now();
        let mut connection = Connection::new(Timing::default(), None, start, start + Duration::from_secs(3600));
        for text in texts {
            connection.handle_text(start, Timestamp::default(), &text);
            while let Some(output) = connection.poll_output() {
                if let Output::Send(frame) = output {
                    Outbound::parse(std::str::from_utf8(&frame).unwrap()).unwrap();
                }
            }
        }
    }

    #[test]
    fn a_client_survives_any_frames_and_sends_only_readable_ones(
        texts in vec(prop_oneof![1 => select(OF_SERVER).prop_map(str::to_owned), 3 => frames(OF_SERVER)], 1..20),
    ) {
        let start = Instant::now();
        let mut session = ClientSession::new(start, SendBounds::default(), 7);
        let chat_id: ChatId = "chat_01ARZ3NDEKTSV4RRFFQ69G5FAV".parse().unwrap();
        session.track(start, chat_id, Sequence::ZERO);
        session.handle_connected(start);
        session.handle_text(start, OF_SERVER[0]);
        for text in texts {
            session.handle_text(start, &text);
            while let Some(output) = session.poll_output() {
                if let protocol::client::Output::Transmit(frame) = output {
                    Inbound::parse(&frame).unwrap();
                }
            }
        }
    }

    #[test]
    fn a_damaged_event_is_refused_or_round_trips(
        bytes in damage::bytes(select(OF_LOG).prop_map(|text| text.as_bytes().to_vec())),
    ) {
        if let Ok(envelope) = EventEnvelope::parse(&bytes) {
            prop_assert_eq!(EventEnvelope::parse(&envelope.encode()).unwrap(), envelope);
        }
    }
}

/// Guards the properties above: they need valid samples to damage.
#[test]
fn every_sample_is_valid() {
    for text in OF_CLIENT {
        Inbound::parse(text).unwrap_or_else(|refused| panic!("{text}: {refused:?}"));
    }
    for text in OF_SERVER {
        Outbound::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    }
    for text in OF_LOG {
        EventEnvelope::parse(text.as_bytes()).unwrap_or_else(|error| panic!("{text}: {error:?}"));
    }
}
