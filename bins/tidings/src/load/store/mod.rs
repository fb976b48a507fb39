//! Measurements of the embedded store without a server, over its ports.

mod filling;
mod limit;

pub(crate) use filling::{Filled, Filling};
pub(crate) use limit::store_limit;
