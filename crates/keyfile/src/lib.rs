//! Sources of keys: a file of the data directory, or the master secret of a fleet.
//!
//! A [`KeyFile`] is written atomically, is readable by its owner only, and is never regenerated after damage. The type
//! that implements [`Keys`] defines its contents. The processes of a fleet derive their keys from a [`MasterSecret`]
//! instead.

pub mod base64url;
mod key_file;
mod master_secret;

pub use key_file::{KeyFile, KeyFileError, Keys};
pub use master_secret::{MasterSecret, MasterSecretError};
