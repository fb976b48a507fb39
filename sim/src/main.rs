use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context;
use audit::Findings;
use clap::Parser;
use indicatif::{ProgressBar, ProgressStyle};
use ports::lock;
use tidings_sim::explain::{Heading, page, text};
use tidings_sim::{Breach, Bug, RunOutcome, RunPlan, RunShape, run, shrink, table, unexercised};

/// Run the service in a simulated environment and search for violated invariants.
///
/// The seed determines a whole run: all messages, faults and delays. Without `--seed`, it runs the seeds from 0 on and
/// then fresh ones. A failing run is shrunk and explained as a timeline in text and as an HTML page. The output contains
/// the command that replays it.
///
/// Run as many seeds as CI:     cargo xtask sim
/// Run fresh seeds for an hour: cargo xtask sim --minutes 60
/// Replay and explain a seed:   cargo xtask sim --shape fleet --seed 4711
/// Check that bugs are found:   cargo xtask sim --bugs
#[derive(Parser)]
#[command(name = "sim", verbatim_doc_comment)]
struct SimArguments {
    /// Run one shape only: `node`, one process on a disk, or `fleet`, processes of every role.
    #[arg(long)]
    shape: Option<RunShape>,
    /// Run this seed only and explain the run.
    #[arg(long)]
    seed: Option<u64>,
    /// Number of seeds per shape, from 0 on.
    #[arg(long, default_value_t = 1000)]
    seeds: u64,
    /// Number of fresh seeds per shape after these.
    #[arg(long, default_value_t = 100)]
    fresh: u64,
    /// Run fresh seeds for this many minutes instead.
    #[arg(long)]
    minutes: Option<u64>,
    /// Inject a known bug.
    #[arg(long)]
    bug: Option<Bug>,
    /// Check that every known bug is found within its number of seeds.
    #[arg(long)]
    bugs: bool,
    /// Print the violated invariant of a failing seed only, without shrinking and explaining it.
    #[arg(long)]
    no_shrink: bool,
    /// Number of parallel runs.
    #[arg(long)]
    jobs: Option<usize>,
    /// Directory for the HTML pages of failed runs.
    #[arg(long, default_value = "target/sim")]
    out: PathBuf,
    /// Write the table of invariants to this file.
    #[arg(long)]
    table: Option<PathBuf>,
}

