//! Rules of names that other users see: no invisible characters, and no look-alike letters within a word.
//!
//! Two steps. [`normalize`] changes only the encoding of a name: a reader sees the same name. [`fault`] finds the first
//! character that a name must not have. A name that a user chooses is refused with that fault, and a name of another
//! system is cleaned of it ([`clean`]), so that it keeps nobody out.
//!
//! | characters | rule |
//! |---|---|
//! | any | composed (NFC) |
//! | spaces of any kind (category Zs) | a run becomes one space; none at the start and the end |
//! | variation selectors | dropped, except U+FE0F after a character that becomes an emoji by it |
//! | controls, bidi controls, tags, line separators, private use, unassigned, other default-ignorable characters, U+2800 | refused |
//! | ZWNJ and ZWJ | refused, except where they change how letters join (RFC 5892, appendix A); ZWJ also between emoji |
//! | the flags of England, Scotland and Wales | allowed, although they consist of tags |
//! | combining marks | refused without a character before them, and from the fifth in a row on (UTS 39, 5.4) |
//! | letters of two alphabets with similar letters, such as Latin and Cyrillic | refused within one word |
//! | letters and digits in a mathematical, circled or squared style, except emoji | refused; plain in a cleaned name |
//!
//! Unassigned characters that Unicode reserves for emoji are allowed, so that a new emoji needs no new release. Names
//! that are written entirely in look-alike letters of one alphabet are not detected. Fullwidth letters, ordinals (`Mª`)
//! and presentation forms are in real names, and are allowed.

use icu_normalizer::ComposingNormalizerBorrowed;
use icu_properties::props::{
    BinaryProperty, CanonicalCombiningClass, DefaultIgnorableCodePoint, Emoji, EmojiModifier, EmojiPresentation,
    EnumeratedProperty, ExtendedPictographic, GeneralCategory, GeneralCategoryGroup, JoiningType, Script,
    VariationSelector,
};

use crate::TextError;

/// The most combining marks on one character.
const MARKS_MAX: usize = 4;
/// The alphabets with letters that look like letters of Latin. Words do not mix them.
const SIMILAR_SCRIPTS: [(Script, &str); 10] = [
    (Script::Latin, "Latin"),
    (Script::Armenian, "Armenian"),
    (Script::Cherokee, "Cherokee"),
    (Script::Coptic, "Coptic"),
    (Script::Cyrillic, "Cyrillic"),
    (Script::Deseret, "Deseret"),
    (Script::Glagolitic, "Glagolitic"),
    (Script::Greek, "Greek"),
    (Script::Lisu, "Lisu"),
    (Script::Osage, "Osage"),
];
/// The emoji that consist of a black flag and tags: England, Scotland, Wales.
const TAG_FLAGS: [&str; 3] = [
    "\u{1F3F4}\u{E0067}\u{E0062}\u{E0065}\u{E006E}\u{E0067}\u{E007F}",
    "\u{1F3F4}\u{E0067}\u{E0062}\u{E0073}\u{E0063}\u{E0074}\u{E007F}",
    "\u{1F3F4}\u{E0067}\u{E0062}\u{E0077}\u{E006C}\u{E0073}\u{E007F}",
];
const ZWNJ: char = '\u{200C}';
const ZWJ: char = '\u{200D}';
/// Selects the presentation as an emoji.
const EMOJI_STYLE: char = '\u{FE0F}';
const KEYCAP: char = '\u{20E3}';
/// A braille pattern without dots: visible by its category, and blank.
const BRAILLE_BLANK: char = '\u{2800}';

/// A character that a name must not have.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NameFault {
    at: usize,
    pub(crate) error: TextError,
}

/// The name of 1 to `chars_max` characters that `text` means.
pub(crate) fn parse(text: &str, chars_max: usize) -> Result<String, TextError> {
    let chars = normalize(text.chars());
    if chars.is_empty() {
        return Err(TextError::Empty);
    }
    if let Some(fault) = fault(&chars) {
        return Err(fault.error);
    }
    if chars.len() > chars_max {
        return Err(TextError::TooLong { chars: chars.len(), chars_max });
    }
    Ok(chars.into_iter().collect())
}

