use proptest::prelude::*;

use super::*;
use crate::frame::Outbound;

const SYNC: &str = r#"{"type":"sync_request","request_id":"r1","payload":{"chat_id":"chat_01ARZ3NDEKTSV4RRFFQ69G5FAV","last_acked_sequence":0}}"#;
const TYPING: &str = r#"{"type":"typing_start","payload":{"chat_id":"chat_01ARZ3NDEKTSV4RRFFQ69G5FAV"}}"#;

struct ConnectionHarness {
    connection: Connection,
    start: Instant,
}

impl ConnectionHarness {
    fn new() -> Self {
        let start = Instant::now();
        let frames = Quota::with_burst(200, Duration::from_secs(1), 1000);
        let expires_at = start + Duration::from_secs(3600);
        Self { connection: Connection::new(Timing::default(), frames, start, expires_at), start }
    }

    fn at(&self, seconds: u64) -> Instant {
        self.start + Duration::from_secs(seconds)
    }

    fn text(&mut self, seconds: u64, text: &str) -> Vec<String> {
        self.connection.handle_text(self.at(seconds), Timestamp::default(), text);
        self.outputs()
    }

    fn timeout(&mut self, seconds: u64) -> Vec<String> {
        self.connection.handle_timeout(self.at(seconds));
        self.outputs()
    }

    /// The outputs in short notation: frame types and error codes, commands, closes.
    fn outputs(&mut self) -> Vec<String> {
        std::iter::from_fn(|| self.connection.poll_output())
            .map(|output| match output {
                Output::Send(bytes) => match Outbound::parse(std::str::from_utf8(&bytes).unwrap()).unwrap().frame {
                    ServerFrame::Error(error) => error.code.to_string(),
                    ServerFrame::ConnectionClosing(closing) => format!("closing {}", closing.reason),
                    ServerFrame::HeartbeatAck(_) => "heartbeat_ack".to_owned(),
                    ServerFrame::Resync(_) => "resync".to_owned(),
                    other => format!("{other:?}"),
                },
                Output::Command(Command::Sync { .. }) => "sync".to_owned(),
                Output::Command(Command::Typing { is_typing, .. }) => format!("typing {is_typing}"),
                Output::Command(command) => format!("{command:?}"),
                Output::CountLimited(kind) => format!("over {}", kind.as_str()),
                Output::Close(reason) => format!("close {}", reason.code()),
            })
            .collect()
    }
}

