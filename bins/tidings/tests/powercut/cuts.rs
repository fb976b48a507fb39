//! Cuts a recording many times, checks each state, and reports the findings.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::env;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Instant;

use futures_util::{StreamExt, stream};

use crate::aim;
use crate::judge::CutFinding;
use crate::ledger::Micros;
use crate::model::{Cut, state};
use crate::recorded::Recorded;

/// Cuts that are checked concurrently.
const AT_ONCE: usize = 2;
/// Maximum number of states with findings that are kept.
const KEPT_MAX: usize = 3;
/// Cuts of all scenarios together, unless `TIDINGS_CUTS` asks for another number.
pub(crate) const CUTS: usize = 350;

/// The outcomes of the cuts of a scenario.
pub(crate) struct CutOutcome {
    pub(crate) scenario: &'static str,
    pub(crate) cuts: Vec<Cut>,
    pub(crate) findings: Vec<(Cut, CutFinding)>,
}

/// A scenario by its name, which is that of its test.
pub(crate) struct CutScenario {
    pub(crate) name: &'static str,
    /// Its share of all cuts.
    pub(crate) cuts: usize,
}

impl CutScenario {
    /// A recording that was kept, and the one cut to repeat, if the environment names them.
    fn repeated(&self) -> Option<Option<(Recorded, Cut)>> {
        let text = env::var("TIDINGS_CUT").ok()?;
        let (scenario, cut) = text.split_once(':').expect("TIDINGS_CUT names a scenario and a cut");
        if scenario != self.name {
            return Some(None);
        }
        let cut = Cut::from_str(cut).unwrap_or_else(|error| panic!("{error}"));
        let recording = env::var("TIDINGS_RECORDING").expect("TIDINGS_RECORDING names the directory of its recording");
        Some(Some((Recorded::load(Path::new(&recording)), cut)))
    }

    /// Records, cuts and checks. Fails on a finding, with the commands that repeat it. `judge` gets the directory of a
    /// state, and the moment of the cut: earlier responses must hold.
    pub(crate) async fn check(
        &self,
        record: impl AsyncFnOnce() -> Recorded,
        judge: impl AsyncFn(&Recorded, &Path, Micros) -> Result<(), CutFinding>,
    ) {
        let began = Instant::now();
        let (mut recorded, cuts) = match self.repeated() {
            Some(None) => return,
            Some(Some((recorded, cut))) => (recorded, vec![cut]),
            None => {
                let recorded = record().await;
                let all = env::var("TIDINGS_CUTS").map_or(CUTS, |text| text.parse().expect("TIDINGS_CUTS is a number"));
                let cuts = aim::cuts(&recorded.recording, (self.cuts * all).div_ceil(CUTS), rand::random());
                (recorded, cuts)
            }
        };
        let recording_took = began.elapsed();
        let ops = recorded.recording.ops.len();
        let outcome = run(self.name, &recorded, cuts, usize::MAX, &judge).await;
        let took = began.elapsed() - recording_took;
        eprintln!("{}: {ops} operations recorded in {recording_took:.1?}, cut in {took:.1?}", self.name);
        eprintln!("{}", outcome.summary());
        if !outcome.findings.is_empty() {
            let directory = recorded.keep();
            panic!("{}", outcome.failure(&recorded, &directory));
        }
    }
}

/// Checks cuts of a recording, until a number of findings is reached.
pub(crate) async fn run(
    scenario: &'static str,
    recorded: &Recorded,
    cuts: Vec<Cut>,
    findings_max: usize,
    judge: impl AsyncFn(&Recorded, &Path, Micros) -> Result<(), CutFinding>,
) -> CutOutcome {
    let (judge, is_enough) = (&judge, &Cell::new(false));
    let mut outcome = CutOutcome { scenario, cuts: vec![], findings: vec![] };
    let judging = cuts.into_iter().enumerate().map(|(number, cut)| async move {
        if is_enough.get() {
            return None;
        }
        let directory = recorded.path().join(format!("state-{number}"));
        place(recorded, cut, &directory).await;
        let before = recorded.recording.stamps.get(cut.moment).copied().unwrap_or(Micros::MAX);
        let judged = judge(recorded, &directory, before).await;
        fs::remove_dir_all(&directory).unwrap();
        Some((cut, judged))
    });
    let mut judged = stream::iter(judging).buffer_unordered(AT_ONCE);
    while let Some(one) = judged.next().await {
        let Some((cut, result)) = one else { continue };
        outcome.cuts.push(cut);
        outcome.findings.extend(result.err().map(|finding| (cut, finding)));
        is_enough.set(outcome.findings.len() >= findings_max);
    }
    outcome
}

/// Writes a state into a directory.
async fn place(recorded: &Recorded, cut: Cut, directory: &Path) {
    let (recording, directory) = (Arc::clone(&recorded.recording), directory.to_owned());
    tokio::task::spawn_blocking(move || state(&recording, cut).store(&directory)).await.unwrap();
}

impl CutOutcome {
    /// Cuts and findings, by names and unit.
    pub(crate) fn summary(&self) -> String {
        let Self { scenario, cuts, findings } = self;
        let mut by_way: BTreeMap<String, (usize, BTreeMap<&str, usize>)> = BTreeMap::new();
        for cut in cuts {
            by_way.entry(cut.way()).or_default().0 += 1;
        }
        for (cut, finding) in findings {
            *by_way.entry(cut.way()).or_default().1.entry(class(finding)).or_default() += 1;
        }
        let mut text = format!("{scenario}: {} cuts, {} findings", cuts.len(), findings.len());
        for (way, (cuts, findings)) in by_way {
            write!(text, "\n  {way}: {cuts} cuts").expect("a string takes it");
            for (class, count) in findings {
                write!(text, ", {count} × {class}").expect("a string takes it");
            }
        }
        text
    }

    fn failure(&self, recorded: &Recorded, directory: &Path) -> String {
        let mut text = self.summary();
        for (number, (cut, finding)) in self.findings.iter().enumerate() {
            let (scenario, recording) = (self.scenario, directory.display());
            write!(
                text,
                "\n\n{finding}\nrepeat it with\n  TIDINGS_CUT={scenario}:{cut} TIDINGS_RECORDING={recording} \
                 cargo test -p tidings --test powercut -- {scenario}"
            )
            .expect("a string takes it");
            if number < KEPT_MAX {
                let kept: PathBuf = directory.join(format!("finding-{number}"));
                if !kept.exists() {
                    state(&recorded.recording, *cut).store(&kept);
                }
                write!(text, "\nthe state is in `{}`", kept.display()).expect("a string takes it");
            }
        }
        text
    }
}

/// A short class of a finding, the same for all findings of its kind.
fn class(finding: &str) -> &str {
    let known =
        ["ChecksumMismatch", "InvalidVersion", "InsufficientLength", "TooManyItems", "panicked", "LOST", "VERIFY"];
    let first = finding.lines().next().unwrap_or_default();
    let first = first.split(['{', '"']).next().unwrap_or_default();
    known.into_iter().find(|known| finding.contains(known)).unwrap_or(first)
}
