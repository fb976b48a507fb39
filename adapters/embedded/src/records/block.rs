use domain::UserId;
use ports::BoxError;

use super::{Stored, from_bytes, to_bytes};

/// The members of a direct chat that have blocked the other one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct BlockedBy(pub(crate) Vec<UserId>);

impl Stored for BlockedBy {
    fn encode(&self) -> Vec<u8> {
        to_bytes(&self.0)
    }

    fn decode(bytes: &[u8]) -> Result<Self, BoxError> {
        let users: Vec<UserId> = from_bytes(bytes)?;
        match users.len() {
            1 | 2 => Ok(Self(users)),
            len => Err(format!("{len} of two have blocked the other").into()),
        }
    }
}
