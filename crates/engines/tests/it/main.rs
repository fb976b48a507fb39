//! The servers as tests start them and as `scripts/engines` starts them, queried in their own protocols.
#![cfg(test)]

mod ask;
mod process;
mod script;
mod server;
