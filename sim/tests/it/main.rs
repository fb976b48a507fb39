//! Tests of the simulator itself: runs are deterministic, and known bugs are found.

mod bugs;
mod busy;
mod repeats;
mod seeds;
mod shrinks;
mod table;
