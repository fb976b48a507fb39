//! The implementation of `tidings store`, and of `tail`, `replay` and `reconcile` of `tidings log`. The binary parses,
//! calls and prints.
//!
//! All of them except [`recover`], [`backup`], [`restore`], [`restore_tables`] and [`migrate`] are written against ports, most of them
//! through [`ports::Engine`], so they work on one machine and in a fleet. On one machine, log and store are in the data
//! directory, which one process holds at a time: the service has to be stopped meanwhile.

pub mod backup;
pub(crate) mod engine;
pub mod events;
pub mod migrate;
mod new_directory;
pub mod reconcile;
#[cfg(feature = "fleet")]
pub mod recover;
pub mod repair;
pub mod restore;
#[cfg(feature = "fleet")]
pub mod restore_tables;
#[cfg(feature = "fleet")]
pub mod schema;
pub mod transfer;
pub mod verify;
