//! Damages valid input, for tests of parsers and decoders of untrusted data.
//!
//! The first check of a decoder rejects random bytes. Almost valid input finds more defects: a flipped bit, a missing
//! or repeated piece, a length beyond the end, the tail of another input.
//!
//! Properties that use this crate live in modules called `fuzz`. `cargo xtask fuzz` runs them for as long as you like.
#![warn(missing_docs)]

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};

/// Numbers and lengths at the limits of binary encodings.
const PIECES_OF_BYTES: &[&[u8]] = &[
    &[0],
    &[0xff],
    &[0x80],
    &[0xff, 0xff, 0xff, 0xff, 0x0f],
    &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01],
    &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
    &[0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80],
    &[0x7f, 0xff, 0xff, 0xff],
    &[0xc3, 0x28],
    &[0xed, 0xa0, 0x80],
];

/// Characters and numbers common in text and JSON, and ones that should not occur there.
const PIECES_OF_TEXT: &[&[u8]] = &[
    b"\"",
    b"\\",
    b"{",
    b"}",
    b"[",
    b"]",
    b",",
    b":",
    b".",
    b"_",
    b"%00",
    b"%",
    b"&",
    b"=",
    b"null",
    b"true",
    b"-1",
    b"0",
    b"1e999",
    b"0.5",
    b"18446744073709551615",
    b"18446744073709551616",
    b"99999999999999999999999999999999999999",
    b"\\u0000",
    b"\\ud800",
    b"\0",
    b"\r\n",
    b"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[",
    "\u{feff}".as_bytes(),
    "\u{202e}".as_bytes(),
    "\u{1f600}".as_bytes(),
    b"2026-02-30T25:61:61Z",
];

/// One mutation of the input.
#[derive(Clone, Debug)]
enum Mutation {
    /// Flips one bit.
    Flip(Index, u32),
    /// Replaces one byte.
    Replace(Index, u8),
    /// Removes the end.
    Cut(Index),
    /// Removes a piece.
    Remove(Index, Index),
    /// Repeats a piece.
    Repeat(Index, Index),
    /// Inserts a piece from the list.
    Insert(Index, &'static [u8]),
    /// Overwrites bytes with a piece from the list.
    Overwrite(Index, &'static [u8]),
    /// Replaces the end with that of another input.
    Splice(Index, Index),
}

/// Mostly valid input with one to four mutations; sometimes random bytes.
pub fn bytes(valid: impl Strategy<Value = Vec<u8>> + 'static) -> BoxedStrategy<Vec<u8>> {
    let valid = valid.boxed();
    prop_oneof![1 => vec(any::<u8>(), 0..200), 9 => damaged(valid, PIECES_OF_BYTES)].boxed()
}

/// The same for text, including JSON.
pub fn text(valid: impl Strategy<Value = String> + 'static) -> BoxedStrategy<String> {
    let valid = valid.prop_map(String::into_bytes).boxed();
    // Functions that take a `&str` never receive invalid UTF-8, so broken sequences are replaced.
    let damaged = damaged(valid, PIECES_OF_TEXT).prop_map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    prop_oneof![1 => ".{0,200}", 9 => damaged].boxed()
}

fn damaged(valid: BoxedStrategy<Vec<u8>>, pieces: &'static [&'static [u8]]) -> impl Strategy<Value = Vec<u8>> {
    (valid.clone(), valid, vec(damage(pieces), 1..5)).prop_map(|(mut bytes, other, damages)| {
        for damage in damages {
            damage.happen_to(&mut bytes, &other);
        }
        bytes
    })
}

fn damage(pieces: &'static [&'static [u8]]) -> impl Strategy<Value = Mutation> {
    let at = any::<Index>;
    prop_oneof![
        3 => (at(), 0..8u32).prop_map(|(at, bit)| Mutation::Flip(at, bit)),
        2 => (at(), any::<u8>()).prop_map(|(at, byte)| Mutation::Replace(at, byte)),
        1 => at().prop_map(Mutation::Cut),
        2 => (at(), at()).prop_map(|(one, other)| Mutation::Remove(one, other)),
        1 => (at(), at()).prop_map(|(one, other)| Mutation::Repeat(one, other)),
        2 => (at(), select(pieces)).prop_map(|(at, piece)| Mutation::Insert(at, piece)),
        2 => (at(), select(pieces)).prop_map(|(at, piece)| Mutation::Overwrite(at, piece)),
        1 => (at(), at()).prop_map(|(own, other)| Mutation::Splice(own, other)),
    ]
}

