//! The commands of operators, grouped by what they work on: stored data, the event log, or a running service.

use std::process::ExitCode;

use clap::Subcommand;

use crate::{admin, tools};

#[derive(Subcommand)]
pub(crate) enum StoreCommand {
    /// Checks all stored data against the invariants of the service.
    ///
    /// Reads all rows of the store, its log and, in a fleet, the routes, tables and policies, at a limited rate, and
    /// changes nothing. On one machine, name the --data-dir of a stopped service or of a copy, or ask the running
    /// service with --admin-listen. With --deep it also reads every checksum in the files of an embedded store and names
    /// the damaged files: `tidings store verify --deep --data-dir DIR`. Exits 1 if an invariant is violated or a file is
    /// damaged, and 2 if the check could not run.
    Verify(tools::verify::VerifyArgs),
    /// Writes a consistent snapshot of a single-machine store to a file.
    ///
    /// The snapshot holds every write acknowledged before it was taken. Ask the running service with --admin-listen,
    /// which continues to serve, or name the --data-dir of a stopped service. The file holds the keys of the service: it
    /// is as secret as the data directory. The backup is read back before the file gets its final name.
    Backup(tools::backup::BackupArgs),
    /// Restores a backup into a new data directory and verifies it.
    ///
    /// The --data-dir must be empty or absent. A damaged backup is refused, and the damaged part is named. Exits 1 if
    /// the backup is refused, or if the restored store violates an invariant; that store is then kept next to the
    /// target for inspection.
    Restore(tools::restore::RestoreArgs),
    /// Copies the readable part of a damaged store into a new data directory.
    ///
    /// Stop the service first. The damaged --data-dir is only read. The command lists unreadable files, and missing
    /// messages by chat and sequence; then it verifies the new store as `verify` does. Events that the webhook has not
    /// received are not copied. Prefer a backup from before the damage: see `restore`. Exits 1 if anything could not be
    /// copied.
    ///
    /// Example: tidings store repair --data-dir tidings-data --into tidings-repaired
    Repair(tools::repair::RepairArgs),
    /// Upgrades the store of an earlier version to the current format.
    ///
    /// Stop the service first. The command takes a backup, builds a new store from it, verifies the new store as
    /// `verify` does, and replaces the old one. An interruption leaves either the old or the new store in place; run
    /// the command again.
    Migrate(tools::migrate::MigrateArgs),
    /// Exports all data of a stopped service to a file, for `import`.
    ///
    /// The format does not depend on the engine: one JSON object per line, with checksums (docs/moving.md). The file
    /// holds phone numbers, logins and message contents, so only its owner may read it. On one machine, name the
    /// --data-dir; for a fleet, the --config. The file gets its final name when it is complete.
    Export(tools::export::ExportArgs),
    /// Imports an export into an empty store.
    ///
    /// The target is a new data directory, or empty tables created by `tidings store schema apply`. The whole file is
    /// validated before the first write; the imported data is read back and checked as `verify` does. Until then the
    /// store is marked as unfinished and no process serves from it. Restart an interrupted import from the beginning.
    Import(tools::import::ImportArgs),
    /// Shows, creates and compares the tables and topics of a fleet.
    #[cfg(feature = "fleet")]
    #[command(subcommand)]
    Schema(tools::schema::SchemaCommand),
    /// Restores the tables of a fleet to a second of the past, as new tables.
    ///
    /// Prints the plan; with --yes it restores every table with DynamoDB's point-in-time recovery, sets everything that
    /// DynamoDB leaves out, and repairs transactions of which the tables have a part. Stop all processes of the fleet
    /// first. The old tables are only read. Run the command again with --resume after an interruption, and with the
    /// time that it has printed. Exits 1 if a table cannot be restored, or differs from its definition afterwards.
    ///
    /// Example: tidings store restore-tables --at 2026-11-18T20:00:00Z --into-prefix restored_ --yes
    #[cfg(feature = "fleet")]
    RestoreTables(tools::restore_tables::RestoreTablesArgs),
    /// Restores the lost head sequence (counter) of a chat that refuses sends.
    #[cfg(feature = "fleet")]
    RecoverCounter(tools::recover_counter::RecoverCounterArgs),
    /// The commands that only a binary with fleet support has.
    #[cfg(not(feature = "fleet"))]
    #[command(name = "schema", aliases = ["recover-counter", "restore-tables"], hide = true, disable_help_flag = true)]
    FleetOnly {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
        arguments: Vec<String>,
    },
}

