//! Mutation testing of the planes: which broken planes do the simulator and the tests of their crates find?

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};

use self::generate::Mutant;
use self::tree::{ACTIVE, MutatedPrograms, MutatedTree};

mod generate;
mod tree;

const HELP: &str = "\
Breaks the planes in small ways, one at a time, and reports which of these mutants the simulator and the tests of
their crates find.

usage: cargo xtask mutants [--list] [--sample N] [--draw N] [--seeds N] [--jobs N] [--filter TEXT] [--sim-only]

  --list           print all mutants, and run nothing
  --sample N       the number of mutants, drawn at random; the known ones come on top [default: 80]
  --draw N         the seed of the sample [default: 1]
  --seeds N        seeds of the simulator for each mutant, half of them of each shape [default: 1000]
  --jobs N         parallel runs of the simulator [default: 2]
  --filter TEXT    only mutants whose name contains this, and all of them
  --sim-only       leave out the tests of the crates

All mutants of a sample are in one copy of the tree, under `target/mutants`, each behind a switch. So the planes are built
once, and not once for each mutant.";

/// The mutated code: a directory or file, and the package with the tests that have to find its mutants.
const MUTATED: [(&str, &str); 5] = [
    ("crates/gateway/src", "tidings-gateway"),
    ("crates/ingest/src", "tidings-ingest"),
    ("crates/fanout/src", "tidings-fanout"),
    ("crates/presence/src", "tidings-presence"),
    ("crates/protocol/src/client", "tidings-protocol"),
];
/// More of `protocol` that is mutated: the queue of a connection.
const OUTBOX: &str = "crates/protocol/src/outbox.rs";
/// Files without behaviour: code for tests, and spans of traces.
const LEFT_OUT: [&str; 3] = ["test_world.rs", "tests.rs", "spans.rs"];

/// Mutants that were once not found. They are in every sample.
const KNOWN: [&str; 4] = [
    "crates/gateway/src/driver.rs: no `self.connection.handle_missed();` in converse",
    "crates/protocol/src/outbox.rs: no `self.missed_durable = true;` in push",
    "crates/fanout/src/fanout.rs: `missed.is_empty()` is always true in run",
    "crates/fanout/src/fanout.rs: `unpushed.is_empty()` is always true in run",
];

/// Longest time for the seeds of one mutant, and for the tests of its package. A mutant that needs more has stopped
/// the program.
const SEEDS_MAX: Duration = Duration::from_secs(900);
const TESTS_MAX: Duration = Duration::from_secs(180);

struct MutantsArguments {
    lists: bool,
    sample: usize,
    draw: u64,
    seeds: u64,
    jobs: usize,
    filter: Option<String>,
    sim_only: bool,
}

/// The checks that found a mutant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct MutantDetection {
    by_simulator: bool,
    by_tests: bool,
}

/// Counts of a package.
#[derive(Clone, Copy, Debug, Default)]
struct DetectionCounts {
    mutants: usize,
    by_simulator: usize,
    by_tests: usize,
    found: usize,
}

impl DetectionCounts {
    fn add(&mut self, detection: MutantDetection) {
        self.mutants += 1;
        self.by_simulator += usize::from(detection.by_simulator);
        self.by_tests += usize::from(detection.by_tests);
        self.found += usize::from(detection.by_simulator || detection.by_tests);
    }
}

