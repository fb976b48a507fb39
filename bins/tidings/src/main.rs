//! `tidings`: the whole service, and the tools to operate it, in one binary.

mod admin;
mod chat;
mod doctor;
mod history;
mod load;
mod serve;
mod tools;

use std::process::ExitCode;

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
    /// Chats in the terminal, as a person does.
    ///
    /// The first run asks for a phone number, a code and a name, and keeps the sign-in for the next ones. F1 shows the keys
    /// and commands. What is written while the server is away is kept, and sent once when it is back, also by a later run.
    /// In a pipe, --send and --tail do without a screen.
    Chat(chat::ChatArgs),
    /// Puts a server under load and prints what it did, what it lost, and how fast it was.
    Load(load::LoadArgs),
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
    /// Shows who is connected now, and to which gateway.
    #[command(subcommand)]
    Routes(admin::routes::RoutesCommand),
}

fn main() -> ExitCode {
    let outcome = match Arguments::parse().command {
        Command::Serve(arguments) => serve::run(arguments),
        Command::Doctor(arguments) => block_on(doctor::run(arguments)),
        Command::Schema(command) => block_on(tools::schema::run(command)),
        Command::Events(command) => block_on(tools::events::run(command)),
        Command::Reconcile(arguments) => block_on(tools::reconcile::run(arguments)),
        Command::RecoverCounter(arguments) => block_on(tools::recover_counter::run(arguments)),
        Command::Verify(arguments) => block_on(tools::verify::run(arguments)),
        Command::Chat(arguments) => block_on(chat::run(arguments)),
        Command::Load(arguments) => block_on(load::run(arguments)),
        Command::History(command) => history::run(command),
        Command::Webhook(command) => block_on(admin::webhook(command)),
        Command::Notifications(command) => block_on(admin::notifications(command)),
        Command::DeadLetters(command) => block_on(admin::dead_letters(command)),
        Command::Routes(command) => block_on(admin::routes::run(command)),
    };
    outcome.unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::FAILURE
    })
}

/// Threads that wait for the disk, at the most. Each keeps some megabytes of what it has freed, so the hundreds that tokio
/// would start for a burst of reads cost gigabytes, and no disk serves so many at once.
const BLOCKING_THREADS_MAX: usize = 16;

fn block_on<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    runtime.enable_all().max_blocking_threads(BLOCKING_THREADS_MAX).build()?.block_on(work)
}
