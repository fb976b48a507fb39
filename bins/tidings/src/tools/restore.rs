use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use serde_json::json;
use server::tools::restore::{self, Restored};
use server::tools::verify::{AuditProgress, Report};

use super::{ToolArgs, backup, bytes_bar, exit, staged_bar, verify};

#[derive(Args)]
pub(crate) struct RestoreArgs {
    /// The backup; - is standard input.
    file: PathBuf,
    /// Reads and validates the whole backup, prints its contents, and writes nothing.
    #[arg(long)]
    check: bool,
    /// File with the key of the backup, if it differs from `store.key_file`. A restore with another key, or without
    /// one, changes or removes the encryption of the store.
    #[arg(long, value_name = "FILE")]
    backup_key_file: Option<PathBuf>,
    #[command(flatten)]
    tool: ToolArgs,
}

/// Exits 1 if the backup is refused, or if the restored store violates an invariant.
pub(crate) async fn run(arguments: RestoreArgs) -> anyhow::Result<ExitCode> {
    let RestoreArgs { file, check, backup_key_file, tool } = arguments;
    let json = tool.json;
    let bar = bytes_bar();
    let progress = |read: u64, all: u64| {
        bar.set_length(all.max(read));
        bar.set_position(read);
    };
    if check {
        let contents = restore::check(&file, progress)?;
        bar.finish_and_clear();
        if json {
            outln!("{}", serde_json::to_string_pretty(&backup::answer(&contents))?);
        } else {
            backup::print(&contents);
            outln!("nothing in it is damaged");
        }
        return Ok(ExitCode::SUCCESS);
    }
    let (rows, draw) = staged_bar("rows");
    let verifying = |AuditProgress { stage, read, all }: AuditProgress| draw(stage, read, all);
    let restored = restore::restore(&tool.load()?, &file, backup_key_file.as_deref(), progress, verifying).await?;
    bar.finish_and_clear();
    rows.finish_and_clear();
    let Restored { contents, findings, directory } = restored;
    let report = Report::from(&findings);
    if json {
        let answer = json!({ "backup": backup::answer(&contents), "directory": directory, "verify": report });
        outln!("{}", serde_json::to_string_pretty(&answer)?);
    } else {
        backup::print(&contents);
        outln!();
        verify::print(&report);
        if findings.is_clean() {
            outln!("`{}` is restored; start it with `tidings serve --data-dir {0}`", directory.display());
        } else {
            outln!("the restored store violates an invariant, and is kept in `{}`", directory.display());
        }
    }
    Ok(exit(!findings.is_clean()))
}
