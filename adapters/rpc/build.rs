//! Generates the wire types and services from the proto file with a pure-Rust compiler, so `protoc` need not be
//! installed.

use std::error::Error;

const DESCRIPTION: &str = "proto/fleet.proto";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed={DESCRIPTION}");
    let descriptors = protox::compile([DESCRIPTION], ["proto"])?;
    // These types carry contents, tokens and tickets, so they get no `Debug`.
    tonic_prost_build::configure().skip_debug(["."]).bytes(".tidings.fleet.v1.Push.frame").compile_fds(descriptors)?;
    Ok(())
}
