//! Commands that work on the tables, topics and log of a service directly, without a running service.

pub(crate) mod backup;
pub(crate) mod events;
pub(crate) mod export;
pub(crate) mod import;
pub(crate) mod migrate;
mod progress_lines;
pub(crate) mod reconcile;
#[cfg(feature = "fleet")]
pub(crate) mod recover_counter;
pub(crate) mod repair;
pub(crate) mod restore;
#[cfg(feature = "fleet")]
pub(crate) mod restore_tables;
#[cfg(feature = "fleet")]
pub(crate) mod schema;
pub(crate) mod verify;

use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use server::config::Config;

use self::progress_lines::ProgressLines;
use crate::serve::ConfigArgs;

/// The service that the command works on.
#[derive(Args)]
pub(crate) struct ToolArgs {
    /// The TOML file that the service runs with.
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// The data directory of a single-machine service [default: tidings-data]
    #[arg(long, value_name = "DIR")]
    pub(crate) data_dir: Option<PathBuf>,
    /// Prints the result as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

impl ToolArgs {
    fn load(self) -> anyhow::Result<Config> {
        ConfigArgs::of(self.config, self.data_dir, None).load()
    }
}

/// A progress bar on standard error. If that is no terminal, it writes the text as a line every few seconds.
fn bar(graph: &str, text: &str) -> ProgressBar {
    let is_terminal = std::io::stderr().is_terminal();
    let template = if is_terminal { format!("{graph} {text}") } else { text.to_owned() };
    let style = ProgressStyle::with_template(&template).expect("the template is valid");
    let bar = ProgressBar::no_length().with_style(style);
    if !is_terminal {
        bar.set_draw_target(ProgressDrawTarget::term_like_with_hz(Box::new(ProgressLines::default()), 1));
    }
    bar
}

/// A progress bar that counts bytes.
fn bytes_bar() -> ProgressBar {
    bar("{bar:30}", "{bytes}/{total_bytes} ({bytes_per_sec}, {elapsed}, {eta} left)")
}

/// A progress bar for work in stages, and the function that advances it.
fn staged_bar(unit: &str) -> (ProgressBar, impl Fn(&str, u64, u64)) {
    let bar = bar("{bar:30}", &format!("{{pos}}/{{len}} {unit} ({{msg}}, {{elapsed}}, {{eta}} left)"));
    let moving = bar.clone();
    let draw = move |stage: &str, read, all| {
        if moving.length().is_none() {
            // A slow stage is silent for long.
            moving.enable_steady_tick(Duration::from_secs(1));
        }
        moving.set_length(all);
        moving.set_position(read);
        if moving.message() != stage {
            moving.set_message(stage.to_owned());
        }
    };
    (bar, draw)
}

/// Exit code 1 if there are findings.
fn exit(has_findings: bool) -> ExitCode {
    if has_findings { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
