use std::process::ExitCode;

use clap::Args;
use domain::Timestamp;
use serde_json::{Value, json};
use server::tools::restore_tables::{
    self, Restoration, RestoreOutcome, RestorePlan, RestoreRequest, RestoredTable, TableOrigin, TableProgress,
};

use super::{ToolArgs, exit, staged_bar};

#[derive(Args)]
pub(crate) struct RestoreTablesArgs {
    /// The time of the restored data, for example 2026-11-18T20:00:00Z [default: the latest possible one]
    #[arg(long, value_name = "TIME")]
    at: Option<Timestamp>,
    /// The prefix of the new tables; `dynamodb.table_prefix` is that of the old ones.
    #[arg(long, value_name = "PREFIX")]
    into_prefix: String,
    /// A table, without prefix, that did not exist at that time; it is created empty. May be repeated.
    #[arg(long, value_name = "TABLE")]
    empty: Vec<String>,
    /// Performs the restore. Without this flag, the command only prints the plan.
    #[arg(long)]
    yes: bool,
    /// Continues an interrupted restore. Name the same --at.
    #[arg(long, requires = "at")]
    resume: bool,
    #[command(flatten)]
    tool: ToolArgs,
}

pub(crate) async fn run(arguments: RestoreTablesArgs) -> anyhow::Result<ExitCode> {
    let RestoreTablesArgs { at, into_prefix, empty, yes, resume, tool } = arguments;
    let json = tool.json;
    let config = tool.load()?;
    let request = RestoreRequest { at, into_prefix, empty, resume };
    let plan = restore_tables::plan(&config, &request).await?;
    let has_obstacle = plan.tables.iter().any(|table| table.obstacle.is_some());
    if !json {
        print_plan(&plan);
    }
    if !yes {
        if json {
            outln!("{}", serde_json::to_string_pretty(&plan_json(&plan))?);
        } else {
            outln!(
                "nothing was changed; stop all processes of the fleet, then repeat this with --at {} --yes",
                plan.at
            );
        }
        return Ok(exit(has_obstacle));
    }
    let (bar, draw) = staged_bar("done");
    let restored = restore_tables::restore(&config, &request, &plan, draw).await?;
    bar.finish_and_clear();
    if json {
        outln!("{}", serde_json::to_string_pretty(&restored_json(&plan, &restored))?);
    } else {
        print_restored(&request.into_prefix, &restored);
    }
    Ok(exit(!restored.drifts.is_empty()))
}

fn print_plan(plan: &RestorePlan) {
    let width = plan.tables.iter().map(|table| table.target.len()).max().unwrap_or(0);
    outln!("restore to {}", plan.at);
    outln!("{:width$}  {:13}  {:>10}  now", "table", "items of", "MiB");
    for table in &plan.tables {
        let RestoredTable { target, bytes, obstacle, .. } = table;
        let now = obstacle.as_deref().unwrap_or_else(|| progress(table.progress));
        outln!("{target:width$}  {:13}  {:>10}  {now}", origin(table.origin), bytes.div_ceil(1 << 20));
    }
}

fn print_restored(prefix: &str, restored: &RestoreOutcome) {
    let RestoreOutcome { restoration, drifts } = restored;
    let Restoration { chats, chats_with_loss, passed_over, keys_written, keys_deleted } = restoration;
    outln!("{chats} chats are restored; {chats_with_loss} of them have lost up to {passed_over} messages");
    outln!("{keys_written} send keys were written, {keys_deleted} deleted");
    for drift in drifts {
        outln!("left: {drift}");
    }
    outln!("\nnow, as docs/fleet.md describes:");
    outln!("1. set `dynamodb.table_prefix` to `{prefix}` and `kafka.topic_prefix` to a new one, for all processes");
    outln!("2. deploy `tidings store schema show --format cloudformation` with TablePrefix={prefix} Tables=restored");
    outln!("3. deploy the formats `alarms` and `backups` with TablePrefix={prefix}");
    outln!("4. create the topics with `tidings store schema apply`, and flush Redis");
    outln!("5. check the result with `tidings store verify`, then start the processes");
}

fn plan_json(plan: &RestorePlan) -> Value {
    let table = |table: &RestoredTable| {
        json!({
            "source": table.source,
            "target": table.target,
            "items_of": origin(table.origin),
            "bytes": table.bytes,
            "progress": progress(table.progress),
            "obstacle": table.obstacle,
        })
    };
    let tables: Vec<Value> = plan.tables.iter().map(table).collect();
    json!({ "at": plan.at, "is_finished": plan.is_finished, "tables": tables })
}

fn restored_json(plan: &RestorePlan, restored: &RestoreOutcome) -> Value {
    let Restoration { chats, chats_with_loss, passed_over, keys_written, keys_deleted } = restored.restoration;
    json!({
        "at": plan.at,
        "chats": chats,
        "chats_with_loss": chats_with_loss,
        "passed_over": passed_over,
        "keys_written": keys_written,
        "keys_deleted": keys_deleted,
        "left": restored.drifts,
    })
}

fn origin(origin: TableOrigin) -> &'static str {
    match origin {
        TableOrigin::PointInTime => "that time",
        TableOrigin::Empty => "none",
    }
}

fn progress(progress: TableProgress) -> &'static str {
    match progress {
        TableProgress::Absent => "absent",
        TableProgress::Restoring => "being restored",
        TableProgress::Active => "complete",
    }
}
