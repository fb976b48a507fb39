//! Compares two commits under the loads of `tidings load`, in one run on one machine.
//!
//! A figure of yesterday says little about a figure of today where others share the machine. So both binaries are built,
//! and take turns: what disturbs one of them disturbs the other, and what is left is the difference that the code makes.

mod compare;
mod options;
mod sample;
mod sides;

use std::path::Path;
use std::process::{Command, Output};

use anyhow::{Context, ensure};

use compare::{Row, Verdict, compare, table};
use options::Options;
use sample::Sample;
use sides::{Sides, provide};

/// What the rounds of one workload have shown.
struct Rounds<'a> {
    workload: &'a str,
    base: Vec<Sample>,
    head: Vec<Sample>,
}

/// Builds both sides, runs all rounds, and prints what became of each figure. Fails if one has become slower.
pub(crate) fn run(arguments: &[&str]) -> anyhow::Result<()> {
    if arguments.contains(&"--help") {
        print!("{}", options::HELP);
        return Ok(());
    }
    let options = Options::parse(arguments)?;
    let sides = provide(&options)?;
    println!("base: {}\nhead: {}\n", sides.base.name, sides.head.name);
    let mut all: Vec<_> =
        options.workloads.iter().map(|workload| Rounds { workload, base: vec![], head: vec![] }).collect();
    // Round by round and not workload by workload: a machine that is busy for a minute then spoils one round of some
    // workloads, which their spread shows, and not all rounds of one.
    for round in 1..=options.rounds {
        for Rounds { workload, base, head } in &mut all {
            eprintln!("==> round {round} of {}: {workload}", options.rounds);
            base.push(load(&sides, &sides.base.binary, workload, &options).context("base failed")?);
            head.push(load(&sides, &sides.head.binary, workload, &options).context("head failed")?);
        }
    }
    let rows: Vec<Row> = all
        .iter()
        .flat_map(|Rounds { workload, base, head }| compare(workload, base, head, options.threshold))
        .collect();
    print!("{}", table(&rows));
    let slower = rows.iter().filter(|row| row.verdict == Verdict::Slower).count();
    ensure!(slower == 0, "{slower} of {} figures are slower", rows.len());
    Ok(())
}

/// Runs one load and reads its report.
fn load(sides: &Sides, binary: &Path, workload: &str, options: &Options) -> anyhow::Result<Sample> {
    let mut command = Command::new(binary);
    command.args(["load", "--json", "--workload", workload, "--data-dir"]).arg(&sides.directory);
    if let Some(seconds) = options.seconds {
        command.args(["--seconds", &seconds.to_string()]);
    }
    let Output { status, stdout, stderr } =
        command.output().with_context(|| format!("`{command:?}` could not be started"))?;
    // A load that has lost something prints its report and fails; the report says more than that.
    ensure!(!stdout.is_empty(), "`{command:?}` ended with {status}\n{}", String::from_utf8_lossy(&stderr));
    Sample::read(&stdout).with_context(|| format!("`{command:?}` cannot be counted"))
}
