//! State and behaviour of the terminal client as pure code: no terminal, no network, no clock.
//!
//! Inputs are `handle_*`: keys, session events, server responses and the visible part of the screen. Outputs come from
//! [`ChatApp::poll_effect`], and [`view`](super::view) draws the state. In reading order: [`InputLine`] is the input
//! line, [`command`] parses `/` commands, [`ChatLog`](log::ChatLog) and [`InboxChat`] hold one chat, and [`ChatApp`]
//! holds everything.

pub(crate) mod chat;
pub(crate) mod command;
pub(crate) mod effect;
pub(crate) mod finder;
pub(crate) mod line;
pub(crate) mod log;
mod news;
pub(crate) mod sign_in;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use domain::{Body, ChatId, ClientMessageId, Content, ContentType, Sequence, Timestamp, UpdateAction, UserId};
use jiff::tz::TimeZone;
use protocol::frame::{PresenceStatus, SendMessage, UpdateMessage};

use chat::InboxChat;
use command::SlashCommand;
use effect::{ApiRequest, ConnectionState, Effect, ExitReason, StatusNotice, VisibleMessages};
use finder::{Finder, FinderAction};
use line::{InputLine, LineEdit};

/// How long a notice is shown.
const NOTICE: Duration = Duration::from_secs(8);
/// Interval at which typing is announced again; an indicator lasts 10 s at the receiver.
const TYPING_REPEAT: Duration = Duration::from_secs(4);
/// Pause before the next page request after one failed.
const PAGE_PAUSE: Duration = Duration::from_secs(2);

/// The state of the terminal client.
pub(crate) struct ChatApp {
    pub(super) me: UserId,
    pub(super) name: String,
    pub(super) zone: TimeZone,
    chats: BTreeMap<ChatId, InboxChat>,
    presences: BTreeMap<UserId, PresenceStatus>,
    pub(super) open: Option<ChatId>,
    /// The user's read watermark when the open chat was opened.
    pub(super) read_before: Sequence,
    /// Rows between the newest message and the bottom of the visible part.
    pub(super) scroll: usize,
    /// Messages that have arrived below the visible part.
    pub(super) below: usize,
    /// Rows of messages on the screen.
    page_rows: usize,
    pages_held_until: Timestamp,
    pub(super) line: InputLine,
    pub(super) overlay: Option<Overlay>,
    pub(super) link: ConnectionState,
    pub(super) notice: Option<StatusNotice>,
    is_focused: bool,
    /// When typing was last announced to the open chat.
    typing_told: Option<Timestamp>,
    /// Pending messages of an earlier run in chats that are not loaded yet.
    unplaced: Vec<(SendMessage, Timestamp)>,
    new_id: Box<dyn FnMut() -> ClientMessageId>,
    effects: VecDeque<Effect>,
    ended: Option<ExitReason>,
}

/// A box that covers the messages.
#[derive(Debug)]
pub(crate) enum Overlay {
    Help,
    Who,
    Finder(Finder),
}

impl ChatApp {
    /// The client of a signed-in user. `new_id` generates ids for new messages.
    pub(crate) fn new(
        me: UserId,
        name: String,
        zone: TimeZone,
        new_id: impl FnMut() -> ClientMessageId + 'static,
    ) -> Self {
        Self {
            me,
            name,
            zone,
            chats: BTreeMap::new(),
            presences: BTreeMap::new(),
            open: None,
            read_before: Sequence::ZERO,
            scroll: 0,
            below: 0,
            page_rows: 0,
            pages_held_until: Timestamp::default(),
            line: InputLine::default(),
            overlay: None,
            link: ConnectionState::Connecting,
            notice: None,
            is_focused: true,
            typing_told: None,
            unplaced: Vec::new(),
            new_id: Box::new(new_id),
            effects: VecDeque::new(),
            ended: None,
        }
    }

    /// The next effect, in order.
    pub(crate) fn poll_effect(&mut self) -> Option<Effect> {
        self.effects.pop_front()
    }

    /// Why the client ended, if it has.
    pub(crate) fn ended(&self) -> Option<ExitReason> {
        self.ended
    }

