//! Real servers for tests, on free ports of this machine, with temporary directories.
//!
//! An [`EngineServer`] belongs to the test that starts it and stops with it, even if the test is killed. A test can kill it,
//! pause it, and restart it on the same port with the same data. If it does not start, the panic shows its log.
//!
//! `cargo xtask engines` installs the programs. A test that needs a missing program fails and names that command.

mod authority;
mod cfn_lint;
mod dynamo;
mod faults;
mod kafka;
mod managed;
mod ministack;
mod port;
mod previous;
mod process;
mod program;
mod redis;
mod schemathesis;
mod server;
mod tls_proxy;
mod validators;

pub use authority::{ServerCertificate, TestAuthority};
pub use cfn_lint::cfn_lint;
pub use dynamo::{Dynamo, Dynoxide};
pub use faults::{Fault, FaultyDynamo, LastingFault, ObservedRead, When};
pub use kafka::{Kafka, Tansu};
pub use managed::{ManagedKafka, ManagedRedis};
pub use ministack::{Ministack, MinistackServer};
pub use port::ClaimedPort;
pub use previous::previous_tidings;
pub use redis::{Redis, RedisServer};
pub use schemathesis::schemathesis;
pub use server::{EngineServer, ServerProgram};
pub use tls_proxy::TlsProxy;
pub use validators::{chart_render, kubernetes_validate, systemd_analyze};
