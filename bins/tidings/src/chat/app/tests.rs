use std::time::Duration;

use client::{ClientEvent, StopReason};
use crossterm::event::KeyCode;
use domain::{ClientMessageId, Sequence};
use protocol::frame::{MessageBody, MessageExpired, TypingIndicator, UpdateMessage, UpdateName};
use protocol::rest::{ChatSummary, MemberWatermarks, MessageStatus};

use super::effect::{ApiRequest, ApiResult, Effect, ExitReason};
use crate::chat::desk::{
    Desk, ack, ada, bob, club, details, in_state, me, message, now, page, summary, updated, with_ada, with_last,
};

fn mark_read(sequence: u64) -> Effect {
    Effect::MarkRead { chat_id: with_ada(), sequence: Sequence(sequence) }
}

fn sent(effects: &[Effect]) -> Vec<(ClientMessageId, &str)> {
    let sends = effects.iter().filter_map(|effect| match effect {
        Effect::Send { message, .. } => Some((message.client_message_id, message.body.content.as_str())),
        _ => None,
    });
    sends.collect()
}

fn unread(desk: &Desk) -> Vec<u64> {
    desk.app.inbox().iter().map(|chat| chat.summary.unread_count).collect()
}

#[test]
fn an_opened_chat_asks_for_its_members_and_its_newest_page_once() {
    let mut desk = Desk::with_inbox([with_last(with_ada(), 3, 2, "hello")]);
    desk.press(KeyCode::Tab);
    desk.screen();
    desk.screen();
    let asked = [ApiRequest::Chat(with_ada()), ApiRequest::Page { chat_id: with_ada(), before: None }].map(Effect::Ask);
    assert_eq!(desk.effects(), asked);
}

#[test]
fn visible_messages_are_marked_read_only_with_focus() {
    let mut desk = Desk::with_inbox([with_last(with_ada(), 3, 2, "hello")]);
    desk.screen();
    assert_eq!(unread(&desk), [2]);
    desk.press(KeyCode::Tab);
    desk.screen();
    desk.effects();
    let messages = [(1, me(), "hi", None), (2, ada(), "hello", None), (3, ada(), "there", None)];
    desk.answer(ApiResult::Page { chat_id: with_ada(), before: None, page: page(with_ada(), &messages) });
    desk.screen();
    assert_eq!((desk.effects(), unread(&desk)), (vec![mark_read(3)], vec![0]));

    desk.app.handle_focus(false);
    desk.hear(ClientEvent::Message(message(with_ada(), 4, ada(), "are you there?")));
    desk.screen();
    assert_eq!((desk.effects(), unread(&desk)), (vec![Effect::Ring], vec![1]));
    desk.app.handle_focus(true);
    desk.screen();
    assert_eq!((desk.effects(), unread(&desk)), (vec![mark_read(4)], vec![0]));
}

#[test]
fn each_new_message_of_others_counts_once_as_unread() {
    let mut desk = Desk::with_inbox([with_last(with_ada(), 3, 2, "hello")]);
    for sequence in [2, 3, 4] {
        desk.hear(ClientEvent::Message(message(with_ada(), sequence, ada(), "caught up")));
    }
    desk.hear(ClientEvent::Message(message(with_ada(), 5, me(), "from my phone")));
    assert_eq!(unread(&desk), [3], "two were counted by the server, one is new, one is mine");
}

#[test]
fn a_summary_older_than_received_messages_is_requested_again() {
    let mut desk = Desk::with_inbox([with_last(with_ada(), 3, 0, "hello")]);
    desk.hear(ClientEvent::Message(message(with_ada(), 4, ada(), "new")));
    desk.effects();
    desk.answer(ApiResult::Inbox(vec![with_last(with_ada(), 3, 0, "hello")]));
    assert_eq!(unread(&desk), [1]);
    assert!(desk.effects().contains(&Effect::Ask(ApiRequest::Chat(with_ada()))));
    desk.answer(ApiResult::Chat { details: details(with_last(with_ada(), 4, 1, "new")), watermarks: vec![] });
    assert_eq!(unread(&desk), [1]);
}

