use domain::{ContentType, Sequence, Timestamp};
use protocol::frame::MessageBody;
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

use super::{Theme, clock, name};
use crate::chat::app::ChatApp;
use crate::chat::app::chat::{DeliveryProgress, InboxChat};
use crate::chat::app::effect::VisibleMessages;
use crate::chat::app::log::{ChatLogEntry, LoadedRange, OutgoingMessage};
use crate::chat::text;

/// Columns of a sender's name.
const NAME_COLUMNS: usize = 10;
/// Columns before the text: the time, the name, and spaces.
const LEAD_COLUMNS: usize = 7 + NAME_COLUMNS + 1;

/// Draws as many messages as fit, from the bottom up, and returns the visible part.
pub(super) fn draw(
    frame: &mut Frame<'_>,
    area: Rect,
    app: &ChatApp,
    chat: &InboxChat,
    now: Timestamp,
    theme: Theme,
) -> VisibleMessages {
    let height = usize::from(area.height);
    let painter = Painter { app, chat, now, theme, columns: usize::from(area.width), rows: Vec::new() };
    let Painted { rows, below } = painter.paint(app.scroll + height + 1);
    // Messages that arrived while the user is scrolled up must not move the visible part.
    let hidden = (app.scroll + below).min(rows.len().saturating_sub(height));
    let top = rows.len() <= hidden + height;
    let mut visible: Vec<ScreenRow> = rows.into_iter().skip(hidden).take(height).collect();
    visible.reverse();
    let newest = visible.iter().filter_map(|row| row.sequence).max();
    let above = height.saturating_sub(visible.len());
    let lines = std::iter::repeat_n(Line::default(), above).chain(visible.into_iter().map(|row| row.line));
    frame.render_widget(Paragraph::new(lines.collect::<Vec<_>>()), area);
    VisibleMessages { rows: height, scroll: hidden.saturating_sub(below), top, newest }
}

struct ScreenRow {
    line: Line<'static>,
    sequence: Option<Sequence>,
}

struct Painted {
    /// From the bottom up.
    rows: Vec<ScreenRow>,
    /// Rows of messages that have arrived below the visible part.
    below: usize,
}

/// Collects rows from the bottom up.
struct Painter<'a> {
    app: &'a ChatApp,
    chat: &'a InboxChat,
    now: Timestamp,
    theme: Theme,
    columns: usize,
    rows: Vec<ScreenRow>,
}

/// The content of one block: a message, or a pending send.
struct MessageBlock<'a> {
    sequence: Option<Sequence>,
    at: Timestamp,
    name: Option<String>,
    is_mine: bool,
    content: &'a str,
    tail: Option<(String, Style)>,
}

