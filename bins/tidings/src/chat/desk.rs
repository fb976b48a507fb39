//! A simulated user at a terminal, for tests: keys and events go in, effects and the screen come out.

use std::time::Duration;

use client::ClientEvent;
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use domain::{
    ChatId, ChatType, ClientMessageId, ConnectionId, ContentType, MessageId, Role, Sequence, Timestamp, UserId,
};
use jiff::tz::TimeZone;
use protocol::frame::{
    MessageBody, MessageUpdated, ReactionBody, ReceiptBody, SendMessageAck, StateBody, UpdateBody, UpdateName,
};
use protocol::rest::{
    ChatDetails, ChatSummary, History, LastMessage, Member, Message, MessageStatus, MyMembership, User,
};
use ratatui::Terminal;
use ratatui::backend::TestBackend;

use super::app::ChatApp;
use super::app::effect::{ApiResult, Effect};
use super::view::{self, Theme};

/// 30 January 2026, 14:30:00.
pub(crate) fn now() -> Timestamp {
    Timestamp::from_millis(1_769_783_400_000)
}

pub(crate) fn me() -> UserId {
    UserId::from_bytes([1; 16])
}

pub(crate) fn ada() -> UserId {
    UserId::from_bytes([2; 16])
}

pub(crate) fn bob() -> UserId {
    UserId::from_bytes([3; 16])
}

/// The direct chat with Ada.
pub(crate) fn with_ada() -> ChatId {
    ChatId::from_bytes([10; 16])
}

/// The group of all three.
pub(crate) fn club() -> ChatId {
    ChatId::from_bytes([11; 16])
}

fn user(user_id: UserId, name: &str) -> User {
    User { user_id, display_name: name.to_owned(), created_at: Timestamp::default() }
}

pub(crate) fn summary(chat_id: ChatId) -> ChatSummary {
    let is_group = chat_id == club();
    let others = if is_group { vec![user(ada(), "Ada"), user(bob(), "Bob")] } else { vec![user(ada(), "Ada")] };
    ChatSummary {
        chat_id,
        chat_type: if is_group { ChatType::Group } else { ChatType::Direct },
        name: is_group.then(|| "Book club".to_owned()),
        member_count: u32::try_from(others.len()).unwrap() + 1,
        created_at: Timestamp::default(),
        other_participants: others,
        last_message: None,
        last_message_at: None,
        unread_count: 0,
        unread_count_exact: true,
        my_membership: MyMembership { role: Role::Member, muted_until: None },
        message_ttl_seconds: None,
        head_sequence: Sequence::ZERO,
        my_read_sequence: Sequence::ZERO,
        my_delivered_sequence: Sequence::ZERO,
    }
}

/// The chat with a last message and an unread count.
pub(crate) fn with_last(chat_id: ChatId, head: u64, unread_count: u64, preview: &str) -> ChatSummary {
    let created_at = now().minus(Duration::from_secs(3600));
    ChatSummary {
        last_message: Some(LastMessage {
            message_id: MessageId::from_bytes([5; 16]),
            sequence: Sequence(head),
            sender_id: ada(),
            preview: Some(preview.to_owned()),
            created_at,
        }),
        last_message_at: Some(created_at),
        unread_count,
        unread_count_exact: true,
        head_sequence: Sequence(head),
        my_read_sequence: Sequence(head - unread_count),
        ..summary(chat_id)
    }
}

pub(crate) fn details(summary: ChatSummary) -> Box<ChatDetails> {
    let member = |user_id, name: &str, role| Member {
        user_id,
        display_name: name.to_owned(),
        role,
        joined_at: Timestamp::default(),
        invited: false,
    };
    let mut members = vec![member(me(), "Grace", Role::Member), member(ada(), "Ada", Role::Owner)];
    if summary.chat_type == ChatType::Group {
        members.push(member(bob(), "Bob", Role::Admin));
    }
    Box::new(ChatDetails { summary, members, invited_user_ids: vec![] })
}

pub(crate) fn message(chat_id: ChatId, sequence: u64, sender_id: UserId, content: &str) -> MessageBody<'static> {
    MessageBody {
        message_id: MessageId::from_bytes([5; 16]),
        chat_id,
        sequence: Sequence(sequence),
        sender_id,
        content: content.to_owned().into(),
        content_type: ContentType::Text,
        metadata: None,
        created_at: now(),
        expires_at: None,
        client_message_id: None,
        state: None,
    }
}

/// A message after an update, with this many edits and these reactions.
pub(crate) fn in_state(
    message: MessageBody<'static>,
    revision: u64,
    edits: u32,
    reactions: &[(&str, u32, Option<bool>)],
) -> MessageBody<'static> {
    let reaction = |(reaction, count, mine): &(&str, u32, Option<bool>)| ReactionBody {
        reaction: reaction.parse().unwrap(),
        count: *count,
        mine: *mine,
    };
    let state = StateBody {
        revision: Sequence(revision),
        edited_at: (edits > 0).then(now),
        edit_count: (edits > 0).then_some(edits),
        reactions: reactions.iter().map(reaction).collect(),
    };
    MessageBody { state: Some(state), ..message }
}

/// The event of an update by a user, which is of this device if it has an id.
pub(crate) fn updated(
    target: u64,
    kind: UpdateName,
    user_id: UserId,
    client_message_id: Option<ClientMessageId>,
    message: Option<MessageBody<'static>>,
) -> ClientEvent {
    let update = UpdateBody {
        chat_id: with_ada(),
        sequence: message.as_ref().map_or(Sequence(99), MessageBody::revision),
        target_sequence: Sequence(target),
        user_id,
        kind,
        reaction: None,
        created_at: now(),
        client_message_id,
    };
    ClientEvent::Updated(Box::new(MessageUpdated { update, message }))
}

