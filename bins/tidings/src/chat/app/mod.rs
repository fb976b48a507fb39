//! What a person sees and does, as pure data: no terminal, no network, no clock.
//!
//! Keys, events of the session, answers of the server and what was seen on the screen go in as `handle_*`; what is to be
//! done comes out of [`App::poll_effect`]. [`view`](super::view) draws it. In reading order: [`Line`] is what is being
//! written, [`command`] what begins with `/`; [`Log`](log::Log) and [`Chat`] are one chat; [`App`] is all of it.

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
use domain::{ChatId, ClientMessageId, Content, ContentType, Sequence, Timestamp, UserId};
use jiff::tz::TimeZone;
use protocol::frame::{PresenceStatus, SendMessage};

use chat::Chat;
use command::Command;
use effect::{Effect, Ended, Link, Notice, Request, Seen};
use finder::{Finder, Found};
use line::{Edit, Line};

/// How long a sentence stays.
const NOTICE: Duration = Duration::from_secs(8);
/// How long typing goes without saying so again; others believe it for 10 s.
const TYPING_REPEAT: Duration = Duration::from_secs(4);
/// How long nothing is asked for after the server did not give a page.
const PAGE_PAUSE: Duration = Duration::from_secs(2);

/// The state of the terminal client.
pub(crate) struct App {
    pub(super) me: UserId,
    pub(super) name: String,
    pub(super) zone: TimeZone,
    chats: BTreeMap<ChatId, Chat>,
    presences: BTreeMap<UserId, PresenceStatus>,
    pub(super) open: Option<ChatId>,
    /// How far this person had read the open chat when it was opened.
    pub(super) read_before: Sequence,
    /// Rows between the end of the messages and the end of what is shown.
    pub(super) scroll: usize,
    /// Messages that have arrived below what is shown.
    pub(super) below: usize,
    /// Rows of messages on the screen.
    page_rows: usize,
    pages_held_until: Timestamp,
    pub(super) line: Line,
    pub(super) overlay: Option<Overlay>,
    pub(super) link: Link,
    pub(super) notice: Option<Notice>,
    is_focused: bool,
    /// When the open chat was last told that this person types.
    typing_told: Option<Timestamp>,
    /// Messages of an earlier run whose chats are not known yet.
    unplaced: Vec<(SendMessage, Timestamp)>,
    new_id: Box<dyn FnMut() -> ClientMessageId>,
    effects: VecDeque<Effect>,
    ended: Option<Ended>,
}

/// What lies over the messages.
#[derive(Debug)]
pub(crate) enum Overlay {
    Help,
    Who,
    Finder(Finder),
}

impl App {
    /// The client of a person who has signed in. `new_id` names the messages they send.
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
            line: Line::default(),
            overlay: None,
            link: Link::Connecting,
            notice: None,
            is_focused: true,
            typing_told: None,
            unplaced: Vec::new(),
            new_id: Box::new(new_id),
            effects: VecDeque::new(),
            ended: None,
        }
    }

    /// The next thing to do, in order.
    pub(crate) fn poll_effect(&mut self) -> Option<Effect> {
        self.effects.pop_front()
    }

    /// Why it is over, if it is.
    pub(crate) fn ended(&self) -> Option<Ended> {
        self.ended
    }

    /// The chats, the one with the newest activity first.
    pub(crate) fn inbox(&self) -> Vec<&Chat> {
        let mut chats: Vec<&Chat> = self.chats.values().collect();
        chats.sort_by_key(|chat| std::cmp::Reverse((chat.active_at(), chat.summary.chat_id)));
        chats
    }

    pub(crate) fn open_chat(&self) -> Option<&Chat> {
        self.chats.get(&self.open?)
    }

    pub(crate) fn presence(&self, user_id: UserId) -> PresenceStatus {
        self.presences.get(&user_id).copied().unwrap_or(PresenceStatus::Unknown)
    }

    /// Shows a message of an earlier run that is on its way again.
    pub(crate) fn restore(&mut self, send: SendMessage, written_at: Timestamp) {
        self.unplaced.push((send, written_at));
        self.place();
    }

    /// Puts a text where the up key brings it back.
    pub(crate) fn remember(&mut self, text: String) {
        self.line.remember(text);
    }

    /// Puts messages of an earlier run into their chats.
    fn place(&mut self) {
        for (send, written_at) in std::mem::take(&mut self.unplaced) {
            match self.chats.get_mut(&send.chat_id) {
                Some(chat) => chat.log.queue(send, written_at),
                None => self.unplaced.push((send, written_at)),
            }
        }
    }

    /// Shows a sentence for a while.
    pub(crate) fn say(&mut self, now: Timestamp, text: impl Into<String>) {
        self.notice = Some(Notice { text: text.into(), until: now + NOTICE });
    }

    fn ask(&mut self, request: Request) {
        self.effects.push_back(Effect::Ask(request));
    }
}

