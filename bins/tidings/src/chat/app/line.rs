use std::collections::VecDeque;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use unicode_segmentation::UnicodeSegmentation;

/// Maximum length of the input history.
const HISTORY_LEN_MAX: usize = 100;

/// The input line: text, cursor and history.
#[derive(Clone, Debug, Default)]
pub(crate) struct InputLine {
    text: String,
    /// In bytes, always between two graphemes.
    cursor: usize,
    history: VecDeque<String>,
    /// Index of the recalled history line, and the text it replaced.
    recalled: Option<(usize, String)>,
}

/// Effect of a key on the line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LineEdit {
    /// The text changed.
    Changed,
    /// The cursor may have moved.
    Moved,
    /// The line does not handle this key.
    Ignored,
}

impl InputLine {
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    pub(crate) fn cursor(&self) -> usize {
        self.cursor
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// Replaces the text, with the cursor at its end.
    pub(crate) fn set(&mut self, text: String) {
        self.cursor = text.len();
        self.text = text;
        self.recalled = None;
    }

    /// Takes the text out and adds it to the history, unless it equals the previous entry.
    pub(crate) fn take(&mut self) -> String {
        let text = std::mem::take(&mut self.text);
        self.cursor = 0;
        self.recalled = None;
        self.remember(text.clone());
        text
    }

    /// Adds a text to the history.
    pub(crate) fn remember(&mut self, text: String) {
        if text.trim().is_empty() || self.history.back() == Some(&text) {
            return;
        }
        if self.history.len() == HISTORY_LEN_MAX {
            self.history.pop_front();
        }
        self.history.push_back(text);
    }

    /// Inserts typed or pasted text.
    pub(crate) fn insert(&mut self, text: &str) {
        let text = text.replace("\r\n", "\n").replace('\r', "\n").replace('\0', "");
        self.text.insert_str(self.cursor, &text);
        self.cursor += text.len();
    }

    pub(crate) fn handle_key(&mut self, key: KeyEvent) -> LineEdit {
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        let alt = key.modifiers.contains(KeyModifiers::ALT);
        match key.code {
            KeyCode::Char('j') if control => self.typed("\n"),
            KeyCode::Enter if alt || key.modifiers.contains(KeyModifiers::SHIFT) => self.typed("\n"),
            KeyCode::Char('a') if control => self.moved(self.line_start()),
            KeyCode::Char('e') if control => self.moved(self.line_end()),
            KeyCode::Char('u') if control => self.deleted(self.line_start(), self.cursor),
            KeyCode::Char('w') if control => self.deleted(self.word_left(), self.cursor),
            KeyCode::Char('d') if control => self.deleted(self.cursor, self.right()),
            KeyCode::Char('h') if control => self.deleted(self.left(), self.cursor),
            KeyCode::Char('b') if alt => self.moved(self.word_left()),
            KeyCode::Char('f') if alt => self.moved(self.word_right()),
            KeyCode::Char('d') if alt => self.deleted(self.cursor, self.word_right()),
            KeyCode::Char(character) if !control && !alt => self.typed(character.encode_utf8(&mut [0; 4])),
            KeyCode::Backspace if alt || control => self.deleted(self.word_left(), self.cursor),
            KeyCode::Backspace => self.deleted(self.left(), self.cursor),
            KeyCode::Delete => self.deleted(self.cursor, self.right()),
            KeyCode::Left if control || alt => self.moved(self.word_left()),
            KeyCode::Right if control || alt => self.moved(self.word_right()),
            KeyCode::Left => self.moved(self.left()),
            KeyCode::Right => self.moved(self.right()),
            KeyCode::Home => self.moved(self.line_start()),
            KeyCode::End => self.moved(self.line_end()),
            KeyCode::Up if !control && !alt => self.up(),
            KeyCode::Down if !control && !alt => self.down(),
            _ => LineEdit::Ignored,
        }
    }

    fn typed(&mut self, text: &str) -> LineEdit {
        self.text.insert_str(self.cursor, text);
        self.cursor += text.len();
        LineEdit::Changed
    }

    fn moved(&mut self, to: usize) -> LineEdit {
        self.cursor = to;
        LineEdit::Moved
    }

    fn deleted(&mut self, from: usize, to: usize) -> LineEdit {
        self.text.drain(from..to);
        self.cursor = from;
        LineEdit::Changed
    }

    fn left(&self) -> usize {
        self.text[..self.cursor].grapheme_indices(true).next_back().map_or(0, |(start, _)| start)
    }

    fn right(&self) -> usize {
        self.cursor + self.text[self.cursor..].graphemes(true).next().map_or(0, str::len)
    }

    fn word_left(&self) -> usize {
        self.text[..self.cursor].unicode_word_indices().next_back().map_or(0, |(start, _)| start)
    }

    fn word_right(&self) -> usize {
        let rest = &self.text[self.cursor..];
        rest.unicode_word_indices().next().map_or(self.text.len(), |(start, word)| self.cursor + start + word.len())
    }

    fn line_start(&self) -> usize {
        self.text[..self.cursor].rfind('\n').map_or(0, |end| end + 1)
    }

    fn line_end(&self) -> usize {
        self.text[self.cursor..].find('\n').map_or(self.text.len(), |end| self.cursor + end)
    }

    /// Moves one row up; from the first row, one entry back in the history.
    fn up(&mut self) -> LineEdit {
        let start = self.line_start();
        if start > 0 {
            let column = self.text[start..self.cursor].graphemes(true).count();
            self.cursor = start - 1;
            return self.moved(self.at_column(self.line_start(), column));
        }
        let place = self.recalled.as_ref().map_or(self.history.len(), |(place, _)| *place);
        let Some(earlier) = place.checked_sub(1) else { return LineEdit::Moved };
        let written = self.recalled.take().map_or_else(|| self.text.clone(), |(_, written)| written);
        self.set(self.history[earlier].clone());
        self.recalled = Some((earlier, written));
        LineEdit::Changed
    }

    /// Moves one row down; from the last row, one entry forward in the history, and finally to the unsent text.
    fn down(&mut self) -> LineEdit {
        let (start, end) = (self.line_start(), self.line_end());
        if end < self.text.len() {
            let column = self.text[start..self.cursor].graphemes(true).count();
            return self.moved(self.at_column(end + 1, column));
        }
        let Some((place, written)) = self.recalled.take() else { return LineEdit::Moved };
        match self.history.get(place + 1).cloned() {
            Some(later) => {
                self.set(later);
                self.recalled = Some((place + 1, written));
            }
            None => self.set(written),
        }
        LineEdit::Changed
    }

    /// Byte position of a column in the line that starts at `start`, or the end of a shorter line.
    fn at_column(&self, start: usize, column: usize) -> usize {
        let line = self.text[start..].split('\n').next().unwrap_or_default();
        start + line.grapheme_indices(true).nth(column).map_or(line.len(), |(offset, _)| offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: KeyModifiers = KeyModifiers::NONE;
    const CONTROL: KeyModifiers = KeyModifiers::CONTROL;
    const ALT: KeyModifiers = KeyModifiers::ALT;

    fn typed(text: &str) -> InputLine {
        let mut line = InputLine::default();
        line.insert(text);
        line
    }

    fn press(line: &mut InputLine, code: KeyCode, modifiers: KeyModifiers) -> LineEdit {
        line.handle_key(KeyEvent::new(code, modifiers))
    }

    /// The text, with the cursor as a bar.
    fn shown(line: &InputLine) -> String {
        let (before, after) = line.text.split_at(line.cursor);
        format!("{before}|{after}")
    }

    #[test]
    fn keys_edit_by_character_word_and_line() {
        let cases: &[(&str, KeyCode, KeyModifiers, &str)] = &[
            ("one two", KeyCode::Char('!'), NONE, "one two!|"),
            ("one two", KeyCode::Backspace, NONE, "one tw|"),
            ("one two", KeyCode::Char('w'), CONTROL, "one |"),
            ("one two", KeyCode::Char('u'), CONTROL, "|"),
            ("one two", KeyCode::Char('a'), CONTROL, "|one two"),
            ("one two", KeyCode::Left, NONE, "one tw|o"),
            ("one two", KeyCode::Left, CONTROL, "one |two"),
            ("one\ntwo", KeyCode::Home, NONE, "one\n|two"),
            ("one\ntwo", KeyCode::Up, NONE, "one|\ntwo"),
            ("one", KeyCode::Enter, ALT, "one\n|"),
            ("one", KeyCode::Char('j'), CONTROL, "one\n|"),
            ("👨‍👩‍👧e\u{301}", KeyCode::Backspace, NONE, "👨‍👩‍👧|"),
        ];
        for (text, code, modifiers, expected) in cases {
            let mut line = typed(text);
            press(&mut line, *code, *modifiers);
            assert_eq!(shown(&line), *expected, "{text:?} {code:?}");
        }
    }

    #[test]
    fn keys_that_are_not_the_lines_are_left_to_others() {
        let mut line = typed("one");
        for (code, modifiers) in [(KeyCode::Enter, NONE), (KeyCode::Char('k'), CONTROL), (KeyCode::PageUp, NONE)] {
            assert_eq!(press(&mut line, code, modifiers), LineEdit::Ignored, "{code:?}");
        }
        assert_eq!(shown(&line), "one|");
    }

    #[test]
    fn history_recalls_lines_and_keeps_the_unsent_text() {
        let mut line = InputLine::default();
        for text in ["first", "second", "second"] {
            line.insert(text);
            assert_eq!(line.take(), text);
        }
        line.insert("begun");
        let mut seen = Vec::new();
        for code in [KeyCode::Up, KeyCode::Up, KeyCode::Up, KeyCode::Down, KeyCode::Down, KeyCode::Down] {
            press(&mut line, code, NONE);
            seen.push(line.text().to_owned());
        }
        assert_eq!(seen, ["second", "first", "first", "second", "begun", "begun"]);
    }

    #[test]
    fn a_paste_keeps_its_lines_and_nothing_that_no_message_can_hold() {
        assert_eq!(typed("a\r\nb\rc\0").text(), "a\nb\nc");
    }

    #[test]
    fn history_is_bounded() {
        let mut line = InputLine::default();
        for n in 0..=HISTORY_LEN_MAX {
            line.remember(n.to_string());
        }
        assert_eq!((line.history.len(), line.history[0].as_str()), (HISTORY_LEN_MAX, "1"));
    }
}