#[derive(Subcommand)]
pub(crate) enum LogCommand {
    #[command(flatten)]
    Events(tools::events::EventsCommand),
    /// Compares the store with the event log, and republishes missing events on request.
    ///
    /// Reports messages without an event, events without a message, and events that follow a later event of their chat.
    /// It covers chats with events in the log, chats that the store has marked as unpublished, and the chat named by
    /// --chat. Messages of the last minute are skipped: their publisher may still be at work. A republished event
    /// counts as late for as long as the log retains it: use --since with a later time from then on.
    Reconcile(tools::reconcile::ReconcileArgs),
    /// Shows the state of the application's webhook and replays events to it.
    #[command(subcommand)]
    Webhook(admin::webhook::WebhookCommand),
    /// Replays notifications to members who are offline.
    #[command(subcommand)]
    Notifications(admin::notifications::NotificationsCommand),
    /// Lists, redelivers and deletes failed outbound deliveries.
    #[command(subcommand)]
    DeadLetters(admin::dead_letters::DeadLettersCommand),
}

#[derive(Subcommand)]
pub(crate) enum AdminCommand {
    /// Finds, shows, creates, renames, exports and deletes users.
    #[command(subcommand)]
    User(admin::user::UserCommand),
    /// Lists the sessions of a user and revokes them.
    #[command(subcommand)]
    Session(admin::session::SessionCommand),
    /// Shows a chat and changes its members, owner and retention.
    #[command(subcommand)]
    Chat(admin::chat::ChatAdminCommand),
    /// Shows the delivery state of a message.
    #[command(subcommand)]
    Message(admin::message::MessageCommand),
    /// Lists, shows and resolves reports by users.
    #[command(subcommand)]
    Report(admin::reports::ReportCommand),
    /// Shows which users are connected, and to which gateway.
    #[command(subcommand)]
    Routes(admin::routes::RoutesCommand),
    /// Drains a process and waits until it is safe to remove.
    ///
    /// The process reports not ready, disconnects its clients in waves so that they reconnect to other gateways, and is
    /// no longer called by its peers. It still serves requests that arrive. Exits 0 when no work is left, and 1 if that
    /// takes longer than --timeout; the drain then continues. On a single machine, clients reconnect when the service
    /// is back.
    Drain(admin::drain::DrainArgs),
    /// Resumes a drained process.
    Resume(admin::AdminArgs),
    /// Adds, lists, rotates and removes operators.
    #[command(subcommand)]
    Operator(admin::operator::OperatorCommand),
    /// Verifies the audit log.
    #[command(subcommand)]
    Audit(admin::audit::AuditCommand),
    /// Shows or changes the log level of a running process, without a restart.
    ///
    /// The change applies to one process; repeat the command for each process of a fleet. On SIGHUP a process re-reads
    /// `log.level` from its configuration.
    LogLevel(admin::log_level::LogLevelArgs),
}

impl StoreCommand {
    pub(crate) async fn run(self) -> anyhow::Result<ExitCode> {
        match self {
            Self::Verify(arguments) => tools::verify::run(arguments).await,
            Self::Backup(arguments) => tools::backup::run(arguments).await,
            Self::Restore(arguments) => Box::pin(tools::restore::run(arguments)).await,
            Self::Repair(arguments) => Box::pin(tools::repair::run(arguments)).await,
            Self::Migrate(arguments) => Box::pin(tools::migrate::run(arguments)).await,
            Self::Export(arguments) => tools::export::run(arguments).await,
            Self::Import(arguments) => tools::import::run(arguments).await,
            #[cfg(feature = "fleet")]
            Self::Schema(command) => tools::schema::run(command).await,
            #[cfg(feature = "fleet")]
            Self::RestoreTables(arguments) => Box::pin(tools::restore_tables::run(arguments)).await,
            #[cfg(feature = "fleet")]
            Self::RecoverCounter(arguments) => tools::recover_counter::run(arguments).await,
            #[cfg(not(feature = "fleet"))]
            Self::FleetOnly { .. } => Err(server::config::without_fleet()),
        }
    }
}

impl LogCommand {
    pub(crate) async fn run(self) -> anyhow::Result<ExitCode> {
        match self {
            Self::Events(command) => Box::pin(tools::events::run(command)).await,
            Self::Reconcile(arguments) => tools::reconcile::run(arguments).await,
            Self::Webhook(command) => admin::webhook::run(command).await,
            Self::Notifications(command) => admin::notifications::run(command).await,
            Self::DeadLetters(command) => admin::dead_letters::run(command).await,
        }
    }
}

impl AdminCommand {
    pub(crate) async fn run(self) -> anyhow::Result<ExitCode> {
        match self {
            Self::User(command) => admin::user::run(command).await,
            Self::Session(command) => admin::session::run(command).await,
            Self::Chat(command) => admin::chat::run(command).await,
            Self::Message(command) => admin::message::run(command).await,
            Self::Report(command) => admin::reports::run(command).await,
            Self::Routes(command) => admin::routes::run(command).await,
            Self::Drain(arguments) => admin::drain::drain(arguments).await,
            Self::Resume(arguments) => admin::drain::resume(arguments).await,
            Self::Operator(command) => admin::operator::run(command).await,
            Self::Audit(command) => admin::audit::run(command),
            Self::LogLevel(arguments) => admin::log_level::run(arguments).await,
        }
    }
}
