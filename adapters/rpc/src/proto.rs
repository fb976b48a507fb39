//! What `proto/fleet.proto` says, in Rust.
#![expect(unreachable_pub, reason = "the code is generated for a crate that shows it")]

tonic::include_proto!("tidings.fleet.v1");
