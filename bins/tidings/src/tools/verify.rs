use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use server::tools::backup::RATE_MIB_MAX;
use server::tools::verify::{
    self, AuditProgress, DamagedFile, Manner, RATE_MAX, RATE_MIB, Report, ScrubbedFiles, Verified,
};

use super::{ToolArgs, exit, staged_bar};
use crate::admin::AdminArgs;

/// Number of examples printed for each violated invariant.
const EXAMPLES: usize = 3;
/// Exit code of a check that could not run.
const CANNOT_LOOK: u8 = 2;

#[derive(Args)]
pub(crate) struct VerifyArgs {
    /// Asks the running service on one machine, which checks its own store while it serves. Uses the configured admin
    /// listener unless an address is given.
    #[arg(long, alias = "admin", value_name = "ADDR", conflicts_with_all = ["checkpoint", "resume"])]
    admin_listen: Option<Option<SocketAddr>>,
    /// Maximum rows read per second. Without it, a running service reads faster while its commits are fast, a fleet is
    /// read at 2000, and a stopped service without a limit.
    #[arg(long, value_name = "ROWS", value_parser = clap::value_parser!(u32).range(1..=i64::from(RATE_MAX)))]
    rate: Option<u32>,
    /// Verifies every checksum in the files of an embedded store first. Rows are not read if a file is damaged.
    #[arg(long)]
    deep: bool,
    /// Maximum MiB of files read per second.
    #[arg(long, value_name = "MIB", default_value_t = RATE_MIB, requires = "deep",
        value_parser = clap::value_parser!(u32).range(1..=i64::from(RATE_MIB_MAX)))]
    rate_mib: u32,
    /// Saves progress in this file until the check is complete.
    #[arg(long, value_name = "FILE")]
    checkpoint: Option<PathBuf>,
    /// Resumes from --checkpoint. The log is read from the start again unless it was read to its end.
    #[arg(long, requires = "checkpoint")]
    resume: bool,
    #[command(flatten)]
    tool: ToolArgs,
}

/// Exits 1 if an invariant is violated or a file is damaged, and 2 if the check could not run.
pub(crate) async fn run(arguments: VerifyArgs) -> anyhow::Result<ExitCode> {
    let json = arguments.tool.json;
    match look(arguments).await {
        Ok(verified) => {
            if json {
                outln!("{}", serde_json::to_string_pretty(&verified)?);
            } else {
                print_verified(&verified);
            }
            Ok(exit(!verified.is_clean()))
        }
        Err(error) => {
            eprintln!("error: {error:#}");
            Ok(ExitCode::from(CANNOT_LOOK))
        }
    }
}

async fn look(arguments: VerifyArgs) -> anyhow::Result<Verified> {
    let VerifyArgs { admin_listen, rate, deep, rate_mib, checkpoint, resume, tool } = arguments;
    let (rows_bar, draw_rows) = staged_bar("rows");
    let (files_bar, draw_files) = staged_bar("bytes");
    let draw = |stage: &str, read, all| {
        if stage == "files" {
            return draw_files(stage, read, all);
        }
        if !files_bar.is_finished() {
            files_bar.finish_and_clear();
        }
        draw_rows(stage, read, all);
    };
    let rate_mib = deep.then_some(rate_mib);
    let verified = match admin_listen {
        Some(address) => AdminArgs::of(tool, address).connect()?.verify(rate, rate_mib, draw).await?,
        None => {
            let config = tool.load()?;
            let progress = |AuditProgress { stage, read, all }| draw(stage, read, all);
            let files = match rate_mib {
                Some(rate_mib) => Some(verify::files(&config, rate_mib, progress).await?),
                None => None,
            };
            let is_damaged = files.as_ref().is_some_and(|files| !files.damaged.is_empty());
            let report = if is_damaged {
                Report::default()
            } else {
                let manner = Manner { rate, checkpoint, resume };
                Report::from(&verify::verify(&config, &manner, progress).await?)
            };
            Verified { report, files }
        }
    };
    files_bar.finish_and_clear();
    rows_bar.finish_and_clear();
    Ok(verified)
}

fn print_verified(verified: &Verified) {
    let Some(ScrubbedFiles { files, bytes, damaged }) = &verified.files else { return print(&verified.report) };
    if damaged.is_empty() {
        outln!("{files} files with {bytes} bytes check out");
        outln!();
        return print(&verified.report);
    }
    for DamagedFile { file, table, reason } in damaged {
        match table {
            Some(table) => outln!("{file} (table `{table}`): {reason}"),
            None => outln!("{file}: {reason}"),
        }
    }
    outln!();
    outln!("{} damaged, {files} files with {bytes} bytes check out; rows were not checked.", damaged.len());
    outln!(
        "Restore a backup with `tidings store restore`, or copy what is readable into a new directory with \
         `tidings store repair`."
    );
}

pub(super) fn print(report: &Report) {
    let width = report.invariants.iter().map(|line| line.name.len()).max().unwrap_or(0);
    outln!("{:<width$} {:>12} {:>10}", "", "checked", "violated");
    for line in &report.invariants {
        outln!("{:<width$} {:>12} {:>10}", line.name, line.checked, line.violated);
    }
    outln!();
    for line in report.invariants.iter().filter(|line| line.violated > 0) {
        for example in line.examples.iter().take(EXAMPLES) {
            outln!("{}: {example}", line.name);
        }
        if line.violated > EXAMPLES as u64 {
            outln!("{}: and {} more; --json lists some of them", line.name, line.violated - EXAMPLES as u64);
        }
    }
    if report.invariants.iter().all(|line| line.violated == 0) {
        outln!("nothing is violated");
    }
}
