//! Composition root: reads the configuration, picks adapters, wires the planes and runs them.
//!
//! It is the only crate that depends on both planes and adapters, and the only one that reads files and the
//! environment. [`config`] reads and validates the settings, [`run`] starts a service and drains it, [`doctor`] checks
//! a machine for everything a service needs, [`tools`] has the other commands of operators.

mod admin;
mod compose;
pub mod config;
mod cors;
pub mod doctor;
mod embedded_config;
#[cfg(feature = "fleet")]
mod engines;
mod external_issuer;
mod forwarded;
mod headers;
mod health;
#[cfg(feature = "fleet")]
mod later_receipts;
mod listener;
mod notify_socket;
#[cfg(feature = "fleet")]
mod outage_limits;
mod outward;
mod portioned_limits;
mod reload;
mod run;
mod scrub;
mod security_events;
mod store_engine;
mod telemetry;
mod tls;
pub mod tools;

pub use admin::{
    AUDIT_FILE, AdminToken, AuditLineNumber, AuditVerification, BrokenAuditLine, OperatorRole, OperatorsError,
    OperatorsFile, verify_audit_files,
};
pub use reload::ConfigLoader;
pub use run::run;
pub use telemetry::Telemetry;
