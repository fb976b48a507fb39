use std::time::Duration;

use domain::limits::PASSKEYS_MAX;
use domain::{AccessRefusal, PhoneNumberError, RateDecision};
use ports::StoreError;

use crate::PasskeyRefusal;

/// Why authentication or sign-in failed.
#[derive(Debug, thiserror::Error)]
pub enum AuthError {
    /// The token or ticket is invalid. The reason may be shown to the client.
    #[error("the token is not valid: {0}")]
    InvalidToken(&'static str),
    /// The token is valid, but its session was revoked or has expired.
    #[error("the session of this token has ended")]
    TokenRevoked,
    /// The user of the token or phone is suspended.
    #[error("this account is suspended")]
    Suspended,
    /// The code is wrong or expired, or none is pending; the answer is deliberately the same.
    #[error("the code is wrong or has expired")]
    WrongCode,
    /// Too many wrong codes for this phone.
    #[error("too many wrong codes, try again in {} s", retry_after.as_secs())]
    Locked {
        /// The remaining time of the lockout.
        retry_after: Duration,
    },
    /// A rate limit is reached.
    #[error("limit `{limit}` of {} is reached", decision.limit)]
    RateLimited {
        /// The name of the limit in `[limits]`.
        limit: &'static str,
        /// The decision of the rate limiter.
        decision: RateDecision,
    },
    /// Users cannot sign in with a phone here.
    #[error("sign-in with a phone number is off on this server; sign in with your identity provider")]
    PhoneSignInOff,
    /// This server has no passkeys.
    #[error("passkeys are off on this server")]
    PasskeysOff,
    /// A user of an external provider cannot register a passkey.
    #[error("passkeys are for users who sign in here; sign in with your identity provider")]
    PasskeyWithoutSession,
    /// The sign-in was refused. The answer is deliberately the same for every cause.
    #[error("the passkey was not accepted")]
    PasskeyRefused(#[from] PasskeyRefusal),
    /// The new passkey was refused. The caller is signed in and may know the cause.
    #[error("the passkey cannot be registered: {0}")]
    PasskeyNotRegistered(PasskeyRefusal),
    /// A passkey with the same credential id exists.
    #[error("this passkey is already registered")]
    PasskeyTaken,
    /// The user has the maximum number of passkeys.
    #[error("a user has at most {PASSKEYS_MAX} passkeys; remove one first")]
    TooManyPasskeys,
    /// The number is not valid, or no such number can exist.
    #[error("the phone number is not a valid E.164 number")]
    InvalidPhoneNumber,
    /// The operator sends no codes to numbers of this kind.
    #[error("no codes are sent to this number; use a mobile or landline number of a supported country")]
    PhoneNumberRefused,
    /// The code was created but could not be sent.
    #[error("the one-time code could not be sent")]
    NotDelivered,
    /// A system that sign-in depends on is unavailable.
    #[error("sign-in is unavailable")]
    Unavailable(#[from] StoreError),
}

impl AuthError {
    /// The word for it in security events.
    pub(crate) fn reason(&self) -> &'static str {
        match self {
            Self::InvalidToken(_) => "invalid_token",
            Self::TokenRevoked => "token_revoked",
            Self::Suspended => "suspended",
            Self::WrongCode => "wrong_code",
            Self::Locked { .. } => "locked",
            Self::RateLimited { .. } => "rate_limited",
            Self::PhoneSignInOff => "phone_sign_in_off",
            Self::PasskeysOff => "passkeys_off",
            Self::PasskeyWithoutSession => "passkey_without_session",
            Self::PasskeyRefused(refusal) | Self::PasskeyNotRegistered(refusal) => refusal.reason(),
            Self::PasskeyTaken => "passkey_taken",
            Self::TooManyPasskeys => "too_many_passkeys",
            Self::InvalidPhoneNumber => "invalid_phone_number",
            Self::PhoneNumberRefused => "phone_number_refused",
            Self::NotDelivered => "not_delivered",
            Self::Unavailable(_) => "unavailable",
        }
    }
}

impl From<PhoneNumberError> for AuthError {
    fn from(_: PhoneNumberError) -> Self {
        Self::InvalidPhoneNumber
    }
}

impl From<AccessRefusal> for AuthError {
    fn from(refusal: AccessRefusal) -> Self {
        match refusal {
            AccessRefusal::Suspended => Self::Suspended,
            AccessRefusal::Revoked => Self::TokenRevoked,
        }
    }
}