/// A valid name of at most `chars_max` characters with as much of `text` as possible; `None` if nothing of it is left.
pub(crate) fn clean(text: &str, chars_max: usize) -> Option<String> {
    // A name has few characters to remove. The bound keeps the loop short for any other text.
    let mut chars = normalize(text.chars().take(2 * chars_max).flat_map(plain));
    loop {
        match fault(&chars) {
            Some(NameFault { at, .. }) => drop(chars.remove(at)),
            None if chars.len() > chars_max => chars.truncate(chars_max),
            None if chars.is_empty() => return None,
            None => return Some(chars.into_iter().collect()),
        }
        // Without the character, its neighbours may compose.
        chars = normalize(chars.into_iter());
    }
}

fn normalize(chars: impl Iterator<Item = char>) -> Vec<char> {
    // Selectors first: without one, the characters around it may compose.
    let (mut styled, mut chars): (Vec<char>, _) = (vec![], chars.peekable());
    while let Some(c) = chars.next() {
        if !VariationSelector::for_char(c) || is_emoji_style(styled.last().copied(), c, chars.peek().copied()) {
            styled.push(c);
        }
    }
    let mut normal: Vec<char> = vec![];
    for c in ComposingNormalizerBorrowed::new_nfc().normalize_iter(styled.into_iter()) {
        if GeneralCategory::for_char(c) != GeneralCategory::SpaceSeparator {
            normal.push(c);
        } else if normal.last().is_some_and(|last| *last != ' ') {
            normal.push(' ');
        }
    }
    normal.pop_if(|last| *last == ' ');
    normal
}

/// Whether the variation selector makes the character before it an emoji.
fn is_emoji_style(before: Option<char>, c: char, after: Option<char>) -> bool {
    let is_text = |before: char| {
        Emoji::for_char(before) && !EmojiPresentation::for_char(before) && (!before.is_ascii() || after == Some(KEYCAP))
    };
    c == EMOJI_STYLE && before.is_some_and(is_text)
}

/// The first fault of a normalized name.
fn fault(name: &[char]) -> Option<NameFault> {
    let mut marks = 0;
    // The alphabet of the current word, if it is one of the similar ones.
    let mut alphabet = None;
    let mut at = 0;
    while let Some(&c) = name.get(at) {
        if let Some(flag) = TAG_FLAGS.iter().find(|flag| flag.chars().eq(name[at..].iter().copied().take(7))) {
            (marks, alphabet) = (0, None);
            at += flag.chars().count();
            continue;
        }
        if !is_visible(c) && !is_joiner(name, at) {
            return Some(NameFault { at, error: TextError::Forbidden(c) });
        }
        if is_styled(c) {
            return Some(NameFault { at, error: TextError::StyledLetter(c) });
        }
        let category = GeneralCategory::for_char(c);
        if GeneralCategoryGroup::Mark.contains(category) && c != EMOJI_STYLE {
            marks += 1;
            if at == 0 || name[at - 1] == ' ' {
                return Some(NameFault { at, error: TextError::LooseMark(c) });
            }
            if marks > MARKS_MAX {
                return Some(NameFault { at, error: TextError::TooManyMarks(c) });
            }
        } else if !matches!(c, ZWNJ | ZWJ | EMOJI_STYLE) {
            marks = 0;
        }
        if GeneralCategoryGroup::Letter.contains(category) {
            let script = Script::for_char(c);
            let own = SIMILAR_SCRIPTS.iter().find(|(similar, _)| *similar == script).map(|(_, own)| *own);
            if let (Some(own), Some(first)) = (own, alphabet)
                && own != first
            {
                return Some(NameFault { at, error: TextError::MixedScripts { first, other: own, character: c } });
            }
            alphabet = alphabet.or(own);
        } else if !is_within_word(c, category) {
            alphabet = None;
        }
        at += 1;
    }
    None
}

