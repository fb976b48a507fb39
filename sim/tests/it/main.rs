//! Tests of the simulator itself: runs are deterministic, and known bugs are found.

mod bugs;
mod busy;
mod plans;
mod repeats;
mod seeds;
mod shrinks;
mod table;
