//! A deterministic world: seeded clients, faults, virtual time, checkers.
//!
//! Here the real planes, the real client session and the real protocol run on one thread, in virtual time, over the memory
//! adapter and a world that fails: processes die at whatever they wait for, calls are lost or answered with an error after
//! they succeeded, disks lose what was not synced, clocks are wrong, shared memory forgets. A run is a pure function of the
//! commit and the seed, so whatever it finds can be looked at again.
//!
//! In reading order: `plan` is what is decided before a run begins, `world` and `process` what it happens in. `store`, `log`,
//! `shared`, `calls` and `socket` are what processes reach, each with its own ways to fail; `compose` wires the planes to
//! them, `client` is a device, `rest` how it calls the API. `run` lets a plan happen, and `checks` looks on at every step.
//! `bugs` are mistakes on purpose, made by `broken`, that the checks have to find. `trace` is what there is to read of a run,
//! and `explain` makes it readable.

mod broken;
mod bugs;
mod calls;
mod checks;
mod client;
mod compose;
mod dice;
mod directory;
pub mod explain;
mod log;
mod plan;
mod process;
mod rest;
mod run;
mod shared;
mod shrink;
mod socket;
mod store;
mod table;
pub mod trace;
mod world;

pub use bugs::{Bug, Found};
pub use plan::{Action, ChatPlan, Fault, Plan, Rates, Shape, Size, Timed};
pub use run::{Outcome, SETTLE, run};
pub use shrink::{Breach, shrink};
pub use table::{OF_DEPLOYMENTS, table, unexercised};
