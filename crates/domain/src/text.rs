use std::fmt;

use crate::limits::{CHAT_NAME_CHARS_MAX, DISPLAY_NAME_CHARS_MAX, SUSPENSION_REASON_CHARS_MAX};
use crate::name;

/// Why a text is not a valid name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TextError {
    #[error("name is empty")]
    Empty,
    #[error("name has {chars} characters, limit is {chars_max}")]
    TooLong { chars: usize, chars_max: usize },
    #[error("name has a control character")]
    Control,
    #[error("name has {}, which is invisible or has no fixed meaning; remove it", CodePoint(.0))]
    Forbidden(char),
    #[error("name has {}, a letter in a mathematical or enclosed style; write it as a plain letter", CodePoint(.0))]
    StyledLetter(char),
    #[error("name has the combining mark {} without a character before it; remove it", CodePoint(.0))]
    LooseMark(char),
    #[error("name has too many combining marks on one character, at {}; remove some", CodePoint(.0))]
    TooManyMarks(char),
    #[error(
        "a word of the name mixes {first} with {other} letters ({}); write each word in one alphabet",
        CodePoint(character)
    )]
    MixedScripts { first: &'static str, other: &'static str, character: char },
}

/// A character by its number, because it may be invisible.
struct CodePoint<'a>(&'a char);

impl fmt::Display for CodePoint<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "U+{:04X}", u32::from(*self.0))
    }
}

macro_rules! name {
    ($(#[$doc:meta])* $name:ident, $chars_max:expr) => {
        $(#[$doc])*
        ///
        /// `try_from` normalizes it, and refuses characters that deceive readers.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct $name(String);

        impl $name {
            /// A name that was valid when it was stored. Rules for new names do not apply, because stored names of
            /// earlier releases stay readable.
            pub fn from_stored(text: String) -> Result<Self, TextError> {
                check(&text, $chars_max).map(|()| Self(text))
            }

            /// The name without the characters that are refused; `None` if nothing of it is left. For names of other
            /// systems, which must not keep a user out.
            pub fn cleaned(text: &str) -> Option<Self> {
                name::clean(text, $chars_max).map(Self)
            }

            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl TryFrom<String> for $name {
            type Error = TextError;

            fn try_from(text: String) -> Result<Self, TextError> {
                name::parse(&text, $chars_max).map(Self)
            }
        }
    };
}

name!(
    /// The display name of a user: 1 to 64 characters.
    DisplayName,
    DISPLAY_NAME_CHARS_MAX
);
impl DisplayName {
    /// The display name of every deleted account.
    pub fn deleted_account() -> Self {
        Self("Deleted account".to_owned())
    }
}

name!(
    /// The name of a group: 1 to 128 characters.
    ChatName,
    CHAT_NAME_CHARS_MAX
);

/// Why a user is suspended, for operators: 1 to 200 characters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SuspensionReason(String);

impl SuspensionReason {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for SuspensionReason {
    type Error = TextError;

    fn try_from(text: String) -> Result<Self, TextError> {
        check(&text, SUSPENSION_REASON_CHARS_MAX).map(|()| Self(text))
    }
}

fn check(text: &str, chars_max: usize) -> Result<(), TextError> {
    let chars = text.chars().count();
    if text.trim().is_empty() {
        Err(TextError::Empty)
    } else if chars > chars_max {
        Err(TextError::TooLong { chars, chars_max })
    } else if text.chars().any(char::is_control) {
        Err(TextError::Control)
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_bounded_in_characters() {
        assert!(DisplayName::try_from("é".repeat(64)).is_ok());
        assert_eq!(DisplayName::try_from("é".repeat(65)), Err(TextError::TooLong { chars: 65, chars_max: 64 }));
        assert_eq!(ChatName::try_from(" ".to_owned()), Err(TextError::Empty));
        assert_eq!(ChatName::try_from("a\nb".to_owned()), Err(TextError::Forbidden('\n')));
    }

    #[test]
    fn stored_names_of_earlier_releases_stay_readable() {
        for text in [" Ada ", "Ad\u{202E}a", "p\u{430}ypal", "Zoe\u{308}", "\u{301}"] {
            assert_eq!(DisplayName::from_stored(text.to_owned()).unwrap().as_str(), text);
        }
        assert_eq!(DisplayName::from_stored("a\nb".to_owned()), Err(TextError::Control));
        assert_eq!(DisplayName::from_stored("é".repeat(65)), Err(TextError::TooLong { chars: 65, chars_max: 64 }));
    }
}
