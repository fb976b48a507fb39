//! Checks of the source tree that a compiler cannot make. `cargo xtask tidy` runs them.
#![expect(clippy::unwrap_used, reason = "what surrounds a test may panic as the test itself may")]

mod alerts;
mod arrows;
mod assertions;
mod claims;
mod dashboards;
mod default_build;
mod examples;
mod links;
mod lock_files;
mod metrics;
mod modules;
mod promql;
mod runbooks;
mod versions;
mod words;
