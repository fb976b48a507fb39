use std::env;

use anyhow::{Context, bail};
use programs::Program;

mod bench;
mod build_cache;
mod ci;
mod fuzz;
mod mutants;
mod profile;
mod provide;
mod quick;
mod release;
mod scratch;
mod supply_chain;

fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["ci"] => ci::run(&ci::ALL),
        ["quick", ref arguments @ ..] => quick::run(arguments),
        ["tidy"] => ci::run(&[ci::TIDY]),
        ["spec"] => {
            print!("{}", xtask::spec::report(&xtask::workspace_root())?);
            Ok(())
        }
        ["engines"] => engines(&Program::ALL),
        ["engines", ref names @ ..] => engines(&names.iter().map(|name| named(name)).collect::<Result<Vec<_>, _>>()?),
        ["audit"] => supply_chain::audit(),
        ["sbom"] => supply_chain::sbom(),
        ["release", ref arguments @ ..] => release::run(arguments),
        ["bench", ref arguments @ ..] => bench::run(arguments),
        ["fuzz", ref arguments @ ..] => fuzz::run(arguments),
        ["profile", ref arguments @ ..] => profile::run(arguments),
        ["mutants", ref arguments @ ..] => mutants::run(arguments),
        ["sim", ref arguments @ ..] => ci::simulate(arguments),
        _ => bail!(
            "usage: cargo xtask ci | quick [--help] | tidy | spec | engines [PROGRAM...] | audit | sbom | release [--help] | fuzz [--minutes N] [TARGET...] | profile WORKLOAD [--seconds N] | sim [--help] | mutants [--help] | bench [--help]"
        ),
    }
}

/// Installs programs that tests run, and prints the path of each on a line.
fn engines(programs: &[Program]) -> anyhow::Result<()> {
    for program in programs {
        println!("{}", provide::program(*program)?.display());
    }
    Ok(())
}

fn named(name: &str) -> anyhow::Result<Program> {
    let names = Program::ALL.map(Program::name).join(", ");
    let program = Program::ALL.into_iter().find(|program| program.name() == name);
    program.with_context(|| format!("`{name}` is none of the programs that tests run: {names}"))
}
