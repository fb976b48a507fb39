//! Encodes the parts of a backup and chains their checksums.

use aws_lc_rs::digest::{Context, SHA256, digest};
use fjall::Slice;
use serde::Serialize;

use super::{FileVersion, MAGIC};

/// Length of a part before its payload.
pub(super) const HEAD_BYTES: usize = 9;
pub(super) const SUM_BYTES: usize = 32;

pub(super) type Sum = [u8; SUM_BYTES];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PartKind {
    Header,
    File,
    Rows,
    End,
}

impl PartKind {
    pub(super) fn byte(self) -> u8 {
        match self {
            Self::Header => b'H',
            Self::File => b'F',
            Self::Rows => b'T',
            Self::End => b'E',
        }
    }

    pub(super) fn of(byte: u8) -> Option<Self> {
        [Self::Header, Self::File, Self::Rows, Self::End].into_iter().find(|kind| kind.byte() == byte)
    }
}

/// The head of a part: its kind, its number and the length of its payload.
pub(super) fn head(kind: PartKind, number: u32, len: u32) -> [u8; HEAD_BYTES] {
    let mut head = [0; HEAD_BYTES];
    head[0] = kind.byte();
    head[1..5].copy_from_slice(&number.to_be_bytes());
    head[5..].copy_from_slice(&len.to_be_bytes());
    head
}

/// The first bytes of every file of a version.
pub(super) fn beginning(version: FileVersion) -> Vec<u8> {
    [&MAGIC[..], &[version as u8]].concat()
}

/// Initial value of the checksum chain.
pub(super) fn first_sum(version: FileVersion) -> Sum {
    sum_of(digest(&SHA256, &beginning(version)))
}

/// The checksum of a part.
pub(super) fn next_sum(before: &Sum, head: &[u8; HEAD_BYTES], payload: &[u8]) -> Sum {
    let mut context = Context::new(&SHA256);
    for bytes in [&before[..], head, payload] {
        context.update(bytes);
    }
    sum_of(context.finish())
}

fn sum_of(digest: aws_lc_rs::digest::Digest) -> Sum {
    digest.as_ref().try_into().expect("a SHA-256 has 32 bytes")
}

/// Encodes parts and chains them.
pub(super) struct Chain {
    sum: Sum,
    number: u32,
}

impl Chain {
    pub(super) fn begin(version: FileVersion) -> Self {
        Self { sum: first_sum(version), number: 0 }
    }

    /// The bytes of the next part.
    pub(super) fn part(&mut self, kind: PartKind, payload: &[u8]) -> Vec<u8> {
        let len = u32::try_from(payload.len()).expect("a payload is bounded");
        let head = head(kind, self.number, len);
        self.sum = next_sum(&self.sum, &head, payload);
        self.number += 1;
        [&head[..], payload, &self.sum].concat()
    }
}

pub(super) fn encode(row: &impl Serialize) -> Vec<u8> {
    postcard::to_stdvec(row).expect("numbers and texts serialize")
}

/// A length-prefixed name, followed by its bytes.
pub(super) fn named(name: &str, bytes: &[u8]) -> Vec<u8> {
    let len = u8::try_from(name.len()).expect("names of tables and files are short");
    [&[len][..], name.as_bytes(), bytes].concat()
}

/// Splits the result of [`named`].
pub(super) fn split_name(payload: &[u8]) -> Option<(&str, &[u8])> {
    let (len, rest) = payload.split_first()?;
    let (name, bytes) = rest.split_at_checked(usize::from(*len))?;
    Some((str::from_utf8(name).ok()?, bytes))
}

/// Appends a row to a block.
pub(super) fn push_row(block: &mut Vec<u8>, key: &Slice, row: &Slice) {
    for bytes in [key, row] {
        let len = u32::try_from(bytes.len()).expect("the engine keeps nothing longer");
        block.extend_from_slice(&len.to_be_bytes());
        block.extend_from_slice(bytes);
    }
}

/// Splits the first row off a block.
pub(super) fn split_row(block: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let (key, rest) = split_bytes(block)?;
    let (row, rest) = split_bytes(rest)?;
    Some((key, row, rest))
}

fn split_bytes(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (len, rest) = bytes.split_first_chunk()?;
    rest.split_at_checked(u32::from_be_bytes(*len) as usize)
}
