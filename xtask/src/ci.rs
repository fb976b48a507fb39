use std::env;
use std::io;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, ensure};
use programs::Program;

use crate::build_cache::{BUILD_DIRECTORY, BuildCache};
use crate::{provide, scratch};

/// One call of cargo, npm, a cached program, or a workspace binary that was built with the tests.
pub(crate) struct CheckStep {
    name: &'static str,
    program: &'static str,
    arguments: &'static [&'static str],
    environment: &'static [(&'static str, &'static str)],
    /// Installs the programs that the step needs and the toolchain lacks.
    needs: &'static [fn() -> anyhow::Result<()>],
}

impl CheckStep {
    const fn new(name: &'static str, arguments: &'static [&'static str]) -> Self {
        Self { name, program: "cargo", arguments, environment: &[], needs: &[] }
    }

    /// A step for the TypeScript packages.
    const fn npm(name: &'static str, arguments: &'static [&'static str]) -> Self {
        Self { program: NPM, needs: &[provide::node_packages], ..Self::new(name, arguments) }
    }
}

const NPM: &str = "npm";
const SIMULATOR: &str = "tidings-sim";
const CARGO_DENY: &str = "cargo-deny";

/// The checks of the source tree, which are tests of this crate.
pub(crate) const TIDY: CheckStep = CheckStep {
    needs: &[provide::nextest, provide::promtool],
    ..CheckStep::new("tidy", &["nextest", "run", "--package", "xtask"])
};

/// The whole check, the quickest to fail first.
pub(crate) const ALL: [CheckStep; 12] = [
    CheckStep::new("format", &["fmt", "--all", "--check"]),
    // Without advisories, because their database is on the internet: `cargo xtask audit` checks them.
    CheckStep {
        program: CARGO_DENY,
        needs: &[provide::cargo_deny],
        ..CheckStep::new(
            "supply chain",
            &["--locked", "check", "--hide-inclusion-graph", "bans", "licenses", "sources"],
        )
    },
    CheckStep::npm("types", &["run", "check", "--workspaces"]),
    CheckStep::npm("pages", &["run", "check:pages"]),
    CheckStep {
        needs: &[provide::build_tools],
        ..CheckStep::new(
            "clippy",
            &["clippy", "--workspace", "--all-targets", "--all-features", "--", "--deny", "warnings"],
        )
    },
    CheckStep {
        environment: &[("RUSTDOCFLAGS", "--deny warnings")],
        ..CheckStep::new("docs", &["doc", "--workspace", "--all-features", "--no-deps"])
    },
    // Newcomers build the default features: one machine, without the engines of a fleet.
    CheckStep::new("default features", &["clippy", "--package", "tidings", "--", "--deny", "warnings"]),
    // The whole workspace at once, tidy too: for a part of it cargo would rebuild much with fewer features.
    CheckStep {
        needs: &[provide::nextest, provide::promtool, provide::all_programs],
        ..CheckStep::new("tests", &["nextest", "run", "--workspace", "--all-features"])
    },
    CheckStep::npm("units of the clients", &["test", "--workspaces"]),
    CheckStep {
        needs: &[provide::node_packages, provide::chromium],
        ..CheckStep::npm("clients and pages", &["run", "test:server", "--workspaces"])
    },
    // The binary that was built with the tests, for the same reason.
    CheckStep { program: SIMULATOR, ..CheckStep::new("simulation", &["--seeds", "1000", "--fresh", "100"]) },
    CheckStep::new("doc tests", &["test", "--doc", "--workspace", "--all-features"]),
];

/// Runs the simulator with the given arguments.
pub(crate) fn simulate(arguments: &[&str]) -> anyhow::Result<()> {
    let status = Command::new("cargo")
        .args(["run", "--quiet", "--package", "tidings-sim", "--"])
        .args(arguments)
        .current_dir(xtask::workspace_root())
        .status()
        .context("the simulator could not be started")?;
    ensure!(status.success(), "the simulator found a violation, or could not run");
    Ok(())
}

/// Runs steps in order and stops at the first that fails.
pub(crate) fn run(steps: &[CheckStep]) -> anyhow::Result<()> {
    let began = Instant::now();
    let in_memory = scratch::directory();
    if let Some(in_memory) = &in_memory {
        println!("==> temporary files are in memory: {}", in_memory.path().display());
    }
    let builds = BuildCache::open()?;
    if let Some(builds) = &builds {
        println!("==> builds are cached: {}", builds.path().display());
    }
    // Cargo puts all binaries of the workspace into one directory.
    let ours = |name| Ok::<_, io::Error>(env::current_exe()?.with_file_name(name));
    for step in steps {
        for provide in step.needs {
            provide()?;
        }
        let command_line = format!("{} {}", step.program, step.arguments.join(" "));
        println!("==> {}: {command_line}", step.name);
        let step_began = Instant::now();
        let program = match step.program {
            SIMULATOR => ours(SIMULATOR)?,
            CARGO_DENY => Program::CargoDeny.find().context("cargo-deny is not where it was installed")?,
            program => program.into(),
        };
        let mut command = Command::new(program);
        if step.program == NPM {
            // These tests run the binary that the cargo tests have built.
            command.env("TIDINGS_BIN", ours("tidings")?);
        }
        if let Some(in_memory) = &in_memory {
            command.env("TMPDIR", in_memory.path());
        }
        if let Some(builds) = &builds {
            command.env(BUILD_DIRECTORY, builds.path());
        }
        let status = command
            .args(step.arguments)
            // Each build here runs once: incremental state would be gigabytes without a use.
            .env("CARGO_INCREMENTAL", "0")
            .envs(step.environment.iter().copied())
            .current_dir(xtask::workspace_root())
            .status()
            .with_context(|| format!("`{command_line}` could not be started"))?;
        let seconds = step_began.elapsed().as_secs_f64();
        ensure!(status.success(), "{} failed after {seconds:.1} s: {command_line}", step.name);
        println!("==> {}: passed in {seconds:.1} s", step.name);
    }
    println!("==> all passed in {:.1} s", began.elapsed().as_secs_f64());
    Ok(())
}