/// Whether a character is seen: it is assigned, and no control or filler.
fn is_visible(c: char) -> bool {
    use GeneralCategory::*;
    match GeneralCategory::for_char(c) {
        Control | Format | Surrogate | PrivateUse | LineSeparator | ParagraphSeparator => false,
        Unassigned => ExtendedPictographic::for_char(c),
        _ => c == EMOJI_STYLE || (c != BRAILLE_BLANK && !DefaultIgnorableCodePoint::for_char(c)),
    }
}

/// Whether a letter or digit is a copy of a plain one in another style. Fonts show it like the plain one, and searches
/// and readers' software do not treat it as one.
fn is_styled(c: char) -> bool {
    let is_copy = matches!(c,
        // Parenthesized and circled, enclosed and squared, mathematical, Arabic mathematical.
        '\u{249C}'..='\u{24E9}' | '\u{1F110}'..='\u{1F189}' | '\u{1D400}'..='\u{1D7FF}' | '\u{1EE00}'..='\u{1EEFF}'
        // The mathematical letters that Unicode encoded first.
        | 'ℂ' | 'ℊ'..='ℓ' | 'ℕ' | 'ℙ'..='ℝ' | 'ℤ' | 'ℨ' | 'ℬ'..='ℭ' | 'ℯ'..='ℱ' | 'ℳ'..='ℴ' | 'ℼ'..='ℿ' | 'ⅅ'..='ⅉ');
    is_copy && !Emoji::for_char(c)
}

/// The plain letters that a styled one stands for. A few have no mapping in Unicode and stay as they are.
fn plain(c: char) -> impl Iterator<Item = char> {
    let (styled, other) = if is_styled(c) { (Some(c), None) } else { (None, Some(c)) };
    ComposingNormalizerBorrowed::new_nfkc().normalize_iter(styled.into_iter()).chain(other)
}

/// Whether the character is a joiner at a place where it has an effect: after a virama, between letters that would join
/// without it (RFC 5892, appendix A), or between two emoji.
fn is_joiner(name: &[char], at: usize) -> bool {
    let (before, after) = (&name[..at], &name[at + 1..]);
    let follows_virama = || {
        let class = before.last().map(|c| CanonicalCombiningClass::for_char(*c));
        class == Some(CanonicalCombiningClass::Virama)
    };
    match name[at] {
        ZWNJ => {
            let joining = |c: &char| JoiningType::for_char(*c);
            let is_solid = |kind: &JoiningType| *kind != JoiningType::Transparent;
            let before = before.iter().rev().map(joining).find(is_solid);
            let after = after.iter().map(joining).find(is_solid);
            let joins_left = matches!(before, Some(JoiningType::LeftJoining | JoiningType::DualJoining));
            let joins_right = matches!(after, Some(JoiningType::RightJoining | JoiningType::DualJoining));
            follows_virama() || (joins_left && joins_right)
        }
        ZWJ => {
            let is_emoji = |c: &char| ExtendedPictographic::for_char(*c);
            let ends_emoji = |c: &char| is_emoji(c) || *c == EMOJI_STYLE || EmojiModifier::for_char(*c);
            follows_virama() || (before.last().is_some_and(ends_emoji) && after.first().is_some_and(is_emoji))
        }
        _ => false,
    }
}

