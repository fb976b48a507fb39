//! `tidings`: the whole service, and the tools to operate it, in one binary.

mod admin;
mod capacity;
mod chat;
mod doctor;
mod healthcheck;
mod history;
mod load;
mod serve;
mod tools;

use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, Subcommand};

/// Connections and batches allocate and free all the time from several threads; this allocator returns what an idle
/// connection does not need.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// A real-time messaging service in one binary.
///
/// `tidings serve --dev` runs a complete service on this machine that anybody on it can sign in to; without --dev it is
/// the same service for real users. Every setting of the configuration file is also an environment variable.
#[derive(Parser)]
#[command(version, max_term_width = 120)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Runs the service.
    Serve(serve::ServeArgs),
    /// Checks the configuration and everything the service stands on, in plain words.
    Doctor(doctor::DoctorArgs),
    /// Asks a running service whether it is alive, or ready, for whoever restarts it.
    ///
    /// Exits 0 if it is, and 1 if it is not or does not answer. What it says goes to the standard output.
    Healthcheck(healthcheck::HealthcheckArgs),
    /// Has a process take no more work, and waits until it is safe to remove it.
    ///
    /// The process says that it is not ready, its clients go to other gateways in waves, the others of a fleet call it no
    /// more, and whatever still comes is answered. Exits 0 when nothing is left, and 1 if that takes longer than --timeout;
    /// the drain goes on then. On one machine clients come back when it does.
    Drain(admin::drain::DrainArgs),
    /// Has a process that was drained take work again.
    Resume(admin::AdminArgs),
    /// Looks after the tables and topics of a fleet, from their one definition.
    #[command(subcommand)]
    Schema(tools::schema::SchemaCommand),
    /// Reads the event log, and sends consumers of it to another place.
    #[command(subcommand)]
    Events(tools::events::EventsCommand),
    /// Compares store and log, both ways, and publishes what is missing.
    ///
    /// It finds messages without an event, events without a message, and events that got into the log behind a later one
    /// of their chat. It covers the chats that the log has events of, those that the store knows to have something
    /// unpublished, and the one that --chat names. Messages of the last minute are left to those who publish them. An
    /// event that was republished is late for as long as the log keeps it: look with --since from then on.
    Reconcile(tools::reconcile::ReconcileArgs),
    /// Restores the counter of a chat whose sends are refused because it was lost.
    RecoverCounter(tools::recover_counter::RecoverCounterArgs),
    /// Checks everything that is stored against what must be true of it.
    ///
    /// It reads all rows of the store, its log and, of a fleet, the routes, tables and policies, at a gentle pace, and
    /// changes nothing. On one machine name the --data-dir of a stopped service or of a copy, or ask the running one with
    /// --admin. Exits 1 if something is violated, and 2 if it could not look.
    Verify(tools::verify::VerifyArgs),
    /// Writes the store of one machine into a file, as it is at one moment.
    ///
    /// Everything that was acknowledged before that moment is in it. Ask the running service with --admin, which goes on
    /// serving, or name the --data-dir of a stopped one. The file holds the keys of the service: it is as secret as the
    /// data directory. What is written is read back before it gets its name.
    Backup(tools::backup::BackupArgs),
    /// Makes a data directory of a backup, and checks it as `verify` does.
    ///
    /// The --data-dir must be empty or not there. A damaged backup is refused, and what is damaged is named. Exits 1 if it
    /// is refused, or if something in the restored store is violated, which is then kept beside for a look.
    Restore(tools::restore::RestoreArgs),
    /// Brings the store of an earlier version into the format of this one.
    ///
    /// Stop the service first. It takes a backup, makes a new store of it, checks that one as `verify` does, and puts it in
    /// the place of the old one. However it is interrupted, the old store or the new one is there; run it again.
    Migrate(tools::migrate::MigrateArgs),
    /// Writes everything that a stopped service holds to a file, for another to import.
    ///
    /// The file is the same whatever the engine, one JSON object on each line, with checksums; docs/moving.md says what is
    /// in it. It holds phone numbers, logins and what people have said: only its owner may read it. Of one machine name the
    /// --data-dir, of a fleet the --config. The file gets its name when it is whole.
    Export(tools::export::ExportArgs),
    /// Fills an empty store from an export, so that users go on where they were.
    ///
    /// It goes into a new data directory, or into empty tables that `tidings schema apply` has made. The file is read whole
    /// before anything is written; what was written is read back and checked as `tidings verify` does. Until then the store
    /// is marked as unfinished and nobody serves from it. An import that was interrupted is begun again.
    Import(tools::import::ImportArgs),
    /// Chats in the terminal, as a person does; with a subcommand, looks after a chat as an operator does.
    ///
    /// The first run asks for a phone number, a code and a name, and keeps the sign-in for the next ones. F1 shows the keys
    /// and commands. What is written while the server is away is kept, and sent once when it is back, also by a later run.
    /// In a pipe, --send and --tail do without a screen.
    Chat(chat::ChatArgs),
    /// Puts a server under load and prints what it did, what it lost, and how fast it was.
    Load(load::LoadArgs),
    /// Says what so many people take, what it costs, and what ends first.
    ///
    /// It reckons for one machine and for a fleet, at their peak, with half of everything in reserve. Figures are those that
    /// tests and loads have measured, or that were counted; --costs lists each with its source.
    Capacity(Box<capacity::CapacityArgs>),
    /// Judges what clients did and saw.
    #[command(subcommand)]
    History(history::HistoryCommand),
    /// Looks after the webhook by which an application hears of every event.
    #[command(subcommand)]
    Webhook(admin::WebhookCommand),
    /// Looks after the notifications of people who are away.
    #[command(subcommand)]
    Notifications(admin::NotificationsCommand),
    /// Shows what could not be delivered to others' servers, and delivers it again.
    #[command(subcommand)]
    DeadLetters(admin::DeadLettersCommand),
    /// Looks after users and their accounts.
    #[command(subcommand)]
    User(admin::user::UserCommand),
    /// Shows where users are signed in, and signs them out.
    #[command(subcommand)]
    Session(admin::session::SessionCommand),
    /// Answers "where is my message?".
    #[command(subcommand)]
    Message(admin::message::MessageCommand),
    /// Shows who is connected now, and to which gateway.
    #[command(subcommand)]
    Routes(admin::routes::RoutesCommand),
    /// Shows what users have reported, and ends it.
    #[command(subcommand)]
    Report(admin::reports::ReportCommand),
    /// Shows or changes what a running service logs, without a restart.
    ///
    /// It is the business of one process; a fleet is asked process by process. SIGHUP has a process read `log.level` of its
    /// configuration anew.
    LogLevel(admin::log_level::LogLevelArgs),
}

