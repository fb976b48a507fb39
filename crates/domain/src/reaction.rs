use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::limits::REACTION_BYTES_MAX;
use crate::name;

/// A reaction to a message: an emoji or a short code such as `thumbs_up`. The rules of names apply to its characters, so
/// that no two reactions look the same: Unicode's composed form (NFC), and none that is invisible or changes the
/// direction of text. The limit of [`REACTION_BYTES_MAX`] bytes applies to that form, so a stored reaction always parses.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Reaction(Box<str>);

/// Why a text is not a reaction.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReactionError {
    #[error("a reaction is empty")]
    Empty,
    #[error("a reaction has {0} bytes, limit is {REACTION_BYTES_MAX}")]
    TooLong(usize),
    #[error("a reaction has a space or a control character")]
    Space,
    #[error(
        "a reaction is an emoji or a short code such as `thumbs_up`; this one has invisible or misleading characters"
    )]
    Misleading,
}

impl Reaction {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Reaction {
    type Err = ReactionError;

    fn from_str(text: &str) -> Result<Self, ReactionError> {
        if text.is_empty() {
            return Err(ReactionError::Empty);
        }
        if text.chars().any(|c| c.is_whitespace() || c.is_control()) {
            return Err(ReactionError::Space);
        }
        let normal = name::parse(text, usize::MAX).map_err(|_| ReactionError::Misleading)?;
        if normal.len() > REACTION_BYTES_MAX {
            return Err(ReactionError::TooLong(normal.len()));
        }
        Ok(Self(normal.into()))
    }
}

impl fmt::Display for Reaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Serialize for Reaction {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Reaction {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_reaction_is_a_short_text_without_spaces() {
        assert!("👍🏽".parse::<Reaction>().is_ok());
        assert!("👩‍👩‍👧‍👦".parse::<Reaction>().is_ok());
        assert!("thumbs_up".parse::<Reaction>().is_ok());
        assert_eq!("".parse::<Reaction>(), Err(ReactionError::Empty));
        assert_eq!("x".repeat(65).parse::<Reaction>(), Err(ReactionError::TooLong(65)));
        assert_eq!("a b".parse::<Reaction>(), Err(ReactionError::Space));
        assert_eq!("a\u{0}".parse::<Reaction>(), Err(ReactionError::Space));
    }

    #[test]
    fn reactions_that_look_the_same_are_the_same_or_refused() {
        let reaction = |text: &str| text.parse::<Reaction>();
        for (text, composed) in [("e\u{301}", "\u{e9}"), ("☕\u{fe0f}", "☕"), ("❤\u{fe0f}", "❤\u{fe0f}")] {
            assert_eq!(reaction(text).unwrap().as_str(), composed, "{}", text.escape_unicode());
        }
        let scotland = "\u{1F3F4}\u{E0067}\u{E0062}\u{E0073}\u{E0063}\u{E0074}\u{E007F}";
        assert!(reaction(scotland).is_ok());
        for text in
            ["\u{202e}ok", "ok\u{200b}", "👍\u{200d}", "\u{e0041}", "p\u{430}y", &format!("h{}", "\u{315}".repeat(9))]
        {
            assert_eq!(reaction(text), Err(ReactionError::Misleading), "{}", text.escape_unicode());
        }
    }

    #[test]
    fn the_limit_applies_to_the_composed_form() {
        // One character of 3 bytes becomes three of 2 bytes.
        let grows = "\u{fb2c}".repeat(21);
        assert_eq!(grows.parse::<Reaction>(), Err(ReactionError::TooLong(126)));
        let shrinks = "e\u{301}".repeat(32);
        assert_eq!((shrinks.len(), shrinks.parse::<Reaction>().unwrap().as_str().len()), (96, 64));
    }

    proptest! {
        #[test]
        fn a_reaction_parses_to_itself(
            text in "[ae\u{fb2c}\u{1d160}\u{301}\u{308}\u{fe0f}👍🏽☕❤\u{200d}מक\u{94d}]{0,40}|\u{fb2c}{0,40}|\\PC{0,40}|.{0,80}",
        ) {
            if let Ok(reaction) = text.parse::<Reaction>() {
                prop_assert!(reaction.as_str().len() <= REACTION_BYTES_MAX);
                prop_assert_eq!(reaction.as_str().parse(), Ok(reaction.clone()));
            }
        }
    }
}
