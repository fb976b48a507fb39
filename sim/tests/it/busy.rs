//! The plans make connections busy, so that their run queue is part of the simulation.

use tidings_sim::{RunPlan, RunShape, run};

/// Number of seeds, from 0 on, within which a connection becomes busy.
const SEEDS: u64 = 100;

#[test]
fn some_connection_becomes_busy_in_each_shape() {
    for shape in RunShape::ALL {
        let is_busy = |seed: &u64| run(&RunPlan::of(*seed, shape)).busy > 0;
        assert!((0..SEEDS).any(|seed| is_busy(&seed)), "no connection of a {shape} is busy within {SEEDS} seeds");
    }
}
