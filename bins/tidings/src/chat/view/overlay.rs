use domain::Role;
use protocol::frame::PresenceStatus;
use ratatui::Frame;
use ratatui::layout::{Position, Rect};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Clear, Paragraph};

use super::Theme;
use crate::chat::app::command::COMMANDS;
use crate::chat::app::finder::Finder;
use crate::chat::app::{ChatApp, Overlay};
use crate::chat::text;

const KEYS: &[(&str, &str)] = &[
    ("Enter, Alt-Enter", "send, begin a new line"),
    ("Ctrl-K, Tab", "find a chat, go to the next unread one"),
    ("Ctrl-N, Ctrl-P", "next and previous chat"),
    ("PgUp, PgDn, Esc", "look back, forward, to the end"),
    ("Up, Down", "what you wrote before"),
    ("Ctrl-C", "end"),
];

/// Draws an overlay above the chat, or above the whole screen if it needs the space.
pub(super) fn draw(frame: &mut Frame<'_>, all: Rect, chat: Rect, app: &ChatApp, overlay: &Overlay, theme: Theme) {
    match overlay {
        Overlay::Help => draw_help(frame, all, theme),
        Overlay::Who => draw_members(frame, chat, app, theme),
        Overlay::Finder(finder) => draw_finder(frame, chat, app, finder, theme),
    }
}

fn draw_help(frame: &mut Frame<'_>, area: Rect, theme: Theme) {
    let columns = 23;
    let row = |(name, does): &(&'static str, &'static str)| {
        Line::from(vec![Span::styled(format!(" {name:<columns$}"), theme.title()), Span::raw(*does)])
    };
    let lines: Vec<Line<'_>> = KEYS.iter().chain(COMMANDS).map(row).collect();
    draw_box(frame, area, " Help, any key closes it ", lines, theme);
}

fn draw_members(frame: &mut Frame<'_>, area: Rect, app: &ChatApp, theme: Theme) {
    let Some(chat) = app.open_chat() else { return };
    let lines = chat.members.iter().map(|member| {
        let role = match member.role {
            Role::Owner => " · owner",
            Role::Admin => " · admin",
            Role::Member => "",
        };
        let presence = match app.presence(member.user_id) {
            _ if member.user_id == app.me => " · you",
            PresenceStatus::Online => " · online",
            PresenceStatus::Offline => " · offline",
            PresenceStatus::Unknown => "",
        };
        let name = Span::raw(format!(" {}", text::one_line(&member.display_name)));
        Line::from(vec![name, Span::styled(format!("{role}{presence}"), theme.dim())])
    });
    draw_box(frame, area, " Members, any key closes it ", lines.collect(), theme);
}

fn draw_finder(frame: &mut Frame<'_>, area: Rect, app: &ChatApp, finder: &Finder, theme: Theme) {
    let inbox = app.inbox();
    let matches = finder.matches(inbox.iter().map(|chat| (chat.summary.chat_id, chat.title())));
    let mut lines = vec![Line::raw(format!(" › {}", text::one_line(finder.line.text())))];
    let fitting = usize::from(area.height).saturating_sub(4).min(10);
    let first = (finder.chosen + 1).saturating_sub(fitting);
    for (n, (_, title)) in matches.iter().enumerate().skip(first).take(fitting) {
        let style = if n == finder.chosen { theme.chosen() } else { ratatui::style::Style::new() };
        lines.push(Line::styled(format!("   {} ", text::one_line(title)), style));
    }
    if matches.is_empty() {
        lines.push(Line::styled("   no chat has these letters", theme.dim()));
    }
    let inner = draw_box(frame, area, " Find a chat ", lines, theme);
    let before = &finder.line.text()[..finder.line.cursor()];
    let column = u16::try_from(text::width(&text::one_line(before)) + 3).unwrap_or(u16::MAX);
    frame.set_cursor_position(Position::new(inner.x + column.min(inner.width.saturating_sub(1)), inner.y));
}

/// Draws a box in the upper middle. Returns the area of its lines.
fn draw_box(frame: &mut Frame<'_>, area: Rect, title: &str, lines: Vec<Line<'_>>, theme: Theme) -> Rect {
    let height = u16::try_from(lines.len() + 2).unwrap_or(u16::MAX).min(area.height);
    let width = area.width.saturating_sub(2);
    let area = Rect { x: area.x + 1, y: area.y, width, height };
    let block = Block::bordered().title(title.to_owned()).border_style(theme.dim());
    let inner = block.inner(area);
    frame.render_widget(Clear, area);
    frame.render_widget(Paragraph::new(lines).block(block), area);
    inner
}
