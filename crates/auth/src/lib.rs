//! Issues and verifies one-time codes, passkeys, tokens and sessions.
//!
//! [`Auth`] is the entry point. A user who signs in with a phone or a passkey gets a session, an access token (a JWT, valid for an
//! hour) and a refresh token (valid once). Every check of an access token looks up its session, so deleting the session
//! row revokes the token at once. Users of an external identity provider present that provider's JWTs and have no
//! session here.
//!
//! Secrets are stored as digests only: codes as HMACs under a key of the [`KeyRing`], refresh tokens and tickets as
//! SHA-256 of 256 random bits.

mod auth;
mod config;
mod error;
mod identity;
mod phone;

mod codes;
mod passkeys;
mod restrictions;
mod sessions;
mod sign_in;
mod tickets;

mod key_file;
mod keys;
mod refresh_token;
mod tokens;

mod external;
mod jwks;

mod senders;

pub use auth::{Auth, Ports};
pub use config::{Config, ExternalConfig, JwksSource, Limits};
pub use error::AuthError;
pub use jwks::KeySetError;
pub use keyfile::KeyFileError;
pub use keys::KeyRing;
pub use passkeys::{PasskeyCreation, PasskeyRefusal, PasskeySignIn, RegisterPasskey, RelyingParty, RelyingPartyError};
pub use phone::{PhonePrefixes, parse_phone};
pub use ports::Principal;
pub use restrictions::token_id;
pub use senders::{FixedSender, LogSender, WebhookSender};
pub use sessions::{Revoke, Tokens};
pub use sign_in::{OtpRequested, SignedIn, VerifyOtp};
pub use tickets::IssuedTicket;