fn main() -> ExitCode {
    let outcome = match Arguments::parse().command {
        Command::Serve(arguments) => serve::run(arguments),
        Command::Doctor(arguments) => block_on(doctor::run(arguments)),
        Command::Healthcheck(arguments) => block_on(healthcheck::run(arguments)),
        Command::Drain(arguments) => block_on(admin::drain::drain(arguments)),
        Command::Resume(arguments) => block_on(admin::drain::resume(arguments)),
        Command::Schema(command) => block_on(tools::schema::run(command)),
        Command::Events(command) => block_on(tools::events::run(command)),
        Command::Reconcile(arguments) => block_on(tools::reconcile::run(arguments)),
        Command::RecoverCounter(arguments) => block_on(tools::recover_counter::run(arguments)),
        Command::Verify(arguments) => block_on(tools::verify::run(arguments)),
        Command::Backup(arguments) => block_on(tools::backup::run(arguments)),
        Command::Restore(arguments) => block_on(tools::restore::run(arguments)),
        Command::Migrate(arguments) => block_on(tools::migrate::run(arguments)),
        Command::Export(arguments) => block_on(tools::export::run(arguments)),
        Command::Import(arguments) => block_on(tools::import::run(arguments)),
        Command::Chat(arguments) => block_on(chat::run(arguments)),
        Command::Load(arguments) => block_on(load::run(arguments)),
        Command::Capacity(arguments) => capacity::run(*arguments),
        Command::History(command) => history::run(command),
        Command::Webhook(command) => block_on(admin::webhook(command)),
        Command::Notifications(command) => block_on(admin::notifications(command)),
        Command::DeadLetters(command) => block_on(admin::dead_letters(command)),
        Command::User(command) => block_on(admin::user::run(command)),
        Command::Session(command) => block_on(admin::session::run(command)),
        Command::Message(command) => block_on(admin::message::run(command)),
        Command::Routes(command) => block_on(admin::routes::run(command)),
        Command::Report(command) => block_on(admin::reports::run(command)),
        Command::LogLevel(arguments) => block_on(admin::log_level::run(arguments)),
    };
    outcome.unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::FAILURE
    })
}

/// Threads that wait for the disk, at the most. Each keeps some megabytes of what it has freed, so the hundreds that tokio
/// would start for a burst of reads cost gigabytes, and no disk serves so many at once.
const BLOCKING_THREADS_MAX: usize = 16;
/// Tasks that a thread serves before it looks at the sockets again. Where a busy chat keeps hundreds of connections writing,
/// tokio's own 61 of them keep whoever says something now and then waiting for several milliseconds.
const EVENT_INTERVAL: u32 = 16;

/// How long calls that block a thread hold up the end, when everything else is done: a broker that does not answer may hold
/// one for minutes.
const LAST_CALLS: Duration = Duration::from_secs(5);

fn block_on<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    runtime.enable_all().max_blocking_threads(BLOCKING_THREADS_MAX).event_interval(EVENT_INTERVAL);
    let runtime = runtime.build()?;
    let outcome = runtime.block_on(work);
    runtime.shutdown_timeout(LAST_CALLS);
    outcome
}