#[test]
fn messages_read_on_another_device_are_read_here_too() {
    let mut desk = Desk::with_inbox([with_last(with_ada(), 3, 2, "hello")]);
    desk.receipt(me(), 3, 2);
    assert_eq!(desk.effects(), [Effect::Ask(ApiRequest::Chat(with_ada()))], "how much is left the server knows");
    desk.receipt(me(), 3, 3);
    assert_eq!((unread(&desk), desk.effects()), (vec![0], vec![]));
}

#[test]
fn a_line_is_sent_once_and_shown_until_its_sequence_is_known() {
    let mut desk = Desk::in_chat(&[(1, ada(), "hello", None)]);
    desk.enter("  good morning ");
    let effects = desk.effects();
    let [(client_message_id, "good morning")] = sent(&effects)[..] else { panic!("{effects:?}") };
    assert!(desk.screen().contains("good morning  … queued"));
    desk.app.handle_sent(now(), with_ada(), client_message_id, Ok(ack(with_ada(), client_message_id, 2)));
    let own =
        MessageBody { client_message_id: Some(client_message_id), ..message(with_ada(), 2, me(), "good morning") };
    desk.hear(ClientEvent::Message(own));
    let screen = desk.screen();
    assert!(screen.contains("good morning  ✓ sent"), "{screen}");
    assert_eq!(screen.matches("You        good morning").count(), 1, "{screen}");
}

#[test]
fn a_refused_line_says_why_and_can_be_called_back() {
    let mut desk = Desk::in_chat(&[(1, ada(), "hello", None)]);
    desk.enter("no");
    let effects = desk.effects();
    let (client_message_id, _) = sent(&effects)[0];
    desk.app.handle_sent(now(), with_ada(), client_message_id, Err("you are not a member".to_owned()));
    assert!(desk.screen().contains("✗ not sent: you are not a member"));
    desk.press(KeyCode::Up);
    assert_eq!(desk.app.line.text(), "no");
}

/// The only update among the effects.
fn requested(desk: &mut Desk) -> UpdateMessage {
    let effects = desk.effects();
    let mut updates = effects.iter().filter_map(|effect| match effect {
        Effect::Update { update, .. } => Some(update.clone()),
        _ => None,
    });
    match (updates.next(), updates.next()) {
        (Some(update), None) => update,
        _ => panic!("{effects:?}"),
    }
}

#[test]
fn an_edit_is_shown_at_once_and_stays_when_its_event_comes() {
    let mut desk = Desk::in_chat(&[(1, me(), "frist", None), (2, ada(), "hello", None)]);
    desk.enter("/edit first");
    let update = requested(&mut desk);
    assert_eq!((update.chat_id, update.target), (with_ada(), Sequence(1)));
    assert!(desk.screen().contains("first  edited ✓ sent … queued"), "{}", desk.screen());
    let id = update.client_message_id;
    desk.app.handle_updated(now(), with_ada(), id, Ok(ack(with_ada(), id, 3)));
    assert!(desk.screen().contains("… queued"), "its event brings the state of the server");
    let edited = in_state(message(with_ada(), 1, me(), "first"), 3, 1, &[]);
    desk.hear(updated(1, UpdateName::Edited, me(), Some(id), Some(edited)));
    let screen = desk.screen();
    assert!(screen.contains("first  edited ✓ sent\n") && !screen.contains("frist"), "{screen}");
}

#[test]
fn a_refused_update_is_undone_and_says_why() {
    let mut desk = Desk::in_chat(&[(1, me(), "stays", None), (2, ada(), "hello", None)]);
    desk.enter("/delete");
    let update = requested(&mut desk);
    assert!(!desk.screen().contains("stays"));
    let why = "the message is older than 60 seconds, the limit for this change";
    desk.app.handle_updated(now(), with_ada(), update.client_message_id, Err(why.to_owned()));
    let screen = desk.screen();
    assert!(screen.contains("You        stays  ✓ sent"), "{screen}");
    assert!(screen.contains("not changed: the message is older"), "{screen}");
}

#[test]
fn a_repeated_update_waits_for_no_event() {
    let mut desk = Desk::in_chat(&[(1, ada(), "hello", None)]);
    desk.enter("/react ok");
    let id = requested(&mut desk).client_message_id;
    assert!(desk.screen().contains("hello  ok 1* … queued"), "{}", desk.screen());
    let again = protocol::frame::SendMessageAck { deduplicated: true, ..ack(with_ada(), id, 2) };
    desk.app.handle_updated(now(), with_ada(), id, Ok(again));
    assert!(!desk.screen().contains("… queued"));
}