/// Runs mutants.
pub(crate) fn run(arguments: &[&str]) -> anyhow::Result<()> {
    if arguments == ["--help"] {
        println!("{HELP}");
        return Ok(());
    }
    let arguments = MutantsArguments::parse(arguments)?;
    let root = xtask::workspace_root();
    let all = all_mutants(&root)?;
    if arguments.lists {
        all.iter().for_each(|mutant| println!("{}", mutant.name()));
        println!("{} mutants", all.len());
        return Ok(());
    }
    let sample = match &arguments.filter {
        Some(text) => without_overlaps(all.into_iter().filter(|mutant| mutant.name().contains(text)), usize::MAX),
        None => sampled(all, arguments.sample, arguments.draw)?,
    };
    ensure!(!sample.is_empty(), "no mutant has such a name; `cargo xtask mutants --list` prints all");
    let directory = xtask::target_directory().join("mutants");
    let tree = MutatedTree::new(directory.join("tree"), directory.join("build"));
    let tested = if arguments.sim_only { &[][..] } else { &MUTATED[..] };
    let packages: Vec<&str> = tested.iter().map(|(_, package)| *package).collect();
    println!("{} mutants; building them", sample.len());
    let (programs, left_out) = tree.build(&root, &sample, &packages)?;
    let detections = Detections { tree: &tree, programs: &programs, arguments: &arguments, directory: &directory };
    let unmutated = detections.of(0, None)?;
    ensure!(unmutated == MutantDetection::default(), "the tree fails without any mutant: {unmutated:?}");
    let mut counts = BTreeMap::<&str, DetectionCounts>::new();
    let viable = sample.iter().enumerate().filter(|(n, _)| !left_out.contains(n));
    for (n, mutant) in viable {
        let package = package_of(&mutant.file);
        let detection = detections.of(n + 1, Some(package))?;
        counts.entry(package).or_default().add(detection);
        let by = match detection {
            MutantDetection { by_simulator: true, by_tests: true } => "simulator and tests",
            MutantDetection { by_simulator: true, by_tests: false } => "simulator",
            MutantDetection { by_simulator: false, by_tests: true } => "tests",
            MutantDetection { by_simulator: false, by_tests: false } => "SURVIVED",
        };
        println!("{by}: {}", mutant.name());
    }
    println!(
        "\n| package | viable mutants | by the simulator | by tests of the crate | by either |\n|---|---:|---:|---:|---:|"
    );
    let mut total = DetectionCounts::default();
    for (package, of_package) in &counts {
        print_row(package, *of_package);
        total.mutants += of_package.mutants;
        total.by_simulator += of_package.by_simulator;
        total.by_tests += of_package.by_tests;
        total.found += of_package.found;
    }
    print_row("all", total);
    println!("{} mutants did not compile", left_out.len());
    Ok(())
}

fn print_row(name: &str, counts: DetectionCounts) {
    let percent = |part: usize| 100 * part / counts.mutants.max(1);
    let DetectionCounts { mutants, by_simulator, by_tests, found } = counts;
    println!(
        "| {name} | {mutants} | {by_simulator} ({} %) | {by_tests} ({} %) | {found} ({} %) |",
        percent(by_simulator),
        percent(by_tests),
        percent(found)
    );
}

impl MutantsArguments {
    fn parse(arguments: &[&str]) -> anyhow::Result<Self> {
        let mut parsed =
            Self { lists: false, sample: 80, draw: 1, seeds: 1000, jobs: 2, filter: None, sim_only: false };
        let mut arguments = arguments.iter();
        while let Some(name) = arguments.next() {
            let mut value = || arguments.next().with_context(|| format!("`{name}` needs a value\n\n{HELP}"));
            match *name {
                "--list" => parsed.lists = true,
                "--sim-only" => parsed.sim_only = true,
                "--sample" => parsed.sample = value()?.parse().context("`--sample` takes a number")?,
                "--draw" => parsed.draw = value()?.parse().context("`--draw` takes a number")?,
                "--seeds" => parsed.seeds = value()?.parse().context("`--seeds` takes a number")?,
                "--jobs" => parsed.jobs = value()?.parse().context("`--jobs` takes a number")?,
                "--filter" => parsed.filter = Some((*value()?).to_owned()),
                _ => bail!("`{name}` is unknown\n\n{HELP}"),
            }
        }
        Ok(parsed)
    }
}

/// All mutants of the planes.
fn all_mutants(root: &Path) -> anyhow::Result<Vec<Mutant>> {
    let mut all = vec![];
    for path in xtask::files(&root.join("crates"), ".rs")? {
        let file = path.strip_prefix(root).unwrap_or(&path).to_string_lossy().replace('\\', "/");
        let is_mutated = file == OUTBOX || MUTATED.iter().any(|(directory, _)| file.starts_with(directory));
        if is_mutated && !LEFT_OUT.iter().any(|name| file.ends_with(name)) {
            let source = fs::read_to_string(&path).with_context(|| format!("cannot read `{file}`"))?;
            all.extend(generate::mutants(&file, &source).with_context(|| format!("cannot parse `{file}`"))?);
        }
    }
    Ok(all)
}

/// The known mutants, and this many others. The same tree and seed give the same sample.
fn sampled(all: Vec<Mutant>, count: usize, seed: u64) -> anyhow::Result<Vec<Mutant>> {
    let name = |mutant: &Mutant| format!("{}: {} in {}", mutant.file, mutant.change, mutant.function);
    for known in KNOWN {
        ensure!(all.iter().any(|mutant| name(mutant) == known), "`{known}` is no mutant any more; correct the list");
    }
    let (known, mut others): (Vec<_>, Vec<_>) =
        all.into_iter().partition(|mutant| KNOWN.contains(&name(mutant).as_str()));
    // Xorshift is random enough for a sample.
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    for last in (1..others.len()).rev() {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        others.swap(last, (state % (last as u64 + 1)) as usize);
    }
    let count = known.len() + count;
    Ok(without_overlaps(known.into_iter().chain(others), count))
}

