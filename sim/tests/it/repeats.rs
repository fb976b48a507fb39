use tidings_sim::{RunPlan, RunShape, run};

/// Number of seeds that are run twice.
const SEEDS: u64 = 12;

#[test]
fn a_run_is_a_function_of_its_seed() {
    for shape in RunShape::ALL {
        for seed in 0..SEEDS {
            let [one, other] = [(), ()].map(|()| run(&RunPlan::of(seed, shape)));
            let different = one.trace.entries.iter().zip(&other.trace.entries).find(|(one, other)| one != other);
            assert_eq!(different, None, "{shape}, seed {seed}");
            assert_eq!(one.trace.hash(), other.trace.hash(), "{shape}, seed {seed}");
        }
    }
}

#[test]
fn seeds_differ() {
    for shape in RunShape::ALL {
        let hashes: std::collections::BTreeSet<u64> =
            (0..SEEDS).map(|seed| run(&RunPlan::of(seed, shape)).trace.hash()).collect();
        assert_eq!(hashes.len() as u64, SEEDS, "{shape}");
    }
}