#[test]
fn updates_of_others_change_the_message_and_its_preview() {
    let mut desk = Desk::in_chat(&[(1, ada(), "hello", None)]);
    desk.hear(ClientEvent::Message(message(with_ada(), 2, ada(), "secnd")));
    let second = |revision, content| in_state(message(with_ada(), 2, ada(), content), revision, 1, &[("👍", 2, None)]);
    desk.hear(updated(2, UpdateName::Edited, ada(), None, Some(second(3, "second"))));
    let screen = desk.screen();
    assert!(screen.contains("second  edited 👍 2\n") && !screen.contains("secnd"), "{screen}");
    assert!(screen.lines().any(|line| line.starts_with("|▌  second")), "the preview: {screen}");
    desk.hear(updated(2, UpdateName::Deleted, ada(), None, None));
    let screen = desk.screen();
    assert!(!screen.contains("second") && screen.contains("hello"), "{screen}");
}

#[test]
fn an_update_of_no_message_is_not_sent() {
    let mut desk = Desk::in_chat(&[(1, ada(), "hello", None)]);
    for line in ["/delete", "/edit -2 x", "/unreact ok"] {
        desk.enter(line);
        assert_eq!(desk.effects(), [], "{line}");
        assert!(desk.screen().contains("no loaded message suits that"), "{line}");
    }
}

#[test]
fn a_message_of_an_earlier_run_is_shown_as_soon_as_its_chat_is_known() {
    let mut desk = Desk::in_chat(&[]);
    desk.enter("before");
    let effects = desk.effects();
    let Some(Effect::Send { message, written_at }) = effects.into_iter().find(|e| matches!(e, Effect::Send { .. }))
    else {
        panic!("it is sent")
    };
    let mut again = Desk::new();
    again.app.restore(message, written_at);
    again.answer(ApiResult::Inbox(vec![summary(with_ada())]));
    again.control('n');
    assert!(again.screen().contains("before  … queued"));
}

#[test]
fn delivery_states_follow_the_watermarks_of_other_members() {
    let mut desk = Desk::in_chat(&[(1, me(), "one", Some(MessageStatus::Sent)), (2, me(), "two", None)]);
    for (delivered, read, one, two) in [
        (0, 0, "one\n", "two  ✓ sent"),
        (1, 0, "one  ✓✓ delivered", "two  ✓ sent"),
        (2, 1, "one  ✓✓ read", "two  ✓✓ delivered"),
    ] {
        desk.receipt(ada(), delivered, read);
        let screen = desk.screen();
        assert!(screen.contains(one) && screen.contains(two), "{one} {two}\n{screen}");
    }

    let mut desk = Desk::with_inbox([with_last(club(), 1, 0, "hello")]);
    desk.control('n');
    desk.screen();
    let of_ada = MemberWatermarks {
        user_id: ada(),
        delivered_sequence: Sequence(1),
        delivered_at: None,
        read_sequence: Sequence(1),
        read_at: None,
    };
    desk.answer(ApiResult::Chat { details: details(with_last(club(), 1, 0, "hello")), watermarks: vec![of_ada] });
    let page = page(club(), &[(1, me(), "hello", Some(MessageStatus::Sent))]);
    desk.answer(ApiResult::Page { chat_id: club(), before: None, page });
    assert!(desk.screen().contains("hello  ✓ sent"), "Bob has not got it");
    let receipt = protocol::frame::ReceiptBody {
        chat_id: club(),
        user_id: bob(),
        delivered_sequence: Sequence(1),
        read_sequence: Sequence(0),
    };
    desk.hear(ClientEvent::Receipt(receipt));
    assert!(desk.screen().contains("hello  ✓✓ delivered"));
}

