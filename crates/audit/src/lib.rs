//! Checks stored data and client histories against the invariants of the service.
//!
//! Nothing here writes or depends on an adapter: rows and histories are the input, [`Findings`] the output. The simulator,
//! `tidings store verify` and the crash tests share these checks, so an invariant means the same everywhere.
//!
//! In reading order: `findings` holds the results of checks. `rows` has the rules for stored rows, `audit` applies them to a
//! whole store, and `pace` controls its speed. `history` checks the histories of clients.

mod audit;
mod checkpoint;
mod findings;
pub mod history;
mod pace;
mod report;
mod routes;
mod rows;

pub use audit::{AuditOptions, audit};
pub use checkpoint::{Checkpoint, CheckpointError};
pub use findings::{Findings, InvariantTally, Violation};
pub use pace::{AtOnce, AuditPacer, AuditProgress, Stage};
pub use report::{Line, Report, UnknownInvariant};
pub use routes::{ROUTES_CHECKED, audit_routes};
pub use rows::CHECKED;
