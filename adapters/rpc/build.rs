//! Makes the wire's types and services from their description, without a compiler that has to be installed.

use std::error::Error;

const DESCRIPTION: &str = "proto/fleet.proto";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed={DESCRIPTION}");
    let descriptors = protox::compile([DESCRIPTION], ["proto"])?;
    // Contents, tokens and tickets travel in these types, so none of them can be printed.
    tonic_prost_build::configure().skip_debug(["."]).bytes(".tidings.fleet.v1.Push.frame").compile_fds(descriptors)?;
    Ok(())
}
