//! The delivery plane over the memory store, with a delivery that a test reads.

mod pushing;
mod world;