impl Painter<'_> {
    /// Paints at least this many rows above those below the visible part, if there are as many.
    fn paint(mut self, wanted: usize) -> Painted {
        for pending in self.chat.log.pending().iter().rev() {
            self.paint_pending(pending);
        }
        let mut told = Vec::new();
        let mut below = 0;
        let mut entries = self.chat.log.messages().rev().enumerate().peekable();
        while let Some((n, entry)) = entries.next() {
            if self.rows.len() >= below + wanted {
                return Painted { rows: self.rows, below };
            }
            self.paint_entry(&entry, entries.peek().map(|(_, before)| &**before), &mut told);
            if n < self.app.below {
                below = self.rows.len();
            }
        }
        let beginning = match self.chat.log.reach() {
            LoadedRange::Everything => "the beginning of the chat",
            LoadedRange::Nothing | LoadedRange::From(_) if self.chat.log.is_asked() => "loading…",
            LoadedRange::Nothing | LoadedRange::From(_) => "",
        };
        self.rule(beginning, self.theme.dim());
        Painted { rows: self.rows, below }
    }

    fn paint_pending(&mut self, pending: &OutgoingMessage) {
        let tail = match &pending.refusal {
            None => ("… queued".to_owned(), self.theme.dim()),
            Some(why) => (format!("✗ not sent: {}", text::one_line(why)), self.theme.bad()),
        };
        let content = text::printable(pending.send.body.content.as_str());
        self.say(MessageBlock {
            sequence: None,
            at: pending.written_at,
            name: Some("You".to_owned()),
            is_mine: true,
            content: &content,
            tail: Some(tail),
        });
    }

    /// `told` holds the delivery states already shown at a later own message; they hold for earlier messages too.
    fn paint_entry(&mut self, entry: &ChatLogEntry, before: Option<&ChatLogEntry>, told: &mut Vec<DeliveryProgress>) {
        let (body, zone) = (&entry.body, &self.app.zone);
        let is_mine = body.sender_id == self.app.me;
        let day = clock::day(body.created_at, zone);
        let is_first_of_day = before.is_none_or(|before| clock::day(before.body.created_at, zone) != day);
        let is_same_sender = before.is_some_and(|before| before.body.sender_id == body.sender_id);
        let read_before = self.app.read_before;
        let is_first_new = body.sequence > read_before
            && !is_mine
            && read_before > Sequence::ZERO
            && before.is_some_and(|before| before.body.sequence <= read_before);
        let fate = is_mine.then(|| self.chat.fate(self.app.me, entry)).filter(|fate| !told.contains(fate));
        told.extend(fate);
        let content = match body.content_type {
            ContentType::Encrypted => "(encrypted)".to_owned(),
            ContentType::Text | ContentType::Markdown | ContentType::Json => text::printable(&body.content),
        };
        let shows_name = !is_same_sender || is_first_of_day || is_first_new;
        self.say(MessageBlock {
            sequence: Some(body.sequence),
            at: body.created_at,
            name: shows_name.then(|| name(self.app, self.chat, body.sender_id)),
            is_mine,
            content: &content,
            tail: self.tail(body, fate),
        });
        if is_first_new {
            self.rule("new", self.theme.unread());
        }
        if is_first_of_day {
            let today = clock::day(self.now, zone);
            self.rule(&clock::day_name(day, today), self.theme.dim());
        }
    }

    /// What is known about a message, behind its text. A star marks the user's own reactions.
    fn tail(&self, body: &MessageBody<'_>, fate: Option<DeliveryProgress>) -> Option<(String, Style)> {
        let left = body.expires_at.map(|at| format!("[{}]", clock::left(at.since(self.now))));
        let edited = body.state.as_ref().and_then(|state| state.edited_at).map(|_| "edited".to_owned());
        let reactions = body.state.iter().flat_map(|state| &state.reactions).map(|one| {
            let mark = if one.mine == Some(true) { "*" } else { "" };
            format!("{} {}{mark}", text::one_line(one.reaction.as_str()), one.count)
        });
        let queued = self.chat.log.is_updating(body.sequence).then(|| "… queued".to_owned());
        let fate = fate.map(|fate| match fate {
            DeliveryProgress::Sent => "✓ sent",
            DeliveryProgress::Delivered => "✓✓ delivered",
            DeliveryProgress::Read => "✓✓ read",
        });
        let words: Vec<String> =
            left.into_iter().chain(edited).chain(reactions).chain(fate.map(str::to_owned)).chain(queued).collect();
        (!words.is_empty()).then(|| (words.join(" "), self.theme.dim()))
    }

    fn say(&mut self, said: MessageBlock<'_>) {
        let room = self.columns.saturating_sub(LEAD_COLUMNS + 1);
        let mut texts = text::wrap(said.content, room);
        let mut tail = said.tail;
        if let (Some((words, style)), Some(last)) = (tail.take(), texts.last()) {
            let is_fitting = text::width(last) + 2 + text::width(&words) <= room;
            if !is_fitting {
                texts.push(String::new());
            }
            tail = Some((text::fit(&words, room), style));
        }
        let count = texts.len();
        for (n, row) in texts.into_iter().enumerate().rev() {
            let mut spans = if n == 0 { self.lead(said.at, said.name.as_deref(), said.is_mine) } else { vec![] };
            if n > 0 {
                spans.push(Span::raw(" ".repeat(LEAD_COLUMNS)));
            }
            let gap = if row.is_empty() { "" } else { "  " };
            spans.push(Span::raw(row));
            if let (true, Some((words, style))) = (n + 1 == count, tail.take()) {
                spans.push(Span::raw(gap));
                spans.push(Span::styled(words, style));
            }
            self.rows.push(ScreenRow { line: Line::from(spans), sequence: said.sequence });
        }
    }

    fn lead(&self, at: Timestamp, name: Option<&str>, is_mine: bool) -> Vec<Span<'static>> {
        let name = text::fit(name.unwrap_or_default(), NAME_COLUMNS);
        let gap = " ".repeat(NAME_COLUMNS - text::width(&name) + 1);
        let style = if is_mine { self.theme.mine() } else { self.theme.theirs() };
        let time = format!(" {} ", clock::time(at, &self.app.zone));
        vec![Span::styled(time, self.theme.dim()), Span::styled(name, style), Span::raw(gap)]
    }

    fn rule(&mut self, words: &str, style: Style) {
        let words = if words.is_empty() { String::new() } else { format!(" {words} ") };
        let dashes = self.columns.saturating_sub(2 + text::width(&words));
        let line = format!(" {}{words}{}", "─".repeat(dashes / 2), "─".repeat(dashes - dashes / 2));
        self.rows.push(ScreenRow { line: Line::styled(line, style), sequence: None });
    }
}
