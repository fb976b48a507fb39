//! Commands that look after tables, topics and the log of a service, without asking a running one.

pub(crate) mod events;
pub(crate) mod reconcile;
pub(crate) mod recover_counter;
pub(crate) mod schema;
pub(crate) mod verify;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use server::config::Config;

use crate::serve::ConfigArgs;

/// Which service it is about.
#[derive(Args)]
pub(crate) struct ToolArgs {
    /// The TOML file that the service runs with.
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// The data directory, where the service is on one machine [default: tidings-data]
    #[arg(long, value_name = "DIR")]
    pub(crate) data_dir: Option<PathBuf>,
    /// Prints the answer as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

impl ToolArgs {
    fn load(self) -> anyhow::Result<Config> {
        ConfigArgs::of(self.config, self.data_dir, None).load()
    }
}

/// 1 if something is left to see to.
fn exit(has_findings: bool) -> ExitCode {
    if has_findings { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
