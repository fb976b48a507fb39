//! Decides whether what is stored, and what clients have seen, keeps the promises.
//!
//! Nothing here writes, and nothing here knows an adapter: rows and histories come in, [`Findings`] come out. The simulator,
//! `tidings verify` and the tests that kill real processes ask the same checks, so an invariant means the same everywhere.
//!
//! In reading order: `findings` is what a check reports; `rows` are the rules of what is stored, `audit` goes through a
//! whole store with them, and `pace` is who has it done; `history` decides about what clients did and saw.

mod audit;
mod checkpoint;
mod findings;
pub mod history;
mod pace;
mod report;
mod routes;
mod rows;

pub use audit::{Options, audit};
pub use checkpoint::{Checkpoint, CheckpointError};
pub use findings::{Findings, Tally, Violation};
pub use pace::{AtOnce, Pace, Progress, Stage};
pub use report::{Line, Report, UnknownInvariant};
pub use routes::{ROUTES_CHECKED, audit_routes};
pub use rows::CHECKED;
