//! The pages that the binary serves, built by `web/build.mjs` and compiled in from `web/dist`, so there is nothing else
//! to install or deploy.
//!
//! [`public`] serves the web client and the documentation, [`console`] the operator's console on the admin listener.
//! Pages load nothing from other origins, and their content security policy enforces that.

mod asset;
mod pages;

pub use pages::{SiteInfo, console, public};
