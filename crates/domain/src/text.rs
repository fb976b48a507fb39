use crate::limits::{CHAT_NAME_CHARS_MAX, DISPLAY_NAME_CHARS_MAX, SUSPENSION_REASON_CHARS_MAX};

/// Why a text is not a valid name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TextError {
    #[error("name is empty")]
    Empty,
    #[error("name has {chars} characters, limit is {chars_max}")]
    TooLong { chars: usize, chars_max: usize },
    #[error("name has a control character")]
    Control,
}

macro_rules! name {
    ($(#[$doc:meta])* $name:ident, $chars_max:expr) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct $name(String);

        impl $name {
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl TryFrom<String> for $name {
            type Error = TextError;

            fn try_from(text: String) -> Result<Self, TextError> {
                check(&text, $chars_max).map(|()| Self(text))
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

name!(
    /// Why a user is suspended, for operators: 1 to 200 characters.
    SuspensionReason,
    SUSPENSION_REASON_CHARS_MAX
);

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
        assert_eq!(ChatName::try_from("a\nb".to_owned()), Err(TextError::Control));
    }
}
