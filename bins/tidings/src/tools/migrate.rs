use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use serde_json::json;
use server::tools::migrate::{self, Migrated, Migration, Stage};
use server::tools::verify::Report;

use super::{ToolArgs, exit, staged_bar, verify};

#[derive(Args)]
pub(crate) struct MigrateArgs {
    /// Where to keep the backup of the old store [default: beside the data directory, named after its format]
    #[arg(long, value_name = "FILE")]
    backup: Option<PathBuf>,
    #[command(flatten)]
    tool: ToolArgs,
}

/// Exits 1 if the upgrade failed; the store is then unchanged.
pub(crate) async fn run(arguments: MigrateArgs) -> anyhow::Result<ExitCode> {
    let MigrateArgs { backup, tool } = arguments;
    let json = tool.json;
    let (bar, draw) = staged_bar("done");
    let progress = |stage: Stage, done: u64, all: u64| {
        let name = match stage {
            Stage::BackingUp => "bytes backed up",
            Stage::Rewriting => "bytes read back",
            Stage::Verifying => "rows verified",
        };
        draw(name, done, all.max(done));
    };
    let migration = migrate::migrate(&tool.load()?, backup, progress).await?;
    bar.finish_and_clear();
    match migration {
        Migration::NotNeeded if json => outln!("{}", serde_json::to_string_pretty(&json!({ "migrated": false }))?),
        Migration::NotNeeded => outln!("the store is of this version's format already; nothing was done"),
        Migration::Done(migrated) => {
            let Migrated { from, to, backup, contents, findings } = *migrated;
            let report = Report::from(&findings);
            let is_clean = findings.is_clean();
            if json {
                let answer = json!({
                    "migrated": is_clean, "from": from, "to": to, "backup": backup, "rows": contents.rows(),
                    "verify": report,
                });
                outln!("{}", serde_json::to_string_pretty(&answer)?);
            } else {
                verify::print(&report);
                let (file, mib) = (backup.display(), contents.bytes.div_ceil(1 << 20));
                outln!("the store as it was, in format {from}, is in `{file}` ({mib} MiB); it holds keys");
                if is_clean {
                    outln!("{} rows were brought into format {to}; start the service", contents.rows());
                } else {
                    outln!("the store is still of format {from}, because in format {to} it would violate an invariant");
                }
            }
            return Ok(exit(!is_clean));
        }
    }
    Ok(ExitCode::SUCCESS)
}
