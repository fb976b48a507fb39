//! What operators do to a service besides running it: the work behind `tidings schema`, `events`, `reconcile`,
//! `recover-counter`, `verify`, `backup`, `restore`, `migrate`, `export` and `import`. The binary parses, calls and prints.
//!
//! All of it but [`recover`], [`backup`], [`restore`] and [`migrate`] is written against ports, so it works on one machine as in a fleet. There the log and the
//! store are in the data directory, which one process holds: the service has to be stopped meanwhile.

pub mod backup;
pub mod events;
pub mod migrate;
mod opened;
pub mod reconcile;
pub mod recover;
pub mod restore;
pub mod schema;
pub mod transfer;
pub mod verify;
