use std::time::Duration;

use domain::{Decision, PhoneNumberError};
use ports::StoreError;

/// Why somebody is not let in.
#[derive(Debug, thiserror::Error)]
pub enum AuthError {
    /// The token, or ticket, is not one to act on. The reason may be shown to whoever sent it.
    #[error("the token is not valid: {0}")]
    InvalidToken(&'static str),
    /// The token was good and its session is not any more.
    #[error("the session of this token has ended")]
    TokenRevoked,
    /// A wrong code, an expired one, or none was asked for: the answer is the same.
    #[error("the code is wrong or has expired")]
    WrongCode,
    /// Too many wrong codes for this phone.
    #[error("too many wrong codes, try again in {} s", retry_after.as_secs())]
    Locked {
        /// How long no code of this phone is looked at.
        retry_after: Duration,
    },
    /// A limit of the contract is reached.
    #[error("limit `{limit}` of {} is reached", decision.limit)]
    RateLimited {
        /// The limit's name in `[limits]`.
        limit: &'static str,
        /// What the limiter said.
        decision: Decision,
    },
    /// Not a phone number that can exist.
    #[error("the phone number is not a valid E.164 number")]
    InvalidPhoneNumber,
    /// The code was made and did not leave the house.
    #[error("the one-time code could not be sent")]
    NotDelivered,
    /// Something that has to be asked did not answer.
    #[error("sign-in is unavailable")]
    Unavailable(#[from] StoreError),
}

impl From<PhoneNumberError> for AuthError {
    fn from(_: PhoneNumberError) -> Self {
        Self::InvalidPhoneNumber
    }
}
