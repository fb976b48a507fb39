//! Composition root: reads the configuration, picks adapters, wires the planes and runs them.
//!
//! The only crate that sees planes and adapters at once, and the only one that reads files and environment. [`config`]
//! turns what was typed into what it means, [`run`] starts a service and drains it, [`doctor`] looks at everything a
//! service will need and says in plain words what is wrong, [`tools`] is what operators do besides.

mod admin;
mod compose;
pub mod config;
mod cors;
pub mod doctor;
mod engines;
mod forwarded;
mod headers;
mod health;
mod later_receipts;
mod listener;
mod notify_socket;
mod outage_limits;
mod outward;
mod reload;
mod run;
mod telemetry;
mod tls;
pub mod tools;

pub use admin::AdminToken;
pub use reload::Load;
pub use run::run;
pub use telemetry::Telemetry;
