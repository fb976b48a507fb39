//! Types and services generated from `proto/fleet.proto`.
#![expect(unreachable_pub, reason = "the generator makes everything public")]

tonic::include_proto!("tidings.fleet.v1");
