use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use server::{AUDIT_FILE, AuditVerification, verify_audit_files};

use super::table::counted;
use crate::serve::ConfigArgs;

#[derive(Subcommand)]
pub(crate) enum AuditCommand {
    /// Verifies that no line of the audit log was changed or removed.
    ///
    /// Reads files only, so it works on a copy and without a service. Name rotated files too, oldest first. Each line
    /// has the hash of the line before it: the first line that does not fit is named. Lines that were cut off at the
    /// end are found with --expect. Exits 1 if a line does not fit.
    ///
    /// Example: tidings admin audit verify audit-2026-10.jsonl admin-audit.jsonl
    Verify(VerifyAuditArgs),
}

#[derive(Args)]
pub(crate) struct VerifyAuditArgs {
    /// The files, oldest first [default: admin-audit.jsonl in the data directory]
    files: Vec<PathBuf>,
    /// A hash that was kept elsewhere, such as `audit_hash` in the log of the process; a line must have it.
    #[arg(long, value_name = "HASH")]
    expect: Option<String>,
    /// The TOML file that the service runs with.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The data directory of the service [default: tidings-data]
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Prints the result as JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(command: AuditCommand) -> anyhow::Result<ExitCode> {
    let AuditCommand::Verify(VerifyAuditArgs { mut files, expect, config, data_dir, json }) = command;
    if files.is_empty() {
        files.push(ConfigArgs::of(config, data_dir, None).load()?.data_dir.join(AUDIT_FILE));
    }
    let found = verify_audit_files(&files, expect.as_deref())?;
    if json {
        outln!("{}", serde_json::to_string_pretty(&found)?);
    } else {
        print(&found);
    }
    Ok(if found.broken.is_none() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn print(found: &AuditVerification) {
    let AuditVerification { lines, unchained_lines, cut_short, last_hash, broken } = found;
    if *unchained_lines > 0 {
        outln!(
            "{} of an earlier release at the beginning, without a chain",
            counted(*unchained_lines as usize, "line")
        );
    }
    for at in cut_short {
        outln!("{}, line {}: cut short by a crash, or by hand before a restart", at.file, at.line);
    }
    match (broken, last_hash) {
        (Some(broken), _) => outln!("{}, line {}: {}", broken.at.file, broken.at.line, broken.reason),
        (None, Some(hash)) => outln!("{} verified; the last hash is {hash}", counted(*lines as usize, "line")),
        (None, None) => outln!("no line has a chain"),
    }
}
