//! The servers as tests have them and as people do, asked in their own protocols.
#![cfg(test)]

mod ask;
mod process;
mod script;
mod server;
