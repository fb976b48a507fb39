use std::error::Error;
use std::fmt::{self, Write};

/// Prints an error with all of its causes: `the store is unavailable: connection refused`.
///
/// A log line records it as a field: `error = %error_chain(&failure)`. Every log format then shows the causes, and not
/// only the outermost message.
pub fn error_chain(error: &dyn Error) -> ErrorChain<'_> {
    ErrorChain(error)
}

/// An error whose `Display` includes its causes.
///
/// Control characters other than whitespace are escaped, because the text of an error may come from a peer and be
/// printed on a terminal.
#[derive(Clone, Copy, Debug)]
pub struct ErrorChain<'a>(&'a dyn Error);

impl fmt::Display for ErrorChain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(ControlEscaper(f), "{}", self.0)?;
        for cause in std::iter::successors(self.0.source(), |&cause| cause.source()) {
            write!(ControlEscaper(f), ": {cause}")?;
        }
        Ok(())
    }
}

/// Writes text and escapes its control characters.
struct ControlEscaper<'a, 'b>(&'a mut fmt::Formatter<'b>);

impl Write for ControlEscaper<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for part in text.split_inclusive(is_escaped) {
            let plain = part.trim_end_matches(is_escaped);
            self.0.write_str(plain)?;
            write!(self.0, "{}", part[plain.len()..].escape_default())?;
        }
        Ok(())
    }
}

fn is_escaped(character: char) -> bool {
    character.is_control() && !character.is_whitespace()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::StoreError;

    #[test]
    fn causes_follow_the_error() {
        let error = StoreError::unavailable(StoreError::unavailable("connection refused"));
        let text = "the store is unavailable: the store is unavailable: connection refused";
        assert_eq!(error_chain(&error).to_string(), text);
        assert_eq!(error_chain(&fmt::Error).to_string(), fmt::Error.to_string());
    }

    #[test]
    fn control_characters_of_a_peer_are_escaped() {
        let error = StoreError::unavailable("\u{1b}[31mline é\nnext\u{7f}\u{9b}1m");
        assert_eq!(
            error_chain(&error).to_string(),
            "the store is unavailable: \\u{1b}[31mline é\nnext\\u{7f}\\u{9b}1m"
        );
    }
}