    /// The chats, most recently active first.
    pub(crate) fn inbox(&self) -> Vec<&InboxChat> {
        let mut chats: Vec<&InboxChat> = self.chats.values().collect();
        chats.sort_by_key(|chat| std::cmp::Reverse((chat.active_at(), chat.summary.chat_id)));
        chats
    }

    pub(crate) fn open_chat(&self) -> Option<&InboxChat> {
        self.chats.get(&self.open?)
    }

    pub(crate) fn presence(&self, user_id: UserId) -> PresenceStatus {
        self.presences.get(&user_id).copied().unwrap_or(PresenceStatus::Unknown)
    }

    /// Shows a pending message of an earlier run.
    pub(crate) fn restore(&mut self, send: SendMessage, written_at: Timestamp) {
        self.unplaced.push((send, written_at));
        self.place();
    }

    /// Adds a text to the input history.
    pub(crate) fn remember(&mut self, text: String) {
        self.line.remember(text);
    }

    /// Adds pending messages of an earlier run to their chats, as far as those are loaded.
    fn place(&mut self) {
        for (send, written_at) in std::mem::take(&mut self.unplaced) {
            match self.chats.get_mut(&send.chat_id) {
                Some(chat) => chat.log.queue(send, written_at),
                None => self.unplaced.push((send, written_at)),
            }
        }
    }

    /// Shows a notice.
    pub(crate) fn say(&mut self, now: Timestamp, text: impl Into<String>) {
        self.notice = Some(StatusNotice { text: text.into(), until: now + NOTICE });
    }

    fn ask(&mut self, request: ApiRequest) {
        self.effects.push_back(Effect::Ask(request));
    }
}

/// Input from the user.
impl ChatApp {
    pub(crate) fn handle_key(&mut self, now: Timestamp, key: KeyEvent) {
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        let alt = key.modifiers.contains(KeyModifiers::ALT);
        if control && key.code == KeyCode::Char('c') {
            return self.quit();
        }
        if self.overlay.is_some() {
            return self.handle_overlay_key(now, key);
        }
        match key.code {
            KeyCode::Char('k') if control => self.overlay = Some(Overlay::Finder(Finder::default())),
            KeyCode::F(1) => self.overlay = Some(Overlay::Help),
            KeyCode::Char('n') if control => self.step(now, 1),
            KeyCode::Char('p') if control => self.step(now, -1),
            KeyCode::Down if alt => self.step(now, 1),
            KeyCode::Up if alt => self.step(now, -1),
            KeyCode::Tab => self.open_next_unread(now),
            KeyCode::PageUp => self.scroll += self.page_rows.saturating_sub(2).max(1),
            KeyCode::PageDown => match self.scroll.checked_sub(self.page_rows.saturating_sub(2).max(1)) {
                Some(scroll @ 1..) => self.scroll = scroll,
                Some(0) | None => self.show_end(),
            },
            KeyCode::Esc => {
                self.show_end();
                self.notice = None;
            }
            KeyCode::Enter if key.modifiers.is_empty() => self.submit(now),
            _ => {
                if self.line.handle_key(key) == LineEdit::Changed {
                    self.send_typing(now);
                }
            }
        }
    }

    /// Inserts pasted text into the line, including newlines: only the Enter key sends.
    pub(crate) fn handle_paste(&mut self, now: Timestamp, text: &str) {
        match &mut self.overlay {
            Some(Overlay::Finder(finder)) => finder.line.insert(&text.replace(['\r', '\n'], " ")),
            _ => {
                self.line.insert(text);
                self.send_typing(now);
            }
        }
    }

    /// Ends the client, on request of the user, the terminal or the system.
    pub(crate) fn quit(&mut self) {
        self.ended.get_or_insert(ExitReason::Quit);
    }

    /// Records whether the terminal has focus. Without focus, messages are not marked as read.
    pub(crate) fn handle_focus(&mut self, is_focused: bool) {
        self.is_focused = is_focused;
    }

    fn handle_overlay_key(&mut self, now: Timestamp, key: KeyEvent) {
        let Some(Overlay::Finder(mut finder)) = self.overlay.take() else { return };
        let inbox = self.inbox();
        let matches = finder.matches(inbox.iter().map(|chat| (chat.summary.chat_id, chat.title())));
        match finder.handle_key(key, &matches) {
            FinderAction::Searching => self.overlay = Some(Overlay::Finder(finder)),
            FinderAction::Chosen(chat_id) => self.open(now, chat_id),
            FinderAction::Dismissed => {}
        }
    }

