//! The behaviour of the embedded store as a whole.
#![cfg(test)]

mod equivalence;
mod fixtures;
mod restart;