#[test]
fn typing_is_announced_at_intervals_and_ends_with_an_empty_line() {
    let mut desk = Desk::in_chat(&[]);
    let typing = |is_typing| Effect::Typing { chat_id: with_ada(), is_typing };
    desk.press(KeyCode::Char('h'));
    desk.press(KeyCode::Char('i'));
    assert_eq!(desk.effects(), [typing(true)]);
    desk.now = desk.now + Duration::from_secs(4);
    desk.press(KeyCode::Char('!'));
    assert_eq!(desk.effects(), [typing(true)]);
    desk.control('u');
    assert_eq!(desk.effects(), [typing(false)]);
    desk.press(KeyCode::Char('/'));
    assert_eq!(desk.effects(), [], "a command is not announced");
}

#[test]
fn a_typing_indicator_lasts_ten_seconds_at_most() {
    let mut desk = Desk::in_chat(&[]);
    let typing = TypingIndicator { chat_id: with_ada(), user_id: ada(), is_typing: true };
    desk.hear(ClientEvent::Typing(typing.clone()));
    assert!(desk.screen().contains("Ada is typing…"));
    assert_eq!(desk.app.poll_timeout(desk.now), Some(desk.now + Duration::from_secs(10)));
    desk.pass(Duration::from_secs(10));
    assert!(!desk.screen().contains("typing"));
    desk.hear(ClientEvent::Typing(typing));
    desk.hear(ClientEvent::Message(message(with_ada(), 1, ada(), "done")));
    assert!(!desk.screen().contains("typing"));
}

#[test]
fn scrolling_up_loads_pages_and_new_messages_do_not_move_the_view() {
    let words: Vec<String> = (1..=60).map(|n| format!("message {n}")).collect();
    let messages: Vec<_> = (11..=60).map(|n| (n, ada(), words[n as usize - 1].as_str(), None)).collect();
    let mut desk = Desk::in_chat(&messages);
    desk.screen();
    assert_eq!(desk.effects(), []);
    for _ in 0..10 {
        desk.press(KeyCode::PageUp);
        desk.screen();
    }
    let before = Some(Sequence(11));
    assert_eq!(desk.effects(), [Effect::Ask(ApiRequest::Page { chat_id: with_ada(), before })]);
    let older: Vec<_> = (1..=10).map(|n| (n, ada(), words[n as usize - 1].as_str(), None)).collect();
    desk.answer(ApiResult::Page { chat_id: with_ada(), before, page: page(with_ada(), &older) });
    desk.press(KeyCode::PageUp);
    let screen = desk.screen();
    assert!(screen.contains("the beginning of the chat") && screen.contains("message 1\n"), "{screen}");
    let messages = |screen: &str| screen.lines().skip(2).take(18).map(str::to_owned).collect::<Vec<_>>();
    desk.hear(ClientEvent::Message(message(with_ada(), 61, ada(), "message 61\nof two lines")));
    let after = desk.screen();
    assert_eq!(messages(&after), messages(&screen), "{after}");
    assert!(after.contains("↓ 1 new below"));
    assert_eq!(desk.effects(), [], "it is not read before it is seen");
    desk.press(KeyCode::Esc);
    assert!(desk.screen().contains("message 61"));
    assert_eq!(desk.effects(), [mark_read(61)]);
}

#[test]
fn a_page_that_does_not_come_is_asked_for_again_after_a_pause() {
    let mut desk = Desk::with_inbox([with_last(with_ada(), 3, 0, "hello")]);
    desk.control('n');
    desk.screen();
    desk.effects();
    let request = ApiRequest::Page { chat_id: with_ada(), before: None };
    desk.answer(ApiResult::Failed { request: request.clone(), why: "the server does not answer".into() });
    desk.screen();
    assert_eq!(desk.effects(), []);
    desk.pass(Duration::from_secs(2));
    desk.screen();
    assert_eq!(desk.effects(), [Effect::Ask(request)]);
}

#[test]
fn messages_vanish_at_their_expiry_and_on_an_expiry_event() {
    let mut desk = Desk::in_chat(&[(1, ada(), "stays", None), (2, ada(), "goes", None)]);
    let brief =
        MessageBody { expires_at: Some(now() + Duration::from_secs(30)), ..message(with_ada(), 3, ada(), "brief") };
    desk.hear(ClientEvent::Message(brief));
    assert!(desk.screen().contains("brief  [30s]"));
    assert_eq!(desk.app.poll_timeout(desk.now), Some(desk.now + Duration::from_secs(1)), "the countdown is seen");
    desk.pass(Duration::from_secs(30));
    assert!(!desk.screen().contains("brief"));
    desk.hear(ClientEvent::Expired(MessageExpired { chat_id: with_ada(), sequences: vec![Sequence(2)] }));
    let screen = desk.screen();
    assert!(screen.contains("stays") && !screen.contains("goes"), "{screen}");
}

