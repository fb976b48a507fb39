//! A deterministic simulation: seeded clients, fault injection, virtual time, invariant checkers.
//!
//! The real planes, the real client session and the real protocol run on one thread, in virtual time, over the memory
//! adapter and an environment with faults. Processes die at any await point, calls are lost or fail after they
//! succeeded, disks lose unsynced writes, clocks are skewed, and the shared state is wiped. A run is a pure function of
//! the commit and the seed, so every counterexample can be replayed.
//!
//! Reading order:
//!
//! - `plan` is decided before a run; `world` and `process` are the environment.
//! - `store`, `log`, `shared`, `calls` and `socket` are the dependencies of processes, each with its own faults. The
//!   store of a node is as durable as its `journal` on its `disk`.
//! - `index` are the indexes that lag behind the store, and `partitions` counts its load by partition key. `accounts`
//!   has the ports of deletions.
//! - `receiver` are the servers of others, which get events and notifications.
//! - `compose` wires the planes to them; `client` is a device, which calls the API through `rest` and keeps `copies` of
//!   the messages.
//! - `run` executes a plan, and `checks` verifies the invariants at every step.
//! - `bugs` lists known bugs that `broken` injects and the checks must find.
//! - `trace` records a run, and `explain` renders it.

mod accounts;
mod broken;
mod bugs;
mod calls;
mod checks;
mod client;
mod compose;
mod copies;
mod dice;
mod directory;
mod disk;
pub mod explain;
mod index;
mod journal;
mod log;
mod partitions;
mod plan;
mod process;
mod receiver;
mod rest;
mod run;
mod shared;
mod shrink;
mod socket;
mod store;
mod table;
pub mod trace;
mod world;

pub use bugs::{Bug, BugDetection};
pub use plan::{
    BufferSizes, ChatPlan, ClientAction, FleetSize, PlannedFault, PlannedUpdate, ProcessVersion, Rates, RunPlan,
    RunShape, Scheduled,
};
pub use run::{RunOutcome, SETTLE, run};
pub use shrink::{Breach, shrink};
pub use table::{OF_DEPLOYMENTS, table, unexercised};
