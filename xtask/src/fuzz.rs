//! Runs the property tests of damaged input for a given time.
//!
//! CI runs the same tests with a few hundred cases each: all tests in modules called `fuzz`.

use std::process::{Command, Output};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, bail, ensure};

/// A parser of external input.
struct FuzzTarget {
    name: &'static str,
    /// The package with its `fuzz` modules.
    package: &'static str,
}

const TARGETS: [FuzzTarget; 8] = [
    FuzzTarget { name: "frames", package: "tidings-protocol" },
    FuzzTarget { name: "requests", package: "tidings-chats" },
    FuzzTarget { name: "tokens", package: "tidings-auth" },
    FuzzTarget { name: "records", package: "tidings-embedded" },
    FuzzTarget { name: "log", package: "tidings-kafka" },
    FuzzTarget { name: "envelopes", package: "tidings-redis" },
    FuzzTarget { name: "calls", package: "tidings-rpc" },
    FuzzTarget { name: "exports", package: "tidings-server" },
];

/// Target duration of one round.
const ROUND: Duration = Duration::from_secs(20);
/// Cases of each property in the first round of a target.
const CASES_MIN: u32 = 1_000;
const CASES_MAX: u32 = 10_000_000;

/// Fuzzes all targets in turn, or only the named ones, until the time is over or a test fails.
pub(crate) fn run(arguments: &[&str]) -> anyhow::Result<()> {
    let (minutes, targets) = parse(arguments)?;
    for target in &targets {
        ensure!(call(&["test", "--no-run", "--tests", "--package", target.package])?, "{} do not build", target.name);
    }
    let (began, until) = (Instant::now(), Duration::from_secs(60 * minutes));
    let mut cases = vec![CASES_MIN; targets.len()];
    while began.elapsed() < until {
        for (target, cases) in targets.iter().zip(&mut cases) {
            let round = Instant::now();
            fuzz(target, *cases, seed())?;
            let took = round.elapsed();
            let (now, end) = (minutes_of(began.elapsed()), minutes_of(until));
            println!("[{now} of {end}] {}: {cases} cases of each property in {:.1} s", target.name, took.as_secs_f64());
            if 2 * took < ROUND {
                *cases = cases.saturating_mul(2).min(CASES_MAX);
            }
            if began.elapsed() >= until {
                break;
            }
        }
    }
    println!("no failure was found");
    Ok(())
}

fn parse(arguments: &[&str]) -> anyhow::Result<(u64, Vec<&'static FuzzTarget>)> {
    let (minutes, names) = match arguments {
        ["--minutes", minutes, names @ ..] => {
            (minutes.parse().with_context(|| format!("`{minutes}` is not a number of minutes"))?, names)
        }
        names => (1, names),
    };
    let named = |name: &&str| {
        let all = TARGETS.iter().map(|target| target.name).collect::<Vec<_>>().join(", ");
        let target = TARGETS.iter().find(|target| target.name == *name);
        target.with_context(|| format!("`{name}` is not a fuzz target: {all}"))
    };
    let targets = match names {
        [] => TARGETS.iter().collect(),
        names => names.iter().map(named).collect::<Result<_, _>>()?,
    };
    Ok((minutes, targets))
}

/// Runs one round. On a failure it prints the output and the command that reproduces it.
fn fuzz(target: &FuzzTarget, cases: u32, seed: u64) -> anyhow::Result<()> {
    let arguments = ["test", "--quiet", "--tests", "--package", target.package, "fuzz::"];
    let environment = [
        ("PROPTEST_CASES", cases.to_string()),
        ("PROPTEST_RNG_SEED", seed.to_string()),
        // A failure becomes a test of its own, not a file of seeds next to the source.
        ("PROPTEST_DISABLE_FAILURE_PERSISTENCE", "true".to_owned()),
    ];
    let mut command = Command::new("cargo");
    command.args(arguments).envs(environment.clone()).current_dir(xtask::workspace_root());
    let Output { status, stdout, stderr } = command.output().context("cargo could not be started")?;
    if status.success() {
        return Ok(());
    }
    println!("{}{}", String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    let environment: Vec<String> = environment.iter().map(|(name, value)| format!("{name}={value}")).collect();
    bail!("{} failed; to see it again:\n  {} cargo {}", target.name, environment.join(" "), arguments.join(" "))
}

fn call(arguments: &[&str]) -> anyhow::Result<bool> {
    let status = Command::new("cargo").args(arguments).current_dir(xtask::workspace_root()).status();
    Ok(status.context("cargo could not be started")?.success())
}

/// A new seed for each round.
fn seed() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64)
}

fn minutes_of(duration: Duration) -> String {
    format!("{}:{:02}", duration.as_secs() / 60, duration.as_secs() % 60)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;

    use super::*;

    #[test]
    fn every_module_called_fuzz_is_of_a_target() {
        let root = xtask::workspace_root();
        let mut found = BTreeSet::new();
        for file in xtask::files(&root, ".rs").unwrap() {
            let path = file.strip_prefix(&root).unwrap();
            let source = fs::read_to_string(&file).unwrap();
            let is_one = path.file_name().is_some_and(|name| name == "fuzz.rs");
            if !path.starts_with("xtask") && (is_one || source.lines().any(|line| line == "mod fuzz {")) {
                let directory = path.iter().nth(1).unwrap().to_string_lossy();
                found.insert(format!("tidings-{directory}"));
            }
        }
        assert_eq!(found, TARGETS.iter().map(|target| target.package.to_owned()).collect());
    }

    #[test]
    fn the_default_is_one_minute_of_all_targets() {
        let names = |arguments: &[&str]| {
            let (minutes, targets) = parse(arguments).unwrap();
            (minutes, targets.iter().map(|target| target.name).collect::<Vec<_>>())
        };
        assert_eq!(names(&[]).0, 1);
        assert_eq!(names(&[]).1.len(), TARGETS.len());
        assert_eq!(names(&["--minutes", "30", "records", "log"]), (30, vec!["records", "log"]));
        let all = "frames, requests, tokens, records, log, envelopes, calls, exports";
        let error = parse(&["recods"]).err().unwrap();
        assert_eq!(error.to_string(), format!("`recods` is not a fuzz target: {all}"));
        assert_eq!(parse(&["--minutes", "x"]).err().unwrap().to_string(), "`x` is not a number of minutes");
    }
}
