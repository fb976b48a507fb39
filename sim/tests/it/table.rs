use std::path::Path;

use audit::Findings;
use tidings_sim::table;

/// A row without its last column, the number of checks in the recorded runs.
fn without_counts(table: &str) -> Vec<&str> {
    let rows = table.lines().filter(|line| line.starts_with("| `"));
    rows.map(|row| row.rsplit_once(" | ").map_or(row, |(row, _)| row)).collect()
}

#[test]
fn the_documented_table_of_invariants_is_that_of_the_code() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/invariants.md");
    let documented =
        std::fs::read_to_string(&path).expect("docs/invariants.md is there; `cargo xtask sim --table` writes it");
    let generated = table(&Findings::default());
    assert_eq!(without_counts(&documented), without_counts(&generated));
}
