use protocol::frame::PresenceStatus;
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Borders, Paragraph};

use super::Theme;
use crate::chat::app::ChatApp;
use crate::chat::app::chat::InboxChat;
use crate::chat::text;

/// Rows of one chat: its name, and the start of its last message.
const ROWS: usize = 2;

/// Draws the inbox, scrolled so that the open chat is visible.
pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, app: &ChatApp, theme: Theme) {
    let block = Block::new().borders(Borders::RIGHT).border_style(theme.dim());
    let columns = usize::from(block.inner(area).width);
    let fitting = usize::from(area.height) / ROWS;
    let inbox = app.inbox();
    let open = inbox.iter().position(|chat| Some(chat.summary.chat_id) == app.open).unwrap_or(0);
    let first = (open + 1).saturating_sub(fitting);
    let lines: Vec<Line<'_>> =
        inbox.iter().skip(first).take(fitting).flat_map(|chat| entry(app, chat, columns, theme)).collect();
    let lines = if lines.is_empty() { vec![Line::styled(" no chats yet", theme.dim())] } else { lines };
    frame.render_widget(Paragraph::new(lines).block(block), area);
}

fn entry(app: &ChatApp, chat: &InboxChat, columns: usize, theme: Theme) -> [Line<'static>; ROWS] {
    let is_open = Some(chat.summary.chat_id) == app.open;
    let edge = if is_open { "▌" } else { " " };
    let (mark, mark_style) = match chat.other().map(|other| app.presence(other)) {
        Some(PresenceStatus::Online) => ("● ", theme.good()),
        Some(PresenceStatus::Offline) => ("○ ", theme.dim()),
        Some(PresenceStatus::Unknown) => ("  ", theme.dim()),
        None => ("# ", theme.dim()),
    };
    let unread = match (chat.summary.unread_count, chat.summary.unread_count_exact) {
        (0, _) => String::new(),
        (count @ 1..1000, true) => format!(" {count} "),
        (count @ 1..1000, false) => format!(" {count}+ "),
        _ => " 999+ ".to_owned(),
    };
    let room = columns.saturating_sub(3 + text::width(&unread));
    let title = text::fit(&text::one_line(chat.title()), room);
    let gap = " ".repeat(room.saturating_sub(text::width(&title)));
    let title_style = if is_open || !unread.is_empty() { theme.title() } else { ratatui::style::Style::new() };
    let first = Line::from(vec![
        Span::raw(edge),
        Span::styled(mark, mark_style),
        Span::styled(title, title_style),
        Span::raw(gap),
        Span::styled(unread, theme.unread().patch(theme.chosen())),
    ]);
    let second = Line::from(vec![
        Span::raw(edge),
        Span::raw("  "),
        Span::styled(text::fit(&preview(app, chat), columns.saturating_sub(4)), theme.dim()),
    ]);
    [first, second]
}

/// The unsent draft, or else the start of the last message.
fn preview(app: &ChatApp, chat: &InboxChat) -> String {
    if !chat.draft.is_empty() {
        return format!("draft: {}", text::one_line(&chat.draft));
    }
    let Some(last) = &chat.summary.last_message else { return "no messages".to_owned() };
    let said = last.preview.as_deref().map_or_else(|| "(encrypted)".to_owned(), text::one_line);
    if last.sender_id == app.me { format!("You: {said}") } else { said }
}