    /// Opens the chat that is this many entries further down the inbox.
    fn step(&mut self, now: Timestamp, places: isize) {
        let inbox: Vec<ChatId> = self.inbox().iter().map(|chat| chat.summary.chat_id).collect();
        let place = inbox.iter().position(|chat_id| Some(*chat_id) == self.open);
        let next = match place {
            Some(place) => place.saturating_add_signed(places).min(inbox.len().saturating_sub(1)),
            None => 0,
        };
        if let Some(chat_id) = inbox.get(next) {
            self.open(now, *chat_id);
        }
    }

    fn open_next_unread(&mut self, now: Timestamp) {
        let unread = |chat: &&&InboxChat| chat.summary.unread_count > 0 && Some(chat.summary.chat_id) != self.open;
        match self.inbox().iter().find(unread).map(|chat| chat.summary.chat_id) {
            Some(chat_id) => self.open(now, chat_id),
            None => self.say(now, "everything is read"),
        }
    }

    fn open(&mut self, now: Timestamp, chat_id: ChatId) {
        if self.open == Some(chat_id) || !self.chats.contains_key(&chat_id) {
            return;
        }
        self.send_typing_ended();
        let draft = self.line.text().to_owned();
        if let Some(before) = self.open.and_then(|open| self.chats.get_mut(&open)) {
            before.draft = draft;
        }
        self.open = Some(chat_id);
        self.pages_held_until = now;
        self.show_end();
        if let Some(chat) = self.chats.get_mut(&chat_id) {
            self.read_before = chat.read();
            self.line.set(std::mem::take(&mut chat.draft));
        }
        self.ask(ApiRequest::Chat(chat_id));
    }

    /// Shows the newest messages.
    fn show_end(&mut self) {
        (self.scroll, self.below) = (0, 0);
    }

    fn submit(&mut self, now: Timestamp) {
        let written = self.line.text().trim();
        if written.is_empty() {
            return;
        }
        match command::parse(written) {
            Some(Ok(command)) => {
                self.line.take();
                self.run(now, command);
            }
            Some(Err(refusal)) => self.say(now, refusal),
            None => self.send(now),
        }
    }

    fn send(&mut self, now: Timestamp) {
        let Some(chat) = self.open.and_then(|open| self.chats.get_mut(&open)) else {
            return self.say(now, "no chat is open; Ctrl-K finds one, /new +PHONE begins one");
        };
        let content = match Content::try_from(command::message(self.line.text().trim()).to_owned()) {
            Ok(content) => content,
            Err(error) => return self.say(now, error.to_string()),
        };
        let message = SendMessage {
            client_message_id: (self.new_id)(),
            chat_id: chat.summary.chat_id,
            body: Body::new(content, ContentType::Text),
            ttl: None,
        };
        chat.log.queue(message.clone(), now);
        self.effects.push_back(Effect::Send { message, written_at: now });
        self.line.take();
        // The message itself ends the typing indicator, so no frame is needed.
        self.typing_told = None;
        self.show_end();
    }

    fn run(&mut self, now: Timestamp, command: SlashCommand) {
        self.send_typing_ended();
        match (command, self.open) {
            (SlashCommand::Help, _) => self.overlay = Some(Overlay::Help),
            (SlashCommand::Quit, _) => self.quit(),
            (SlashCommand::New { phone_number }, _) => self.ask(ApiRequest::New { phone_number }),
            (SlashCommand::Group { name, phone_numbers }, _) => self.ask(ApiRequest::Group { name, phone_numbers }),
            (_, None) => self.say(now, "no chat is open; Ctrl-K finds one"),
            (SlashCommand::Add { phone_number }, Some(chat_id)) => self.ask(ApiRequest::Add { chat_id, phone_number }),
            (SlashCommand::Leave, Some(chat_id)) => self.ask(ApiRequest::Leave(chat_id)),
            (SlashCommand::Mute { duration }, Some(chat_id)) => self.ask(ApiRequest::Mute { chat_id, duration }),
            (SlashCommand::Unmute, Some(chat_id)) => self.ask(ApiRequest::Unmute(chat_id)),
            (SlashCommand::Ttl { ttl }, Some(chat_id)) => self.ask(ApiRequest::SetTtl { chat_id, ttl }),
            (SlashCommand::Update { position, action }, Some(chat_id)) => self.update(now, chat_id, position, action),
            (SlashCommand::Who, Some(_)) => self.overlay = Some(Overlay::Who),
            (SlashCommand::Contact, Some(chat_id)) => match self.open_chat().and_then(InboxChat::other) {
                Some(user_id) => self.ask(ApiRequest::AddContact { chat_id, user_id }),
                None => self.say(now, "open the chat with that person first; a group cannot be a contact"),
            },
        }
    }

