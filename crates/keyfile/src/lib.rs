//! Keeps keys in a file of the data directory.
//!
//! A [`KeyFile`] is whole or not there, whatever crashes, is readable by its owner only, and is never replaced by a
//! guess. What it holds is for whoever uses it to say, with [`Keys`].

pub mod base64url;
mod key_file;

pub use key_file::{KeyFile, KeyFileError, Keys};
