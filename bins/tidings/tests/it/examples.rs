//! The examples of both specifications, executed against the real binary.

mod frames;
mod requests;
mod scene;
