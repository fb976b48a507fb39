//! Runs the properties of damaged input for as long as somebody likes.
//!
//! They are the same that CI runs with a few hundred cases each: all tests in modules called `fuzz`.

use std::process::{Command, Output};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, bail, ensure};

/// Something that reads what others wrote.
struct Target {
    name: &'static str,
    /// Whose modules called `fuzz` try it.
    package: &'static str,
}

const TARGETS: [Target; 8] = [
    Target { name: "frames", package: "tidings-protocol" },
    Target { name: "requests", package: "tidings-chats" },
    Target { name: "tokens", package: "tidings-auth" },
    Target { name: "records", package: "tidings-embedded" },
    Target { name: "log", package: "tidings-kafka" },
    Target { name: "envelopes", package: "tidings-redis" },
    Target { name: "calls", package: "tidings-rpc" },
    Target { name: "exports", package: "tidings-server" },
];

/// How long one round of a target is to take.
const ROUND: Duration = Duration::from_secs(20);
/// Cases of each property in the first round of a target.
const CASES_MIN: u32 = 1_000;
const CASES_MAX: u32 = 10_000_000;

/// Fuzzes all targets in turn, or the one that is named, until the time is over or something is found.
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
    println!("nothing was found");
    Ok(())
}

fn parse(arguments: &[&str]) -> anyhow::Result<(u64, Vec<&'static Target>)> {
    let (minutes, names) = match arguments {
        ["--minutes", minutes, names @ ..] => {
            (minutes.parse().with_context(|| format!("`{minutes}` is no number of minutes"))?, names)
        }
        names => (1, names),
    };
    let named = |name: &&str| {
        let all = TARGETS.iter().map(|target| target.name).collect::<Vec<_>>().join(", ");
        let target = TARGETS.iter().find(|target| target.name == *name);
        target.with_context(|| format!("`{name}` is none of what can be fuzzed: {all}"))
    };
    let targets = match names {
        [] => TARGETS.iter().collect(),
        names => names.iter().map(named).collect::<Result<_, _>>()?,
    };
    Ok((minutes, targets))
}

/// Runs one round. What it finds it prints, with the command that finds it again.
fn fuzz(target: &Target, cases: u32, seed: u64) -> anyhow::Result<()> {
    let arguments = ["test", "--quiet", "--tests", "--package", target.package, "fuzz::"];
    let environment = [
        ("PROPTEST_CASES", cases.to_string()),
        ("PROPTEST_RNG_SEED", seed.to_string()),
        // What was found is for a test of its own, and not for a file of numbers beside the source.
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

/// A seed that no round before had.
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
    fn a_minute_of_everything_is_what_nobody_has_to_ask_for() {
        let names = |arguments: &[&str]| {
            let (minutes, targets) = parse(arguments).unwrap();
            (minutes, targets.iter().map(|target| target.name).collect::<Vec<_>>())
        };
        assert_eq!(names(&[]).0, 1);
        assert_eq!(names(&[]).1.len(), TARGETS.len());
        assert_eq!(names(&["--minutes", "30", "records", "log"]), (30, vec!["records", "log"]));
        let all = "frames, requests, tokens, records, log, envelopes, calls, exports";
        let error = parse(&["recods"]).err().unwrap();
        assert_eq!(error.to_string(), format!("`recods` is none of what can be fuzzed: {all}"));
        assert_eq!(parse(&["--minutes", "x"]).err().unwrap().to_string(), "`x` is no number of minutes");
    }
}
