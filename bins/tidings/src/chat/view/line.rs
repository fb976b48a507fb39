use ratatui::Frame;
use ratatui::layout::{Position, Rect};
use ratatui::text::Line as TextLine;
use ratatui::widgets::{Block, Borders, Paragraph};
use unicode_segmentation::UnicodeSegmentation;

use super::Theme;
use crate::chat::app::line::InputLine;
use crate::chat::text;

/// The wrapped rows of the input line, and the cursor position in them.
pub(super) struct Laid {
    pub(super) rows: Vec<String>,
    row: usize,
    column: usize,
}

/// Breaks the text wherever a row is full, so that the cursor stays where the key was pressed.
pub(super) fn layout(line: &InputLine, columns: usize) -> Laid {
    let columns = columns.max(2);
    let mut laid = Laid { rows: vec![String::new()], row: 0, column: 0 };
    for (offset, grapheme) in line.text().grapheme_indices(true) {
        let last = laid.rows.len() - 1;
        if offset == line.cursor() {
            (laid.row, laid.column) = (last, text::width(&laid.rows[last]));
        }
        if grapheme == "\n" {
            laid.rows.push(String::new());
            continue;
        }
        let shown = text::printable(grapheme);
        if text::width(&laid.rows[last]) + text::width(&shown) > columns {
            laid.rows.push(shown);
        } else {
            laid.rows[last].push_str(&shown);
        }
    }
    if line.cursor() == line.text().len() {
        let last = laid.rows.len() - 1;
        (laid.row, laid.column) = (last, text::width(&laid.rows[last]));
    }
    laid
}

pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, laid: &Laid, has_cursor: bool, theme: Theme) {
    let block = Block::new().borders(Borders::TOP).border_style(theme.dim());
    let inner = block.inner(area);
    let fitting = usize::from(inner.height).max(1);
    let first = (laid.row + 1).saturating_sub(fitting);
    let lines: Vec<TextLine<'_>> = laid
        .rows
        .iter()
        .enumerate()
        .skip(first)
        .take(fitting)
        .map(|(n, row)| TextLine::raw(format!("{}{row}", if n == 0 { " › " } else { "   " })))
        .collect();
    frame.render_widget(Paragraph::new(lines).block(block), area);
    if has_cursor {
        let column = u16::try_from(laid.column + 3).unwrap_or(u16::MAX).min(inner.width.saturating_sub(1));
        let row = u16::try_from(laid.row - first).unwrap_or(0);
        frame.set_cursor_position(Position::new(inner.x + column, inner.y + row));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn laid(written: &str, back: usize) -> (Vec<String>, usize, usize) {
        let mut line = InputLine::default();
        line.insert(written);
        for _ in 0..back {
            line.handle_key(crossterm::event::KeyEvent::from(crossterm::event::KeyCode::Left));
        }
        let Laid { rows, row, column } = layout(&line, 4);
        (rows, row, column)
    }

    #[test]
    fn a_full_row_is_followed_by_another_and_the_cursor_stays_with_its_letter() {
        assert_eq!(laid("abcdef", 0), (vec!["abcd".into(), "ef".into()], 1, 2));
        assert_eq!(laid("abcdef", 3), (vec!["abcd".into(), "ef".into()], 0, 3));
        assert_eq!(laid("a\nb", 2), (vec!["a".into(), "b".into()], 0, 1));
        assert_eq!(laid("你好吗", 0), (vec!["你好".into(), "吗".into()], 1, 2));
        assert_eq!(laid("", 0), (vec!["".into()], 0, 0));
    }
}
