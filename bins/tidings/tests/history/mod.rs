//! Histories of real runs: what clients did and saw is written down, and checked when the run is over.
#![allow(dead_code, unused_imports, reason = "several test binaries share this file, and each uses its own part of it")]

mod crowd;
mod device;
mod proxy;
mod recorded;

pub(crate) use crowd::{Crowd, Keeps};
pub(crate) use proxy::Proxy;
pub(crate) use recorded::History;
