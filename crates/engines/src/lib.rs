//! Real servers for tests, on free ports of this machine, with directories that go away.
//!
//! A [`Server`] belongs to the test that starts it, and ends with it, even if the test is killed. It can be killed itself,
//! made to hang, and started again where it was. What it has logged is shown if it does not start.
//!
//! The programs come from `cargo xtask engines`; a test that misses one fails and says so.

mod cfn_lint;
mod dynamo;
mod faults;
mod kafka;
mod port;
mod previous;
mod process;
mod program;
mod redis;
mod schemathesis;
mod server;
mod validators;

pub use cfn_lint::cfn_lint;
pub use dynamo::{Dynamo, Dynoxide};
pub use faults::{Fault, FaultyDynamo, When};
pub use kafka::{Kafka, Tansu};
pub use previous::previous_tidings;
pub use redis::{Redis, RedisServer};
pub use schemathesis::schemathesis;
pub use server::{Engine, Server};
pub use validators::{chart_render, kubernetes_validate, systemd_analyze};