    fn update(&mut self, now: Timestamp, chat_id: ChatId, position: Option<usize>, action: UpdateAction) {
        let Some(chat) = self.chats.get_mut(&chat_id) else { return };
        let Some(target) = chat.log.target(self.me, position, &action) else {
            return self.say(now, "no loaded message suits that; look back for an earlier one, or name it as -2");
        };
        let update = UpdateMessage { client_message_id: (self.new_id)(), chat_id, target, action };
        chat.log.queue_update(update.clone(), now);
        self.effects.push_back(Effect::Update { update, written_at: now });
    }

    /// Announces that the user types or has stopped, at a limited rate.
    fn send_typing(&mut self, now: Timestamp) {
        let Some(chat_id) = self.open else { return };
        if self.line.is_empty() {
            self.send_typing_ended();
        } else if !self.line.text().starts_with('/') && self.typing_told.is_none_or(|at| now >= at + TYPING_REPEAT) {
            self.typing_told = Some(now);
            self.effects.push_back(Effect::Typing { chat_id, is_typing: true });
        }
    }

    fn send_typing_ended(&mut self) {
        if let (Some(_), Some(chat_id)) = (self.typing_told.take(), self.open) {
            self.effects.push_back(Effect::Typing { chat_id, is_typing: false });
        }
    }
}

/// Input from drawing and time.
impl ChatApp {
    /// Takes the visible part of the screen: marks visible messages as read, and requests a page at the top.
    pub(crate) fn handle_seen(&mut self, now: Timestamp, seen: VisibleMessages) {
        self.page_rows = seen.rows;
        self.scroll = seen.scroll;
        let Some(chat) = self.open.and_then(|open| self.chats.get_mut(&open)) else { return };
        let chat_id = chat.summary.chat_id;
        if seen.top
            && now >= self.pages_held_until
            && let Some(before) = chat.log.ask()
        {
            self.effects.push_back(Effect::Ask(ApiRequest::Page { chat_id, before }));
        }
        if let Some(sequence) = seen.newest
            && self.is_focused
            && chat.log.has_others(self.me, chat.read(), sequence)
        {
            chat.mark_read(sequence);
            self.effects.push_back(Effect::MarkRead { chat_id, sequence });
        }
    }

    /// When to call [`handle_timeout`](Self::handle_timeout), if no other input comes first.
    pub(crate) fn poll_timeout(&self, now: Timestamp) -> Option<Timestamp> {
        let notice = self.notice.as_ref().map(|notice| notice.until);
        let ends = self.chats.values().filter_map(InboxChat::next_end).min();
        let retry = matches!(self.link, ConnectionState::Lost { .. }).then_some(now + Duration::from_secs(1));
        let page = Some(self.pages_held_until).filter(|at| *at > now);
        // A visible countdown updates every second, or every minute above one hour.
        let countdown = self.open_chat().and_then(|chat| chat.log.next_expiry()).map(|at| {
            let step = if at.since(now) > Duration::from_secs(3600) { 60 } else { 1 };
            now + Duration::from_secs(step)
        });
        [notice, ends, retry, page, countdown].into_iter().flatten().min()
    }

    /// Expires notices, typing indicators and messages, at the time of [`poll_timeout`](Self::poll_timeout).
    pub(crate) fn handle_timeout(&mut self, now: Timestamp) {
        self.notice.take_if(|notice| notice.until <= now);
        for (chat_id, chat) in &mut self.chats {
            if chat.sweep(now) {
                // The server has the new preview and unread count.
                self.effects.push_back(Effect::Ask(ApiRequest::Chat(*chat_id)));
            }
        }
    }
}
