//! Facts about the tree that a compiler does not know. `cargo xtask tidy` runs them.

mod alerts;
mod arrows;
mod assertions;
mod links;
mod modules;
mod words;