fn main() -> anyhow::Result<ExitCode> {
    let arguments = SimArguments::parse();
    let shapes = arguments.shape.map_or_else(|| RunShape::ALL.to_vec(), |shape| vec![shape]);
    if let Some(seed) = arguments.seed {
        return replay(&arguments, &shapes, seed);
    }
    if arguments.bugs {
        return find_bugs(&arguments, &shapes);
    }
    let mut total = Total::default();
    let began = Instant::now();
    for shape in &shapes {
        if arguments.minutes.is_none() && !total.add(&arguments, *shape, Seeds::Range(0, arguments.seeds))? {
            return Ok(ExitCode::FAILURE);
        }
    }
    let fresh = u64::from(std::process::id()) << 32 ^ u64::from(elapsed_since_epoch().subsec_nanos()) << 16;
    let share = arguments.minutes.map(|minutes| Duration::from_secs(minutes * 60) / shapes.len() as u32);
    for shape in &shapes {
        let seeds = match share {
            Some(time) => Seeds::For(fresh, time),
            None => Seeds::Range(fresh, fresh + arguments.fresh),
        };
        if !total.add(&arguments, *shape, seeds)? {
            return Ok(ExitCode::FAILURE);
        }
    }
    total.print(began.elapsed());
    let missed = unexercised(&total.findings);
    if !missed.is_empty() && arguments.shape.is_none() && arguments.bug.is_none() {
        println!("never exercised, so not verified: {missed:?}");
        return Ok(ExitCode::FAILURE);
    }
    if let Some(path) = &arguments.table {
        std::fs::write(path, table(&total.findings)).with_context(|| format!("cannot write `{}`", path.display()))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The seeds to run.
#[derive(Clone, Copy)]
enum Seeds {
    /// A half-open range of seeds.
    Range(u64, u64),
    /// From a seed on, for this long.
    For(u64, Duration),
}

/// Totals of all runs.
#[derive(Default)]
struct Total {
    findings: Findings,
    runs: u64,
    kills: u64,
    messages: u64,
    virtual_time: Duration,
}

impl Total {
    /// Runs seeds of a shape; `false` if one has violated an invariant.
    fn add(&mut self, arguments: &SimArguments, shape: RunShape, seeds: Seeds) -> anyhow::Result<bool> {
        let first = match seeds {
            Seeds::Range(first, _) | Seeds::For(first, _) => first,
        };
        println!("{shape}: seeds from {first} on");
        let failed = self.run_all(arguments, shape, seeds);
        let Some(seed) = failed else { return Ok(true) };
        explain_run(arguments, &planned(seed, shape, arguments.bug))?;
        Ok(false)
    }

    fn run_all(&mut self, arguments: &SimArguments, shape: RunShape, seeds: Seeds) -> Option<u64> {
        let (first, last, until) = match seeds {
            Seeds::Range(first, last) => (first, last, None),
            Seeds::For(first, time) => (first, u64::MAX, Some(Instant::now() + time)),
        };
        let bar = match seeds {
            Seeds::Range(first, last) => ProgressBar::new(last - first),
            Seeds::For(..) => ProgressBar::no_length(),
        };
        bar.set_style(ProgressStyle::with_template("{bar:40} {pos} runs, {per_sec}").expect("the template is right"));
        let (next, failed) = (AtomicU64::new(first), AtomicBool::new(false));
        let (total, lowest) = (Mutex::new(&mut *self), Mutex::new(None::<u64>));
        let work = || {
            loop {
                let seed = next.fetch_add(1, Ordering::Relaxed);
                let is_over = seed >= last || until.is_some_and(|until| Instant::now() >= until);
                if is_over || failed.load(Ordering::Relaxed) {
                    return;
                }
                let outcome = run(&planned(seed, shape, arguments.bug));
                bar.inc(1);
                if !outcome.is_clean() {
                    failed.store(true, Ordering::Relaxed);
                    let mut lowest = lock(&lowest);
                    *lowest = Some(lowest.map_or(seed, |lowest: u64| lowest.min(seed)));
                }
                lock(&total).count(&outcome);
            }
        };
        std::thread::scope(|scope| (0..jobs(arguments)).for_each(|_| drop(scope.spawn(work))));
        bar.finish_and_clear();
        lowest.into_inner().expect("no run panics with the lock in hand")
    }

    fn count(&mut self, outcome: &RunOutcome) {
        self.findings.merge(outcome.findings.clone());
        self.runs += 1;
        self.kills += outcome.kills;
        self.messages += outcome.messages;
        self.virtual_time += outcome.lasted;
    }

    fn print(&self, took: Duration) {
        let seconds = took.as_secs_f64();
        println!("{}", table(&self.findings));
        println!(
            "{} runs in {seconds:.1} s, {:.1} a second; {:.1} simulated hours, {:.2} in a second",
            self.runs,
            self.runs as f64 / seconds,
            self.virtual_time.as_secs_f64() / 3600.0,
            self.virtual_time.as_secs_f64() / 3600.0 / seconds,
        );
        println!("{} kills survived, {} messages checked", self.kills, self.messages);
    }
}

/// Replays and explains one seed, whether it violates an invariant or not.
fn replay(arguments: &SimArguments, shapes: &[RunShape], seed: u64) -> anyhow::Result<ExitCode> {
    let mut code = ExitCode::SUCCESS;
    for shape in shapes {
        let plan = planned(seed, *shape, arguments.bug);
        let outcome = run(&plan);
        println!("{shape}, seed {seed}: trace {:016x}, {} entries", outcome.trace.hash(), outcome.trace.entries.len());
        if !outcome.is_clean() {
            explain_run(arguments, &plan)?;
            code = ExitCode::FAILURE;
        } else {
            println!("{}", text(&outcome.trace, &heading(arguments, &plan, &outcome)));
            write_page(arguments, &plan, &outcome)?;
        }
    }
    Ok(code)
}

/// Shrinks a failing run, and explains it.
fn explain_run(arguments: &SimArguments, plan: &RunPlan) -> anyhow::Result<()> {
    /// Maximum number of runs for shrinking.
    const RUNS_MAX: usize = 300;
    let outcome = run(plan);
    let Some(breach) = Breach::first(&outcome) else {
        println!("seed {} violated an invariant and no longer does: the run is not deterministic", plan.seed);
        return Ok(());
    };
    if arguments.no_shrink {
        println!("seed {} breaks {breach:?}", plan.seed);
        return Ok(());
    }
    println!("seed {} breaks {breach:?}; shrinking it", plan.seed);
    let shorter = shrink(plan, breach, RUNS_MAX);
    let outcome = run(&shorter);
    println!("{}", text(&outcome.trace, &heading(arguments, &shorter, &outcome)));
    write_page(arguments, &shorter, &outcome)
}

fn write_page(arguments: &SimArguments, plan: &RunPlan, outcome: &RunOutcome) -> anyhow::Result<()> {
    let path = arguments.out.join(format!("{}-{}.html", plan.shape, plan.seed));
    let written = std::fs::create_dir_all(&arguments.out)
        .and_then(|()| std::fs::write(&path, page(&outcome.trace, &heading(arguments, plan, outcome))));
    written.with_context(|| format!("cannot write `{}`", path.display()))?;
    println!("the same as a page: {}", path.display());
    Ok(())
}

fn heading(arguments: &SimArguments, plan: &RunPlan, outcome: &RunOutcome) -> Heading {
    let bug = arguments.bug.map(|bug| format!(" --bug {bug}")).unwrap_or_default();
    let mut notes = vec![format!(
        "{} actions and {} faults in {:?}; {:?}",
        plan.actions.len(),
        plan.faults.len(),
        plan.lasts,
        plan.rates,
    )];
    notes.extend(plan.faults.iter().map(|fault| format!("fault at {:?}: {:?}", fault.at, fault.what)));
    notes.extend(outcome.panic.iter().map(|panic| format!("a task has panicked: {panic}")));
    Heading {
        title: format!("{}, seed {}", plan.shape, plan.seed),
        replay: format!("cargo xtask sim --shape {} --seed {}{bug}", plan.shape, plan.seed),
        notes,
    }
}

/// Checks that every known bug is found.
fn find_bugs(arguments: &SimArguments, shapes: &[RunShape]) -> anyhow::Result<ExitCode> {
    let bugs = arguments.bug.map_or_else(|| Bug::ALL.to_vec(), |bug| vec![bug]);
    let mut missed = 0;
    for bug in bugs {
        for shape in bug.shapes().iter().filter(|shape| shapes.contains(shape)) {
            match bug.found(*shape) {
                Some(found) => println!("{bug} ({shape}): {} by seed {}", found.invariant, found.seed),
                None => {
                    missed += 1;
                    println!("{bug} ({shape}): NOT FOUND within {} seeds: {}", bug.seeds(), bug.description());
                }
            }
        }
    }
    Ok(if missed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn planned(seed: u64, shape: RunShape, bug: Option<Bug>) -> RunPlan {
    let plan = RunPlan::of(seed, shape);
    match bug {
        Some(bug) => plan.with_bug(bug),
        None => plan,
    }
}

fn jobs(arguments: &SimArguments) -> usize {
    let cores = || std::thread::available_parallelism().map_or(1, usize::from);
    arguments.jobs.unwrap_or_else(cores).max(1)
}

fn elapsed_since_epoch() -> Duration {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default()
}
