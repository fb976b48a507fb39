use unicode_segmentation::UnicodeSegmentation;
use unicode_width::UnicodeWidthStr;

/// Untrusted text, safe to print on a terminal. Characters that would move the cursor, recolour the screen or change
/// the text direction become replacement characters, so that a peer cannot draw over other messages.
pub(crate) fn printable(text: &str) -> String {
    let mut printable = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\n' => printable.push('\n'),
            '\t' => printable.push_str("    "),
            '\r' => {}
            '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => printable.push('\u{fffd}'),
            character if character.is_control() => printable.push('\u{fffd}'),
            character => printable.push(character),
        }
    }
    printable
}

/// The same, on one line.
pub(crate) fn one_line(text: &str) -> String {
    printable(text).replace('\n', " ")
}

/// Columns that a text occupies.
pub(crate) fn width(text: &str) -> usize {
    UnicodeWidthStr::width(text)
}

/// The beginning of a text that fits, with an ellipsis if it was cut.
pub(crate) fn fit(text: &str, columns: usize) -> String {
    if width(text) <= columns {
        return text.to_owned();
    }
    let mut fitting = String::new();
    for grapheme in text.graphemes(true) {
        if width(&fitting) + width(grapheme) + 1 > columns {
            break;
        }
        fitting.push_str(grapheme);
    }
    if columns > 0 {
        fitting.push('…');
    }
    fitting
}

/// Breaks a text into rows of at most this many columns: at its newlines, between words, and inside a word that is
/// longer than a row.
pub(crate) fn wrap(text: &str, columns: usize) -> Vec<String> {
    let columns = columns.max(2);
    let mut rows = Vec::new();
    for line in text.split('\n') {
        let mut row = String::new();
        for word in line.split_word_bounds() {
            if width(&row) + width(word) <= columns {
                row.push_str(word);
                continue;
            }
            if word.trim().is_empty() {
                // The space at which a row is broken is not carried over.
                rows.push(std::mem::take(&mut row));
                continue;
            }
            if !row.is_empty() {
                let kept = row.trim_end().len();
                row.truncate(kept);
                rows.push(std::mem::take(&mut row));
            }
            for grapheme in word.graphemes(true) {
                if width(&row) + width(grapheme) > columns {
                    rows.push(std::mem::take(&mut row));
                }
                row.push_str(grapheme);
            }
        }
        rows.push(row);
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_steers_a_terminal_is_left() {
        assert_eq!(
            printable("a\u{1b}[2Jb\r\n\tc\u{7}\u{202e}d\u{9b}"),
            "a\u{fffd}[2Jb\n    c\u{fffd}\u{fffd}d\u{fffd}"
        );
        assert_eq!(one_line("two\nlines"), "two lines");
    }

    #[test]
    fn rows_break_between_words_and_inside_of_long_ones() {
        assert_eq!(wrap("the quick brown fox", 10), ["the quick", "brown fox"]);
        assert_eq!(wrap("abcdefghij klm", 4), ["abcd", "efgh", "ij", "klm"]);
        assert_eq!(wrap("one\n\ntwo", 10), ["one", "", "two"]);
        assert_eq!(wrap("", 10), [""]);
    }

    #[test]
    fn wide_characters_count_as_two_columns() {
        assert_eq!(wrap("你好世界", 4), ["你好", "世界"]);
        assert_eq!(fit("你好世界", 5), "你好…");
        assert_eq!(fit("short", 5), "short");
        assert_eq!(fit("longer", 5), "long…");
        assert_eq!(fit("x", 0), "");
    }
}
