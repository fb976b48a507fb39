//! The examples of both specifications, played on the real binary: what they show is what happens.

mod frames;
mod requests;
mod scene;
