//! `tidings`: the whole service, and the tools to operate it, in one binary.

mod admin;
mod doctor;
mod load;
mod serve;

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
    /// Puts a server under load and prints what it did, what it lost, and how fast it was.
    Load(load::LoadArgs),
    /// Looks after the webhook by which an application hears of every event.
    #[command(subcommand)]
    Webhook(admin::WebhookCommand),
    /// Looks after the notifications of people who are away.
    #[command(subcommand)]
    Notifications(admin::NotificationsCommand),
    /// Shows what could not be delivered to others' servers, and delivers it again.
    #[command(subcommand)]
    DeadLetters(admin::DeadLettersCommand),
}

fn main() -> ExitCode {
    let outcome = match Arguments::parse().command {
        Command::Serve(arguments) => serve::run(arguments),
        Command::Doctor(arguments) => block_on(doctor::run(arguments)),
        Command::Load(arguments) => block_on(load::run(arguments)),
        Command::Webhook(command) => block_on(admin::webhook(command)),
        Command::Notifications(command) => block_on(admin::notifications(command)),
        Command::DeadLetters(command) => block_on(admin::dead_letters(command)),
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
