use ratatui::Frame;
use ratatui::layout::Position;
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

use super::{Theme, is_too_small};
use crate::chat::app::sign_in::{SignIn, SignInStep};
use crate::chat::text;

/// Row of the input line.
const LINE_ROW: u16 = 5;

/// Draws the sign-in dialog.
pub(crate) fn draw(frame: &mut Frame<'_>, sign_in: &SignIn, server: &str, theme: Theme) {
    if is_too_small(frame) {
        return;
    }
    let (question, hint) = match &sign_in.step {
        SignInStep::PhoneNumber => ("Your phone number", "with its country, as +14155550101".to_owned()),
        SignInStep::Code => ("The code", format!("sent to {}; Esc for another number", sign_in.phone_number)),
        SignInStep::Name { given, .. } => ("Your name", format!("as others see it; Enter alone keeps {given}")),
    };
    let said = match (&sign_in.refusal, sign_in.is_waiting) {
        (_, true) => Line::styled("  …", theme.dim()),
        (Some(refusal), _) => Line::styled(format!("  {}", text::one_line(refusal)), theme.bad()),
        (None, false) => Line::default(),
    };
    let lines = vec![
        Line::default(),
        Line::from(vec![Span::styled("  Tidings", theme.title()), Span::styled(format!("  {server}"), theme.dim())]),
        Line::default(),
        Line::styled(format!("  {question}"), theme.title()),
        Line::styled(format!("  {hint}"), theme.dim()),
        Line::raw(format!("  › {}", text::one_line(sign_in.line.text()))),
        Line::default(),
        said,
    ];
    frame.render_widget(Paragraph::new(lines), frame.area());
    let before = &sign_in.line.text()[..sign_in.line.cursor()];
    let column = u16::try_from(text::width(&text::one_line(before)) + 4).unwrap_or(u16::MAX);
    frame.set_cursor_position(Position::new(column.min(frame.area().width.saturating_sub(1)), LINE_ROW));
}
