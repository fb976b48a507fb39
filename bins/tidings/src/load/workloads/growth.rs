use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use server::tools::events::own_groups;

use super::super::bench::{Bench, Observed};
use super::super::report::{LoadReport, whole};
use super::super::store::{Filled, Filling};
use super::super::{LoadArgs, Workload};
use super::pairs::{self, Measured};

const MIB: f64 = 1024.0 * 1024.0;

/// Contents of the store at a measurement, not counting the messages of the pairs themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct GrowthStep {
    chats: usize,
    messages: u64,
}

const STEPS: [GrowthStep; 4] = [
    GrowthStep { chats: 100, messages: 0 },
    GrowthStep { chats: 1_000, messages: 100_000 },
    GrowthStep { chats: 10_000, messages: 1_000_000 },
    GrowthStep { chats: 100_000, messages: 10_000_000 },
];

/// The results of one step.
struct GrowthResult {
    step: GrowthStep,
    filled: Filled,
    disk_bytes: u64,
    ready_after: Duration,
    pairs: Measured,
}

/// Pairs on a growing store: the cost of a message and the time to start, as the amount of stored data grows.
///
/// The store is filled while no server runs, and the server is then started on it, so each step also measures a
/// restart.
pub(super) async fn run(bench: &mut Bench, arguments: &LoadArgs) -> anyhow::Result<LoadReport> {
    let mut filling = None;
    let mut seen = vec![];
    for step in steps_up_to(arguments.messages) {
        let progress = bench.progress.clone();
        progress.set_message(format!("filling up to {}:", step.name()));
        progress.set_position(0);
        let fill = async |directory: &Path| {
            let filling = filling.get_or_insert_with(|| Filling::new(directory, &own_groups()));
            let filled = filling.fill_up_to(step.chats, step.messages, |added| progress.inc(added)).await?;
            Ok((filled, disk_bytes(directory).context("cannot measure the size of the store")?))
        };
        let ((filled, disk_bytes), ready_after) = bench.target_mut().restart(fill).await?;
        let pairs = pairs::measure(bench, arguments, 1).await?;
        seen.push(GrowthResult { step, filled, disk_bytes, ready_after, pairs });
    }
    Ok(report(seen))
}

fn report(steps: Vec<GrowthResult>) -> LoadReport {
    let setup = format!("pairs on a store that is filled in {} steps", steps.len());
    let seconds = steps.iter().map(|seen| seen.pairs.window.seconds()).sum();
    let mut report = LoadReport::new(Workload::Growth, setup, seconds);
    for seen in &steps {
        seen.add_to(&mut report);
    }
    if let [first, .., last] = &steps[..] {
        if let (Some(first), Some(last)) = (first.cpu_per_message(), last.cpu_per_message()) {
            report.figure("server CPU per message, last step / first", last / first, "");
        }
        report.figure("time to ready, last step", last.ready_after.as_secs_f64(), "s");
    }
    report
}

impl GrowthResult {
    fn add_to(&self, report: &mut LoadReport) {
        let Self { step, filled, disk_bytes, ready_after, pairs } = self;
        let Measured { chats, window, observed, tally } = pairs;
        let mut figure = |name, value, unit| report.figure(format!("{}: {name}", step.name()), value, unit);
        figure("time to ready", ready_after.as_secs_f64(), "s");
        figure("messages delivered", tally.deliveries.count() as f64 / window.seconds(), "msg/s");
        if let Some(cpu) = self.cpu_per_message() {
            figure("server CPU per message", cpu, "us");
        }
        if let Some(server) = &observed.server {
            figure("server memory", server.memory_kib as f64 / 1024.0, "MiB");
        }
        figure("on disk", *disk_bytes as f64 / MIB, "MiB");
        if filled.messages_per_second > 0.0 {
            figure("filled", filled.messages_per_second, "msg/s");
            figure("median batch", filled.batch_median.as_secs_f64() * 1e3, "ms");
            figure("longest batch", filled.batch_longest.as_secs_f64() * 1e3, "ms");
            figure("batches over 10 medians", filled.stalls as f64, "");
        }
        report.latency(format!("ack at {}", whole(step.messages)), &tally.acks);
        report.timeline.extend(&observed.timeline);
        report.integrity += tally.integrity;
        report.in_flight = *chats;
    }

    /// Server CPU per delivered message, in microseconds.
    fn cpu_per_message(&self) -> Option<f64> {
        let Observed { server, .. } = &self.pairs.observed;
        let delivered = self.pairs.tally.deliveries.count();
        Some(server.as_ref()?.cpu_seconds * 1e6 / delivered as f64).filter(|cpu| cpu.is_finite())
    }
}

impl GrowthStep {
    fn name(self) -> String {
        format!("{} messages in {} chats", whole(self.messages), whole(self.chats as u64))
    }
}

/// The steps with at most this many messages; the last one has exactly as many.
fn steps_up_to(messages: Option<u32>) -> Vec<GrowthStep> {
    let [fewest, .., most] = STEPS;
    let up_to = messages.map_or(most.messages, u64::from);
    let mut steps: Vec<GrowthStep> = STEPS.into_iter().filter(|step| step.messages <= up_to).collect();
    if steps.last().is_some_and(|last| last.messages < up_to) {
        // As many messages per chat as in the steps around it.
        steps.push(GrowthStep { chats: fewest.chats.max(up_to as usize / 100), messages: up_to });
    }
    steps
}

/// Allocated size of the files in a directory, which is below their length for sparse files.
fn disk_bytes(directory: &Path) -> io::Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let metadata = entry.metadata()?;
        bytes += if metadata.is_dir() { disk_bytes(&entry.path())? } else { 512 * metadata.blocks() };
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_step_has_as_many_messages_as_were_asked_for() {
        let steps = |messages| -> Vec<(usize, u64)> {
            steps_up_to(messages).iter().map(|step| (step.chats, step.messages)).collect()
        };
        assert_eq!(steps(None), STEPS.map(|step| (step.chats, step.messages)));
        assert_eq!(steps(Some(1_000_000)), [(100, 0), (1_000, 100_000), (10_000, 1_000_000)]);
        assert_eq!(steps(Some(250_000)), [(100, 0), (1_000, 100_000), (2_500, 250_000)]);
        // The number of chats never decreases.
        assert_eq!(steps(Some(500)), [(100, 0), (100, 500)]);
    }

    #[test]
    fn a_step_is_named_by_the_stored_amount() {
        assert_eq!(STEPS[0].name(), "0 messages in 100 chats");
        assert_eq!(STEPS[2].name(), "1,000,000 messages in 10,000 chats");
    }
}
