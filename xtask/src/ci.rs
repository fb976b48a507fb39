use std::env;
use std::io;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, ensure};
use xtask::Program;

use crate::provide;

/// One call of cargo, of npm, of a program of the cache, or of one of ours that the tests were built with.
pub(crate) struct Step {
    name: &'static str,
    program: &'static str,
    arguments: &'static [&'static str],
    environment: &'static [(&'static str, &'static str)],
    /// What provides it with what the toolchain does not bring.
    needs: &'static [fn() -> anyhow::Result<()>],
}

impl Step {
    const fn new(name: &'static str, arguments: &'static [&'static str]) -> Self {
        Self { name, program: "cargo", arguments, environment: &[], needs: &[] }
    }

    /// For what is written in TypeScript.
    const fn npm(name: &'static str, arguments: &'static [&'static str]) -> Self {
        Self { program: NPM, needs: &[provide::node_packages], ..Self::new(name, arguments) }
    }
}

const NPM: &str = "npm";
const SIMULATOR: &str = "tidings-sim";
const CARGO_DENY: &str = "cargo-deny";

/// The facts about the tree, which are tests of this crate.
pub(crate) const TIDY: Step = Step {
    needs: &[provide::nextest, provide::promtool],
    ..Step::new("tidy", &["nextest", "run", "--package", "xtask"])
};

/// The whole check, the quickest to fail first.
pub(crate) const ALL: [Step; 11] = [
    Step::new("format", &["fmt", "--all", "--check"]),
    // Without the advisories, whose database is on the internet: `cargo xtask audit` asks it.
    Step {
        program: CARGO_DENY,
        needs: &[provide::cargo_deny],
        ..Step::new("supply chain", &["--locked", "check", "--hide-inclusion-graph", "bans", "licenses", "sources"])
    },
    Step::npm("types", &["run", "check", "--workspaces"]),
    Step::npm("pages", &["run", "check:pages"]),
    Step {
        needs: &[provide::build_tools],
        ..Step::new("clippy", &["clippy", "--workspace", "--all-targets", "--", "--deny", "warnings"])
    },
    Step {
        environment: &[("RUSTDOCFLAGS", "--deny warnings")],
        ..Step::new("docs", &["doc", "--workspace", "--no-deps"])
    },
    // All of the workspace at once, tidy too: of a part of it cargo would build much anew, for fewer features.
    Step {
        needs: &[provide::nextest, provide::promtool, provide::all_programs],
        ..Step::new("tests", &["nextest", "run", "--workspace"])
    },
    Step::npm("units of the clients", &["test", "--workspaces"]),
    Step {
        needs: &[provide::node_packages, provide::chromium],
        ..Step::npm("clients and pages", &["run", "test:server", "--workspaces"])
    },
    // As the tests were built, for the same reason.
    Step { program: SIMULATOR, ..Step::new("simulation", &["--seeds", "1000", "--fresh", "100"]) },
    Step::new("doc tests", &["test", "--doc", "--workspace"]),
];

/// Runs the simulator as people ask for it.
pub(crate) fn simulate(arguments: &[&str]) -> anyhow::Result<()> {
    let status = Command::new("cargo")
        .args(["run", "--quiet", "--package", "tidings-sim", "--"])
        .args(arguments)
        .current_dir(xtask::workspace_root())
        .status()
        .context("the simulator could not be started")?;
    ensure!(status.success(), "the simulator has found something, or could not be run");
    Ok(())
}

/// Runs steps in order and stops at the first that fails.
pub(crate) fn run(steps: &[Step]) -> anyhow::Result<()> {
    let began = Instant::now();
    // Cargo puts all of ours beside each other.
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
            // These tests run the binary that those of cargo have built.
            command.env("TIDINGS_BIN", ours("tidings")?);
        }
        let status = command
            .args(step.arguments)
            // What is built here is built once: state for the next build would be gigabytes that nobody reads.
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
