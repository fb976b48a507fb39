use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use domain::ChatId;

use super::line::{InputLine, LineEdit};

/// Finds a chat by a few letters of its name.
#[derive(Debug, Default)]
pub(crate) struct Finder {
    pub(crate) line: InputLine,
    /// Index of the selected match.
    pub(crate) chosen: usize,
}

/// Effect of a key on the finder.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum FinderAction {
    /// The search continues.
    Searching,
    /// This chat was selected.
    Chosen(ChatId),
    /// The finder was closed.
    Dismissed,
}

impl Finder {
    /// The chats with names that contain the letters in order; prefix matches come first.
    pub(crate) fn matches<'a>(&self, chats: impl Iterator<Item = (ChatId, &'a str)>) -> Vec<(ChatId, &'a str)> {
        let letters = self.line.text().trim().to_lowercase();
        let mut matches: Vec<_> = chats.filter(|(_, title)| has_letters(&title.to_lowercase(), &letters)).collect();
        matches.sort_by_key(|(_, title)| !title.to_lowercase().starts_with(&letters));
        matches
    }

    pub(crate) fn handle_key(&mut self, key: KeyEvent, matches: &[(ChatId, &str)]) -> FinderAction {
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Esc => return FinderAction::Dismissed,
            KeyCode::Char('k') if control => return FinderAction::Dismissed,
            KeyCode::Enter => {
                return matches
                    .get(self.chosen)
                    .map_or(FinderAction::Searching, |(chat_id, _)| FinderAction::Chosen(*chat_id));
            }
            KeyCode::Up => self.chosen = self.chosen.saturating_sub(1),
            KeyCode::Char('p') if control => self.chosen = self.chosen.saturating_sub(1),
            KeyCode::Down => self.chosen = (self.chosen + 1).min(matches.len().saturating_sub(1)),
            KeyCode::Char('n') if control => self.chosen = (self.chosen + 1).min(matches.len().saturating_sub(1)),
            _ => {
                if self.line.handle_key(key) == LineEdit::Changed {
                    self.chosen = 0;
                }
            }
        }
        FinderAction::Searching
    }
}

/// Whether a text contains all letters in order.
fn has_letters(text: &str, letters: &str) -> bool {
    let mut rest = text.chars();
    letters.chars().all(|letter| rest.any(|character| character == letter))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TITLES: [&str; 4] = ["Book club", "Ada", "Bob", "Grace"];

    fn press(finder: &mut Finder, code: KeyCode) -> FinderAction {
        let chats = (1_u8..).map(|n| ChatId::from_bytes([n; 16])).zip(TITLES);
        let matches = finder.matches(chats);
        finder.handle_key(KeyEvent::new(code, KeyModifiers::NONE), &matches)
    }

    fn found(letters: &str) -> Vec<&'static str> {
        let mut finder = Finder::default();
        finder.line.insert(letters);
        let chats = (1_u8..).map(|n| ChatId::from_bytes([n; 16])).zip(TITLES);
        finder.matches(chats).into_iter().map(|(_, title)| title).collect()
    }

    #[test]
    fn letters_are_found_in_their_order_and_beginnings_first() {
        assert_eq!(found(""), TITLES);
        assert_eq!(found("B"), ["Book club", "Bob"]);
        assert_eq!(found("bcl"), ["Book club"]);
        assert_eq!(found("a"), ["Ada", "Grace"]);
        assert_eq!(found("xyz"), [""; 0]);
    }

    #[test]
    fn enter_takes_the_chosen_one_and_escape_none() {
        let mut finder = Finder::default();
        assert_eq!(press(&mut finder, KeyCode::Char('b')), FinderAction::Searching);
        assert_eq!(press(&mut finder, KeyCode::Down), FinderAction::Searching);
        assert_eq!(press(&mut finder, KeyCode::Down), FinderAction::Searching);
        assert_eq!(press(&mut finder, KeyCode::Enter), FinderAction::Chosen(ChatId::from_bytes([3; 16])));
        assert_eq!(press(&mut finder, KeyCode::Char('z')), FinderAction::Searching);
        assert_eq!(press(&mut finder, KeyCode::Enter), FinderAction::Searching, "nothing is found");
        assert_eq!(press(&mut finder, KeyCode::Esc), FinderAction::Dismissed);
    }
}
