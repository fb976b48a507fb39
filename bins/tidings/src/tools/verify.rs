use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use server::tools::verify::{self, Findings, Manner, Progress, RATE, Report};

use super::{ToolArgs, exit, staged_bar};
use crate::admin::AdminArgs;

/// Examples of each violation that are printed.
const EXAMPLES: usize = 3;
/// The code of an audit that could not be done.
const CANNOT_LOOK: u8 = 2;

#[derive(Args)]
pub(crate) struct VerifyArgs {
    /// Asks the running service on one machine, which checks its own store while it serves; its admin listener is the
    /// configured one, unless it is named.
    #[arg(long, value_name = "ADDR", conflicts_with_all = ["checkpoint", "resume"])]
    admin: Option<Option<SocketAddr>>,
    /// Rows that are read in a second, at the most.
    #[arg(long, default_value_t = RATE, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    rate: u32,
    /// Keeps in this file how far it is, until it is done.
    #[arg(long, value_name = "FILE")]
    checkpoint: Option<PathBuf>,
    /// Goes on where --checkpoint was left. The log is read anew if it was not read to its end.
    #[arg(long, requires = "checkpoint")]
    resume: bool,
    #[command(flatten)]
    tool: ToolArgs,
}

/// Exits 1 if something is violated, and 2 if it could not look.
pub(crate) async fn run(arguments: VerifyArgs) -> anyhow::Result<ExitCode> {
    let json = arguments.tool.json;
    match look(arguments).await {
        Ok(findings) => {
            let report = Report::from(&findings);
            if json {
                println!("{}", serde_json::to_string_pretty(&report)?);
            } else {
                print(&report);
            }
            Ok(exit(!findings.is_clean()))
        }
        Err(error) => {
            eprintln!("error: {error:#}");
            Ok(ExitCode::from(CANNOT_LOOK))
        }
    }
}

async fn look(arguments: VerifyArgs) -> anyhow::Result<Findings> {
    let VerifyArgs { admin, rate, checkpoint, resume, tool } = arguments;
    let (bar, draw) = staged_bar("rows");
    let findings = match admin {
        Some(address) => AdminArgs::of(tool, address).connect()?.verify(rate, draw).await?,
        None => {
            let manner = Manner { rate, checkpoint, resume };
            let draw = |Progress { stage, read, all }| draw(stage, read, all);
            verify::verify(&tool.load()?, &manner, draw).await?
        }
    };
    bar.finish_and_clear();
    Ok(findings)
}

pub(super) fn print(report: &Report) {
    let width = report.invariants.iter().map(|line| line.name.len()).max().unwrap_or(0);
    println!("{:<width$} {:>12} {:>10}", "", "checked", "violated");
    for line in &report.invariants {
        println!("{:<width$} {:>12} {:>10}", line.name, line.checked, line.violated);
    }
    println!();
    for line in report.invariants.iter().filter(|line| line.violated > 0) {
        for example in line.examples.iter().take(EXAMPLES) {
            println!("{}: {example}", line.name);
        }
        if line.violated > EXAMPLES as u64 {
            println!("{}: and {} more; --json lists some of them", line.name, line.violated - EXAMPLES as u64);
        }
    }
    if report.invariants.iter().all(|line| line.violated == 0) {
        println!("nothing is violated");
    }
}
