//! `tidings`: the whole service, and the tools to operate it, in one binary.

// Output goes through `output`, because `println!` panics when the reader of a pipe has closed it.
#![warn(clippy::print_stdout)]

#[macro_use]
mod output;

mod admin;
mod capacity;
mod chat;
mod doctor;
mod groups;
mod healthcheck;
mod history;
mod load;
mod memory;
mod old_names;
mod open_files;
mod serve;
mod tools;

use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, Subcommand};
use nix::sys::stat::{Mode, umask};

/// Connections and batches allocate and free constantly on several threads; this allocator returns memory that an idle
/// connection does not need.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// A real-time messaging service in one binary.
///
/// `tidings serve --dev` runs a complete service on this machine that any local user can sign in to; without --dev it
/// is the same service for production. Every setting of the configuration file is also an environment variable.
#[derive(Parser)]
#[command(version, max_term_width = 120, after_help = EXAMPLES)]
struct CliArguments {
    #[command(subcommand)]
    command: CliCommand,
}

const EXAMPLES: &str = "\
Examples:
  tidings serve --dev                           run a service to try it out
  tidings chat                                  chat in this terminal
  tidings doctor --config tidings.toml          check a configuration before the first start
  tidings store backup FILE --admin-listen      back up the running service
  tidings log dead-letters list                 list failed deliveries
  tidings admin user find +14155550101          find a user
  tidings help store verify                     explain one command";

#[derive(Subcommand)]
enum CliCommand {
    /// Runs the service.
    Serve(serve::ServeArgs),
    /// Opens the terminal chat client.
    ///
    /// The first run asks for a phone number, a code and a name, and stores the sign-in for later runs. F1 shows the
    /// keys and commands. Messages written while the server is unreachable are stored, and sent once when it is back,
    /// also by a later run. In a pipe, use --send and --tail, which need no screen.
    Chat(chat::ChatArgs),
    /// Checks the configuration and every dependency of the service.
    Doctor(doctor::DoctorArgs),
    /// Checks whether a running service is alive or ready, for container health checks.
    ///
    /// Exits 0 if it is, and 1 if it is not or does not respond. Prints the response body to standard output.
    Healthcheck(healthcheck::HealthcheckArgs),
    /// Checks, saves, moves and repairs stored data: verify, backup, restore, …
    ///
    /// The commands work on the data directory of a stopped service, or on the tables of a fleet. `verify` and `backup`
    /// also ask a running service.
    #[command(subcommand)]
    Store(groups::StoreCommand),
    /// Reads and replays the event log, and shows the state of its deliveries: tail, webhook, dead-letters, …
    ///
    /// `tail`, `replay` and `reconcile` work on the log itself; the other commands call the admin listener of a running
    /// service.
    #[command(subcommand)]
    Log(groups::LogCommand),
    /// Administers a running service: user, session, chat, report, routes, drain, …
    ///
    /// The commands call the admin listener of the service. They find its address and token with --config or
    /// --data-dir, or take the token of a named operator from --token-file.
    #[command(subcommand)]
    Admin(groups::AdminCommand),
    /// Runs a load test against a server and reports throughput, latency and lost messages.
    Load(load::LoadArgs),
    /// Estimates resources, monthly cost and the first bottleneck for N users.
    ///
    /// The estimate covers one machine and a fleet at peak load, with 50 % headroom. Its figures are measured by tests
    /// and load runs, or counted; --costs lists each with its source.
    Capacity(Box<capacity::CapacityArgs>),
    /// Checks recorded client histories against the delivery guarantees.
    #[command(subcommand)]
    History(history::HistoryCommand),
}

fn main() -> ExitCode {
    // Stores, keys, backups, exports and profiles hold messages and sign-ins. Only the owner may read what any command
    // writes, with any umask of the shell.
    umask(Mode::S_IRWXG | Mode::S_IRWXO);
    let arguments = old_names::translate(std::env::args_os().collect());
    let outcome = match CliArguments::parse_from(arguments).command {
        CliCommand::Serve(arguments) => serve::run(arguments),
        CliCommand::Chat(arguments) => block_on(chat::run(arguments)),
        CliCommand::Doctor(arguments) => block_on(doctor::run(arguments)),
        CliCommand::Healthcheck(arguments) => block_on(healthcheck::run(arguments)),
        CliCommand::Store(command) => block_on(command.run()),
        CliCommand::Log(command) => block_on(command.run()),
        CliCommand::Admin(command) => block_on(command.run()),
        CliCommand::Load(arguments) => block_on(load::run(arguments)),
        CliCommand::Capacity(arguments) => capacity::run(*arguments),
        CliCommand::History(command) => history::run(command),
    };
    outcome.unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::FAILURE
    })
}

/// Upper bound of threads that block on disk I/O. Each retains some megabytes of freed memory, so the hundreds that
/// tokio would start for a burst of reads cost gigabytes, and no disk serves so many requests at once.
const BLOCKING_THREADS_MAX: usize = 16;
/// Tasks that a worker thread polls before it polls the sockets again. While a busy chat keeps hundreds of connections
/// writing, tokio's default of 61 delays occasional senders by several milliseconds.
const EVENT_INTERVAL: u32 = 16;

/// Longest time that blocking calls may delay process exit after everything else has stopped: an unresponsive broker
/// can block one for minutes.
const LAST_CALLS: Duration = Duration::from_secs(5);

fn block_on<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    runtime.enable_all().max_blocking_threads(BLOCKING_THREADS_MAX).event_interval(EVENT_INTERVAL);
    let runtime = runtime.build()?;
    let outcome = runtime.block_on(work);
    runtime.shutdown_timeout(LAST_CALLS);
    outcome
}
