//! Compares two commits under the loads of `tidings load`, in one run on one machine.
//!
//! Figures of different days are not comparable on a shared machine. So both binaries are built and run in turns: a
//! disturbance affects both, and the remaining difference comes from the code.

mod compare;
mod options;
mod sample;
mod sides;

use std::path::Path;
use std::process::{Command, Output};

use anyhow::{Context, ensure};

use compare::{ComparisonRow, SpeedVerdict, compare, table};
use options::BenchOptions;
use sample::BenchSample;
use sides::{Sides, provide};

/// The results of all rounds of one workload.
struct Rounds<'a> {
    workload: &'a str,
    base: Vec<BenchSample>,
    head: Vec<BenchSample>,
}

/// Builds both sides, runs all rounds, and prints the comparison. Fails if a figure has become slower.
pub(crate) fn run(arguments: &[&str]) -> anyhow::Result<()> {
    if arguments.contains(&"--help") {
        print!("{}", options::HELP);
        return Ok(());
    }
    let options = BenchOptions::parse(arguments)?;
    let sides = provide(&options)?;
    println!("base: {}\nhead: {}\n", sides.base.name, sides.head.name);
    let mut all: Vec<_> =
        options.workloads.iter().map(|workload| Rounds { workload, base: vec![], head: vec![] }).collect();
    // Round by round and not workload by workload: a minute of other load then disturbs one round of some workloads, which
    // their spread shows, and not all rounds of one.
    for round in 1..=options.rounds {
        for Rounds { workload, base, head } in &mut all {
            eprintln!("==> round {round} of {}: {workload}", options.rounds);
            base.push(load(&sides, &sides.base.binary, workload, &options).context("base failed")?);
            head.push(load(&sides, &sides.head.binary, workload, &options).context("head failed")?);
        }
    }
    let rows: Vec<ComparisonRow> = all
        .iter()
        .flat_map(|Rounds { workload, base, head }| compare(workload, base, head, options.threshold))
        .collect();
    print!("{}", table(&rows));
    let slower = rows.iter().filter(|row| row.verdict == SpeedVerdict::Slower).count();
    ensure!(slower == 0, "{slower} of {} figures are slower", rows.len());
    Ok(())
}

/// Runs one load and reads its report.
fn load(sides: &Sides, binary: &Path, workload: &str, options: &BenchOptions) -> anyhow::Result<BenchSample> {
    let mut command = Command::new(binary);
    command.args(["load", "--json", "--workload", workload, "--data-dir"]).arg(&sides.directory);
    if let Some(seconds) = options.seconds {
        command.args(["--seconds", &seconds.to_string()]);
    }
    let Output { status, stdout, stderr } =
        command.output().with_context(|| format!("`{command:?}` could not be started"))?;
    // A load that lost a message prints its report and fails; the report has the details.
    ensure!(!stdout.is_empty(), "`{command:?}` ended with {status}\n{}", String::from_utf8_lossy(&stderr));
    BenchSample::read(&stdout).with_context(|| format!("`{command:?}` cannot be counted"))
}