/// What the person does.
impl App {
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
                if self.line.handle_key(key) == Edit::Changed {
                    self.tell_typing(now);
                }
            }
        }
    }

    /// Text that was pasted goes into the line, ends of lines and all: only a person sends.
    pub(crate) fn handle_paste(&mut self, now: Timestamp, text: &str) {
        match &mut self.overlay {
            Some(Overlay::Finder(finder)) => finder.line.insert(&text.replace(['\r', '\n'], " ")),
            _ => {
                self.line.insert(text);
                self.tell_typing(now);
            }
        }
    }

    /// The person, their terminal or the system wants it to end.
    pub(crate) fn quit(&mut self) {
        self.ended.get_or_insert(Ended::Quit);
    }

    /// Whether the terminal has the person's attention. What is not looked at is not read.
    pub(crate) fn handle_focus(&mut self, is_focused: bool) {
        self.is_focused = is_focused;
    }

    fn handle_overlay_key(&mut self, now: Timestamp, key: KeyEvent) {
        let Some(Overlay::Finder(mut finder)) = self.overlay.take() else { return };
        let inbox = self.inbox();
        let matches = finder.matches(inbox.iter().map(|chat| (chat.summary.chat_id, chat.title())));
        match finder.handle_key(key, &matches) {
            Found::Searching => self.overlay = Some(Overlay::Finder(finder)),
            Found::Chosen(chat_id) => self.open(now, chat_id),
            Found::Dismissed => {}
        }
    }

    /// Opens the chat that is so many places further down the inbox.
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
        let unread = |chat: &&&Chat| chat.summary.unread_count > 0 && Some(chat.summary.chat_id) != self.open;
        match self.inbox().iter().find(unread).map(|chat| chat.summary.chat_id) {
            Some(chat_id) => self.open(now, chat_id),
            None => self.say(now, "everything is read"),
        }
    }

    fn open(&mut self, now: Timestamp, chat_id: ChatId) {
        if self.open == Some(chat_id) || !self.chats.contains_key(&chat_id) {
            return;
        }
        self.tell_typing_ended();
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
        self.ask(Request::Chat(chat_id));
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
            content,
            content_type: ContentType::Text,
            ttl: None,
        };
        chat.log.queue(message.clone(), now);
        self.effects.push_back(Effect::Send { message, written_at: now });
        self.line.take();
        // Typing ends with the message; nobody has to be told.
        self.typing_told = None;
        self.show_end();
    }

    fn run(&mut self, now: Timestamp, command: Command) {
        self.tell_typing_ended();
        match (command, self.open) {
            (Command::Help, _) => self.overlay = Some(Overlay::Help),
            (Command::Quit, _) => self.quit(),
            (Command::New { phone_number }, _) => self.ask(Request::New { phone_number }),
            (Command::Group { name, phone_numbers }, _) => self.ask(Request::Group { name, phone_numbers }),
            (_, None) => self.say(now, "no chat is open; Ctrl-K finds one"),
            (Command::Add { phone_number }, Some(chat_id)) => self.ask(Request::Add { chat_id, phone_number }),
            (Command::Leave, Some(chat_id)) => self.ask(Request::Leave(chat_id)),
            (Command::Mute { duration }, Some(chat_id)) => self.ask(Request::Mute { chat_id, duration }),
            (Command::Unmute, Some(chat_id)) => self.ask(Request::Unmute(chat_id)),
            (Command::Ttl { ttl }, Some(chat_id)) => self.ask(Request::SetTtl { chat_id, ttl }),
            (Command::Who, Some(_)) => self.overlay = Some(Overlay::Who),
            (Command::Contact, Some(chat_id)) => match self.open_chat().and_then(Chat::other) {
                Some(user_id) => self.ask(Request::AddContact { chat_id, user_id }),
                None => self.say(now, "open the chat with that person first; a group is nobody's contact"),
            },
        }
    }

    /// Tells the open chat that this person types, or no longer does, and not with every key.
    fn tell_typing(&mut self, now: Timestamp) {
        let Some(chat_id) = self.open else { return };
        if self.line.is_empty() {
            self.tell_typing_ended();
        } else if !self.line.text().starts_with('/') && self.typing_told.is_none_or(|at| now >= at + TYPING_REPEAT) {
            self.typing_told = Some(now);
            self.effects.push_back(Effect::Typing { chat_id, is_typing: true });
        }
    }

    fn tell_typing_ended(&mut self) {
        if let (Some(_), Some(chat_id)) = (self.typing_told.take(), self.open) {
            self.effects.push_back(Effect::Typing { chat_id, is_typing: false });
        }
    }
}

