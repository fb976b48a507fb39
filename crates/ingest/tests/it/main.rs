//! The durability plane over the memory store, with a writer that can be held up and broken.

mod reading;
mod sending;
mod world;