#[test]
fn ones_own_message_vanishes_with_the_time_of_its_chat() {
    let summary = ChatSummary { message_ttl_seconds: Some(60), ..summary(with_ada()) };
    let mut desk = Desk::with_inbox([summary]);
    desk.control('n');
    desk.screen();
    desk.answer(ApiResult::Page { chat_id: with_ada(), before: None, page: page(with_ada(), &[]) });
    desk.hear(ClientEvent::Message(message(with_ada(), 1, me(), "mine")));
    assert!(desk.screen().contains("mine  [1m] ✓ sent"));
    desk.pass(Duration::from_secs(60));
    assert!(!desk.screen().contains("mine"));
}

#[test]
fn drafts_stay_with_their_chats() {
    let mut desk = Desk::with_inbox([with_last(with_ada(), 3, 0, "hello"), summary(club())]);
    desk.control('n');
    for character in "to be continued".chars() {
        desk.press(KeyCode::Char(character));
    }
    desk.control('n');
    assert_eq!((desk.app.open, desk.app.line.text()), (Some(club()), ""));
    assert!(desk.screen().contains("draft: to be contin"));
    desk.control('p');
    assert_eq!((desk.app.open, desk.app.line.text()), (Some(with_ada()), "to be continued"));
}

#[test]
fn commands_ask_the_server_and_their_answers_show() {
    let mut desk = Desk::in_chat(&[]);
    desk.enter("/new +14155550102");
    assert_eq!(desk.effects(), [Effect::Ask(ApiRequest::New { phone_number: "+14155550102".into() })]);
    desk.answer(ApiResult::Made(details(summary(club()))));
    assert_eq!(desk.app.open, Some(club()));
    desk.effects();
    desk.enter("/leave");
    assert_eq!(desk.effects(), [Effect::Ask(ApiRequest::Leave(club()))]);
    desk.answer(ApiResult::Left(club()));
    assert_eq!((desk.app.open, desk.app.inbox().len()), (None, 1));
    desk.enter("/mute");
    assert!(desk.screen().contains("no chat is open"));
    desk.enter("/nonsense");
    assert!(desk.screen().contains("`/nonsense` is no command"));
    assert_eq!(desk.app.line.text(), "/nonsense", "what was refused can be mended");
}

#[test]
fn a_deleted_chat_is_closed() {
    let mut desk = Desk::in_chat(&[]);
    desk.hear(ClientEvent::ChatGone { chat_id: with_ada() });
    assert!(desk.screen().contains("No chat is open."));
}

#[test]
fn it_ends_when_the_person_or_the_session_does() {
    for (event, ended) in [
        (StopReason::SignedOut, ExitReason::SignedOut),
        (StopReason::DuplicateConnection, ExitReason::TakenOver),
        (StopReason::Closed, ExitReason::Quit),
    ] {
        let mut desk = Desk::new();
        desk.hear(ClientEvent::Stopped(event));
        desk.app.quit();
        assert_eq!(desk.app.ended(), Some(ended));
    }
    let mut desk = Desk::new();
    desk.control('c');
    assert_eq!(desk.app.ended(), Some(ExitReason::Quit));
    let mut desk = Desk::new();
    desk.enter("/quit");
    assert_eq!(desk.app.ended(), Some(ExitReason::Quit));
}

#[test]
fn a_chat_is_loaded_again_after_its_head_went_back() {
    let mut desk = Desk::in_chat(&[(1, ada(), "old", None), (2, ada(), "lost", None)]);
    desk.hear(ClientEvent::WatermarkReset { chat_id: with_ada(), head_sequence: Sequence(1) });
    assert_eq!(desk.effects(), [Effect::Ask(ApiRequest::Chat(with_ada()))]);
    desk.answer(ApiResult::Chat { details: details(with_last(with_ada(), 1, 0, "old")), watermarks: vec![] });
    desk.screen();
    assert_eq!(desk.effects(), [Effect::Ask(ApiRequest::Page { chat_id: with_ada(), before: None })]);
}
