//! Converts between the wire types and the domain types, field by field.
//!
//! `to_*` writes domain values. `read_*` parses and validates a peer's input.

mod assertion;
#[cfg(test)]
mod fuzz;
mod identity;
mod ingest;
mod presence;
mod routing;
mod updates;

use std::error::Error;

use domain::{ClientMessageId, UuidSpelling};
use ports::{StoreError, error_chain};
use tonic::Status;

pub(crate) use self::assertion::{read_claims, read_renew_reply, read_renewal, to_claims, to_renew_reply};
pub(crate) use self::identity::{
    live_chunks, read_device, read_holders, read_identity, read_live, to_identity_reply, to_live_reply,
};
pub(crate) use self::ingest::{
    read_advance, read_advance_reply, read_outcome, read_send, read_sync, read_sync_reply, to_advance,
    to_advance_reply, to_outcome, to_send, to_sync, to_sync_reply,
};
pub(crate) use self::presence::{look_chunks, read_look_reply, read_looks, to_look_reply};
pub(crate) use self::routing::{
    read_pushes, read_revocation, read_signal, read_signal_reply, to_deliveries, to_revocation, to_signal,
    to_signal_reply,
};
use crate::proto;

/// Largest error text, in bytes.
const TEXT_BYTES_MAX: usize = 1024;

/// A peer's input that is invalid.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Malformed {
    #[error("`{field}` has {bytes} bytes, an id has 16")]
    Id { field: &'static str, bytes: usize },
    #[error("`{field}` has {bytes} bytes, which are no ids of 16")]
    Ids { field: &'static str, bytes: usize },
    #[error("`{field}` is missing")]
    Missing { field: &'static str },
    #[error("`{field}` cannot be used: {reason}")]
    Value { field: &'static str, reason: String },
}

impl Malformed {
    fn value(field: &'static str, reason: impl ToString) -> Self {
        Self::Value { field, reason: reason.to_string() }
    }
}

impl From<Malformed> for Status {
    fn from(malformed: Malformed) -> Self {
        Self::invalid_argument(malformed.to_string())
    }
}

/// The text of a store error in another process.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct SaidElsewhere(String);

/// Includes all causes, because operators look for them in the caller's log.
pub(crate) fn to_store_error(error: &StoreError) -> proto::StoreError {
    use proto::store_error::Kind;
    let kind = match error {
        StoreError::Unavailable(source) => Kind::Unavailable(text_of(&**source)),
        StoreError::Corrupt { .. } => Kind::Corrupt(text_of(error)),
    };
    proto::StoreError { kind: Some(kind) }
}

pub(crate) fn read_store_error(error: proto::StoreError) -> StoreError {
    use proto::store_error::Kind;
    match error.kind {
        Some(Kind::Unavailable(text)) => StoreError::unavailable(SaidElsewhere(text)),
        // Table names are static strings of this version, and may differ in the peer's. The text has the right one.
        Some(Kind::Corrupt(text)) => StoreError::Corrupt { table: "remote", source: SaidElsewhere(text).into() },
        None => StoreError::unavailable(Malformed::Missing { field: "error.kind" }),
    }
}

/// Reads a reply that has only an optional error.
pub(crate) fn read_taken(error: Option<proto::StoreError>) -> Result<(), StoreError> {
    error.map_or(Ok(()), |error| Err(read_store_error(error)))
}

/// An error and its causes as one text.
fn text_of(error: &dyn Error) -> String {
    let mut text = error_chain(error).to_string();
    let end = text.floor_char_boundary(TEXT_BYTES_MAX);
    text.truncate(end);
    text
}

fn read_id<T>(field: &'static str, bytes: &[u8], from_bytes: fn([u8; 16]) -> T) -> Result<T, Malformed> {
    bytes.try_into().map(from_bytes).map_err(|_| Malformed::Id { field, bytes: bytes.len() })
}

fn read_client_message_id(bytes: &[u8], spelling: u64) -> Result<ClientMessageId, Malformed> {
    let field = "client_message_id_spelling";
    let spelling = UuidSpelling::from_bits(spelling).ok_or_else(|| Malformed::value(field, spelling))?;
    Ok(read_id("client_message_id", bytes, ClientMessageId::from_bytes)?.spelled(spelling))
}

fn read_optional_id<T>(
    field: &'static str,
    bytes: Option<Vec<u8>>,
    from_bytes: fn([u8; 16]) -> T,
) -> Result<Option<T>, Malformed> {
    bytes.map(|bytes| read_id(field, &bytes, from_bytes)).transpose()
}

/// Reads concatenated ids.
fn read_ids<T>(field: &'static str, bytes: &[u8], from_bytes: fn([u8; 16]) -> T) -> Result<Vec<T>, Malformed> {
    match bytes.as_chunks() {
        (ids, []) => Ok(ids.iter().copied().map(from_bytes).collect()),
        _ => Err(Malformed::Ids { field, bytes: bytes.len() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_of_a_store_crosses_with_its_causes() {
        let corrupt = || StoreError::Corrupt { table: "sessions", source: "an odd byte".into() };
        for (error, expected) in [
            (StoreError::unavailable("the disk is full"), "the store is unavailable: the disk is full"),
            (
                corrupt(),
                "a stored record of `remote` is unreadable: a stored record of `sessions` is unreadable: an odd byte",
            ),
        ] {
            let crossed = read_store_error(to_store_error(&error));
            assert_eq!(text_of(&crossed), expected);
            assert_eq!(std::mem::discriminant(&crossed), std::mem::discriminant(&error));
        }
    }

    #[test]
    fn a_long_error_is_cut_between_characters() {
        let text = text_of(&StoreError::unavailable("é".repeat(2000)));
        assert!((1020..=1024).contains(&text.len()));
    }

    #[test]
    fn ids_have_sixteen_bytes_each() {
        assert_eq!(read_ids("ids", &[7; 32], |id| id), Ok(vec![[7; 16]; 2]));
        assert_eq!(read_ids("ids", &[], |id| id), Ok(vec![]));
        assert_eq!(read_ids("ids", &[7; 33], |id| id), Err(Malformed::Ids { field: "ids", bytes: 33 }));
        assert_eq!(read_id("id", &[7; 15], |id| id), Err(Malformed::Id { field: "id", bytes: 15 }));
    }
}