impl Mutation {
    fn happen_to(self, bytes: &mut Vec<u8>, other: &[u8]) {
        // The end is a valid position: an insertion there appends.
        let len = bytes.len();
        let place = |index: Index| index.index(len + 1);
        let piece = |one: Index, other: Index| {
            let (one, other) = (place(one), place(other));
            one.min(other)..one.max(other)
        };
        match self {
            Self::Flip(at, bit) => {
                if let Some(byte) = bytes.get_mut(at.index(len.max(1))) {
                    *byte ^= 1 << bit;
                }
            }
            Self::Replace(at, with) => {
                if let Some(byte) = bytes.get_mut(at.index(len.max(1))) {
                    *byte = with;
                }
            }
            Self::Cut(at) => bytes.truncate(place(at)),
            Self::Remove(one, other) => drop(bytes.drain(piece(one, other))),
            Self::Repeat(one, other) => {
                let range = piece(one, other);
                let again = bytes[range.clone()].to_vec();
                bytes.splice(range.end..range.end, again);
            }
            Self::Insert(at, piece) => drop(bytes.splice(place(at)..place(at), piece.iter().copied())),
            Self::Overwrite(at, piece) => {
                let from = place(at);
                let to = len.min(from + piece.len());
                bytes.splice(from..to, piece.iter().copied());
            }
            Self::Splice(own, others) => {
                bytes.truncate(place(own));
                bytes.extend_from_slice(&other[others.index(other.len() + 1)..]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;

    use super::*;

    fn samples<T>(strategy: &BoxedStrategy<T>) -> Vec<T>
    where
        T: std::fmt::Debug,
    {
        let mut runner = TestRunner::deterministic();
        (0..2_000).map(|_| strategy.new_tree(&mut runner).expect("nothing is filtered").current()).collect()
    }

    #[test]
    fn most_damaged_samples_resemble_the_original_and_every_kind_of_damage_occurs() {
        let damaged = samples(&bytes(Just(b"0123456789".to_vec())));
        let shares_a_piece =
            |bytes: &[u8]| bytes.windows(3).any(|piece| b"0123456789".windows(3).any(|own| own == piece));
        let close = damaged.iter().filter(|bytes| shares_a_piece(bytes)).count();
        assert!(close > 1_200, "{close} of 2000");
        let lengths: BTreeSet<usize> = damaged.iter().map(Vec::len).collect();
        assert!(lengths.contains(&0) && lengths.contains(&10) && lengths.iter().any(|len| *len > 10));
        assert!(
            damaged.iter().any(|bytes| bytes.windows(10).any(|piece| piece == PIECES_OF_BYTES[4])),
            "lengths explode"
        );
    }

    #[test]
    fn nothing_happens_to_nothing_without_a_panic() {
        assert!(samples(&bytes(Just(vec![]))).iter().any(Vec::is_empty));
        assert!(samples(&text(Just(String::new()))).iter().any(String::is_empty));
    }

    #[test]
    fn damaged_text_nests_deep_and_has_invalid_numbers_and_characters() {
        let damaged = samples(&text(Just(r#"{"a":1}"#.to_owned())));
        for piece in ["[[[[[[[[[[[[[[[[", "18446744073709551616", "\\ud800", "\0"] {
            assert!(damaged.iter().any(|text| text.contains(piece)), "{piece:?}");
        }
    }
}
