//! Draws the [`ChatApp`]: the inbox on the left, messages and the input line on the right, the connection state below.

mod clock;
mod inbox;
mod line;
mod messages;
mod overlay;
pub(crate) mod sign_in;
#[cfg(test)]
mod tests;
mod theme;

use domain::{Timestamp, UserId};
use protocol::frame::PresenceStatus;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Borders, Paragraph, Wrap};

pub(crate) use theme::Theme;

use super::app::ChatApp;
use super::app::chat::InboxChat;
use super::app::effect::{ConnectionState, VisibleMessages};
use super::text;

/// The smallest terminal that has room for everything.
const SMALLEST: (u16, u16) = (60, 12);
const INBOX_COLUMNS: u16 = 26;
/// Maximum number of rows of the input line.
const LINE_ROWS_MAX: u16 = 6;

/// Draws everything, and returns the visible part of the messages.
pub(crate) fn draw(frame: &mut Frame<'_>, app: &ChatApp, now: Timestamp, theme: Theme) -> VisibleMessages {
    let area = frame.area();
    if is_too_small(frame) {
        return VisibleMessages { scroll: app.scroll, ..VisibleMessages::default() };
    }
    let [body, status] = Layout::vertical([Constraint::Fill(1), Constraint::Length(1)]).areas(area);
    let [left, right] = Layout::horizontal([Constraint::Length(INBOX_COLUMNS), Constraint::Fill(1)]).areas(body);
    inbox::draw(frame, left, app, theme);
    let seen = draw_chat(frame, right, app, now, theme);
    draw_status(frame, status, app, now, theme);
    if let Some(overlay) = &app.overlay {
        overlay::draw(frame, body, right, app, overlay, theme);
    }
    seen
}

/// Shows a message instead, if the terminal is too small.
fn is_too_small(frame: &mut Frame<'_>) -> bool {
    let area = frame.area();
    let (columns, rows) = SMALLEST;
    let is_too_small = area.width < columns || area.height < rows;
    if is_too_small {
        let words = format!("This terminal is {}×{}. Tidings needs {columns}×{rows}.", area.width, area.height);
        frame.render_widget(Paragraph::new(words).wrap(Wrap { trim: true }), area);
    }
    is_too_small
}

fn draw_chat(frame: &mut Frame<'_>, area: Rect, app: &ChatApp, now: Timestamp, theme: Theme) -> VisibleMessages {
    let line = line::layout(&app.line, usize::from(area.width).saturating_sub(4));
    let line_rows = u16::try_from(line.rows.len()).unwrap_or(LINE_ROWS_MAX).min(LINE_ROWS_MAX);
    let [header, messages, typing, written] = Layout::vertical([
        Constraint::Length(2),
        Constraint::Fill(1),
        Constraint::Length(1),
        Constraint::Length(line_rows + 1),
    ])
    .areas(area);
    line::draw(frame, written, &line, app.overlay.is_none(), theme);
    let Some(chat) = app.open_chat() else {
        draw_welcome(frame, messages, theme);
        return VisibleMessages { rows: messages.height.into(), ..VisibleMessages::default() };
    };
    draw_header(frame, header, app, chat, now, theme);
    draw_typing(frame, typing, app, chat, theme);
    messages::draw(frame, messages, app, chat, now, theme)
}

fn draw_header(frame: &mut Frame<'_>, area: Rect, app: &ChatApp, chat: &InboxChat, now: Timestamp, theme: Theme) {
    let mut facts = Vec::new();
    match chat.other().map(|other| app.presence(other)) {
        Some(PresenceStatus::Online) => facts.push("online".to_owned()),
        Some(PresenceStatus::Offline) => facts.push("offline".to_owned()),
        Some(PresenceStatus::Unknown) => {}
        None => facts.push(format!("{} members", chat.summary.member_count)),
    }
    if chat.is_muted(now) {
        facts.push("muted".to_owned());
    }
    if let Some(ttl) = chat.summary.message_ttl_seconds {
        facts.push(format!("messages vanish after {}", clock::left(std::time::Duration::from_secs(ttl))));
    }
    let title = text::fit(&text::one_line(chat.title()), usize::from(area.width / 2));
    let mut spans = vec![Span::raw(" "), Span::styled(title, theme.title())];
    for fact in facts {
        spans.push(Span::styled(format!(" · {fact}"), theme.dim()));
    }
    let block = Block::new().borders(Borders::BOTTOM).border_style(theme.dim());
    frame.render_widget(Paragraph::new(Line::from(spans)).block(block), area);
}

fn draw_typing(frame: &mut Frame<'_>, area: Rect, app: &ChatApp, chat: &InboxChat, theme: Theme) {
    let names: Vec<String> = chat.typing().map(|user_id| name(app, chat, user_id)).collect();
    let words = match names.as_slice() {
        [] if app.below > 0 => format!(" ↓ {} new below, Esc goes there", app.below),
        [] => return,
        [one] => format!(" {one} is typing…"),
        [one, other] => format!(" {one} and {other} are typing…"),
        several => format!(" {} people are typing…", several.len()),
    };
    frame.render_widget(Paragraph::new(words).style(theme.dim()), area);
}

fn draw_welcome(frame: &mut Frame<'_>, area: Rect, theme: Theme) {
    let lines = [
        Line::default(),
        Line::styled("  No chat is open.", theme.title()),
        Line::default(),
        Line::raw("  Ctrl-N opens the first one, Tab the next unread one,"),
        Line::raw("  Ctrl-K finds one by its name."),
        Line::raw("  /new +PHONE begins one, /help knows the rest."),
    ];
    frame.render_widget(Paragraph::new(lines.to_vec()), area);
}

fn draw_status(frame: &mut Frame<'_>, area: Rect, app: &ChatApp, now: Timestamp, theme: Theme) {
    let link = match app.link {
        ConnectionState::Connecting => Span::styled("○ connecting…", theme.warning()),
        ConnectionState::Connected => Span::styled("● connected", theme.good()),
        ConnectionState::Lost { retry_at } => {
            let left = clock::left(retry_at.since(now));
            Span::styled(format!("○ offline, next try in {left}; what you write is sent then"), theme.warning())
        }
    };
    let rest = match &app.notice {
        Some(notice) => Span::styled(text::one_line(&notice.text), theme.warning()),
        None => Span::styled(format!("{} · F1 help", text::one_line(&app.name)), theme.dim()),
    };
    let line = Line::from(vec![Span::raw(" "), link, Span::raw("  "), rest]);
    frame.render_widget(Paragraph::new(line), area);
}

/// Display name of a user: "You", a name, or the end of an id without a known name.
fn name(app: &ChatApp, chat: &InboxChat, user_id: UserId) -> String {
    if user_id == app.me {
        return "You".to_owned();
    }
    match chat.name_of(user_id) {
        Some(name) => text::one_line(name),
        None => format!("…{}", user_id.to_string().chars().skip(27).collect::<String>()),
    }
}