/// The first mutants that do not overlap.
fn without_overlaps(mutants: impl Iterator<Item = Mutant>, count: usize) -> Vec<Mutant> {
    let mut chosen: Vec<Mutant> = vec![];
    for mutant in mutants {
        let overlaps = |other: &Mutant| other.file == mutant.file && mutant.from <= other.to && other.from <= mutant.to;
        if chosen.len() < count && !chosen.iter().any(overlaps) {
            chosen.push(mutant);
        }
    }
    chosen
}

fn package_of(file: &str) -> &'static str {
    let package = MUTATED.iter().find(|(directory, _)| file.starts_with(directory));
    package.map_or("tidings-protocol", |(_, package)| package)
}

/// Runs the simulator and the tests with a mutant.
struct Detections<'a> {
    tree: &'a MutatedTree,
    programs: &'a MutatedPrograms,
    arguments: &'a MutantsArguments,
    directory: &'a Path,
}

impl Detections<'_> {
    /// The checks that detect a mutant of a package. Mutant 0 is the unchanged code, with the tests of all packages.
    fn of(&self, n: usize, package: Option<&str>) -> anyhow::Result<MutantDetection> {
        let seeds = if n == 0 { self.arguments.seeds.min(40) } else { self.arguments.seeds };
        let mut simulator = Command::new(&self.programs.simulator);
        simulator.args(["--no-shrink", "--fresh", "0", "--seeds", &(seeds / 2).to_string()]);
        simulator.current_dir(self.directory).args(["--jobs", &self.arguments.jobs.to_string()]);
        // Few seeds leave some invariants unexercised, which is no violation.
        let by_simulator = !self.passes(simulator, n, SEEDS_MAX, Some("seed "))?;
        let mut by_tests = false;
        let tests = self.programs.tests.iter().filter(|(of, _)| package.is_none_or(|package| package == *of));
        for (package, programs) in tests.filter(|_| !self.arguments.sim_only) {
            for program in programs {
                let mut program = Command::new(program);
                program.current_dir(self.tree.package(package));
                by_tests = by_tests || !self.passes(program, n, TESTS_MAX, None)?;
            }
        }
        Ok(MutantDetection { by_simulator, by_tests })
    }

    /// Whether a program succeeds in time. With a `sign` it fails only if it prints that, or does not run to its end.
    fn passes(&self, mut command: Command, n: usize, longest: Duration, sign: Option<&str>) -> anyhow::Result<bool> {
        let path = self.directory.join("output");
        let output = File::create(&path).with_context(|| format!("cannot write `{}`", path.display()))?;
        let child = command
            .env(ACTIVE, n.to_string())
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            .spawn()
            .with_context(|| format!("`{command:?}` could not be started"))?;
        let Some(code) = ended_in_time(child, longest)? else { return Ok(false) };
        match (code, sign) {
            (Some(0), _) => Ok(true),
            (Some(1), Some(sign)) => {
                let mut printed = String::new();
                File::open(&path)?.read_to_string(&mut printed)?;
                Ok(!printed.contains(sign))
            }
            _ => Ok(false),
        }
    }
}

/// The exit code of a process; `None` if it had to be killed.
fn ended_in_time(mut child: Child, longest: Duration) -> anyhow::Result<Option<Option<i32>>> {
    let began = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status.code()));
        }
        if began.elapsed() > longest {
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
        thread::sleep(Duration::from_millis(50));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_has_the_known_mutants_and_no_overlaps() {
        let all = all_mutants(&xtask::workspace_root()).unwrap();
        let sample = sampled(all.clone(), 50, 1).unwrap();
        assert_eq!(sample.len(), KNOWN.len() + 50);
        assert_eq!(sample, sampled(all.clone(), 50, 1).unwrap());
        assert_ne!(sample, sampled(all, 50, 2).unwrap());
        let mut places: Vec<_> = sample.iter().map(|mutant| (&mutant.file, mutant.from, mutant.to)).collect();
        places.sort();
        assert!(places.windows(2).all(|pair| pair[0].0 != pair[1].0 || pair[0].2 < pair[1].1), "{places:?}");
    }
}
