use anyhow::{Context, bail, ensure};

pub(super) const HELP: &str = "\
Compares two commits under the same loads, in turn and on one machine.

usage: cargo xtask bench [OPTION]...

  --base COMMIT    what it was before [default: where head left origin/main; the commit before head if it has not]
  --head COMMIT    what it is now [default: the working tree, with what is not committed]
  --workload W     a workload of `tidings load`; said several times, each of them
                   [default: pairs, pairs-deep, group, hot-chat, catch-up, storm]
  --rounds N       how often both sides run each workload, at least 3 [default: 3]
  --seconds S      how long each run is measured [default: as long as the workload is]
  --threshold T    how much of base's speed head may come down to before it counts as slower [default: 0.9]

Both sides are built as they are shipped, in the target directory of this tree; the binary of a commit is kept in the
cache for the next time. Then base and head take turns, round by round. All rounds of the default take about ten minutes.

A line of the table is one figure: its median of all rounds for base and head, head divided by base, and the spread, which
is how far the rounds of the same side are apart, of the side where that is more. For rates more is better, for times and
memory less. The verdict is

  slower   if the medians differ by more than the threshold allows, to the worse, and are further apart than the rounds of
           base and the rounds of head are among themselves, both taken together
  faster   if the same is true to the better
  same     otherwise, which includes whatever this machine is too restless to tell

If much of the spread is above a tenth, look for what else is running, or measure longer: --seconds 30. Of 40 figures that
vary so much, one may look slower by chance in a run out of five; with --rounds 4 that is a run out of forty. More rounds
make the verdict more careful, never more eager.

Exits 1 if a figure is slower, or if a load has lost, doubled or reordered a message.

  cargo xtask bench                                        this tree against what it came from
  cargo xtask bench --workload pairs --rounds 5            one workload, more carefully
  cargo xtask bench --base HEAD~5 --head HEAD              two commits
";

const WORKLOADS: [&str; 6] = ["pairs", "pairs-deep", "group", "hot-chat", "catch-up", "storm"];

/// What is compared, and how.
#[derive(Debug, PartialEq)]
pub(super) struct Options {
    pub(super) base: Option<String>,
    /// The working tree if it is none.
    pub(super) head: Option<String>,
    pub(super) workloads: Vec<String>,
    pub(super) rounds: usize,
    /// As the workload is defined if it is none.
    pub(super) seconds: Option<u64>,
    pub(super) threshold: f64,
}

impl Options {
    pub(super) fn parse(arguments: &[&str]) -> anyhow::Result<Self> {
        let mut options = Self { base: None, head: None, workloads: vec![], rounds: 3, seconds: None, threshold: 0.9 };
        let mut rest = arguments;
        while let [name, after @ ..] = rest {
            let [value, after @ ..] = after else { bail!("`{name}` is no option, or lacks its value; see --help") };
            let no_number = || format!("`{value}` is no number for {name}");
            match *name {
                "--base" => options.base = Some((*value).to_owned()),
                "--head" => options.head = Some((*value).to_owned()),
                "--workload" => options.workloads.push((*value).to_owned()),
                "--rounds" => options.rounds = value.parse().with_context(no_number)?,
                "--seconds" => options.seconds = Some(value.parse().with_context(no_number)?),
                "--threshold" => options.threshold = value.parse().with_context(no_number)?,
                _ => bail!("`{name}` is no option; see --help"),
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
    fn what_nobody_says_is_the_default() {
        let options = Options::parse(&[]).unwrap();
        assert_eq!(options.workloads, WORKLOADS);
        assert_eq!((options.rounds, options.seconds, options.threshold), (3, None, 0.9));
        assert_eq!((options.base, options.head), (None, None));
    }

    #[test]
    fn what_somebody_says_is_taken() {
        let said = "--base a --head b --workload pairs --workload storm --rounds 5 --seconds 30 --threshold 0.8";
        let expected = Options {
            base: Some("a".to_owned()),
            head: Some("b".to_owned()),
            workloads: vec!["pairs".to_owned(), "storm".to_owned()],
            rounds: 5,
            seconds: Some(30),
            threshold: 0.8,
        };
        assert_eq!(Options::parse(&said.split(' ').collect::<Vec<_>>()).unwrap(), expected);
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for (said, refusal) in [
            (&["--rounds", "2"][..], "two rounds do not tell a difference from chance; --rounds takes 3 or more"),
            (&["--rounds", "many"], "`many` is no number for --rounds"),
            (&["--threshold", "1.1"], "--threshold is a part of 1, as 0.9"),
            (&["--base"], "`--base` is no option, or lacks its value; see --help"),
            (&["--bass", "a"], "`--bass` is no option; see --help"),
        ] {
            assert_eq!(Options::parse(said).unwrap_err().to_string(), refusal);
        }
    }
}
