use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use serde_json::json;
use server::tools::transfer::{self, Exported, Left};
use server::tools::verify::AuditProgress;

use super::{ToolArgs, staged_bar};

#[derive(Args)]
pub(crate) struct ExportArgs {
    /// The file to write, which must not exist yet.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    #[command(flatten)]
    tool: ToolArgs,
}

pub(crate) async fn run(arguments: ExportArgs) -> anyhow::Result<ExitCode> {
    let ExportArgs { file, tool } = arguments;
    let json = tool.json;
    let (bar, draw) = staged_bar("rows");
    let draw = |AuditProgress { stage, read, all }| draw(stage, read, all);
    let exported = transfer::export(&tool.load()?, &file, draw).await?;
    bar.finish_and_clear();
    if json {
        outln!("{}", serde_json::to_string_pretty(&json!({ "file": file, "export": exported }))?);
        return Ok(ExitCode::SUCCESS);
    }
    let Exported { rows, content, bytes, left, .. } = &exported;
    for (kind, count) in rows {
        outln!("{kind:<12} {count:>12}");
    }
    outln!("content {content}");
    outln!("`{}` is complete, {bytes} bytes; it holds secrets, so protect it", file.display());
    warn_of(*left);
    Ok(ExitCode::SUCCESS)
}

/// Warns about events that will not be delivered after the move, with the remedy.
fn warn_of(left: Left) {
    let Left { webhook_events, unpublished_chats } = left;
    if webhook_events > 0 {
        eprintln!(
            "warning: {webhook_events} events have not reached the webhook and do not move; start the service again, wait \
             until `tidings log webhook status` says lag 0, and export once more"
        );
    }
    if unpublished_chats > 0 {
        eprintln!(
            "warning: {unpublished_chats} chats have something that is not in the log yet and is not published after the \
             move; start the fleet again until it is, and export once more"
        );
    }
}
