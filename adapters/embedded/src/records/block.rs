use domain::UserId;
use ports::BoxError;

use super::{IdBytes, Stored, from_bytes, to_bytes};

/// Who of the two of a direct chat has blocked the other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct BlockedBy(pub(crate) Vec<UserId>);

impl Stored for BlockedBy {
    fn encode(&self) -> Vec<u8> {
        to_bytes(&self.0.iter().map(|user_id| user_id.to_bytes()).collect::<Vec<_>>())
    }

    fn decode(bytes: &[u8]) -> Result<Self, BoxError> {
        let users: Vec<IdBytes> = from_bytes(bytes)?;
        match users.len() {
            1 | 2 => Ok(Self(users.into_iter().map(UserId::from_bytes).collect())),
            len => Err(format!("{len} of two have blocked the other").into()),
        }
    }
}
