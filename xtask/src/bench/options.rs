use anyhow::{Context, bail, ensure};

pub(super) const HELP: &str = "\
Compares two commits under the same loads, in turn and on one machine.

usage: cargo xtask bench [OPTION]...

  --base COMMIT    the old version [default: the merge base of head and origin/main; head's parent if that is head]
  --head COMMIT    the new version [default: the working tree, with uncommitted changes]
  --workload W     a workload of `tidings load`; may be repeated
                   [default: pairs, pairs-deep, group, hot-chat, catch-up, storm]
  --rounds N       number of runs of each workload on both sides, at least 3 [default: 3]
  --seconds S      measured duration of each run [default: the duration of the workload]
  --threshold T    the fraction of base's speed below which head counts as slower [default: 0.9]

Both sides are release builds in the target directory of this tree; the binary of a commit is cached for later runs. Then
base and head take turns, round by round. All rounds of the default take about ten minutes.

A line of the table is one figure: its median over all rounds for base and head, head divided by base, and the spread. The
spread is the range of the rounds of one side, relative to their median; the table shows the larger one. For rates more is
better, for times and memory less. The verdict is

  slower   if head's median is worse by more than the threshold, and by more than the sum of the ranges of base and head
  faster   if the same is true for the better
  same     otherwise, also if the noise of this machine hides a difference

If many spreads are above 10 %, look for other load on the machine, or measure longer: --seconds 30. With 40 figures of
such noise, one run in five shows a figure as slower by chance; with --rounds 4, one run in forty. More rounds make the
verdict more conservative.

Exits 1 if a figure is slower, or if a load has lost, doubled or reordered a message.

  cargo xtask bench                                        this tree against its merge base
  cargo xtask bench --workload pairs --rounds 5            one workload, with more rounds
  cargo xtask bench --base HEAD~5 --head HEAD              two commits
";

const WORKLOADS: [&str; 6] = ["pairs", "pairs-deep", "group", "hot-chat", "catch-up", "storm"];

/// The options of `cargo xtask bench`.
#[derive(Debug, PartialEq)]
pub(super) struct BenchOptions {
    pub(super) base: Option<String>,
    /// `None` is the working tree.
    pub(super) head: Option<String>,
    pub(super) workloads: Vec<String>,
    pub(super) rounds: usize,
    /// `None` is the duration that the workload defines.
    pub(super) seconds: Option<u64>,
    pub(super) threshold: f64,
}

impl BenchOptions {
    pub(super) fn parse(arguments: &[&str]) -> anyhow::Result<Self> {
        let mut options = Self { base: None, head: None, workloads: vec![], rounds: 3, seconds: None, threshold: 0.9 };
        let mut rest = arguments;
        while let [name, after @ ..] = rest {
            let [value, after @ ..] = after else { bail!("`{name}` is not an option, or lacks its value; see --help") };
            let no_number = || format!("`{value}` is not a number for {name}");
            match *name {
                "--base" => options.base = Some((*value).to_owned()),
                "--head" => options.head = Some((*value).to_owned()),
                "--workload" => options.workloads.push((*value).to_owned()),
                "--rounds" => options.rounds = value.parse().with_context(no_number)?,
                "--seconds" => options.seconds = Some(value.parse().with_context(no_number)?),
                "--threshold" => options.threshold = value.parse().with_context(no_number)?,
                _ => bail!("`{name}` is not an option; see --help"),
            }
            rest = after;
        }
        ensure!(options.rounds >= 3, "two rounds do not tell a difference from chance; --rounds takes 3 or more");
        ensure!((0.0..1.0).contains(&options.threshold), "--threshold is a part of 1, as 0.9");
        if options.workloads.is_empty() {
            options.workloads = WORKLOADS.map(str::to_owned).to_vec();
        }
        Ok(options)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absent_options_have_defaults() {
        let options = BenchOptions::parse(&[]).unwrap();
        assert_eq!(options.workloads, WORKLOADS);
        assert_eq!((options.rounds, options.seconds, options.threshold), (3, None, 0.9));
        assert_eq!((options.base, options.head), (None, None));
    }

    #[test]
    fn given_options_are_parsed() {
        let said = "--base a --head b --workload pairs --workload storm --rounds 5 --seconds 30 --threshold 0.8";
        let expected = BenchOptions {
            base: Some("a".to_owned()),
            head: Some("b".to_owned()),
            workloads: vec!["pairs".to_owned(), "storm".to_owned()],
            rounds: 5,
            seconds: Some(30),
            threshold: 0.8,
        };
        assert_eq!(BenchOptions::parse(&said.split(' ').collect::<Vec<_>>()).unwrap(), expected);
    }

    #[test]
    fn invalid_options_are_refused() {
        for (said, refusal) in [
            (&["--rounds", "2"][..], "two rounds do not tell a difference from chance; --rounds takes 3 or more"),
            (&["--rounds", "many"], "`many` is not a number for --rounds"),
            (&["--threshold", "1.1"], "--threshold is a part of 1, as 0.9"),
            (&["--base"], "`--base` is not an option, or lacks its value; see --help"),
            (&["--bass", "a"], "`--bass` is not an option; see --help"),
        ] {
            assert_eq!(BenchOptions::parse(said).unwrap_err().to_string(), refusal);
        }
    }
}
