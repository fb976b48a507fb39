use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use serde_json::{Value, json};
use server::tools::repair::{self, Missing, Repair};
use server::tools::verify::{AuditProgress, Report};

use super::{ToolArgs, bar, exit, staged_bar, verify};

#[derive(Args)]
pub(crate) struct RepairArgs {
    /// The new data directory, which must be empty or absent.
    #[arg(long, value_name = "DIR")]
    into: PathBuf,
    #[command(flatten)]
    tool: ToolArgs,
}

/// Exits 1 if something could not be copied, or if the new store violates an invariant.
pub(crate) async fn run(arguments: RepairArgs) -> anyhow::Result<ExitCode> {
    let RepairArgs { into, tool } = arguments;
    let json = tool.json;
    let stage = bar("{spinner}", "{msg} ({elapsed})");
    let (rows, draw) = staged_bar("rows");
    let verifying = |AuditProgress { stage, read, all }: AuditProgress| draw(stage, read, all);
    let progress = |next: &'static str| {
        stage.set_message(next);
        stage.tick();
    };
    let repair = repair::repair(&tool.load()?, &into, progress, verifying).await?;
    stage.finish_and_clear();
    rows.finish_and_clear();
    if json {
        outln!("{}", serde_json::to_string_pretty(&answer(&repair))?);
    } else {
        print(&repair);
        outln!("start the new store with `tidings serve --data-dir {}`", into.display());
    }
    let Repair { repaired, lost_keys, findings } = &repair;
    let is_whole = repaired.unreadable.is_empty() && repaired.left_out.is_empty() && lost_keys.is_empty();
    Ok(exit(!is_whole || !repaired.missing.is_empty() || !findings.is_clean()))
}

fn answer(Repair { repaired, lost_keys, findings }: &Repair) -> Value {
    let unreadable = repaired.unreadable.iter().map(|part| json!({ "file": part.file, "reason": part.reason }));
    let missing = repaired.missing.iter().map(|(chat_id, Missing { lost, lost_or_expired })| {
        json!({ "chat_id": chat_id.to_string(), "lost": lost, "lost_or_expired": lost_or_expired })
    });
    json!({
        "unreadable": unreadable.collect::<Vec<_>>(),
        "saved": repaired.saved,
        "left_out": repaired.left_out,
        "recovered_chats": repaired.recovered_chats.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "missing": missing.collect::<Vec<_>>(),
        "lost_keys": lost_keys,
        "verify": Report::from(findings),
    })
}

fn print(Repair { repaired, lost_keys, findings }: &Repair) {
    for part in &repaired.unreadable {
        outln!("unreadable: {}: {}", part.file.display(), part.reason);
    }
    for name in lost_keys {
        outln!("unreadable: key file {name}; all users must sign in again");
    }
    for (kind, count) in &repaired.saved {
        outln!("saved: {count} of {kind}");
    }
    for (kind, count) in &repaired.left_out {
        outln!("left out: {count} of {kind}, which do not decode");
    }
    for chat_id in &repaired.recovered_chats {
        outln!("chat {chat_id} was rebuilt from its members and messages");
    }
    for (chat_id, Missing { lost, lost_or_expired }) in &repaired.missing {
        if !lost.is_empty() {
            outln!("chat {chat_id}: lost messages {}", ranges(lost));
        }
        if !lost_or_expired.is_empty() {
            outln!("chat {chat_id}: no trace of messages {}, which were lost or had expired", ranges(lost_or_expired));
        }
    }
    if repaired.missing.is_empty() {
        outln!("no message is missing");
    }
    outln!();
    verify::print(&Report::from(findings));
}

/// Sequences as a person writes them: `3, 7-12`.
fn ranges(sequences: &BTreeSet<u64>) -> String {
    let mut ranges: Vec<(u64, u64)> = vec![];
    for sequence in sequences {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == *sequence => *last = *sequence,
            _ => ranges.push((*sequence, *sequence)),
        }
    }
    let range = |(first, last): &(u64, u64)| if first == last { first.to_string() } else { format!("{first}-{last}") };
    ranges.iter().map(range).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequences_are_shown_as_ranges() {
        assert_eq!(ranges(&[1, 3, 4, 5, 9, 10].into()), "1, 3-5, 9-10");
    }
}
