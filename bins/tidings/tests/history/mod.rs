//! Histories of real runs: the operations and observations of clients are recorded, and checked after the run.
#![allow(dead_code, unused_imports, reason = "several test binaries share this file, and each uses its own part of it")]

mod crowd;
mod device;
mod proxy;
mod recorded;

pub(crate) use crowd::{Crowd, Keeps};
pub(crate) use proxy::FaultyProxy;
pub(crate) use recorded::RecordedHistory;