#[test]
fn fifteen_idle_seconds_close_with_4008_and_any_frame_resets_the_timeout() {
    let mut driver = ConnectionHarness::new();
    assert_eq!(driver.text(10, r#"{"type":"heartbeat"}"#), ["heartbeat_ack"]);
    assert_eq!(driver.timeout(24), [""; 0]);
    assert_eq!(driver.connection.poll_timeout(), driver.at(25));
    assert_eq!(driver.timeout(25), ["closing idle_timeout", "close 4008"]);
    assert_eq!(driver.text(25, SYNC), [""; 0], "a closed connection takes nothing");
}

#[test]
fn a_new_token_moves_the_end_of_the_connection() {
    const REAUTH: &str = r#"{"type":"reauth","request_id":"r1","payload":{"token":"secret"}}"#;
    let mut driver = ConnectionHarness::new();
    assert_eq!(
        driver.text(3590, REAUTH),
        [r#"Reauth { request_id: RequestId("r1"), token: Secret(***) }"#],
        "no output shows the token"
    );
    driver.connection.handle_reauthenticated(driver.at(7000), None);
    assert_eq!(driver.timeout(3600), [""; 0]);
    assert_eq!(driver.text(6995, REAUTH).len(), 1);
    let refused = ErrorBody::new(ErrorCode::Unauthorized, "another user");
    driver.connection.handle_failure(driver.at(6996), RequestId::new("r1").as_ref(), refused);
    assert_eq!(driver.outputs(), ["UNAUTHORIZED"]);
    assert_eq!(driver.timeout(6999), [""; 0]);
    assert_eq!(driver.timeout(7000), ["closing token_expired", "close 4001"]);
}

#[test]
fn ten_invalid_frames_within_a_minute_close_with_1002() {
    let mut driver = ConnectionHarness::new();
    for n in 0..9 {
        assert_eq!(driver.text(n, "{"), ["INVALID_MESSAGE"]);
    }
    assert_eq!(driver.text(9, "{"), ["INVALID_MESSAGE", "closing protocol_error", "close 1002"]);
}

#[test]
fn nine_invalid_frames_a_minute_never_close() {
    let mut driver = ConnectionHarness::new();
    for n in 0..100 {
        assert_eq!(driver.text(n * 7, "{"), ["INVALID_MESSAGE"], "frame {n}");
    }
}

#[test]
fn a_binary_frame_is_an_invalid_message() {
    let mut driver = ConnectionHarness::new();
    driver.connection.handle_binary(driver.start);
    assert_eq!(driver.outputs(), ["INVALID_MESSAGE"]);
}

#[test]
fn g9_a_slow_reader_is_warned_once_then_closed_after_five_seconds() {
    let mut driver = ConnectionHarness::new();
    let told = driver.at(1);
    driver.connection.handle_pressure(told, Pressure::Near);
    driver.connection.handle_pressure(told, Pressure::Near);
    assert_eq!(driver.outputs(), ["SLOW_CONSUMER"]);
    assert_eq!(driver.connection.poll_timeout(), driver.at(6));
    assert_eq!(driver.timeout(6), ["closing slow_consumer", "close 4029"]);
}

#[test]
fn the_warning_of_a_slow_reader_names_the_configured_grace_period() {
    for (slow_grace, words) in [(5000, "closes in 5 s unless"), (1500, "closes in 1.5 s unless")] {
        let timing = Timing { slow_grace: Duration::from_millis(slow_grace), ..Timing::default() };
        let start = Instant::now();
        let mut connection = Connection::new(timing, None, start, start + Duration::from_secs(3600));
        connection.handle_pressure(start, Pressure::Near);
        let Some(Output::Send(warning)) = connection.poll_output() else { panic!("there is no warning") };
        let warning = std::str::from_utf8(&warning).unwrap();
        assert!(warning.contains(words), "{warning}");
    }
}

#[test]
fn g9_a_reader_that_catches_up_stays() {
    let mut driver = ConnectionHarness::new();
    driver.connection.handle_pressure(driver.start, Pressure::Near);
    driver.connection.handle_pressure(driver.at(4), Pressure::Easy);
    driver.connection.handle_missed();
    assert_eq!(driver.outputs(), ["SLOW_CONSUMER", "resync"]);
    assert_eq!(driver.timeout(6), [""; 0]);
}

#[test]
fn an_expired_token_closes_with_4001() {
    let mut driver = ConnectionHarness::new();
    driver.connection.handle_alive(driver.at(3599));
    assert_eq!(driver.timeout(3600), ["closing token_expired", "close 4001"]);
}

#[test]
fn typing_ends_automatically_after_ten_seconds() {
    let mut driver = ConnectionHarness::new();
    assert_eq!(driver.text(0, TYPING), ["typing true"]);
    assert_eq!(driver.connection.poll_timeout(), driver.at(10));
    assert_eq!(driver.timeout(10), ["typing false"]);
    assert_eq!(driver.connection.poll_timeout(), driver.at(15), "once");
}

#[test]
fn typing_stops_with_the_connection_and_once() {
    let mut driver = ConnectionHarness::new();
    assert_eq!(driver.text(0, TYPING), ["typing true"]);
    driver.connection.handle_end();
    assert_eq!(driver.outputs(), ["typing false"]);
    driver.connection.handle_end();
    assert_eq!((driver.outputs(), driver.timeout(10)), (vec![], vec![]));
}

#[test]
fn acks_in_quick_succession_are_coalesced_and_every_refusal_is_answered() {
    let mut driver = ConnectionHarness::new();
    let ack = |n: u64| {
        format!(
            r#"{{"type":"ack","payload":{{"chat_id":"chat_01ARZ3NDEKTSV4RRFFQ69G5FAV","last_acked_sequence":{n}}}}}"#
        )
    };
    let made = |outputs: Vec<Output>| -> Vec<Move> {
        let made = |output| match output {
            Output::Command(Command::Advance(moved)) => moved,
            other => panic!("{other:?}"),
        };
        outputs.into_iter().map(made).collect()
    };
    let take =
        |driver: &mut ConnectionHarness| std::iter::from_fn(|| driver.connection.poll_output()).collect::<Vec<_>>();
    for n in [1, 2, 3, 99] {
        driver.connection.handle_text(driver.start, Timestamp::default(), &ack(n));
    }
    let [first] = made(take(&mut driver))[..] else { panic!("one is made at once") };
    assert_eq!(first.sequence.0, 1);
    driver.connection.handle_advanced(driver.start, &first, Ok(()));
    let due = driver.connection.poll_timeout();
    assert!(due > driver.start && due < driver.at(1), "the next is due in a moment");
    driver.connection.handle_timeout(due);
    let [highest] = made(take(&mut driver))[..] else { panic!("one for all that waited") };
    assert_eq!(highest.sequence.0, 99);
    let refused = ErrorBody::new(ErrorCode::InvalidSequence, "above the head");
    driver.connection.handle_advanced(due, &highest, Err(refused));
    let mut outputs = take(&mut driver);
    assert!(matches!(outputs.remove(0), Output::Send(_)), "the refusal");
    let [next] = made(outputs)[..] else { panic!("those below it are made") };
    assert_eq!(next.sequence.0, 3);
    driver.connection.handle_text(due, Timestamp::default(), &ack(4));
    driver.connection.handle_end();
    let waited = made(take(&mut driver));
    assert_eq!(waited.iter().map(|moved| moved.sequence.0).collect::<Vec<_>>(), [2, 4], "none is lost at the end");
    for moved in [next].iter().chain(&waited) {
        assert!(!driver.connection.drained());
        driver.connection.handle_advanced(due, moved, Ok(()));
    }
    assert!(driver.connection.drained());
}

#[test]
fn no_frame_is_read_while_sixty_four_commands_are_in_flight() {
    let mut driver = ConnectionHarness::new();
    for _ in 0..Connection::COMMANDS_IN_FLIGHT_MAX {
        assert!(driver.connection.wants_frame());
        driver.text(0, SYNC);
    }
    assert!(!driver.connection.wants_frame());
    driver.connection.handle_failure(
        driver.start,
        RequestId::new("r1").as_ref(),
        ErrorBody::new(ErrorCode::ServerBusy, "later"),
    );
    assert!(driver.connection.wants_frame());
}

#[test]
fn g5_commands_in_flight_are_answered_after_the_close() {
    let mut driver = ConnectionHarness::new();
    driver.text(0, SYNC);
    driver.connection.close(CloseReason::ServerShutdown);
    assert_eq!(driver.outputs(), ["closing server_shutdown", "close 1001"]);
    assert!(!driver.connection.drained());
    driver.connection.handle_done(Some(ServerFrame::Resync(Resync { reason: String::new() }).encode(None)));
    assert_eq!(driver.outputs(), ["resync"]);
    assert!(driver.connection.drained());
}

#[test]
fn three_hundred_rate_limit_errors_close_the_connection() {
    let mut driver = ConnectionHarness::new();
    let error = ErrorBody::new(ErrorCode::RateLimited, "slow down");
    for _ in 0..300 {
        driver.text(0, TYPING);
        driver.connection.handle_failure(driver.start, None, error.clone());
    }
    assert_eq!(driver.outputs().split_off(1), ["closing rate_limited", "close 4029"]);
}

#[test]
fn floods_of_answered_frames_are_refused_then_close_the_connection() {
    let too_large = format!(
        r#"{{"type":"send_message","request_id":"r1","payload":{{"client_message_id":"2f1e8a04-6c4b-4a5e-9a57-0f6d3f6e7a10","chat_id":"chat_01ARZ3NDEKTSV4RRFFQ69G5FAV","content":"{}"}}}}"#,
        "x".repeat(4097)
    );
    for (text, answer, kind) in
        [(r#"{"type":"heartbeat"}"#, "heartbeat_ack", "heartbeat"), (&too_large, "MESSAGE_TOO_LARGE", "invalid")]
    {
        let mut driver = ConnectionHarness::new();
        (0..50).for_each(|_| assert_eq!(driver.text(0, text), [answer]));
        let over = format!("over {kind}");
        (0..299).for_each(|_| assert_eq!(driver.text(0, text), [&over, "RATE_LIMITED"]));
        assert_eq!(driver.text(0, text), [&over, "RATE_LIMITED", "closing rate_limited", "close 4029"]);
    }
}

#[test]
fn floods_of_frames_without_an_answer_are_dropped_then_close_the_connection() {
    let unknown: fn(&mut ConnectionHarness) -> Vec<String> = |driver| driver.text(0, r#"{"type":"later"}"#);
    let ping: fn(&mut ConnectionHarness) -> Vec<String> = |driver| {
        driver.connection.handle_alive(driver.start);
        driver.outputs()
    };
    for (flood, kind) in [(unknown, "unknown"), (ping, "ping")] {
        let mut driver = ConnectionHarness::new();
        (0..50).for_each(|_| assert!(!flood(&mut driver).contains(&format!("over {kind}"))));
        (0..299).for_each(|_| assert_eq!(flood(&mut driver), [format!("over {kind}")]));
        assert_eq!(flood(&mut driver), [&*format!("over {kind}"), "closing rate_limited", "close 4029"]);
    }
}

#[test]
fn a_flooded_socket_is_not_read_for_a_moment() {
    let mut driver = ConnectionHarness::new();
    let ack = r#"{"type":"ack","payload":{"chat_id":"chat_01ARZ3NDEKTSV4RRFFQ69G5FAV","last_acked_sequence":1}}"#;
    for _ in 0..500 {
        assert!(driver.connection.wants_frame());
        driver.text(0, ack);
    }
    assert!(!driver.connection.wants_frame(), "the limit of acks");
    let resumed = driver.connection.poll_timeout();
    assert_eq!(resumed, driver.start + Duration::from_millis(20));
    driver.connection.handle_timeout(resumed);
    assert!(driver.connection.wants_frame());
}

#[test]
fn a_stop_without_an_accepted_start_is_ignored() {
    let mut driver = ConnectionHarness::new();
    let stop = TYPING.replace("start", "stop");
    let chat_id = "chat_01ARZ3NDEKTSV4RRFFQ69G5FAV".parse().unwrap();
    assert_eq!(driver.text(0, &stop), [""; 0]);
    assert_eq!(driver.text(0, TYPING), ["typing true"]);
    let refused = ErrorBody::rate_limited("typing", Duration::from_secs(1));
    driver.connection.handle_typing(driver.start, chat_id, Err(refused));
    assert_eq!(driver.outputs(), ["RATE_LIMITED"]);
    assert_eq!(driver.text(0, &stop), [""; 0]);
    assert_eq!(driver.text(1, TYPING), ["typing true"]);
    driver.connection.handle_typing(driver.start, chat_id, Ok(()));
    assert_eq!((driver.text(1, &stop), driver.text(1, &stop)), (vec!["typing false".to_owned()], vec![]));
}

proptest! {
    #[test]
    fn any_sequence_of_texts_ends_in_answers_or_a_close(texts in proptest::collection::vec(".{0,80}", 0..30)) {
        let mut driver = ConnectionHarness::new();
        for text in texts {
            driver.text(0, &text);
        }
    }
}
