//! Where keys come from: a file of the data directory, or the one secret of a fleet.
//!
//! A [`KeyFile`] is whole or not there, whatever crashes, is readable by its owner only, and is never replaced by a
//! guess. What it holds is for whoever uses it to say, with [`Keys`]. Many processes derive theirs from a
//! [`MasterSecret`] instead.

pub mod base64url;
mod key_file;
mod master_secret;

pub use key_file::{KeyFile, KeyFileError, Keys};
pub use master_secret::{MasterSecret, MasterSecretError};
