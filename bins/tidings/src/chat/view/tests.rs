use std::time::Duration;

use client::ClientEvent;
use crossterm::event::{KeyCode, KeyEvent};
use domain::Timestamp;
use expect_test::{Expect, expect};
use protocol::frame::{Presence, PresenceStatus, TypingIndicator, UpdateName};
use protocol::rest::{ChatSummary, MessageStatus};
use ratatui::Terminal;
use ratatui::backend::TestBackend;

use super::Theme;
use crate::chat::app::effect::ApiResult;
use crate::chat::app::sign_in::{SignIn, SignInAnswer};
use crate::chat::desk::{
    Desk, ada, club, details, in_state, me, message, now, page, text_of, updated, with_ada, with_last,
};

#[track_caller]
fn check(desk: &mut Desk, expected: Expect) {
    expected.assert_eq(&desk.screen());
}

fn online(desk: &mut Desk) {
    let presence = Presence { user_id: ada(), status: PresenceStatus::Online, last_seen: None };
    desk.hear(ClientEvent::Presence(vec![presence]));
}

#[test]
fn a_first_run_shows_the_way() {
    check(
        &mut Desk::new(),
        expect![[r#"
            | no chats yet            │
            |                         │
            |                         │
            |                         │  No chat is open.
            |                         │
            |                         │  Ctrl-N opens the first one, Tab the next unread one,
            |                         │  Ctrl-K finds one by its name.
            |                         │  /new +PHONE begins one, /help knows the rest.
            |                         │
            |                         │
            |                         │
            |                         │
            |                         │
            |                         │
            |                         │
            |                         │
            |                         │
            |                         │
            |                         │
            |                         │
            |                         │
            |                         │──────────────────────────────────────────────────────
            |                         │ ›
            | ● connected  Grace · F1 help
        "#]],
    );
}

#[test]
fn a_chat_shows_days_states_countdowns_and_typing_members() {
    let mut desk = Desk::with_inbox([
        with_last(club(), 40, 12, "Chapter three by Friday, and nobody has said a word about the ending"),
        ChatSummary { message_ttl_seconds: Some(3600), ..with_last(with_ada(), 4, 1, "Lunch?") },
    ]);
    online(&mut desk);
    desk.control('n');
    desk.control('n');
    desk.screen();
    let mut history = page(
        with_ada(),
        &[
            (1, ada(), "Hello, Grace", None),
            (
                2,
                me(),
                "Hello! This one is long enough to need a second row, or even a third.",
                Some(MessageStatus::Read),
            ),
            (3, me(), "And this one?", Some(MessageStatus::Delivered)),
            (4, ada(), "Lunch?\nI could come\tto you \u{1b}[31m", None),
        ],
    );
    for (n, message) in history.messages.iter_mut().rev().enumerate() {
        message.message.created_at = if n < 2 { now().minus(Duration::from_secs(86_400 * 2)) } else { now() };
        message.message.expires_at = (n == 3).then_some(now() + Duration::from_secs(90));
    }
    desk.answer(ApiResult::Page { chat_id: with_ada(), before: None, page: history });
    let typing = TypingIndicator { chat_id: with_ada(), user_id: ada(), is_typing: true };
    desk.hear(ClientEvent::Typing(typing));
    desk.enter("Twelve?");
    for character in "one more".chars() {
        desk.press(KeyCode::Char(character));
    }
    check(
        &mut desk,
        expect![[r#"
            | # Book club          12 │ Ada · online · messages vanish after 1h
            |   Chapter three by Fri… │──────────────────────────────────────────────────────
            |▌● Ada                 1 │
            |▌  Lunch?                │
            |                         │
            |                         │
            |                         │
            |                         │
            |                         │ ──────────── the beginning of the chat ─────────────
            |                         │ ──────────── Wednesday, 28 January 2026 ────────────
            |                         │ 14:30 Ada        Hello, Grace
            |                         │ 14:30 You        Hello! This one is long enough to
            |                         │                  need a second row, or even a third.
            |                         │                  ✓✓ read
            |                         │ ────────────────────── Today ───────────────────────
            |                         │ 14:30 You        And this one?  ✓✓ delivered
            |                         │ ─────────────────────── new ────────────────────────
            |                         │ 14:30 Ada        Lunch?
            |                         │                  I could come    to you �[31m  [1m]
            |                         │ 14:30 You        Twelve?  … queued
            |                         │ Ada is typing…
            |                         │──────────────────────────────────────────────────────
            |                         │ › one more
            | ● connected  Grace · F1 help
        "#]],
    );
}

#[test]
fn a_lost_connection_is_counted_down_to_its_next_try() {
    let mut desk = Desk::in_chat(&[(1, ada(), "hello", None)]);
    desk.hear(ClientEvent::Disconnected { retry_in: Duration::from_secs(4) });
    desk.pass(Duration::from_secs(1));
    desk.enter("kept");
    check(
        &mut desk,
        expect![[r#"
            |▌  Ada                   │ Ada
            |▌  no messages           │──────────────────────────────────────────────────────
            |                         │
            |                         │
            |                         │
            |                         │
            |                         │
            |                         │
            |                         │
            |                         │
            |                         │
            |                         │
            |                         │
            |                         │
            |                         │
            |                         │
            |                         │ ──────────── the beginning of the chat ─────────────
            |                         │ ────────────────────── Today ───────────────────────
            |                         │ 14:30 Ada        hello
            |                         │ 14:30 You        kept  … queued
            |                         │
            |                         │──────────────────────────────────────────────────────
            |                         │ ›
            | ○ offline, next try in 3s; what you write is sent then  Grace · F1 help
        "#]],
    );
}

#[test]
fn the_finder_lists_chats_that_match_the_letters() {
    let mut desk = Desk::with_inbox([with_last(club(), 4, 0, "x"), with_last(with_ada(), 4, 0, "y")]);
    desk.control('k');
    desk.press(KeyCode::Char('b'));
    check(
        &mut desk,
        expect![[r#"
            | # Book club             │ ┌ Find a chat ─────────────────────────────────────┐
            |   x                     │ │ › b                                              │
            |   Ada                   │ │   Book club                                      │
            |   y                     │ └──────────────────────────────────────────────────┘
            |                         │
            |                         │  Ctrl-N opens the first one, Tab the next unread one,
            |                         │  Ctrl-K finds one by its name.
            |                         │  /new +PHONE begins one, /help knows the rest.
            |                         │
            |                         │
            |                         │
            |                         │
            |                         │
            |                         │
            |                         │
            |                         │
            |                         │
            |                         │
            |                         │
            |                         │
            |                         │
            |                         │──────────────────────────────────────────────────────
            |                         │ ›
            | ● connected  Grace · F1 help
        "#]],
    );
}

#[test]
fn help_and_members_lie_over_the_chat() {
    let mut desk = Desk::with_inbox([with_last(club(), 1, 0, "x")]);
    online(&mut desk);
    desk.control('n');
    desk.screen();
    desk.answer(ApiResult::Chat { details: details(with_last(club(), 1, 0, "x")), watermarks: vec![] });
    desk.enter("/who");
    check(
        &mut desk,
        expect![[r#"
            |▌# Book club             │ ┌ Members, any key closes it ──────────────────────┐
            |▌  x                     │─│ Grace · you                                      │─
            |                         │ │ Ada · owner · online                             │
            |                         │ │ Bob · admin                                      │
            |                         │ └──────────────────────────────────────────────────┘
            |                         │
            |                         │
            |                         │
            |                         │
            |                         │
            |                         │
            |                         │
            |                         │
            |                         │
            |                         │
            |                         │
            |                         │
            |                         │
            |                         │
            |                         │ ───────────────────── loading… ─────────────────────
            |                         │
            |                         │──────────────────────────────────────────────────────
            |                         │ ›
            | ● connected  Grace · F1 help
        "#]],
    );
    desk.press(KeyCode::Esc);
    desk.press(KeyCode::F(1));
    check(
        &mut desk,
        expect![[r#"
            |▌┌ Help, any key closes it ───────────────────────────────────────────────────┐
            |▌│ Enter, Alt-Enter       send, begin a new line                              │─
            | │ Ctrl-K, Tab            find a chat, go to the next unread one              │
            | │ Ctrl-N, Ctrl-P         next and previous chat                              │
            | │ PgUp, PgDn, Esc        look back, forward, to the end                      │
            | │ Up, Down               what you wrote before                               │
            | │ Ctrl-C                 end                                                 │
            | │ /new +PHONE            open a chat with a person                           │
            | │ /group NAME +PHONE…    make a group                                        │
            | │ /add +PHONE            add a person to this group                          │
            | │ /leave                 leave this group                                    │
            | │ /mute [TIME], /unmute  be quiet about this chat, as 8h or 7d               │
            | │ /ttl TIME, /ttl off    let new messages vanish, after 30s, 1h or 7d        │
            | │ /edit [-N] TEXT        change your last message, or the Nth from the end   │
            | │ /delete [-N]           delete your last message, or the Nth, for everyone  │
            | │ /react [-N] EMOJI      react to the last message of others, or the Nth     │
            | │ /unreact [-N] EMOJI    take your reaction back                             │
            | │ /who                   list the members of this chat                       │
            | │ /contact               see each other online, if both of you say so        │
            | │ /quit                  end                                                 │
            | └────────────────────────────────────────────────────────────────────────────┘
            |                         │──────────────────────────────────────────────────────
            |                         │ ›
            | ● connected  Grace · F1 help
        "#]],
    );
}

#[test]
fn a_long_line_grows_upwards_and_wide_characters_keep_their_columns() {
    let mut desk = Desk::in_chat(&[(1, ada(), "你好，世界！这是一条很长的消息，需要换行才能显示完整。", None)]);
    desk.resize(60, 12);
    desk.app.handle_paste(now(), "first\nsecond 👋 and a third that does not fit into one row");
    check(
        &mut desk,
        expect![[r#"
            |▌  Ada                   │ Ada
            |▌  no messages           │──────────────────────────────────
            |                         │ 14:30 Ada        你好，世界！这
            |                         │                  是一条很长的消
            |                         │                  息，需要换行才
            |                         │                  能显示完整。
            |                         │
            |                         │──────────────────────────────────
            |                         │ › first
            |                         │   second 👋 and a third that doe
            |                         │   s not fit into one row
            | ● connected  Grace · F1 help
        "#]],
    );
}

#[test]
fn a_terminal_that_is_too_small_says_so_and_reads_nothing() {
    let mut desk = Desk::in_chat(&[(1, ada(), "hello", None)]);
    desk.resize(40, 10);
    desk.hear(ClientEvent::Message(message(with_ada(), 2, ada(), "new")));
    check(
        &mut desk,
        expect![[r#"
            |This terminal is 40×10. Tidings needs
            |60×12.
            |
            |
            |
            |
            |
            |
            |
            |
        "#]],
    );
    assert_eq!(desk.effects(), []);
}

#[test]
fn messages_unread_at_opening_are_marked() {
    let mut desk = Desk::with_inbox([with_last(with_ada(), 3, 2, "c")]);
    desk.press(KeyCode::Tab);
    desk.screen();
    let messages = [(1, ada(), "seen", None), (2, ada(), "b", None), (3, ada(), "c", None)];
    desk.answer(ApiResult::Page { chat_id: with_ada(), before: None, page: page(with_ada(), &messages) });
    check(
        &mut desk,
        expect![[r#"
            |▌  Ada                 2 │ Ada
            |▌  c                     │──────────────────────────────────────────────────────
            |                         │
            |                         │
            |                         │
            |                         │
            |                         │
            |                         │
            |                         │
            |                         │
            |                         │
            |                         │
            |                         │
            |                         │
            |                         │ ──────────── the beginning of the chat ─────────────
            |                         │ ────────────────────── Today ───────────────────────
            |                         │ 14:30 Ada        seen
            |                         │ ─────────────────────── new ────────────────────────
            |                         │ 14:30 Ada        b
            |                         │ 14:30            c
            |                         │
            |                         │──────────────────────────────────────────────────────
            |                         │ ›
            | ● connected  Grace · F1 help
        "#]],
    );
}

#[test]
fn messages_show_that_they_were_edited_and_who_reacted_how_often() {
    let mut desk = Desk::in_chat(&[(1, ada(), "hello", None), (2, ada(), "lunch?", None), (3, me(), "yes", None)]);
    for (sequence, sender, content, edits, reactions) in [
        (1, ada(), "Hello", 2, &[][..]),
        (2, ada(), "lunch?", 0, &[("👍", 2, Some(true)), ("🎉", 1, Some(false))][..]),
        (3, me(), "Yes", 1, &[("❤", 1, None)][..]),
    ] {
        let message = in_state(message(with_ada(), sequence, sender, content), sequence + 10, edits, reactions);
        desk.hear(updated(sequence, UpdateName::Edited, sender, None, Some(message)));
    }
    desk.resize(80, 12);
    check(
        &mut desk,
        expect![[r#"
            |▌  Ada                   │ Ada
            |▌  no messages           │──────────────────────────────────────────────────────
            |                         │
            |                         │ ──────────── the beginning of the chat ─────────────
            |                         │ ────────────────────── Today ───────────────────────
            |                         │ 14:30 Ada        Hello  edited
            |                         │ 14:30            lunch?  👍 2* 🎉 1
            |                         │ 14:30 You        Yes  edited ❤ 1 ✓ sent
            |                         │
            |                         │──────────────────────────────────────────────────────
            |                         │ ›
            | ● connected  Grace · F1 help
        "#]],
    );
}

#[test]
fn the_way_in_asks_for_one_thing_at_a_time() {
    let mut terminal = Terminal::new(TestBackend::new(60, 12)).unwrap();
    let mut sign_in = SignIn::default();
    sign_in.handle_paste("+14155550101");
    sign_in.handle_key(KeyEvent::from(KeyCode::Enter));
    sign_in.handle_answer(SignInAnswer::CodeSent);
    sign_in.handle_paste("123");
    sign_in.handle_answer(SignInAnswer::Failed { why: "the code is wrong".into() });
    terminal.draw(|frame| super::sign_in::draw(frame, &sign_in, "http://127.0.0.1:8080", Theme::plain())).unwrap();
    expect![[r#"
        |
        |  Tidings  http://127.0.0.1:8080
        |
        |  The code
        |  sent to +14155550101; Esc for another number
        |  › 123
        |
        |  the code is wrong
        |
        |
        |
        |
    "#]]
    .assert_eq(&text_of(&terminal));
}

#[test]
fn the_largest_times_are_drawn_too() {
    let mut desk = Desk::in_chat(&[]);
    let mut late = message(with_ada(), 1, ada(), "from the end of time");
    late.created_at = Timestamp::MAX;
    late.expires_at = Some(Timestamp::MAX);
    desk.hear(ClientEvent::Message(late));
    assert!(desk.screen().contains("from the end of time"));
}
