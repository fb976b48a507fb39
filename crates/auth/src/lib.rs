//! Issues and verifies one-time codes, tokens and sessions.
//!
//! [`Auth`] is the whole of it: who signs in with a phone gets a session, an access token (a JWT, good for an hour) and
//! a refresh token (good once). An access token is worth what its session is worth: every check looks the session up,
//! so deleting the row is revoking the token, at once. Users of another system come with that system's own JWTs and
//! have no session here.
//!
//! What is secret is stored as a digest only: codes under a key of the [`KeyRing`], refresh tokens and tickets as
//! SHA-256 of 256 random bits.

mod auth;
mod config;
mod error;
mod identity;
mod phone;
mod secret;

mod codes;
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
pub use keyfile::KeyFileError;
pub use keys::KeyRing;
pub use phone::parse_phone;
pub use ports::Principal;
pub use secret::Secret;
pub use senders::{FixedSender, LogSender, WebhookSender};
pub use sessions::{Revoke, Tokens};
pub use sign_in::{OtpRequested, SignedIn, VerifyOtp};
pub use tickets::IssuedTicket;
