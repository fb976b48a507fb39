//! What the simulator promises of itself: that its runs repeat, and that it finds what is wrong.

mod bugs;
mod repeats;
mod seeds;
mod shrinks;
mod table;