/// What passes.
impl App {
    /// Takes note of what the screen has shown: it is read, and where it ends more is asked for.
    pub(crate) fn handle_seen(&mut self, now: Timestamp, seen: Seen) {
        self.page_rows = seen.rows;
        self.scroll = seen.scroll;
        let Some(chat) = self.open.and_then(|open| self.chats.get_mut(&open)) else { return };
        let chat_id = chat.summary.chat_id;
        if seen.top
            && now >= self.pages_held_until
            && let Some(before) = chat.log.ask()
        {
            self.effects.push_back(Effect::Ask(Request::Page { chat_id, before }));
        }
        if let Some(sequence) = seen.newest
            && self.is_focused
            && chat.log.has_others(self.me, chat.read(), sequence)
        {
            chat.mark_read(sequence);
            self.effects.push_back(Effect::MarkRead { chat_id, sequence });
        }
    }

    /// When [`handle_timeout`](Self::handle_timeout) is to be called, if nothing happens before.
    pub(crate) fn poll_timeout(&self, now: Timestamp) -> Option<Timestamp> {
        let notice = self.notice.as_ref().map(|notice| notice.until);
        let ends = self.chats.values().filter_map(Chat::next_end).min();
        let retry = matches!(self.link, Link::Lost { .. }).then_some(now + Duration::from_secs(1));
        let page = Some(self.pages_held_until).filter(|at| *at > now);
        // A countdown that can be seen goes by the second, or by the minute while it is long.
        let countdown = self.open_chat().and_then(|chat| chat.log.next_expiry()).map(|at| {
            let step = if at.since(now) > Duration::from_secs(3600) { 60 } else { 1 };
            now + Duration::from_secs(step)
        });
        [notice, ends, retry, page, countdown].into_iter().flatten().min()
    }

    /// The time of [`poll_timeout`](Self::poll_timeout) has come.
    pub(crate) fn handle_timeout(&mut self, now: Timestamp) {
        self.notice.take_if(|notice| notice.until <= now);
        for (chat_id, chat) in &mut self.chats {
            if chat.sweep(now) {
                // What the inbox shows instead, and how much of it is unread, the server knows.
                self.effects.push_back(Effect::Ask(Request::Chat(*chat_id)));
            }
        }
    }
}