/// Whether a character that is not a letter continues a word: `a1`, `l'a`, `a_b`.
fn is_within_word(c: char, category: GeneralCategory) -> bool {
    GeneralCategoryGroup::Mark.contains(category)
        || GeneralCategoryGroup::Number.contains(category)
        || category == GeneralCategory::ConnectorPunctuation
        || matches!(c, ZWNJ | ZWJ | '\'' | '’')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parsed(text: &str) -> Result<String, TextError> {
        parse(text, 64)
    }

    #[test]
    fn names_in_any_script_are_kept() {
        let names = [
            "Ada Lovelace",
            "Zoë O’Brien-Smith",
            "Nguyễn Thị Hương",
            "Пётр Чайковский",
            "Ελένη",
            "עִבְרִית",
            "محمد",
            "می\u{200C}خواهم",
            "क्\u{200D}ष",
            "ශ්\u{200D}රී",
            "สมชายJohn",
            "東京Tower カフェ",
            "김Kim",
            "བསྒྲུབས",
            "Марко/Marko",
            "Team α",
            "α-team",
            "Ådne 2 µs",
            "👩🏽\u{200D}🚀 Ada",
            "🏳\u{FE0F}\u{200D}🌈",
            "👨\u{200D}👩\u{200D}👧",
            "1\u{FE0F}\u{20E3}",
            "❤\u{FE0F}",
            "🏴\u{E0067}\u{E0062}\u{E0073}\u{E0063}\u{E0074}\u{E007F} Iona",
            "🇩🇪",
            "🅰🅱",
            "Mª José № 5",
            "ＡＤＡ",
            "<b>$name</b>",
        ];
        for name in names {
            assert_eq!(parsed(name).as_deref(), Ok(name), "{}", name.escape_unicode());
        }
    }

    #[test]
    fn names_are_composed_and_spaces_collapse() {
        for (text, name) in [
            ("  Ada \u{A0}\u{3000} Lovelace ", "Ada Lovelace"),
            ("Zoe\u{308}", "Zo\u{EB}"),
            ("Zoe\u{FE0F}\u{308}", "Zo\u{EB}"),
            ("\u{212B}dne", "\u{C5}dne"),
            ("Ada\u{FE0F}", "Ada"),
            ("1\u{FE0F}", "1"),
            ("☕\u{FE0F}", "☕"),
            ("葛\u{E0100}", "葛"),
        ] {
            assert_eq!(parsed(text).as_deref(), Ok(name), "{}", text.escape_unicode());
        }
    }

    #[test]
    fn invisible_characters_are_refused_and_named() {
        let controls = "\u{0}\t\n\u{7F}\u{85}\u{2028}\u{2029}";
        let bidi = "\u{61C}\u{200E}\u{200F}\u{202A}\u{202B}\u{202C}\u{202D}\u{202E}\u{2066}\u{2067}\u{2068}\u{2069}";
        let zero_width = "\u{AD}\u{34F}\u{200B}\u{200C}\u{200D}\u{2060}\u{2063}\u{FEFF}\u{180E}\u{E0041}";
        let blank = "\u{115F}\u{1160}\u{3164}\u{FFA0}\u{2800}";
        let unassigned = "\u{E000}\u{F0000}\u{10FFFE}\u{378}";
        for c in [controls, bidi, zero_width, blank, unassigned].concat().chars() {
            for text in [format!("Ad{c}a"), format!("{c}Ada"), format!("Ada{c}")] {
                assert_eq!(parsed(&text), Err(TextError::Forbidden(c)), "{}", text.escape_unicode());
                assert_eq!(clean(&text, 64).as_deref(), Some("Ada"), "{}", text.escape_unicode());
            }
        }
        let error = parsed("Ad\u{202E}a").unwrap_err().to_string();
        assert_eq!(error, "name has U+202E, which is invisible or has no fixed meaning; remove it");
        // Joiners have no effect between these.
        for text in ["a\u{200D}👩", "👩\u{200D}", "\u{200D}👩", "م\u{200C}", "م\u{200C}a", "🏴\u{E0067}\u{E007F}"]
        {
            assert!(matches!(parsed(text), Err(TextError::Forbidden(_))), "{}", text.escape_unicode());
        }
    }

    #[test]
    fn letters_in_another_style_are_refused_and_plain_in_a_cleaned_name() {
        for (text, first, cleaned) in [
            ("\u{1D400}\u{1D41D}\u{1D41A}", '\u{1D400}', "Ada"),
            ("\u{24B6}da", '\u{24B6}', "Ada"),
            ("A\u{1F133}a", '\u{1F133}', "ADa"),
            ("ℝoss", 'ℝ', "Ross"),
            ("\u{1D7D9}st", '\u{1D7D9}', "1st"),
            ("\u{1EE0C}\u{1EE07}\u{1EE0C}\u{1EE03}", '\u{1EE0C}', "محمد"),
            // Unicode maps these to no plain letter.
            ("\u{1F150}Ada", '\u{1F150}', "Ada"),
        ] {
            assert_eq!(parsed(text), Err(TextError::StyledLetter(first)), "{}", text.escape_unicode());
            assert_eq!(clean(text, 64).as_deref(), Some(cleaned), "{}", text.escape_unicode());
        }
        let error = parsed("\u{1D400}da").unwrap_err().to_string();
        assert_eq!(error, "name has U+1D400, a letter in a mathematical or enclosed style; write it as a plain letter");
    }

    #[test]
    fn marks_need_a_character_and_are_few() {
        assert_eq!(parsed("\u{301}\u{301}"), Err(TextError::LooseMark('\u{301}')));
        assert_eq!(parsed("Ada \u{20DD}"), Err(TextError::LooseMark('\u{20DD}')));
        let zalgo = |marks: usize| format!("H{}", "\u{315}".repeat(marks));
        assert_eq!(parsed(&zalgo(4)), Ok(zalgo(4)));
        assert_eq!(parsed(&zalgo(5)), Err(TextError::TooManyMarks('\u{315}')));
        assert_eq!(clean(&zalgo(50), 64), Some(zalgo(4)));
        assert_eq!(clean("\u{301}\u{301}", 64), None);
    }

    #[test]
    fn a_word_has_letters_of_one_of_the_similar_alphabets() {
        // Cyrillic а; Greek ο; Armenian օ; Lisu ꓲ; between digits and signs of a word.
        for text in ["p\u{430}ypal", "Micr\u{3BF}soft", "\u{585}kta", "Bꓲll", "\u{430}1_b", "l\u{2019}\u{430}mi"] {
            assert!(matches!(parsed(text), Err(TextError::MixedScripts { .. })), "{}", text.escape_unicode());
        }
        let error = parsed("p\u{430}ypal").unwrap_err().to_string();
        assert_eq!(
            error,
            "a word of the name mixes Latin with Cyrillic letters (U+0430); write each word in one alphabet"
        );
        assert_eq!(clean("p\u{430}ypal", 64).as_deref(), Some("pypal"));
    }

    #[test]
    fn names_are_bounded_after_they_are_composed() {
        assert_eq!(parsed(&"e\u{301}".repeat(64)), Ok("é".repeat(64)));
        assert_eq!(parsed(&"é".repeat(65)), Err(TextError::TooLong { chars: 65, chars_max: 64 }));
        assert_eq!(clean(&"é".repeat(1000), 64), Some("é".repeat(64)));
        assert_eq!(clean("Ada Lovelace", 4).as_deref(), Some("Ada"));
        for text in ["", " ", "\u{3000}\u{A0}"] {
            assert_eq!((parsed(text), clean(text, 64)), (Err(TextError::Empty), None));
        }
    }

    proptest! {
        #[test]
        fn a_cleaned_name_is_valid_and_a_valid_one_is_unchanged(
            text in "[a-c \u{430}\u{3B1}\u{301}\u{308}\u{315}\u{200B}-\u{200F}\u{FE0F}\u{202E}👩🏽🚀☕❤مक\u{94D}]{0,80}|\\PC{0,80}|.{0,80}",
        ) {
            if let Some(name) = clean(&text, 64) {
                prop_assert_eq!(parse(&name, 64), Ok(name));
            }
            if let Ok(name) = parse(&text, 64) {
                prop_assert_eq!(parse(&name, 64), Ok(name.clone()));
                prop_assert_eq!(clean(&name, 64), Some(name));
            }
        }
    }
}
