use std::process::Command;
use std::time::Instant;

use anyhow::{Context, ensure};

/// One call of cargo.
pub(crate) struct Step {
    name: &'static str,
    arguments: &'static [&'static str],
    environment: &'static [(&'static str, &'static str)],
    needs: &'static [Tool],
}

/// What does not come with the toolchain.
enum Tool {
    Nextest,
    Redis,
}

impl Step {
    const fn new(name: &'static str, arguments: &'static [&'static str]) -> Self {
        Self { name, arguments, environment: &[], needs: &[] }
    }
}

/// The facts about the tree, which are tests of this crate.
pub(crate) const TIDY: Step =
    Step { needs: &[Tool::Nextest], ..Step::new("tidy", &["nextest", "run", "--package", "xtask"]) };

/// The whole check, the quickest to fail first.
pub(crate) const ALL: [Step; 6] = [
    Step::new("format", &["fmt", "--all", "--check"]),
    Step::new("clippy", &["clippy", "--workspace", "--all-targets", "--", "--deny", "warnings"]),
    Step {
        environment: &[("RUSTDOCFLAGS", "--deny warnings")],
        ..Step::new("docs", &["doc", "--workspace", "--no-deps"])
    },
    Step {
        needs: &[Tool::Nextest, Tool::Redis],
        ..Step::new("tests", &["nextest", "run", "--workspace", "--exclude", "xtask"])
    },
    Step::new("doc tests", &["test", "--doc", "--workspace"]),
    TIDY,
];

/// Runs steps in order and stops at the first that fails.
pub(crate) fn run(steps: &[Step]) -> anyhow::Result<()> {
    let began = Instant::now();
    for step in steps {
        for tool in step.needs {
            tool.provide()?;
        }
        let command_line = format!("cargo {}", step.arguments.join(" "));
        println!("==> {}: {command_line}", step.name);
        let step_began = Instant::now();
        let status = Command::new("cargo")
            .args(step.arguments)
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

impl Tool {
    /// Installs the tool if it is not there.
    fn provide(&self) -> anyhow::Result<()> {
        match self {
            Self::Nextest if !answers("cargo", &["nextest", "--version"]) => {
                println!("==> cargo-nextest is not there and will be installed");
                call("cargo", &["install", "--locked", "cargo-nextest"])
            }
            Self::Redis if !answers("redis-server", &["--version"]) => {
                println!("==> redis-server is not there and will be installed, which takes root");
                call("apt-get", &["update"])?;
                call("apt-get", &["install", "--yes", "--no-install-recommends", "redis-server"])?;
                // The package may start a server of its own. Tests start theirs, and this machine had none before. Where
                // nothing starts services there is none to stop.
                for (program, arguments) in
                    [("service", ["redis-server", "stop"]), ("update-rc.d", ["redis-server", "disable"])]
                {
                    if !answers(program, &arguments) {
                        println!("==> `{program} {}` did not work; tests do not mind", arguments.join(" "));
                    }
                }
                Ok(())
            }
            Self::Nextest | Self::Redis => Ok(()),
        }
    }
}

fn answers(program: &str, arguments: &[&str]) -> bool {
    Command::new(program).args(arguments).output().is_ok_and(|probe| probe.status.success())
}

fn call(program: &str, arguments: &[&str]) -> anyhow::Result<()> {
    let command_line = format!("{program} {}", arguments.join(" "));
    let status = Command::new(program)
        .args(arguments)
        .env("DEBIAN_FRONTEND", "noninteractive")
        .status()
        .with_context(|| format!("`{command_line}` could not be started"))?;
    ensure!(status.success(), "`{command_line}` failed, and with it an installation");
    Ok(())
}