/// A page of history, newest first, of `(sequence, sender, content, status)`.
pub(crate) fn page(chat_id: ChatId, messages: &[(u64, UserId, &str, Option<MessageStatus>)]) -> History<'static> {
    let head_sequence = Sequence(messages.iter().map(|(sequence, ..)| *sequence).max().unwrap_or(0));
    let messages = messages.iter().rev().map(|(sequence, sender_id, content, status)| Message {
        message: message(chat_id, *sequence, *sender_id, content),
        status: *status,
    });
    History { messages: messages.collect(), head_sequence }
}

pub(crate) fn ack(chat_id: ChatId, client_message_id: ClientMessageId, sequence: u64) -> SendMessageAck {
    SendMessageAck {
        client_message_id,
        message_id: MessageId::from_bytes([6; 16]),
        chat_id,
        sequence: Sequence(sequence),
        created_at: now(),
        deduplicated: false,
    }
}

pub(crate) struct Desk {
    pub(crate) app: ChatApp,
    pub(crate) now: Timestamp,
    terminal: Terminal<TestBackend>,
}

impl Desk {
    /// Grace, connected, with no chats.
    pub(crate) fn new() -> Self {
        let mut ids = 100..;
        let new_id = move || ClientMessageId::from_bytes([ids.next().unwrap_or_default(); 16]);
        let app = ChatApp::new(me(), "Grace".to_owned(), TimeZone::UTC, new_id);
        let terminal = Terminal::new(TestBackend::new(80, 24)).unwrap();
        let mut desk = Self { app, now: now(), terminal };
        desk.hear(ClientEvent::Connected { connection_id: ConnectionId::from_bytes([4; 16]), user_id: me() });
        desk.effects();
        desk
    }

    /// A desk with these chats in the inbox.
    pub(crate) fn with_inbox(chats: impl IntoIterator<Item = ChatSummary>) -> Self {
        let mut desk = Self::new();
        desk.answer(ApiResult::Inbox(chats.into_iter().collect()));
        desk.effects();
        desk
    }

    /// A desk with the chat with Ada open, and these messages as its history.
    pub(crate) fn in_chat(messages: &[(u64, UserId, &str, Option<MessageStatus>)]) -> Self {
        let head = messages.iter().map(|(sequence, ..)| *sequence).max().unwrap_or(0);
        let read = Sequence(head);
        let mut desk =
            Self::with_inbox([ChatSummary { head_sequence: read, my_read_sequence: read, ..summary(with_ada()) }]);
        desk.control('n');
        desk.screen();
        desk.answer(ApiResult::Page { chat_id: with_ada(), before: None, page: page(with_ada(), messages) });
        desk.effects();
        desk
    }

    pub(crate) fn resize(&mut self, columns: u16, rows: u16) {
        self.terminal = Terminal::new(TestBackend::new(columns, rows)).unwrap();
    }

    pub(crate) fn press(&mut self, code: KeyCode) {
        self.app.handle_key(self.now, KeyEvent::new(code, KeyModifiers::NONE));
    }

    pub(crate) fn control(&mut self, key: char) {
        self.app.handle_key(self.now, KeyEvent::new(KeyCode::Char(key), KeyModifiers::CONTROL));
    }

    /// Types a line and sends it.
    pub(crate) fn enter(&mut self, text: &str) {
        for character in text.chars() {
            self.press(KeyCode::Char(character));
        }
        self.press(KeyCode::Enter);
    }

    pub(crate) fn hear(&mut self, event: ClientEvent) {
        self.app.handle_event(self.now, event);
    }

    pub(crate) fn receipt(&mut self, user_id: UserId, delivered: u64, read: u64) {
        let (delivered_sequence, read_sequence) = (Sequence(delivered), Sequence(read));
        self.hear(ClientEvent::Receipt(ReceiptBody {
            chat_id: with_ada(),
            user_id,
            delivered_sequence,
            read_sequence,
        }));
    }

    pub(crate) fn answer(&mut self, answer: ApiResult) {
        self.app.handle_answer(self.now, answer);
    }

    pub(crate) fn pass(&mut self, time: Duration) {
        self.now = self.now + time;
        self.app.handle_timeout(self.now);
    }

    pub(crate) fn effects(&mut self) -> Vec<Effect> {
        std::iter::from_fn(|| self.app.poll_effect()).collect()
    }

    /// The screen as text, without trailing spaces.
    pub(crate) fn screen(&mut self) -> String {
        let mut seen = Default::default();
        self.terminal.draw(|frame| seen = view::draw(frame, &self.app, self.now, Theme::plain())).unwrap();
        self.app.handle_seen(self.now, seen);
        text_of(&self.terminal)
    }
}

/// The rows of a screen, without trailing spaces. Each begins with a bar, to preserve leading spaces.
pub(crate) fn text_of(terminal: &Terminal<TestBackend>) -> String {
    let buffer = terminal.backend().buffer();
    let mut text = String::new();
    for row in buffer.content.chunks(buffer.area.width.into()) {
        // The cell after a wide character belongs to it.
        let mut columns = 0;
        let mut line = String::new();
        for (column, cell) in row.iter().enumerate() {
            if column >= columns {
                line.push_str(cell.symbol());
                columns = column + super::text::width(cell.symbol()).max(1);
            }
        }
        text.push('|');
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}
