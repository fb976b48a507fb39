//! `tidings history`: checks recorded client histories against the delivery guarantees.

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use audit::history::{Checker, Reader};
use audit::{Findings, Report};
use clap::{Args, Subcommand};
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

#[derive(Subcommand)]
pub(crate) enum HistoryCommand {
    /// Checks a history (sends, acknowledgements and deliveries, in order) against the delivery guarantees.
    ///
    /// Exits 1 if an entry contradicts them, and 2 if the file is not a history.
    Check(CheckArgs),
}

#[derive(Args)]
pub(crate) struct CheckArgs {
    /// The file written by `tidings load --history`: one JSON object per line.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Allowed clock skew between servers and clients, in milliseconds, for judging expiry.
    #[arg(long, value_name = "MS", default_value_t = 1000)]
    skew_ms: u64,
    /// Prints the findings as JSON.
    #[arg(long)]
    json: bool,
}

/// The result of a check.
#[derive(Serialize)]
struct Checked {
    entries: u64,
    #[serde(flatten)]
    report: Report,
}

pub(crate) fn run(command: HistoryCommand) -> anyhow::Result<ExitCode> {
    let HistoryCommand::Check(arguments) = command;
    match check(&arguments.file, arguments.skew_ms) {
        Ok((entries, findings)) => {
            if arguments.json {
                let report = Report::from(&findings);
                outln!("{}", serde_json::to_string_pretty(&Checked { entries, report })?);
            } else {
                print(entries, &findings);
            }
            Ok(if findings.is_clean() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
        }
        Err(error) => {
            eprintln!("error: {error:#}");
            Ok(ExitCode::from(2))
        }
    }
}

fn check(path: &Path, skew_ms: u64) -> anyhow::Result<(u64, Findings)> {
    let name = || format!("cannot check `{}`", path.display());
    let file = File::open(path).with_context(name)?;
    // The progress bar draws on a terminal only.
    let bar = ProgressBar::new(file.metadata().with_context(name)?.len()).with_style(
        ProgressStyle::with_template("{bar:30} {bytes}/{total_bytes} ({elapsed}, {eta} left)")
            .expect("the template is valid"),
    );
    let mut checker = Checker::new().with_skew_ms(skew_ms);
    for entry in Reader::new(BufReader::new(bar.wrap_read(file))) {
        checker.observe(&entry.with_context(name)?);
    }
    bar.finish_and_clear();
    Ok((checker.entries(), checker.finish()))
}

fn print(entries: u64, findings: &Findings) {
    outln!("{:<34} {:>12} {:>10}", "invariant", "checked", "violated");
    for (invariant, tally) in findings.iter() {
        outln!("{:<34} {:>12} {:>10}", invariant.name(), tally.checked, tally.violated);
    }
    outln!();
    for violation in findings.violations() {
        outln!("{}: {}", violation.invariant, violation.detail);
    }
    match findings.is_clean() {
        true => outln!("{entries} entries checked; no violations"),
        false => outln!("{entries} entries checked; violations found"),
    }
}
