use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use serde_json::json;
use server::tools::transfer::{self, Imported};
use server::tools::verify::AuditProgress;

use super::{ToolArgs, staged_bar};

#[derive(Args)]
pub(crate) struct ImportArgs {
    /// The file written by an export.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Validates the file without touching a store.
    #[arg(long)]
    check: bool,
    #[command(flatten)]
    tool: ToolArgs,
}

pub(crate) async fn run(arguments: ImportArgs) -> anyhow::Result<ExitCode> {
    let ImportArgs { file, check, tool } = arguments;
    let json = tool.json;
    let (bar, draw) = staged_bar("done");
    let draw = |AuditProgress { stage, read, all }| draw(stage, read, all);
    let imported = match check {
        true => transfer::check(&file, draw)?,
        false => transfer::import(&tool.load()?, &file, draw).await?,
    };
    bar.finish_and_clear();
    if json {
        outln!("{}", serde_json::to_string_pretty(&json!({ "file": file, "check": check, "import": imported }))?);
        return Ok(ExitCode::SUCCESS);
    }
    let Imported { rows, left_out, content, exported_at, .. } = &imported;
    for (kind, count) in rows {
        outln!("{kind:<12} {count:>12}");
    }
    outln!("content {content}");
    if *left_out > 0 {
        outln!("{left_out} rows have expired since the export and are left out");
    }
    match check {
        true => outln!("`{}` of {exported_at} is whole", file.display()),
        false => outln!("the store holds what `{}` says, and nothing is violated; start the service", file.display()),
    }
    Ok(ExitCode::SUCCESS)
}
