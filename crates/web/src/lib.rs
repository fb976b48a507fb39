//! The pages that the binary serves, built by `web/build.mjs` and compiled in from `web/dist`: nothing to install and
//! nothing to deploy beside it.
//!
//! [`public`] has the web client and the documentation, [`console`] what operators see on the admin listener. Pages load
//! nothing from elsewhere, and their policy says so to the browser.

mod asset;
mod pages;

pub use pages::{Site, console, public};
